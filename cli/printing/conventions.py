"""Measures with their conventions, as lines."""

from __future__ import annotations

from collections.abc import Mapping

from cli.console import table


def interval(share: float, n: int) -> str:
    """An accuracy on n judged pairs with its 95 % interval, Wilson's, in words.

    >>> interval(0.8, 50)
    'accuracy on 50 judged pairs that were held out; 95 % interval 0.67 to 0.89'
    """
    from scipy.stats import binomtest

    low, high = binomtest(round(share * n), n).proportion_ci(method="wilson")
    accuracy = f"accuracy on {n:,} judged pairs that were held out"
    return f"{accuracy}; 95 % interval {low:.2f} to {high:.2f}"


def measures(
    figures: Mapping[str, Mapping[str, float]], conventions: Mapping[str, list[str]]
) -> list[str]:
    """A line of figures for each part of the data, and the conventions of each part.

    Args:
        figures: {part: {metric: value}}
    """
    header = ["", *next(iter(figures.values()))]
    rows = [
        [part, *(f"{value:.4f}" for value in by_metric.values())]
        for part, by_metric in figures.items()
    ]
    return [*table(header, rows), *convention_notes(conventions)]


def convention_notes(conventions: Mapping[str, list[str]]) -> list[str]:
    """The conventions of each part, a line for each.

    >>> convention_notes({"vali": ["gain 2^r-1", "skip"]})
    ['vali: gain 2^r-1', 'vali: skip']
    """
    return [f"{part}: {text}" for part, texts in conventions.items() for text in texts]
