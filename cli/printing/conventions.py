"""Lines about measures of a ranking, and about the conventions by which they were computed."""

from __future__ import annotations

from collections.abc import Mapping

from cli.console import table


def interval(share: float, n: int) -> str:
    """Write the 95 % interval of an accuracy on n judged pairs, which is Wilson's score interval.

    Args:
        share: the accuracy, a share of the pairs.
        n: number of judged pairs.

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
    """Make a table with a line for each part of the data, and list the measures' conventions.

    Args:
        figures: {part: {metric: value}}.
        conventions: {part: conventions of its measures}.
    """
    metrics = next(iter(figures.values())).keys()  # all parts have the same metrics
    rows = []
    for part, value_of_metric in figures.items():
        values = [f"{value:.4f}" for value in value_of_metric.values()]
        rows.append([part, *values])
    return [*table(["", *metrics], rows), *convention_notes(conventions)]


def convention_notes(conventions: Mapping[str, list[str]]) -> list[str]:
    """Write each convention as a line that begins with the name of the part of the data.

    >>> convention_notes({"vali": ["gain 2^r-1", "skip"]})
    ['vali: gain 2^r-1', 'vali: skip']
    """
    notes = list[str]()
    for part, texts in conventions.items():
        notes += [f"{part}: {text}" for text in texts]
    return notes
