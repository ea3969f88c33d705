"""Rows of tables, and folders of items -> Queries, with the features of a model where there is one.

A table's columns have roles, see `sortnet.tables.roles`: its numbers, dates and categories are
features, and so is what a `Describer` makes of its texts and images.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields as fields_of
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np

from sortnet.core import NamedColumns, Progress, Queries
from sortnet.core.memory import texts
from sortnet.core.named_columns import ALL_ROWS, ID, QUERY, UNNAMED
from sortnet.data.grades import read_grades
from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.items.base import Items
from sortnet.items.features import Describer
from sortnet.items.read_items import read_with_roles
from sortnet.items.table_documents import (
    NameRule,
    documents_of,
    unique_ids,
    with_described,
)
from sortnet.tables.roles import (
    GRADES,
    Columns,
    LabelledColumns,
    choose_columns,
    column_of,
    kept_as_read,
    without_unique_text,
)
from sortnet.tables.rows import Rows, listed, no_column, read_rows, rows_of_frame
from sortnet.tables.values import is_missing


class HasFeatures(Protocol):
    """What has features, as other data are to have them: Queries, or a ranker."""

    @property
    def feature_names(self) -> tuple[str, ...] | None: ...
    @property
    def describer(self) -> Any: ...
    @property
    def columns(self) -> NamedColumns: ...


def from_frame(
    frame: Any,
    *,
    query: str | None = None,
    grade: str | None = None,
    id: str | None = None,
    labelled: bool = True,
    source: str = "frame",
) -> Queries:
    """Make Queries from a pandas (or polars) data frame with one row per document.

    Numbers are features, dates as days; each value of a categorical column is one, `column=value`;
    a column of texts has the features that `sortnet.items.describe` makes. Missing values become
    NaN. Columns named like an id or a grade are never features.

    Args:
        query: the column that says which query a row belongs to, rows in any order; `none`: all
            rows are one query; None: `qid`.
        grade: the column of whole grades from 0; None: `label`, `grade` or `relevance`.
        id: the column of the documents' names; None: `docid`, where it is there.
        labelled: whether there must be a grade in each row; otherwise a missing one is 0.

    Raises:
        DataError: for missing columns, a number that is none or infinite, bad grades; with grades,
            for a feature whose differences within queries are lost in float32.

    >>> import pandas as pd
    >>> q = from_frame(pd.DataFrame({"qid": [1, 1], "label": [0, 2], "age": [3, None]}))
    >>> q.feature_names, q.features.tolist(), q.grades.tolist()
    (('age',), [[3.0], [nan]], [0, 2])
    """
    columns = NamedColumns(query, grade, id)
    rows = rows_of_frame(frame, source, kept_as_read(*names_kept(columns)))
    return queries_of(rows, labelled=labelled, columns=columns)


def read_table(
    path: Path,
    *,
    labelled: bool,
    columns: NamedColumns | None = None,
    like: HasFeatures | None = None,
    progress: Progress = lambda text: None,
) -> Queries:
    """Read a CSV, TSV, JSON lines or Parquet file, or several, see `from_frame`."""
    rows = read_rows(path, keep=kept_as_read(*names_kept(columns, like)))
    return queries_of(rows, labelled=labelled, columns=columns, like=like, progress=progress)


def names_kept(columns: NamedColumns | None, like: HasFeatures | None = None) -> list[str | None]:
    """The columns whose cells are names and texts, to be read as they are written."""
    remembered = [] if like is None or like.describer is None else like.describer.columns.values()
    names = columns or UNNAMED
    names = names if like is None else names.over(like.columns)
    return [*remembered, names.query, names.id, ID]


def queries_of(
    rows: Rows,
    *,
    labelled: bool,
    columns: NamedColumns | None = None,
    like: HasFeatures | None = None,
    progress: Progress = lambda text: None,
) -> Queries:
    """The documents of a table; see `from_frame` and `read_table`.

    Args:
        columns: the names of its columns, and how they are read; where these leave a name open, it
            is that of `like`, else the one by default.
    """
    if not len(rows):
        raise DataError(f"{rows.path}: there are no documents")
    describer: Describer | None = None if like is None else like.describer
    named = named_roles(rows, columns, like, labelled=labelled)
    columns = columns or UNNAMED
    columns = columns if like is None else columns.over(like.columns)
    if not {*rows.columns} - {named.grade, named.group, named.id}:
        raise DataError(f"{rows.path}: there is no feature column in {listed(rows.columns)}")
    features: tuple[str, ...] | None = None if like is None else like.feature_names
    if describer is not None:
        features = describer.given
    left_out = {*columns.ignore} if like is None else set[str]()
    if named.grade is not None:
        left_out.add(named.grade)
    roles = choose_columns(rows, named, left_out, features)
    if describer is None:
        roles = without_unique_text(roles, named)
    grades, columns = read_grades(rows, named.grade, columns, labelled=labelled)
    documents = documents_of(rows, roles, NameRule.ANY)
    matrix = documents.features
    names = documents.feature_names
    qids = documents.groups
    if describer is not None or (like is None and (roles.text or roles.image)):
        ids = None if describer is None else unique_ids(rows, roles.id, qids)
        items = documents.items(ids)
        if describer is not None:
            _refuse_other_kind(items, describer)
        matrix, describer = with_described(matrix, items, describer, roles, progress)
        names = describer.feature_names
        describer = describer if describer.made or like is not None else None
    if not names:
        _refuse_without_features(rows, {*left_out, named.grade, named.group, named.id})
    queries = Queries.from_arrays(
        matrix,
        grades if labelled else None,
        qid=None if qids is None else texts(qids, f"{rows.path}: query ids"),
        docids=documents.ids,
        feature_names=names,
        source=str(rows.path),
    )
    if not labelled:
        queries = replace(queries, grades=grades[queries.rows])
    return replace(
        queries,
        describer=describer,
        columns=columns,
        roles=_all_roles(rows, roles),
        dates=roles.dates,
    )


def _refuse_without_features(rows: Rows, no_features: Collection[str | None]) -> NoReturn:
    """Refuse a table without a feature, which the columns `no_features` cannot be."""
    empty = [
        name
        for name, cells in rows.columns.items()
        if name not in no_features and all(map(is_missing, cells))
    ]
    if empty:
        fault = f"there is no feature: there is no value in {listed(empty)}"
    else:
        fault = f"there is no feature column in {listed(rows.columns)}"
    raise DataError(f"{rows.path}: {fault}")


def named_roles(
    rows: Rows, columns: NamedColumns | None, like: HasFeatures | None = None, *, labelled: bool
) -> LabelledColumns:
    """The columns of query, grade and id that a table has by their names.

    A name that was given must be a column. A remembered id may be missing: the documents are then
    named by their rows.

    Raises:
        DataError: saying what to do about a column that is missing.
    """
    describer = None if like is None else like.describer
    typed = columns or UNNAMED
    names = typed if like is None else typed.over(like.columns)
    roles = Columns(ID, group=QUERY) if describer is None else _roles(describer)
    if names.query is not None:
        roles = replace(roles, group=None if names.query == ALL_ROWS else names.query)
    if names.id is not None:
        roles = replace(roles, id=names.id)
    if typed.id is None and roles.id not in rows.columns:
        roles = replace(roles, id=None)
    by_name = (column for column in rows.columns if column.lower() in GRADES)
    grade = names.grade or next(by_name, GRADES[0])
    advice = {}
    if names.query is None and describer is None:
        advice[roles.group] = (
            ": --query NAME names the column of the queries, and with --query none all rows are one"
        )
    if names.grade is None:
        advice[grade] = ": --grade NAME names the column of the grades"
    for column in (roles.group, typed.id, grade if labelled else None):
        if column is not None and column not in rows.columns:
            raise DataError(f"{rows.path}: {_missing_column(column, rows, advice.get(column))}")
    fields = {field.name: getattr(roles, field.name) for field in fields_of(Columns)}
    return LabelledColumns(**fields, grade=grade if grade in rows.columns else None)


def _missing_column(column: str, rows: Rows, advice: str | None) -> str:
    """The fault of a missing column; where nobody typed its name, with `advice` to type one."""
    if advice is None:
        return no_column(column, rows.columns)
    return f"there is no column {shown(column)} in {listed(rows.columns)}{advice}"


def _all_roles(rows: Rows, roles: LabelledColumns) -> LabelledColumns:
    """The roles with the columns that have none of them as ignored."""
    used = {roles.id, roles.text, roles.image, roles.audio, roles.group, roles.grade}
    used |= {column_of(name, rows.columns) for name in (*roles.features, *roles.categories)}
    return replace(roles, ignored=tuple(name for name in rows.columns if name not in used))


def read_item_folder(
    path: Path, describer: Describer, *, labelled: bool, progress: Progress
) -> Queries:
    """The files of a folder as documents of one query, with the features of a describer."""
    needed = (*describer.given, GRADES[0]) if labelled else describer.given
    if needed:
        raise DataError(f"{path}: a folder has no column {shown(needed[0])}: give a table")
    items, roles = read_with_roles(path, least=1, progress=progress)
    _refuse_other_kind(items, describer)
    no_features = np.empty((len(items), 0))
    made = with_described(no_features, items, describer, roles, progress)[0]
    queries = Queries.from_arrays(
        made, docids=items.ids, feature_names=describer.feature_names, source=str(path)
    )
    return replace(queries, describer=describer)


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
