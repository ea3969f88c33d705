"""Make Queries from rows of tables and from folders of items, also for the features of a model.

A table's columns have roles, see `sortnet.tables.roles`. Numbers, dates and categories are
features; a `Describer` makes further features from texts and images.
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
    """Interface of Queries or a ranker whose features and column names later data must have."""

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

    Numbers are features; dates become numbers of days; each value of a categorical column is a
    feature `column=value`; a column of texts has the features that `sortnet.items.describe` makes.
    Missing values become NaN. Columns named like an id or a grade are never features.

    Args:
        frame: the data frame.
        query: the column with the query of a row; rows may be in any order. `none`: all rows are
            one query; None: `qid`.
        grade: the column of whole grades from 0; None: `label`, `grade` or `relevance`.
        id: the column of the documents' names; None: `docid`, if there is such a column.
        labelled: whether every row must have a grade; otherwise a missing grade is 0.
        source: name of the data, for messages.

    Raises:
        DataError: for missing columns, invalid or infinite numbers, and bad grades; with grades,
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
    """Make Queries from CSV, TSV, JSON lines or Parquet files, by the rules of `from_frame`."""
    rows = read_rows(path, keep=kept_as_read(*names_kept(columns, like)))
    return queries_of(rows, labelled=labelled, columns=columns, like=like, progress=progress)


def names_kept(columns: NamedColumns | None, like: HasFeatures | None = None) -> list[str | None]:
    """Names of columns with ids and texts, whose cells must be kept exactly as written."""
    names = columns or UNNAMED
    described: list[str] = []
    if like is not None:
        names = names.over(like.columns)
        if like.describer is not None:
            described = [*like.describer.columns.values()]
    return [*described, names.query, names.id, ID]


def queries_of(
    rows: Rows,
    *,
    labelled: bool,
    columns: NamedColumns | None = None,
    like: HasFeatures | None = None,
    progress: Progress = lambda text: None,
) -> Queries:
    """Make Queries from the rows of a table, as `from_frame` and `read_table` do.

    Args:
        rows: the rows.
        labelled: whether every row must have a grade; otherwise a missing grade is 0.
        columns: the names of the columns, and how they are read; a name that is left open is taken
            from `like`, else it is the default.
        like: Queries or a ranker with the features that the documents shall have.
        progress: called with a text while texts and images are read.
    """
    if not len(rows):
        raise DataError(f"{rows.path}: there are no documents")
    describer: Describer | None = None if like is None else like.describer
    by_name = named_roles(rows, columns, like, labelled=labelled)
    columns = columns or UNNAMED
    columns = columns if like is None else columns.over(like.columns)
    no_features = {by_name.grade, by_name.group, by_name.id}
    if not {*rows.columns} - no_features:
        raise DataError(f"{rows.path}: there is no feature column in {listed(rows.columns)}")
    features: tuple[str, ...] | None = None if like is None else like.feature_names
    if describer is not None:
        features = describer.given
    left_out = {*columns.ignore} if like is None else set[str]()
    if by_name.grade is not None:
        left_out.add(by_name.grade)
    roles = choose_columns(rows, by_name, left_out, features)
    if describer is None:
        roles = without_unique_text(roles, by_name)
    grades, columns = read_grades(rows, by_name.grade, columns, labelled=labelled)
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
        _refuse_without_features(rows, left_out | no_features)
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
    """Refuse a table without a feature; `no_features` are the columns that have other roles."""
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
    """Find the columns of query, grade and id by their names.

    A name in `columns` must be a column. The id that `like` remembers may be missing: the documents
    are then named by their rows.

    Raises:
        DataError: if a column is missing, with advice.
    """
    describer = None if like is None else like.describer
    typed = names = columns or UNNAMED
    if like is not None:
        names = typed.over(like.columns)
    roles = Columns(ID, group=QUERY) if describer is None else _roles(describer)
    if names.query is not None:
        roles = replace(roles, group=None if names.query == ALL_ROWS else names.query)
    if names.id is not None:
        roles = replace(roles, id=names.id)
    if typed.id is None and roles.id not in rows.columns:
        roles = replace(roles, id=None)
    usual_grades = (column for column in rows.columns if column.lower() in GRADES)
    grade = names.grade or next(usual_grades, GRADES[0])
    advice = {}
    if names.query is None and describer is None:
        advice[roles.group] = (
            ": --query NAME names the column of the queries, and with --query none all rows are one"
        )
    if names.grade is None:
        advice[grade] = ": --grade NAME names the column of the grades"
    for column in (roles.group, typed.id, grade if labelled else None):
        if column is not None and column not in rows.columns:
            fault = no_column(column, rows.columns)
            if column in advice:
                fault = f"there is no column {shown(column)} in {listed(rows.columns)}"
                fault += advice[column]
            raise DataError(f"{rows.path}: {fault}")
    fields = {field.name: getattr(roles, field.name) for field in fields_of(Columns)}
    return LabelledColumns(**fields, grade=grade if grade in rows.columns else None)


def _all_roles(rows: Rows, roles: LabelledColumns) -> LabelledColumns:
    """Complete the roles: list every column of the table without a role as ignored."""
    used = {roles.id, roles.text, roles.image, roles.audio, roles.group, roles.grade}
    for name in (*roles.features, *roles.categories):
        used.add(column_of(name, rows.columns))
    ignored = tuple(name for name in rows.columns if name not in used)
    return replace(roles, ignored=ignored)


def read_item_folder(
    path: Path, describer: Describer, *, labelled: bool, progress: Progress
) -> Queries:
    """Read the files of a folder as documents of one query; a describer makes their features."""
    needed = (*describer.given, GRADES[0]) if labelled else describer.given
    if needed:
        raise DataError(f"{path}: a folder has no column {shown(needed[0])}: give a table")
    items, roles = read_with_roles(path, least=1, progress=progress)
    _refuse_other_kind(items, describer)
    no_features = np.empty((len(items), 0))
    features = with_described(no_features, items, describer, roles, progress)[0]
    queries = Queries.from_arrays(
        features, docids=items.ids, feature_names=describer.feature_names, source=str(path)
    )
    return replace(queries, describer=describer)


def _roles(describer: Describer) -> Columns:
    """Roles of the columns that a table must have so that the describer can make its features."""
    unused = {"audio", "context"}
    if not describer.of_texts:
        unused.add("text")
    if not describer.of_images:
        unused.add("image")
    needed = {role: name for role, name in describer.columns.items() if role not in unused}
    return Columns(**needed)  # type: ignore[arg-type]


def _refuse_other_kind(items: Items, describer: Describer) -> None:
    """Refuse items that have no texts or no images, if the describer needs them."""
    values_of_kinds = {"text": items.texts, "image": items.images, "sound": items.audio}
    present = [kind for kind, values in values_of_kinds.items() if any(values)]
    needed = {"text": describer.of_texts, "image": describer.of_images}
    missing = [kind for kind, is_needed in needed.items() if is_needed and kind not in present]
    if missing:
        has = f": they have {' and '.join(f'{kind}s' for kind in present)}" if present else ""
        raise DataError(
            f"{items.source}: the model ranks items by {missing[0]}, these have none{has}"
        )
