"""Make pandas frames with typed columns from rows of the store.

Pandas is imported when a function is called.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from sortnet.core import I64, NEVER_ADDED, NEVER_WRONG, SPLITS, Split
from sortnet.files import Record, plain
from sortnet.preference import Judgement
from sortnet.preference.judgement_table import Judgements
from store.database.schema import Base, CollectionRow, IterationRow, JudgementRow, RunRow

if TYPE_CHECKING:
    import pandas as pd

_TIME: Final = "datetime64[us, UTC]"
_DTYPES = {int: "int64", float: "float64", bool: "bool", str: "str", datetime: _TIME}
_DTYPES_WITH_MISSING = {**_DTYPES, int: "Int64", bool: "boolean"}


def _dtypes(table: type[Base], names: Iterable[str]) -> dict[str, str]:
    """Return {column: its dtype in a frame} for some columns of a database table.

    Whole numbers and flags that may be missing have the types `Int64` and `boolean` of pandas.
    """
    dtypes = {}
    for name in names:
        column = table.__table__.columns[name]
        dtype_of_type = _DTYPES_WITH_MISSING if column.nullable else _DTYPES
        dtypes[column.name] = dtype_of_type.get(column.type.python_type, "object")
    return dtypes


RUN_COLUMNS = {
    **_dtypes(RunRow, ["id", "status", "created", "finished"]),
    "iterations": "int64",
    "best_iteration": "Int64",
    "best_quality": "float64",
    **_dtypes(IterationRow, ["tp", "vp"]),
    **_dtypes(RunRow, ["command", "seed", "out"]),
    **_dtypes(RunRow, ["config", "versions", "data", "kept"]),
}
ITERATION_COLUMNS = _dtypes(
    IterationRow,
    [name for name in IterationRow.__annotations__ if name not in ("run", "measures", "observed")],
)
COLLECTION_COLUMNS = {
    **_dtypes(CollectionRow, ["name", "created"]),
    "items": "int64",
    "annotators": "int64",
    "judgements": "int64",
    **_dtypes(CollectionRow, ["source", "root", "seed", "settings"]),
    "run_id": "str",
}
# Fields that tables store as numbers, and frames show as names of annotators and ids of items.
_STORED_BY_NUMBER = {"annotator": "str", "items": "object", "best": "str", "worst": "str"}
_FACTS = [field.name for field in fields(Judgement) if field.name not in _STORED_BY_NUMBER]
# The fields of a judgement, whether it was undone later, and facts about its annotator and items.
JUDGEMENT_COLUMNS = {
    "number": "int64",
    **_STORED_BY_NUMBER,
    **_dtypes(JudgementRow, _FACTS),
    "at": _TIME,
    "undone": "bool",
    "excluded": "bool",
    "group": "str",
}
# The columns of whole numbers of a pair. The value is the stored number that means "missing", or
# None if no number is missing.
PAIR_NUMBERS = {
    "first_iteration": NEVER_ADDED,
    "first_wrong": NEVER_WRONG,
    "last_wrong": NEVER_WRONG,
    "times": None,
}


def typed(rows: Sequence[Any], columns: dict[str, str]) -> pd.DataFrame:
    """Make a frame of rows; `columns` is {name: dtype}, and the dtypes hold even without rows."""
    import pandas as pd

    return pd.DataFrame(
        {
            name: pd.Series([getattr(row, name) for row in rows], dtype=dtype)
            for name, dtype in columns.items()
        }
    )


def judgements_frame(
    judgements: Judgements,
    items: Mapping[str, str | None],
    excluded: Container[str],
) -> pd.DataFrame:
    """Make a frame with one row per judgement and the columns `JUDGEMENT_COLUMNS`.

    Args:
        judgements: all judgements, including undos.
        items: {id: group} of all items, in the order of their numbers.
        excluded: names of the excluded annotators.
    """
    import pandas as pd

    ids = list(items)
    groups = list(items.values())
    computed: dict[str, list[Any]] = {
        "items": [[ids[item] for item in items] for items in judgements.values("items")],
        "best": [None if item is None else ids[item] for item in judgements.values("best")],
        "worst": [None if item is None else ids[item] for item in judgements.values("worst")],
        "group": [groups[items[0]] for items in judgements.values("items")],
        "undone": (~judgements.live).tolist(),
        "excluded": [name in excluded for name in judgements.values("annotator")],
    }
    stored = {name: judgements.values(name) for name in JUDGEMENT_COLUMNS if name not in computed}
    values: Record = {**stored, **computed}
    seconds = pd.Series(values["at"], dtype="float64")
    values["at"] = pd.to_datetime(seconds, unit="s", utc=True)
    columns = {
        name: pd.Series(values[name], dtype=dtype) for name, dtype in JUDGEMENT_COLUMNS.items()
    }
    return pd.DataFrame(columns)


def iterations_frame(rows: Sequence[Any]) -> pd.DataFrame:
    """Make a frame with one row per iteration and a column `<split>_<metric>` for each measure."""
    import pandas as pd

    records = iteration_rows(rows)
    names = list(records[0] if records else ITERATION_COLUMNS)
    frame = pd.DataFrame(records, columns=names)
    return frame.astype({name: ITERATION_COLUMNS.get(name, "float64") for name in names})


def iteration_rows(rows: Sequence[Any]) -> list[Record]:
    """List the rows of `iterations_frame` as JSON values by column, without pandas."""
    measures = [
        {
            f"{split}_{metric}": value
            for split, values in (row.measures or {}).items()
            for metric, value in values.items()
        }
        for row in rows
    ]
    names = dict.fromkeys(name for measures_of_row in measures for name in measures_of_row)
    no_measures = dict.fromkeys(names)
    return [
        {
            **{name: plain(getattr(row, name)) for name in ITERATION_COLUMNS},
            **no_measures,
            **{name: plain(value) for name, value in measures_of_row.items()},
        }
        for row, measures_of_row in zip(rows, measures, strict=True)
    ]


def measure_names(iterations: pd.DataFrame) -> list[str]:
    """List the metrics that have columns in a frame of iterations, in the order of the columns.

    >>> import pandas as pd
    >>> measure_names(pd.DataFrame({"train_loss": [0.1], "train_map": [0.5], "vali_map": [0.4]}))
    ['map']
    """
    names: list[str] = []
    for column in iterations.columns:
        split, _, name = str(column).partition("_")
        if column not in ITERATION_COLUMNS and split in SPLITS and name not in names:
            names.append(name)
    return names


def conventions(config: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """Describe the conventions by which a run's measures are computed.

    Return None if there are no measures, or if the settings do not have the conventions.

    >>> conventions({"gain": "linear", "relevant_from": 1, "empty": "skip"}, ["ndcg@5"])
    'gain r, discount log2(1+rank); queries without a relevant document left out'
    """
    from sortnet import metrics

    if not names or not {"gain", "relevant_from", "empty"} <= set(config):
        return None
    parsed_metrics = [
        metrics.parse_metric(name, gain=config["gain"], relevant_from=config["relevant_from"])
        for name in names
    ]
    return metrics.conventions(parsed_metrics, config["empty"])


def pair_columns(
    table: I64, split: Split, first_documents: I64, codes: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    """Make columns of a frame from a table of pairs.

    The columns `split` and `qid` are codes of categories. The columns `winner_place` and
    `loser_place` are the numbers of the documents within their query, from 0.

    Args:
        table: (m, 6) pairs, as `read_table` returns them. The columns are winner, loser, and the
            four numbers that `PAIR_NUMBERS` names.
        split: the split of the pairs.
        first_documents: the number of the first document of each query of the split, ascending.
        codes: the code of the name of each query.
    """
    winner = table[:, 0]
    loser = table[:, 1]
    # The query of a document is the last query that begins at the document or before it.
    query = np.searchsorted(first_documents, winner, side="right") - 1
    first_document = first_documents[query]
    columns = {
        "split": np.full(len(table), SPLITS.index(split), np.int8),
        "qid": codes[query],
        "winner": winner.copy(),
        "loser": loser.copy(),
        "winner_place": (winner - first_document).astype(np.int32),
        "loser_place": (loser - first_document).astype(np.int32),
    }
    for column, name in enumerate(PAIR_NUMBERS, start=2):
        columns[name] = table[:, column].astype(np.int32)
    return columns


def pairs_frame(parts: Iterable[dict[str, NDArray[Any]]], names: Sequence[str]) -> pd.DataFrame:
    """Join parts of the columns of pairs to one frame.

    Args:
        parts: the columns of some pairs each, as `pair_columns` returns them; at least one part.
        names: the names of the queries, by their codes.
    """
    import pandas as pd

    all_parts = list(parts)
    columns: Record = {
        name: np.concatenate([part[name] for part in all_parts]) for name in all_parts[0]
    }
    # There may be millions of pairs: the codes are not checked, and no column is copied.
    for name, categories in (("split", SPLITS), ("qid", names)):
        columns[name] = pd.Categorical.from_codes(
            columns[name], categories=pd.Index(list(categories), dtype="str"), validate=False
        )
    for name, missing_number in PAIR_NUMBERS.items():
        if missing_number is not None:
            is_missing = columns[name] == missing_number
            columns[name] = pd.arrays.IntegerArray(columns[name], is_missing)
    return pd.DataFrame(columns, copy=False)


def after_the_first(pairs: pd.DataFrame) -> pd.DataFrame:
    """Select the pairs that were wrong in an iteration after iteration 0, which sorts at random.

    Args:
        pairs: a frame of `Run.pairs_frame`.

    Returns the selected rows. Their column `times` is the number of iterations from 1 on in which
    the pair was wrong. The run's number of iterations from 1 on is in `attrs["counted"]`.

    >>> import pandas as pd
    >>> wrong_in = {"first_wrong": [0, 0, 1], "last_wrong": [0, 2, 1], "times": [1, 3, 1]}
    >>> counted = after_the_first(pd.DataFrame(wrong_in))
    >>> counted["times"].tolist(), counted.attrs["counted"]
    ([2, 1], 2)
    """
    is_wrong_in_0 = (pairs["first_wrong"] == 0).fillna(value=False)
    times = pairs["times"] - is_wrong_in_0.astype("int32")
    after = pairs.assign(times=times)[times > 0]
    # The last iteration with pairs may have no row yet, because its pairs are stored first.
    last_recorded = pairs.attrs.get("iterations", 0) - 1
    last_with_pairs = pairs["last_wrong"].fillna(0).max() if len(pairs) else 0
    # If the last iteration is iteration n, n iterations come after iteration 0.
    after.attrs["counted"] = max(last_recorded, int(last_with_pairs), 0)
    return after
