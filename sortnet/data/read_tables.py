"""Rows of tables, and folders of items -> Queries, with the features of a model where there is one.

A table's columns have roles, see `sortnet.tables.roles`: its numbers, dates and categories are
features, and so is what a `Describer` makes of its texts and images.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.items.base import Items
from sortnet.items.describer import Describer
from sortnet.items.read_items import items_of, read_with_roles, unique_ids
from sortnet.tables.roles import (
    GRADES,
    IDS,
    Columns,
    choose_columns,
    feature_matrix,
    kept_as_read,
)
from sortnet.tables.rows import Rows, listed, read_rows, rows_of_frame
from sortnet.tables.values import numbers_of
from sortnet.types import F32, I32, Bool, Progress, Queries, grade_fault
from sortnet.types.memory import texts

_LONGEST_NAME = 1024


class Like(Protocol):
    """What has features, as other data are to have them: Queries, or a ranker."""

    @property
    def feature_names(self) -> tuple[str, ...] | None: ...
    @property
    def describer(self) -> Any: ...


def from_frame(
    frame: Any,
    *,
    qid: str = "qid",
    label: str = "label",
    docid: str = "docid",
    labelled: bool = True,
    source: str = "frame",
) -> Queries:
    """Make Queries from a pandas (or polars) data frame with one row per document.

    Numbers are features, dates as days; each value of a categorical column is one, `column=value`;
    a column of texts has the features that `sortnet.items.describe` makes. Missing values become
    NaN. Columns named like an id or a grade are never features. `docid` may be absent.

    Args:
        qid: the column that says which query a row belongs to; rows in any order.
        label: the column of whole grades from 0.
        docid: the column of the documents' names.
        labelled: whether `label` must be there, with a grade in each row; else what has none is 0.

    Raises:
        DataError: for missing columns, a number that is none or infinite, bad grades; with grades,
            for a feature whose differences within queries are lost in float32.

    >>> import pandas as pd
    >>> q = from_frame(pd.DataFrame({"qid": [1, 1], "label": [0, 2], "age": [3, None]}))
    >>> q.feature_names, q.features.tolist(), q.grades.tolist()
    (('age',), [[3.0], [nan]], [0, 2])
    """
    rows = rows_of_frame(frame, source, kept_as_read(qid, docid))
    return queries_of(rows, labelled=labelled, named=Columns(docid, group=qid), label=label)


def read_table(
    path: Path, *, labelled: bool, like: Like | None, progress: Progress = lambda text: None
) -> Queries:
    """Read a CSV, TSV, JSON lines or Parquet file, or several, see `from_frame`."""
    columns = {} if like is None or like.describer is None else like.describer.columns
    rows = read_rows(path, keep=kept_as_read(*columns.values()))
    return queries_of(rows, labelled=labelled, like=like, progress=progress)


def queries_of(
    rows: Rows,
    *,
    labelled: bool,
    named: Columns | None = None,
    label: str | None = None,
    like: Like | None = None,
    progress: Progress = lambda text: None,
) -> Queries:
    """The documents of a table; see `from_frame` and `read_table`.

    Args:
        named: the columns of query and id; None: `qid`, and `docid` where it is there.
        label: the column of grades; None: the first that is named like one.
    """
    if not len(rows):
        raise DataError(f"{rows.path}: there are no documents")
    label = label or next((c for c in rows.columns if c.lower() in GRADES), GRADES[0])
    describer: Describer | None = None if like is None else like.describer
    features: tuple[str, ...] | None
    if describer is not None:
        named, features = _roles(describer), describer.given
    else:
        named = named or Columns("docid", group="qid")
        features = None if like is None else like.feature_names
        named = named if named.id in rows.columns else replace(named, id=None)
    for needed in (named.group, label if labelled else None):
        if needed is not None and needed not in rows.columns:
            raise DataError(f"{rows.path}: there is no column {needed!r} in {listed(rows.columns)}")
    if not {*rows.columns} - {label, named.group, named.id}:
        raise DataError(f"{rows.path}: there is no feature column in {listed(rows.columns)}")
    roles = choose_columns(rows, named, {label} & {*rows.columns}, features)
    names = roles.features + roles.categories
    if describer is None and named.id is None and (roles.id or "").lower() not in IDS:
        roles = replace(roles, id=None)  # a text that happens to be unique
    grades, matrix = _grades(rows, label, labelled), feature_matrix(rows, names)
    qids, docids = _names(rows, roles.group, needed=True), _names(rows, roles.id, needed=False)
    if describer is not None or (like is None and (roles.text or roles.image)):
        ids = None if describer is None else unique_ids(rows, roles.id, qids)
        items = items_of(rows, roles, ids or docids, qids, matrix.astype(np.float32))
        describer, made = _described(items, describer, roles, progress)
        matrix, names = np.concatenate([matrix, made], axis=1), describer.feature_names
        describer = describer if describer.made or like is not None else None
    if not names:
        raise DataError(f"{rows.path}: there is no feature column in {listed(rows.columns)}")
    queries = Queries.from_arrays(
        matrix,
        grades if labelled else None,
        qid=None if qids is None else texts(qids, f"{rows.path}: query ids"),
        docids=docids,
        feature_names=names,
        source=str(rows.path),
    )
    if not labelled:
        queries = replace(queries, grades=grades[queries.rows])
    ignored = tuple(column for column in roles.ignored if column != label)
    return replace(queries, describer=describer, ignored=ignored, dates=roles.dates)


def read_item_folder(
    path: Path, describer: Describer, *, labelled: bool, progress: Progress
) -> Queries:
    """The files of a folder as documents of one query, with the features of a describer."""
    needed = (*describer.given, GRADES[0]) if labelled else describer.given
    if needed:
        raise DataError(f"{path}: a folder has no column {shown(needed[0])}: give a table")
    items, roles = read_with_roles(path, least=1, progress=progress)
    made = _described(items, describer, roles, progress)[1]
    queries = Queries.from_arrays(
        made, docids=items.ids, feature_names=describer.feature_names, source=str(path)
    )
    return replace(queries, describer=describer)


def _described(
    items: Items, describer: Describer | None, roles: Columns, progress: Progress
) -> tuple[Describer, F32]:
    """What describes items, fitted on them if there is none yet; and the features it makes."""
    if describer is None:
        columns = vars(roles)
        describer, described = Describer.fit_apply(
            items, made=True, columns=columns, progress=progress
        )
    else:
        _refuse_other_kind(items, describer)
        described = describer.apply(items, progress=progress)
    return describer, described.features[:, len(describer.given) :]


def _roles(describer: Describer) -> Columns:
    """The columns that a table must have: those that the ranking needs."""
    left_out = {"audio", "context"}
    left_out |= set() if describer.of_texts else {"text"}
    left_out |= set() if describer.of_images else {"image"}
    needed = {role: name for role, name in describer.columns.items() if role not in left_out}
    return Columns(**needed)  # type: ignore[arg-type]


def _refuse_other_kind(items: Items, describer: Describer) -> None:
    kinds = {"text": items.texts, "image": items.images, "sound": items.audio}
    there = [kind for kind, values in kinds.items() if any(values)]
    needed = {"text": describer.of_texts, "image": describer.of_images}
    missing = [kind for kind, is_needed in needed.items() if is_needed and kind not in there]
    if missing:
        have = f": they have {' and '.join(f'{kind}s' for kind in there)}" if there else ""
        raise DataError(
            f"{items.source}: the model ranks items by {missing[0]}, these have none{have}"
        )


def _grades(rows: Rows, label: str, labelled: bool) -> I32:
    """(n,) the grades, 0 where there are none and need not be."""
    if label not in rows.columns:
        return np.zeros(len(rows), np.int32)
    cells = rows.columns[label]
    grades, wrong = numbers_of(cells)
    missing = np.isnan(grades) & ~wrong
    whole = (grades >= 0) & (grades <= np.iinfo(np.int32).max) & (grades == np.floor(grades))
    column = f"column {shown(label)}"
    faults: tuple[tuple[Bool, Callable[[int], str]], ...] = (
        (wrong, lambda row: f"the grade in {column}: {shown(cells[row])} is not a number"),
        (missing & labelled, lambda row: f"there is no grade in {column}"),
        (~missing & ~whole, lambda row: grade_fault(f"{grades[row]:g}")),
    )
    for bad, message in faults:
        if bad.any():
            row = int(bad.argmax())
            raise DataError(f"{rows.place(row)}: {message(row)}")
    return np.where(missing, 0, grades).astype(np.int32)


def _names(rows: Rows, column: str | None, *, needed: bool) -> list[str] | None:
    """The names of queries or documents, where there is a column of them."""
    if column is None:
        return None
    names = rows.texts(column)
    for row, name in enumerate(names):
        if needed and not name:
            raise DataError(f"{rows.place(row)}: there is no {column!r}")
        if len(name) > _LONGEST_NAME:
            fault = f"column {column!r}: a name of {len(name)} characters is too long"
            raise DataError(f"{rows.place(row)}: {fault}")
    return names
