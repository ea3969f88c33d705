"""The store's contents as pandas frames with typed columns; imports pandas when used."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from itertools import combinations_with_replacement, pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from sortnet.core import I64, NEVER_ADDED, NEVER_WRONG, SPLITS, Queries, Split
from sortnet.errors import DataError
from sortnet.preference import Judgement
from sortnet.preference.base import SET_FIELDS
from sortnet.preference.judgement_table import Judgements
from store.database.schema import AnswerRow, Base, CollectionRow, IterationRow, JudgementRow, RunRow

if TYPE_CHECKING:
    import pandas as pd

_KINDS = {int: "int64", float: "float64", bool: "bool", str: "str"}
_TIME: Final = "datetime64[us, UTC]"


def _kinds(table: type[Base], names: Iterable[str]) -> dict[str, str]:
    """The types of a table's columns in a frame; whole numbers and flags that may be missing."""
    kinds = {}
    for column in (table.__table__.columns[name] for name in names):
        kind = _KINDS.get(column.type.python_type, "object")
        kind = {"int64": "Int64", "bool": "boolean"}.get(kind, kind) if column.nullable else kind
        kinds[column.name] = _TIME if column.type.python_type is datetime else kind
    return kinds


RUN_COLUMNS = {
    **_kinds(RunRow, ["id", "status", "created", "finished"]),
    **{"iterations": "int64", "best_iteration": "Int64", "best_quality": "float64"},
    **_kinds(IterationRow, ["tp", "vp"]),
    **_kinds(RunRow, ["command", "seed", "out", "host", "pid"]),
    **_kinds(RunRow, ["config", "versions", "data", "kept"]),
}
ITERATION_COLUMNS = _kinds(
    IterationRow,
    [c for c in IterationRow.__annotations__ if c not in ("run", "measures", "observed")],
)
COLLECTION_COLUMNS = {
    **_kinds(CollectionRow, ["name", "created"]),
    **dict.fromkeys(["items", "annotators", "judgements"], "int64"),
    **_kinds(CollectionRow, ["source", "root", "seed", "settings"]),
}
_NAMED = ("annotator", "left", "right")  # shown by name, stored by number
_FACTS = [field.name for field in fields(Judgement) if field.name not in (*_NAMED, *SET_FIELDS)]
# A column per field of a judgement, with the items' ids, and whether it was undone later.
JUDGEMENT_COLUMNS = {
    "number": "int64",
    **dict.fromkeys(_NAMED, "str"),
    **_kinds(JudgementRow, _FACTS),
    **{"at": _TIME, "undone": "bool", "excluded": "bool", "group": "str"},
}
# Further columns if there are answers about more than two items, which have no left and right.
SET_COLUMNS = {"items": "object", "best": "str", "worst": "str"}
_ANSWER_FACTS = ["answer", "p", "milliseconds", "cost", "comment", "flagged", "meta"]
ANSWER_COLUMNS = {
    **dict.fromkeys(["split", "qid"], "str"),
    **dict.fromkeys(["left", "right", "left_place", "right_place"], "int64"),
    **_kinds(AnswerRow, _ANSWER_FACTS),
    "at": _TIME,
}
OBSERVE_FIRST = (
    "runs of older versions did not record this; make a new one: sortnet train DATA --out MODEL"
)
# The numbers that a pair has, and the number that stands for a missing one.
PAIR_NUMBERS = {
    "first_iteration": NEVER_ADDED,
    "first_wrong": NEVER_WRONG,
    "last_wrong": NEVER_WRONG,
    "times": None,
}
OUTCOMES = ("right", "wrong")
_SIDES = ("left", "right")


def typed(rows: Sequence[Any], columns: dict[str, str]) -> pd.DataFrame:
    """A frame of these columns and types, even without rows."""
    import pandas as pd

    values = {name: [getattr(row, name) for row in rows] for name in columns}
    return pd.DataFrame(
        {name: pd.Series(values[name], dtype=kind) for name, kind in columns.items()}
    )


