"""The figures about an annotator, such as reliability and side bias, with their titles.

The table of `sortnet annotators`, the admin page and the report of a collection have a column for
each figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

TITLES = ("reliability", "side bias", "with others", "with self", "gold")


@dataclass(frozen=True)
class Interval:
    """A figure and its 90 % interval, as texts with two decimals."""

    value: str
    low: str
    high: str


@dataclass(frozen=True)
class Share:
    """The share of answers that agree, and the share expected of average annotators."""

    observed: float
    expected: float

    def text(self) -> str:
        """Write the observed share, then the expected share.

        >>> Share(0.5, 0.75).text()
        '0.50 / 0.75'
        """
        return f"{self.observed:.2f} / {self.expected:.2f}"


Figure: TypeAlias = Interval | Share | None  # None: unknown


def figures_of(report: Mapping[str, Any] | None) -> list[Figure]:
    """Return the figures of an annotator's report, in the order of their titles.

    Args:
        report: an `AnnotatorReport` as a dict. If None, all figures are None.
    """
    if report is None:
        return [None] * len(TITLES)
    return [
        _interval(report["reliability"]),
        _interval(report["side_bias"]),
        _share(report["agreement"], report["expected_agreement"]),
        _share(report["consistency"], report["expected_consistency"]),
        _interval(report["gold"]),
    ]


def _interval(estimate: Mapping[str, float] | None) -> Figure:
    """Format an estimate with its interval; None if the estimate is unknown."""
    if estimate is None:
        return None
    return Interval(
        value=f"{estimate['value']:.2f}",
        low=f"{estimate['low']:.2f}",
        high=f"{estimate['high']:.2f}",
    )


def _share(observed: float | None, expected: float | None) -> Figure:
    """Combine an observed and an expected share; None if either is unknown."""
    if observed is None or expected is None:
        return None
    return Share(observed, expected)
