"""Format a run's iterations as a text table of at most 80 columns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sortnet.metrics import parse_metric
from store.report.columns import Record

if TYPE_CHECKING:
    from sortnet.learning.iterations import Iteration

# Runs that record the labelling of a collection have this name in place of their RankQuality.
LABELLING = "order"
MEANING = (
    "wrong: share of the comparisons that had the wrong order; pairs: compared so far and kept; "
    "*: best so far"
)
_LINE = "{:>4} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {}"


def header(quality: str) -> list[str]:
    """Return the two header lines of the table.

    Args:
        quality: the name of the run's RankQuality, or `LABELLING`.
    """
    part_titles = f"{'':14} {'training':^26} {'validation':^26}"
    columns = ["wrong", "pairs", quality]
    titles = _LINE.format("iter", "compared", *columns, *columns, "seconds", "")
    return [part_titles.rstrip(), titles.rstrip()]


def line(row: Record, quality: str) -> str:
    """Format an iteration as a line of the table; the best iteration so far is marked with `*`.

    Args:
        row: the iteration, as a row of the store's frame or as `flat` returns it.
        quality: the name of the run's RankQuality, or `LABELLING`.
    """
    n_compared = (row["comparisons_train"] or 0) + (row["comparisons_vali"] or 0)
    seconds = (row["seconds_sort"] or 0) + (row["seconds_train"] or 0)
    cells = [row["iteration"], n_compared]
    for part, pairs in (("train", "tp"), ("vali", "vp")):
        n_compared_in_part = row[f"comparisons_{part}"]
        n_wrong = row[f"miscompared_{part}"]
        is_known = n_compared_in_part and n_wrong is not None
        cells.append(f"{n_wrong / n_compared_in_part:.1%}" if is_known else "-")
        cells.append("-" if row[pairs] is None else row[pairs])
        cells.append(share(row.get(f"{part}_{quality}")))
    return _LINE.format(*cells, f"{seconds:.1f}", "*" if row["best"] else "").rstrip()


def flat(record: Iteration) -> Record:
    """Convert an iteration to a row with the columns of the store's frame, such as `vali_map`."""
    measures = {
        f"{split}_{name}": value
        for split, values in record.measures.items()
        for name, value in values.items()
    }
    return {**vars(record), **measures}


def quality_of(config: Record) -> str:
    """Return the name of a run's RankQuality; a run that records a labelling has `LABELLING`.

    Args:
        config: the settings of the run.
    """
    quality = config.get("quality", "map")
    return LABELLING if quality == LABELLING else parse_metric(quality).name


def share(value: float | None) -> str:
    """Format a share with four decimals; `-` if it is unknown.

    >>> share(0.5), share(None)
    ('0.5000', '-')
    """
    return "-" if value is None or math.isnan(value) else f"{value:.4f}"
