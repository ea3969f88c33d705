"""The figures about an annotator, with their titles and the values expected of them.

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
    """A figure with its 90 % interval, each with two digits."""

    value: str
    low: str
    high: str


@dataclass(frozen=True)
class Share:
    """The share of answers that agree, and the share expected if all annotators were average."""

    observed: float
    expected: float

    def text(self) -> str:
        """The observed share, then the expected share.

        >>> Share(0.5, 0.75).text()
        '0.50 / 0.75'
        """
        return f"{self.observed:.2f} / {self.expected:.2f}"


Figure: TypeAlias = Interval | Share | None  # None: unknown


def figures_of(report: Mapping[str, Any] | None) -> list[Figure]:
    """The figures of a report, in the order of their titles; without a report all are None.

    Args:
        report: an `AnnotatorReport` as a dict.
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


def _interval(numbers: Mapping[str, float] | None) -> Figure:
    if numbers is None:
        return None
    return Interval(
        value=f"{numbers['value']:.2f}",
        low=f"{numbers['low']:.2f}",
        high=f"{numbers['high']:.2f}",
    )


def _share(observed: float | None, expected: float | None) -> Figure:
    if observed is None or expected is None:
        return None
    return Share(observed, expected)
