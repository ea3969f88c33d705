"""The columns of results: their titles, the format of their values, and what they mean.

Commands and pages show the same rows: a column has its title and its format here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sortnet.files import Record
from sortnet.messages import cut, printable
from store.service.collection_items import FORMATS, TOP

UNKNOWN = "-"
# Titles of the figures about an annotator, see `figures_of`.
TITLES = ("reliability", "side bias", "with others", "with self", "gold")
_COMMENT = 24  # characters of a comment


@dataclass(frozen=True)
class Column:
    """A column of a result.

    Attributes:
        title: title of the column.
        form: format of its values: of numbers a format such as `.2f`, or a function.
        may_be_cut: whether a terminal that is too narrow cuts long texts of the column.
        meaning: a sentence about its values; empty if the title says enough.
    """

    title: str
    form: str | Callable[[Any], str] = ""
    may_be_cut: bool = False
    meaning: str = ""


def _minute(time: str) -> str:
    """Write a time without its seconds.

    >>> _minute("2026-11-25T09:30:12")
    '2026-11-25 09:30'
    """
    return time[:16].replace("T", " ")


def _cost(cost: float) -> str:
    """Write a cost with as many digits as it needs."""
    from sortnet.judges.budget import amount

    return amount(cost)


def _start_of_comment(comment: str) -> str:
    """Write the start of a comment in one line."""
    return cut(" ".join(comment.split()), _COMMENT)


_MEANINGS = {
    "reliability": "reliability: 1 for the average annotator, 0 for coin tosses, below 0 for the "
    "worse item; 90 % intervals in brackets",
    "side bias": "side bias: above 0 towards the left",
    "with others": "with others, with self: share of answers that are the same / expected of "
    "average annotators",
}
COLUMNS: Mapping[str, Column] = {
    # runs
    "run": Column("run"),
    "created": Column("started UTC", _minute),
    "status": Column("status"),
    "best": Column("best"),
    "quality": Column("quality"),
    "pairs": Column("pairs"),
    "model": Column("model", may_be_cut=True),
    # models
    "metric": Column("metric"),
    "figure": Column("mean", ".4f"),
    "feature": Column("feature", may_be_cut=True),
    "mean": Column("drop", ".4f"),
    "std": Column("std", ".4f"),
    "splits": Column("splits", ".4f"),
    "a": Column("in A", ".4g", may_be_cut=True),
    "b": Column("in B", ".4g", may_be_cut=True),
    "value": Column("value", "+.4g"),
    "item_value": Column("value", ".6g"),
    # collections and items
    "collection": Column("collection"),
    "items": Column("items"),
    "features": Column("features"),
    "annotators": Column("annotators"),
    "judgements": Column("judgements"),
    "group": Column("group", may_be_cut=True),
    "rank": Column("rank"),
    "id": Column("id", may_be_cut=True),
    "score": Column("score", FORMATS["score"]),
    "ranks": Column("90 %"),
    "judged": Column("judged"),
    TOP: Column("in top", FORMATS[TOP]),
    "text": Column("", may_be_cut=True),
    # judgements
    "number": Column("judgement"),
    "annotator": Column("annotator", may_be_cut=True),
    "question": Column("items", may_be_cut=True),
    "answer": Column("answer", may_be_cut=True),
    "seconds": Column("seconds", ".1f"),
    "at": Column("at (UTC)", _minute),
    "p": Column("p", ".3g"),
    "cost": Column("cost", _cost),
    "comment": Column("comment", _start_of_comment, may_be_cut=True),
    # annotators
    "answers": Column("answers"),
    **{title: Column(title, " ".join, meaning=_MEANINGS.get(title, "")) for title in TITLES},
    "median_seconds": Column("seconds", ".1f"),
    "state": Column("state"),
    "skipped": Column("skipped"),
    "calls": Column("calls", ","),
    "tokens": Column("tokens", ","),
    "verdict": Column("verdict"),
    "krippendorff_alpha": Column(
        "alpha",
        ".2f",
        meaning="alpha: Krippendorff's, over the pairs with two annotators or more; 1 is perfect, "
        "0 is chance",
    ),
    "shared_pairs": Column("shared pairs"),
    "consistency": Column(
        "with self", ".2f", meaning="with self: share of the repeated answers that are as before"
    ),
    "repeats": Column("repeats"),
}


def cell(name: str, value: Any) -> str:
    """Write a value in the format of its column, without characters that move a cursor.

    >>> cell("score", 0.125), cell("among_top", 0.5), cell("id", "a"), cell("p", None)
    ('0.12', '50%', 'a', '-')
    """
    if value is None or value != value:  # only NaN differs from itself
        return UNKNOWN
    form = COLUMNS[name].form
    if not isinstance(form, str):
        value = form(value)
    if isinstance(value, str):
        return printable(value)
    return format(value, str(form))


def table_cells(
    rows: Iterable[Record], names: Sequence[str]
) -> tuple[list[str], list[list[str]], list[int]]:
    """Write rows as the texts of a table.

    Args:
        rows: values by the names of their columns; a missing value is unknown.
        names: the columns, from left to right.

    Returns:
        The titles of the columns, the cells of each row, and the numbers of the columns with words,
        which are flush left.

    >>> table_cells([{"id": "a", "rank": 1}], ["id", "rank"])
    (['id', 'rank'], [['a', '1']], [0])
    """
    values = [[row.get(name) for name in names] for row in rows]
    titles = [COLUMNS[name].title for name in names]
    cells = [list(map(cell, names, row)) for row in values]
    text = [
        number
        for number, name in enumerate(names)
        if COLUMNS[name].form == "" and any(isinstance(row[number], str) for row in values)
    ]
    return titles, cells, text


def annotator_row(report: Record) -> Record:
    """Make the row of an annotator from the fields of an `AnnotatorReport`."""
    state = f"{report['state']} model" if report["model"] else report["state"]
    figures = dict(zip(TITLES, figures_of(report), strict=True))
    names = {"annotator": report["name"], "state": state, "verdict": report["verdict"] or None}
    return {**report, **figures, **names}


def meanings(names: Iterable[str]) -> list[str]:
    """List the sentences about the columns that need one.

    >>> meanings(["metric", "consistency"])
    ['with self: share of the repeated answers that are as before']
    """
    return [COLUMNS[name].meaning for name in names if COLUMNS[name].meaning]


def figures_of(report: Record | None) -> list[tuple[str, str] | None]:
    """Return the figures about an annotator, in the order of `TITLES`; None in place of unknown.

    A figure is a value with its 90 % interval, or an observed share with the share expected of
    average annotators.

    Args:
        report: an `AnnotatorReport` as a dict. If None, all figures are unknown.
    """
    if report is None:
        return [None] * len(TITLES)
    return [
        _with_interval(report["reliability"]),
        _with_interval(report["side_bias"]),
        _with_expected(report["agreement"], report["expected_agreement"]),
        _with_expected(report["consistency"], report["expected_consistency"]),
        _with_interval(report["gold"]),
    ]


def _with_interval(estimate: Mapping[str, float] | None) -> tuple[str, str] | None:
    """Write an estimate and its interval."""
    if estimate is None:
        return None
    return f"{estimate['value']:.2f}", f"[{estimate['low']:.2f}, {estimate['high']:.2f}]"


def _with_expected(observed: float | None, expected: float | None) -> tuple[str, str] | None:
    """Write an observed and an expected share."""
    if observed is None or expected is None:
        return None
    return f"{observed:.2f}", f"/ {expected:.2f}"
