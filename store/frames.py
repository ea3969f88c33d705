"""What the store holds as pandas frames with typed columns; pandas is imported when asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sortnet.types import I64, SPLITS, Split

if TYPE_CHECKING:
    import pandas as pd

RUN_COLUMNS = {
    "id": "str",
    "status": "str",
    "created": "datetime64[us, UTC]",
    "finished": "datetime64[us, UTC]",
    "iterations": "int64",
    "best_iteration": "Int64",
    "best_quality": "float64",
    "tp": "Int64",
    "vp": "Int64",
    "command": "str",
    "seed": "int64",
    "out": "str",
    "config": "object",
    "versions": "object",
    "data": "object",
}
ITERATION_COLUMNS = {
    "iteration": "int64",
    "created": "datetime64[us, UTC]",
    **dict.fromkeys(
        ["comparisons_train", "comparisons_vali", "miscompared_train", "miscompared_vali"],
        "Int64",
    ),
    **dict.fromkeys(["new_train", "new_vali", "tp", "vp"], "Int64"),
    "quality": "float64",
    "best": "boolean",
    **dict.fromkeys(
        ["epochs", "kept_epoch", "train_loss", "vali_loss", "seconds_sort", "seconds_train"],
        "float64",
    ),
}
PAIR_NUMBERS = ("first_iteration", "last_iteration", "times")


@dataclass(frozen=True, eq=False)
class QueryNames:
    """A run's query names, each once; a split's queries as codes of them, and first documents."""

    names: list[str]
    codes: Mapping[Split, I64]
    first: Mapping[Split, I64]


def typed(rows: Sequence[Any], columns: dict[str, str]) -> pd.DataFrame:
    """A frame of these columns and types, also where there are no rows."""
    import pandas as pd

    values = {name: [getattr(row, name) for row in rows] for name in columns}
    series = {name: _series(values[name], kind) for name, kind in columns.items()}
    return pd.DataFrame(series)


def _series(values: list[Any], kind: str) -> pd.Series[Any]:
    import pandas as pd

    if kind.startswith("datetime64"):
        return pd.to_datetime(pd.Series(values, dtype="datetime64[us]")).dt.tz_localize("UTC")
    return pd.Series(values, dtype=kind)


def iterations_frame(rows: Sequence[Any]) -> pd.DataFrame:
    """One row an iteration; `measures` becomes a column `<split>_<metric>` each."""
    import pandas as pd

    frame = typed(rows, ITERATION_COLUMNS)
    measured = [
        {
            f"{split}_{metric}": value
            for split, values in (row.measures or {}).items()
            for metric, value in values.items()
        }
        for row in rows
    ]
    return frame.join(pd.DataFrame(measured, index=frame.index, dtype="float64"))


def pairs_frame(rows: Sequence[Any], split: Split, queries: QueryNames) -> pd.DataFrame:
    """Rows (query, winner, loser, first and last iteration, times) as a frame with qids."""
    import pandas as pd

    table = np.array([tuple(row) for row in rows], np.int64).reshape(-1, 6)
    query, winner, loser = table[:, 0], table[:, 1], table[:, 2]
    part = np.full(len(table), SPLITS.index(split))
    first = queries.first[split][query]
    columns: dict[str, Any] = {
        "split": pd.Categorical.from_codes(part, categories=pd.Index(SPLITS)),
        "qid": pd.Categorical.from_codes(
            queries.codes[split][query], categories=pd.Index(queries.names)
        ),
        "winner": winner.copy(),
        "loser": loser.copy(),
        "winner_place": (winner - first).astype(np.int32),
        "loser_place": (loser - first).astype(np.int32),
    }
    for at, name in enumerate(PAIR_NUMBERS, start=3):
        columns[name] = table[:, at].astype(np.int32)
    return pd.DataFrame(columns)