def judgements_frame(
    judgements: Judgements,
    items: Mapping[str, str | None],
    excluded: Container[str],
) -> pd.DataFrame:
    """One row per judgement; {id: group} of the items, and annotators that do not count.

    The columns `items`, `best` and `worst` are there if a judgement is about more than two items.
    """
    import pandas as pd

    values: dict[str, list[Any]] = {
        name: judgements.values(name)
        for name in JUDGEMENT_COLUMNS
        if name not in ("undone", "excluded", "group")
    }
    names, groups = list(items), list(items.values())
    values["group"] = [groups[item] for item in values["left"]]
    is_set = judgements.is_set.tolist()
    kinds = JUDGEMENT_COLUMNS
    if any(is_set):
        kinds = kinds | SET_COLUMNS
        values |= _set_values(judgements, names)
    for side in ("left", "right"):
        sides = zip(values[side], is_set, strict=True)
        values[side] = [None if of_set else names[item] for item, of_set in sides]
    values["undone"] = (~judgements.live).tolist()
    values["excluded"] = [name in excluded for name in values["annotator"]]
    at = pd.Series(values.pop("at"), dtype="float64")
    columns = {name: pd.Series(values[name], dtype=kinds[name]) for name in values}
    columns["at"] = pd.to_datetime(at, unit="s", utc=True).astype(_TIME)
    return pd.DataFrame(columns, columns=list(kinds))


def _set_values(judgements: Judgements, names: Sequence[str]) -> dict[str, list[Any]]:
    """The values of `SET_COLUMNS`: ids of items, None in rows about two."""
    values: dict[str, list[Any]] = {
        name: [None if item is None else names[item] for item in judgements.values(name)]
        for name in ("best", "worst")
    }
    values["items"] = [
        [names[item] for item in (left, right, *further)] if further else None
        for left, right, further in zip(
            *(judgements.values(name) for name in ("left", "right", "further")), strict=True
        )
    ]
    return values


def answers_frame(
    answers: Mapping[Split, Sequence[Any]], queries: Mapping[Split, tuple[I64, Sequence[str]]]
) -> pd.DataFrame:
    """One row per answer of a judge about a run's documents.

    Args:
        answers: of each split, `JudgeAnswer` objects.
        queries: of each split, the first document of each query, and the queries' names.
    """
    import pandas as pd

    values: dict[str, list[Any]] = {name: [] for name in ANSWER_COLUMNS}
    for split, of_split in answers.items():
        first, qids = queries[split]
        left, right = (np.array([getattr(a, side) for a in of_split], np.int64) for side in _SIDES)
        query = np.searchsorted(first, left, side="right") - 1
        values["split"] += [split] * len(of_split)
        values["qid"] += [qids[k] for k in query]
        values["left"] += left.tolist()
        values["right"] += right.tolist()
        values["left_place"] += (left - first[query]).tolist()
        values["right_place"] += (right - first[query]).tolist()
        for name in (*_ANSWER_FACTS, "at"):
            values[name] += [getattr(answer, name) for answer in of_split]
    at = pd.Series(values.pop("at"), dtype="float64")
    columns = {name: pd.Series(values[name], dtype=ANSWER_COLUMNS[name]) for name in values}
    columns["at"] = pd.to_datetime(at, unit="s", utc=True).astype(_TIME)
    return pd.DataFrame(columns, columns=list(ANSWER_COLUMNS))


def iterations_frame(rows: Sequence[Any]) -> pd.DataFrame:
    """One row per iteration; each of `measures` becomes a column `<split>_<metric>`."""
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


def measure_names(iterations: pd.DataFrame) -> list[str]:
    """The metrics that a frame of iterations has columns for, in their order.

    >>> import pandas as pd
    >>> measure_names(pd.DataFrame({"train_loss": [0.1], "train_map": [0.5], "vali_map": [0.4]}))
    ['map']
    """
    own = [c for c in iterations.columns if c not in ITERATION_COLUMNS]
    parts = (str(c).partition("_") for c in own)
    return list(dict.fromkeys(name for split, _, name in parts if split in SPLITS))


