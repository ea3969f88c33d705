"""The table of a run's iterations as text, in 80 columns: its header, lines and cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sortnet.core import SPLITS
from sortnet.metrics import parse_metric

if TYPE_CHECKING:
    from sortnet.learning.iterations import Iteration

LABELLING = "order"  # the quality of a collection's labelling, see store.service.convergence
_LABELLING = "{:>10} {:>8} {:>8} {:>9} {:>8} {:>8}"
_FORMAT = "{:>4} {:>9} {:>7} {:>6} {:>7} {:>8} {:>7} {:>7} {:>7} {:>7} {}"


def header(quality: str) -> list[str]:
    """The two header lines of the table."""
    if quality == LABELLING:
        above = _LABELLING.format("", "", "expected", "hold-out", "hold-out", "")
        below = ("judgements", "answers", "right", "answers", "right", "seconds")
        return [above.rstrip(), _LABELLING.format(*below)]
    groups = (
        f"{'compared':>14} {'wrong in':^14} {'new':>7} {'pairs kept':^16} {quality + ' on':^15}"
    )
    names = ("iter", "in both", "train", "vali", "pairs", "train", "vali", "train", "vali")
    return [groups.rstrip(), _FORMAT.format(*names, "seconds", "").rstrip()]


def line(row: Mapping[str, Any], quality: str) -> str:
    """Format a row of `flat` or of the store's frame; `*` marks the best so far."""
    if quality == LABELLING:
        counts = [total(row[f"comparisons_{part}"]) for part in SPLITS]
        # Of pairs in the right order, or of the top: what the goal was at that time.
        of_goal = [share(value) for name, value in row.items() if name.startswith("train_")]
        expected = next((shown for shown in of_goal if shown != share(None)), share(None))
        right = expected, share(row.get(f"vali_{quality}"))
        ends = str(row["iteration"]), f"{seconds(row):.1f}"
        return _LABELLING.format(ends[0], counts[0], right[0], counts[1], right[1], ends[1])
    return _FORMAT.format(*cells(row, [quality]), "*" if row["best"] is True else "").rstrip()


def cells(row: Mapping[str, Any], measures: Sequence[str], number: str = "{}") -> list[str]:
    """The figures of a row as text, whole numbers in that format."""
    sums = [("new_train", "new_vali"), ("tp",), ("vp",)]
    return [
        str(row["iteration"]),
        total(row["comparisons_train"], row["comparisons_vali"], number=number),
        *(wrong_share(row, part) for part in SPLITS),
        *(total(*(row[name] for name in names), number=number) for names in sums),
        *(share(row.get(f"{part}_{name}")) for name in measures for part in SPLITS),
        f"{seconds(row):.1f}",
    ]


def wrong_share(row: Mapping[str, Any], part: str) -> str:
    """The share of a part's comparisons that were wrong.

    >>> wrong_share({"comparisons_vali": 80, "miscompared_vali": 10}, "vali")
    '12.5%'
    """
    compared, wrong = row[f"comparisons_{part}"], row[f"miscompared_{part}"]
    return f"{wrong / compared:.1%}" if compared and wrong is not None else "-"


def seconds(row: Mapping[str, Any]) -> float:
    return float((row["seconds_sort"] or 0) + (row["seconds_train"] or 0))


def flat(record: Iteration) -> dict[str, Any]:
    """An iteration with the columns of the store's frame, such as `vali_map`."""
    row = asdict(record)
    del row["observed"]
    for split, values in row.pop("measures").items():
        row |= {f"{split}_{name}": value for name, value in values.items()}
    return row | {"best": bool(row["best"])}


def quality_of(config: Mapping[str, Any]) -> str:
    """The name of the RankQuality as used for figures."""
    given = config.get("quality", "map")
    return LABELLING if given == LABELLING else parse_metric(given).name


def total(*numbers: int | None, number: str = "{}") -> str:
    known = [n for n in numbers if n is not None]
    return number.format(sum(known)) if known else "-"


def share(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.4f}"
