"""The tables of iterations, in 80 columns, and of the trials by which settings were chosen."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeAlias

from cli.output import put
from sortnet.core import SPLITS
from sortnet.messages import count
from sortnet.metrics import parse_metric

if TYPE_CHECKING:
    import pandas as pd

    from sortnet.learning.iterations import Iteration

Trial: TypeAlias = Mapping[str, Any]
_OPEN = ("scaling", "weight_decay")  # what trials may choose
_FIRST = 24  # columns; a scaling may be long
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
    """A frame as rows of what JSON has: None in place of NaN."""
    from sortnet.files import plain

    known = frame.astype(object).where(frame.notna(), None)
    rows: list[dict[str, Any]] = plain(known.to_dict("records"))
    return rows


def quality_of(config: Mapping[str, Any]) -> str:
    """The name of the RankQuality as used for figures."""
    given = config.get("quality", "map")
    return LABELLING if given == LABELLING else parse_metric(given).name


def total(*numbers: int | None, number: str = "{}") -> str:
    known = [n for n in numbers if n is not None]
    return number.format(sum(known)) if known else "-"


def share(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.4f}"


def trial_shower(quality: str, line: Callable[[str], None]) -> Callable[[Trial], None]:
    """Format each trial as a line of settings and RankQuality, with a header above the first."""
    headed = False

    def show(trial: Trial) -> None:
        nonlocal headed
        first, *names = _settings_of(trial)
        width = max(map(len, (*names, quality))) + 2
        if not headed:
            line(f"{first:{_FIRST}}" + "".join(f"{name:>{width}}" for name in (*names, quality)))
            headed = True
        cells = [*(_typed(trial[name]) for name in names), f"{trial['quality']:.4f}"]
        line(f"{_typed(trial[first]):{_FIRST}}" + "".join(f"{cell:>{width}}" for cell in cells))

    return show


def chosen(config: Mapping[str, Any], trials: Sequence[Trial]) -> str:
    """A line of the settings, and of how many trials they are the best; empty if there are none.

    While settings are yet to be chosen, the number of trials that have ended.
    """
    tried = _settings_of(trials[0]) if trials else _OPEN
    if None in [config.get(name, "") for name in _OPEN]:
        return f"{count(len(trials), 'trial')} so far"
    said = ", ".join(
        f"{name} {_typed(config[name])}" for name in tried if name != "epochs" and name in config
    )
    how = "chosen" if len(trials) > 1 else "one trial" if trials else "no trials"
    return f"{how}: {said}" if said else ""


def with_phase(status: str, phase: str | None) -> str:
    """A status, and the phase of the run while it is choosing its settings.

    >>> with_phase("running", "choosing"), with_phase("killed", "training")
    ('running, choosing', 'killed')
    """
    return f"{status}, {phase}" if phase == "choosing" else status


def _settings_of(trial: Trial) -> list[str]:
    return [name for name in trial if name not in ("quality", "iteration")]


def _typed(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
