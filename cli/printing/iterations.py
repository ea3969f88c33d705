"""The table of iterations, in 80 columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cli.output import put

if TYPE_CHECKING:
    import pandas as pd

    from sortnet.learning.state import Iteration

_FORMAT = "{:>4} {:>9} {:>7} {:>6} {:>7} {:>8} {:>7} {:>7} {:>7} {:>7} {}"


def header(quality: str) -> list[str]:
    """The two header lines of the table."""
    groups = (
        f"{'compared':>14} {'wrong in':^14} {'new':>7} {'pairs kept':^16} {quality + ' on':^15}"
    )
    names = ("iter", "in both", "train", "vali", "pairs", "train", "vali", "train", "vali")
    return [groups.rstrip(), _FORMAT.format(*names, "seconds", "").rstrip()]


def line(row: Mapping[str, Any], quality: str) -> str:
    """Format a row of `flat` or of the store's frame; `*` marks the best so far."""
    cells = (
        row["iteration"],
        _count(row["comparisons_train"], row["comparisons_vali"]),
        _count(row["miscompared_train"]),
        _count(row["miscompared_vali"]),
        _count(row["new_train"], row["new_vali"]),
        _count(row["tp"]),
        _count(row["vp"]),
        _share(row.get(f"train_{quality}")),
        _share(row.get(f"vali_{quality}")),
        f"{row['seconds_sort'] + row['seconds_train']:.1f}",
        "*" if row["best"] is True else "",
    )
    return _FORMAT.format(*cells).rstrip()


def shower(quality: str, *, err: bool = False) -> Callable[[Iteration], None]:
    """A callback that prints each iteration as a line, with a header above the first."""
    headed = False

    def show(record: Iteration) -> None:
        nonlocal headed
        if not headed:
            for text in header(quality):
                put(text, err=err, bold=True)
            headed = True
        put(line(flat(record), quality), err=err, bold=bool(record.best))

    return show


def flat(record: Iteration) -> dict[str, Any]:
    """An iteration with the columns of the store's frame, such as `vali_map`."""
    row = asdict(record)
    del row["observed"]
    for split, values in row.pop("measures").items():
        row |= {f"{split}_{name}": value for name, value in values.items()}
    return row | {"best": bool(row["best"])}


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The store's frame as rows of Python types."""
    from store.database.engine import plain

    rows: list[dict[str, Any]] = [
        {str(name): None if _missing(value) else plain(value) for name, value in row.items()}
        for row in frame.to_dict("records")
    ]
    return rows


def quality_of(config: Mapping[str, Any]) -> str:
    """The name of the RankQuality as used for figures."""
    from sortnet.metrics import parse_metric

    return parse_metric(config.get("quality", "map")).name


def _missing(value: Any) -> bool:
    import pandas as pd

    return pd.api.types.is_scalar(value) and bool(pd.isna(value))


def _count(*numbers: int | None) -> str:
    known = [n for n in numbers if n is not None]
    return str(sum(known)) if known else "-"


def _share(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.4f}"
