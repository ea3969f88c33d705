"""Format a run's iterations as a text table of at most 80 columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sortnet.metrics import parse_metric

if TYPE_CHECKING:
    from sortnet.learning.iterations import Iteration

# Runs that record the labelling of a collection have this name in place of their RankQuality.
LABELLING = "order"
_UNKNOWN = "-"
_FIT_LINE = "{:>10} {:>8} {:>8} {:>9} {:>8} {:>8}"
_ITERATION_LINE = "{:>4} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {}"
_MEANINGS = (
    "wrong: share of the comparisons that had the wrong order; pairs: compared so far and kept; "
    "*: best so far",
)


def header(quality: str) -> list[str]:
    """Return the two header lines of the table.

    Args:
        quality: the name of the run's RankQuality, or `LABELLING`.
    """
    if quality == LABELLING:
        above = _FIT_LINE.format("", "", "expected", "hold-out", "hold-out", "")
        below = _FIT_LINE.format("judgements", "answers", "right", "answers", "right", "seconds")
        return [above.rstrip(), below]
    above = f"{'':14} {'training':^26} {'validation':^26}"
    part = ("wrong", "pairs", quality)
    below = _ITERATION_LINE.format("iter", "compared", *part, *part, "seconds", "")
    return [above.rstrip(), below.rstrip()]


def meanings(quality: str) -> Sequence[str]:
    """Return the sentences that explain the columns of the table."""
    return () if quality == LABELLING else _MEANINGS


def line(row: Mapping[str, Any], quality: str) -> str:
    """Format an iteration as a line of the table; the best iteration so far is marked with `*`.

    Args:
        row: the iteration, as a row of the store's frame or as `flat` returns it.
        quality: the name of the run's RankQuality, or `LABELLING`.
    """
    if quality == LABELLING:
        return _labelling_line(row)
    return _ITERATION_LINE.format(
        row["iteration"],
        total(row["comparisons_train"], row["comparisons_vali"]),
        wrong_share(row, "train"),
        total(row["tp"]),
        share(row.get(f"train_{quality}")),
        wrong_share(row, "vali"),
        total(row["vp"]),
        share(row.get(f"vali_{quality}")),
        f"{seconds(row):.1f}",
        "*" if row["best"] is True else "",
    ).rstrip()


def _labelling_line(row: Mapping[str, Any]) -> str:
    """Format a recorded fit of a collection's labelling as a line of the table."""
    return _FIT_LINE.format(
        str(row["iteration"]),
        total(row["comparisons_train"]),
        _training_share(row),
        total(row["comparisons_vali"]),
        share(row.get(f"vali_{LABELLING}")),
        f"{seconds(row):.1f}",
    )


def _training_share(row: Mapping[str, Any]) -> str:
    """Format the training measure of a recorded fit; `-` if it is unknown.

    The measure is about all pairs or about the top, depending on the goal at the time of the fit.
    The row has a column for each of these measures, but a value only for its own measure.
    """
    for name, value in row.items():
        if name.startswith("train_") and share(value) != _UNKNOWN:
            return share(value)
    return _UNKNOWN


def wrong_share(row: Mapping[str, Any], part: str) -> str:
    """Format the share of wrong comparisons in the training or the validation part.

    >>> wrong_share({"comparisons_vali": 80, "miscompared_vali": 10}, "vali")
    '12.5%'
    """
    n_compared = row[f"comparisons_{part}"]
    n_wrong = row[f"miscompared_{part}"]
    if not n_compared or n_wrong is None:
        return _UNKNOWN
    return f"{n_wrong / n_compared:.1%}"


def seconds(row: Mapping[str, Any]) -> float:
    """Return the seconds that an iteration spent on sorting and training."""
    return float((row["seconds_sort"] or 0) + (row["seconds_train"] or 0))


def flat(record: Iteration) -> dict[str, Any]:
    """Convert an iteration to a row with the columns of the store's frame, such as `vali_map`."""
    row = asdict(record)
    del row["observed"]
    for split, values in row.pop("measures").items():
        for name, value in values.items():
            row[f"{split}_{name}"] = value
    row["best"] = bool(row["best"])
    return row


def quality_of(config: Mapping[str, Any]) -> str:
    """Return the name of a run's RankQuality; a run that records a labelling has `LABELLING`.

    Args:
        config: the settings of the run.
    """
    quality = config.get("quality", "map")
    return LABELLING if quality == LABELLING else parse_metric(quality).name


def total(*numbers: int | None) -> str:
    """Format the sum of the numbers that are not None; `-` if all are None."""
    known_numbers = [n for n in numbers if n is not None]
    if not known_numbers:
        return _UNKNOWN
    return str(sum(known_numbers))


def share(value: float | None) -> str:
    """Format a share with four decimals; `-` if it is unknown."""
    return _UNKNOWN if value is None or math.isnan(value) else f"{value:.4f}"