def conventions(config: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """The conventions of a run's measures by its settings; None if these do not define them.

    >>> conventions({"gain": "linear", "relevant_from": 1, "empty": "skip"}, ["ndcg@5"])
    'gain r, discount log2(1+rank); queries without a relevant document left out'
    """
    from sortnet import metrics

    if not names or not {"gain", "relevant_from", "empty"} <= set(config):
        return None
    given = {name: config[name] for name in ("gain", "relevant_from")}
    found = [metrics.parse_metric(name, **given) for name in names]
    # The number of empty queries is not stored: that part of the line is cut off.
    line = metrics.conventions(found, config["empty"], 0, 0)
    return line.removesuffix(": 0 of 0")


def pair_columns(
    table: I64, split: Split, first: I64, codes: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    """The result of `read_table` as columns of a frame; split and query as codes.

    `first` are the first documents of the split's queries, `codes` those of their names.
    """
    winner, loser = table[:, 0], table[:, 1]
    query = np.searchsorted(first, winner, side="right") - 1
    start = first[query]
    columns = {
        "split": np.full(len(table), SPLITS.index(split), np.int8),
        "qid": codes[query],
        "winner": winner.copy(),
        "loser": loser.copy(),
        "winner_place": (winner - start).astype(np.int32),
        "loser_place": (loser - start).astype(np.int32),
    }
    for at, name in enumerate(PAIR_NUMBERS, start=2):
        columns[name] = table[:, at].astype(np.int32)
    return columns


def pairs_frame(
    parts: Iterable[dict[str, NDArray[Any]]], names: Sequence[str], *, n_rows: int = 0
) -> pd.DataFrame:
    """Join the parts of `pair_columns` to one frame; without copies if `n_rows` is given."""
    import pandas as pd

    columns: dict[str, Any] = {}
    end = 0
    for part in parts:
        start, end = end, end + len(part["winner"])
        for name, values in part.items():
            if name not in columns or len(columns[name]) < end:  # others may write meanwhile
                wider = np.empty(max(n_rows, end), values.dtype)
                wider[:start] = columns.get(name, wider)[:start]
                columns[name] = wider
            columns[name][start:end] = values
    columns = {name: values[:end] for name, values in columns.items()}
    for name, categories in (("split", SPLITS), ("qid", names)):
        columns[name] = pd.Categorical.from_codes(
            columns[name], categories=pd.Index(list(categories), dtype="str"), validate=False
        )
    for name, missing in PAIR_NUMBERS.items():
        if missing is not None:
            columns[name] = pd.arrays.IntegerArray(columns[name], columns[name] == missing)
    return pd.DataFrame(columns, copy=False)


def after_the_first(pairs: pd.DataFrame) -> pd.DataFrame:
    """The pairs of `Run.pairs_frame` that were wrong after iteration 0, which sorts at random.

    `times` counts the iterations from 1 on; `attrs` has how many there are, as `counted`.

    Raises:
        DataError: on pairs of an older version, which did not record in which iterations.

    >>> import pandas as pd
    >>> wrong_in = {"first_wrong": [0, 0, 1], "last_wrong": [0, 2, 1], "times": [1, 3, 1]}
    >>> counted = after_the_first(pd.DataFrame(wrong_in))
    >>> counted["times"].tolist(), counted.attrs["counted"]
    ([2, 1], 2)
    """
    if pairs["first_wrong"].isna()[pairs["times"] > 0].any():
        raise DataError(f"nothing to draw: {OBSERVE_FIRST}")
    last_recorded = pairs.attrs.get("iterations", 0) - 1
    # The pairs of an iteration are stored before the iteration itself.
    last_stored = pairs["last_wrong"].fillna(0).max() if len(pairs) else 0
    times = pairs["times"] - (pairs["first_wrong"] == 0).fillna(value=False).astype("int32")
    after = pairs.assign(times=times)[times > 0]
    after.attrs["counted"] = max(last_recorded, int(last_stored), 0)
    return after


def counted_iterations(pairs: pd.DataFrame) -> str:
    """The iterations that a frame of `after_the_first` counts, in words.

    >>> import pandas as pd
    >>> pairs = pd.DataFrame({"first_wrong": [1], "last_wrong": [3], "times": [2]})
    >>> counted_iterations(after_the_first(pairs))
    'in the 3 iterations from 1 on'
    """
    n = pairs.attrs["counted"]
    return "in iteration 1, the only one counted" if n == 1 else f"in the {n} iterations from 1 on"


def code_type(n: int) -> type[np.signedinteger[Any]]:
    """The smallest type that pandas would choose for the codes of that many categories."""
    return next(t for t in (np.int8, np.int16, np.int32) if n < np.iinfo(t).max)


def margins_frame(rows: Sequence[Any]) -> pd.DataFrame:
    """One row per iteration, split, outcome and bin of |margin|: low, high, pairs."""
    from sortnet.sorting.diagnostics import MARGIN_EDGES

    bins = list(pairwise([0.0, *MARGIN_EDGES, np.inf]))
    found = [
        (iteration, split, outcome, *edges, pairs)
        for iteration, split, facts in _observed(rows)
        for outcome in OUTCOMES
        for edges, pairs in zip(bins, facts["margins"][outcome], strict=True)
    ]
    return _long(found, outcome=OUTCOMES, low="float64", high="float64", pairs="int64")


def mistakes_frame(rows: Sequence[Any]) -> pd.DataFrame:
    """One row per iteration, split and two bins of ranks, upper before lower: compared, wrong."""
    from sortnet.sorting.diagnostics import RANK_BINS

    bins = combinations_with_replacement(enumerate(RANK_BINS), 2)
    two = [(i, j, upper, lower) for (i, upper), (j, lower) in bins]
    found = [
        (iteration, split, upper, lower, compared[i][j], wrong[i][j])
        for iteration, split, facts in _observed(rows)
        for compared, wrong in [(facts["ranks"]["compared"], facts["ranks"]["wrong"])]
        for i, j, upper, lower in two
    ]
    return _long(found, upper=RANK_BINS, lower=RANK_BINS, compared="int64", wrong="int64")


def cycles_frame(rows: Sequence[Any]) -> pd.DataFrame:
    """One row per iteration and split: the share of cyclic triples among those sampled."""
    found = [
        (iteration, split, facts["cycles"]["share"], facts["cycles"]["sampled"])
        for iteration, split, facts in _observed(rows)
        if "cycles" in facts
    ]
    return _long(found, share="float64", sampled="int64")


def order_frame(query: Queries, before: I64, after: I64) -> pd.DataFrame:
    """One row per document of a query: its name, grade, and ranks in two orders, from 1.

    Args:
        query: one query, as `Queries.take([k])` returns it.
        before, after: (n_docs,) document numbers, best first, as `Sorting.order`.

    Raises:
        DataError: if it is not one query, or an order is not of its documents.

    >>> q = Queries.from_arrays([[1.0], [2.0]], [0, 1], docids=["a", "b"])
    >>> order_frame(q, np.array([0, 1]), np.array([1, 0])).to_dict("list")
    {'document': ['a', 'b'], 'grade': [0, 1], 'before': [1, 2], 'after': [2, 1]}
    """
    import pandas as pd

    if len(query) != 1:
        raise DataError(f"{query.source}: {len(query)} queries; an order is shown of one")
    everyone = np.arange(query.n_docs)
    if not all(np.array_equal(np.sort(order), everyone) for order in (before, after)):
        raise DataError(f"{query.source}: an order is not one of its {query.n_docs} documents")
    docids = [""] * query.n_docs if query.docids is None else query.docids.tolist()
    names = [docid or f"row {row}" for docid, row in zip(docids, query.rows, strict=True)]
    ranks = {"before": np.argsort(before) + 1, "after": np.argsort(after) + 1}
    frame = pd.DataFrame({"document": pd.Series(names, dtype="str"), "grade": query.grades} | ranks)
    frame.attrs["qid"] = str(query.qids[0])
    return frame


def _observed(rows: Sequence[Any]) -> Iterator[tuple[int, Split, dict[str, Any]]]:
    """(iteration, split, diagnostics) of all rows that have any."""
    for row in rows:
        for split in SPLITS:
            if facts := (row.observed or {}).get(split):
                yield row.iteration, split, facts


def _long(rows: Sequence[Any], **kinds: str | Sequence[str]) -> pd.DataFrame:
    """A frame of iteration, split and further columns, each of a type or an ordered category."""
    import pandas as pd

    columns = {"iteration": "int64", "split": SPLITS, **kinds}
    types = {
        name: kind if isinstance(kind, str) else pd.CategoricalDtype(list(kind), ordered=True)
        for name, kind in columns.items()
    }
    return pd.DataFrame(rows, columns=list(columns)).astype(types)
