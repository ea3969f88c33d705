"""Format measures together with their conventions."""

from __future__ import annotations

from collections.abc import Mapping

from cli.console import table


def interval(share: float, n: int) -> str:
    """What a share of n judged pairs is worth: Wilson's interval for 95 %.

    >>> interval(0.8, 50)
    'accuracy on 50 judged pairs that were held out; 95 % interval 0.67 to 0.89'
    """
    from scipy.stats import binomtest

    low, high = binomtest(round(share * n), n).proportion_ci(method="wilson")
    what = f"accuracy on {n:,} judged pairs that were held out"
    return f"{what}; 95 % interval {low:.2f} to {high:.2f}"


def measures(
    figures: Mapping[str, Mapping[str, float]], said: Mapping[str, list[str]]
) -> list[str]:
    """{part: {metric: value}} as one line per part, and the conventions of each."""
    header = ["", *next(iter(figures.values()))]
    rows = [[part, *(f"{v:.4f}" for v in values.values())] for part, values in figures.items()]
    return [*table(header, rows), *convention_notes(said)]


def convention_notes(conventions: Mapping[str, list[str]]) -> list[str]:
    """The conventions of each part, a line for each.

    >>> convention_notes({"vali": ["gain 2^r-1", "skip"]})
    ['vali: gain 2^r-1', 'vali: skip']
    """
    return [f"{part}: {text}" for part, texts in conventions.items() for text in texts]
