"""Make Queries from rows of tables and from folders of items.

Each column of a table has a role, see `sortnet.tables.roles`. Numbers, dates and categories are
features; a `Describer` makes further features from texts and images. Data for a fitted ranker gets
the features that the ranker was trained with.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from sortnet.core import F64, I32, NamedColumns, Progress, Queries
from sortnet.core.memory import texts
from sortnet.core.named_columns import ALL_ROWS, ID, QUERY, UNNAMED
from sortnet.data.grades import deviations_in_queries, read_grades
from sortnet.errors import DataError
from sortnet.files import note, shown
from sortnet.items.base import Items
from sortnet.items.features import Describer
from sortnet.items.read_items import read_with_roles
from sortnet.items.table_documents import (
    TableDocuments,
    described,
    documents_of,
)
from sortnet.messages import printable
from sortnet.tables.read_rows import read_rows, rows_of_frame
from sortnet.tables.roles import (
    GRADES,
    Columns,
    choose_columns,
    column_of,
    kept_as_read,
    without_unique_text,
)
from sortnet.tables.rows import Rows, listed, no_column
from sortnet.tables.values import MOST_LEVELS, is_missing

# Words in the names of columns that may have the queries or the grades.
_WORDS_OF_QUERIES = ("qid", "query", "search", "session", "group", "topic")
_WORDS_OF_GRADES = ("label", "grade", "relevance", "rating", "score", "stars", "target")
# Names of columns that may have the documents' names, in small letters only.
_MAY_BE_IDS = ("doc", "docno", "docid", "document", "documentid")


class HasFeatures(Protocol):
    """Attributes of Queries and of rankers that tell which features later data must have."""

    @property
    def feature_names(self) -> tuple[str, ...] | None: ...
    @property
    def describer(self) -> Any: ...
    @property
    def columns(self) -> NamedColumns: ...
    @property
    def origins(self) -> F64 | None: ...


def from_frame(
    frame: Any,
    *,
    query: str | None = None,
    grade: str | None = None,
    id: str | None = None,
    labelled: bool = True,
    source: str = "frame",
) -> Queries:
    """Make Queries from a data frame or a list of dicts with one row per document.

    Numbers are features; dates become numbers of days; each value of a categorical column is a
    feature `column=value`; a column of texts has the features that `sortnet.items.describe` makes.
    Missing values become NaN. Columns named like an id or a grade are never features.

    Args:
        frame: the data frame, of pandas, polars (a LazyFrame is collected) or Arrow; or the dicts.
        query: name of the column with the query of each row; rows may be in any order. With `none`
            all rows are one query. If None, the column is `qid`.
        grade: name of the column of grades, whole numbers from 0. If None, the column is `label`,
            `grade` or `relevance`.
        id: name of the column of document ids. If None, the column is `docid`, if there is one.
        labelled: whether every row must have a grade. If False, a missing grade is 0.
        source: name of the data, for messages.

    Raises:
        DataError: if a column is missing, a number is invalid or infinite, or a grade is no whole
            number from 0; with grades also if a feature differs so little within the queries that
            float32 loses the differences.

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
    """List the columns with ids and texts, whose cells must be kept exactly as written.

    Args:
        columns: names of the columns. If None, no column is named.
        like: training data or a fitted ranker, which also names its columns and the columns of
            texts and images that its describer reads.

    Returns:
        Names of columns; None for a column without a name.
    """
    names = known_names(columns, like)
    described_columns: list[str] = []
    if like is not None and like.describer is not None:
        described_columns = [*like.describer.columns.values()]
    return [*described_columns, names.query, names.id, ID]


def known_names(columns: NamedColumns | None, like: HasFeatures | None) -> NamedColumns:
    """Return the names of the columns that the user gave; all other names are taken from `like`."""
    names = columns or UNNAMED
    return names if like is None else names.over(like.columns)


def queries_of(
    rows: Rows,
    *,
    labelled: bool,
    columns: NamedColumns | None = None,
    like: HasFeatures | None = None,
    is_part: bool = False,
    progress: Progress = lambda text: None,
) -> Queries:
    """Make Queries from the rows of a table, as `from_frame` and `read_table` do.

    Args:
        rows: the rows.
        labelled: whether every row must have a grade. If False, a missing grade is 0.
        columns: the names of the columns, and how they are read. A name that is not given is taken
            from `like`, otherwise the default name is used.
        like: Queries or a ranker with the features that the documents shall have.
        is_part: whether the rows are of the table of `like`, so that values that the training part
            does not have need no note.
        progress: called with a text while texts and images are read.
    """
    if not len(rows):
        raise DataError(f"{rows.path}: there are no documents")
    names = known_names(columns, like)
    by_name = named_roles(rows, columns, like, labelled=labelled)
    fault = f"there is no feature column with a value in {listed(rows.columns)}"
    no_features = DataError(f"{rows.path}: {fault}")
    if rows.columns.keys() <= {by_name.group, by_name.grade, by_name.id}:
        raise no_features
    # With `like`, its features decide which columns are used, so no column needs to be ignored.
    ignored = {*names.ignore} if like is None else set[str]()
    roles = _choose_other_roles(rows, by_name, ignored, like)
    if roles.id is None and like is None:
        for column in (*roles.features, *roles.ignored):
            if re.sub("[^a-z]", "", column.lower()) in _MAY_BE_IDS:
                name = printable(shlex.quote(column))
                note(rows.path, f"documents are named by their rows: --id {name} names them by it")
    grades, names_and_edges = read_grades(rows, by_name.grade, names, labelled=labelled)
    if names.grade is None and by_name.grade != GRADES[0]:  # later data are asked for this column
        names_and_edges = replace(names_and_edges, grade=by_name.grade)
    documents = documents_of(rows, roles)
    if like is not None and not is_part:
        _note_new_values(rows, roles)
    features, feature_names, describer = _described(
        documents, like, grades if labelled else None, progress
    )
    if not feature_names:
        raise no_features
    qids = documents.groups
    queries = Queries.from_arrays(
        features,
        grades if labelled else None,
        qid=None if qids is None else texts(qids, f"{rows.path}: query ids"),
        docids=documents.ids,
        feature_names=feature_names,
        source=str(rows.path),
        dates=roles.dates,
        origins=None if like is None else like.origins,
    )
    if not labelled:  # the grades that some rows may have are no labels, but are kept
        queries = replace(queries, grades=grades[queries.rows])
    return replace(
        queries,
        describer=describer,
        columns=names_and_edges,
        roles=roles,
    )


def _choose_other_roles(
    rows: Rows, by_name: Columns, ignored: Collection[str], like: HasFeatures | None
) -> Columns:
    """Choose the role of every column that has no role by its name.

    Args:
        rows: the table.
        by_name: the roles that were found by name, which stay.
        ignored: names of columns that get no role.
        like: Queries or a ranker whose features the table shall have; None for all features.
    """
    if like is not None and like.describer is not None:
        return choose_columns(rows, by_name, ignored, like.describer.given)
    features = None if like is None else like.feature_names
    roles = choose_columns(rows, by_name, ignored, features)
    return without_unique_text(roles, by_name)


def _note_new_values(rows: Rows, roles: Columns) -> None:
    """Log a note about each categorical column with a value that the training data did not have."""
    features_of_columns: dict[str, set[str]] = {}
    for feature in (*roles.features, *roles.categories):
        if feature not in rows.columns:
            column = column_of(feature, rows.columns)
            features_of_columns.setdefault(column, set()).add(feature)
    for column, features in features_of_columns.items():
        values = map(str.strip, rows.texts(column))
        new_rows = [
            row
            for row, value in enumerate(values)
            if f"{column}={value}" not in features and not is_missing(value)
        ]
        # If there are most levels, the training data had rare values without a feature, too.
        if new_rows and len(features) < MOST_LEVELS:
            value = shown(rows.columns[column][new_rows[0]])
            fault = f"column {shown(column)}: {value} was not in the training data"
            note(rows.place(new_rows[0]), f"{fault}; rows with such values: {len(new_rows)}")


def _described(
    documents: TableDocuments,
    like: HasFeatures | None,
    grades: I32 | None,
    progress: Progress,
) -> tuple[F64, tuple[str, ...], Describer | None]:
    """Make the features of the documents, also from texts and images.

    The describer of `like` makes the same features again. Without `like`, a new describer is made
    if there is a column of texts or images; the grades, if there are any, choose its words.
    """
    roles = documents.roles
    if like is None:
        deviations = None if grades is None else deviations_in_queries(grades, documents.groups)
        return described(documents, None, progress, deviations)
    fitted: Describer | None = like.describer
    if fitted is None:
        return documents.features, documents.feature_names, None
    lacks_texts = fitted.of_texts and roles.text is None
    lacks_images = fitted.of_images and roles.image is None
    if lacks_texts or lacks_images:  # a column of blank texts is no fault
        _refuse_other_kind(documents.items(), fitted)
    return described(documents, fitted, progress)


def named_roles(
    rows: Rows, columns: NamedColumns | None, like: HasFeatures | None = None, *, labelled: bool
) -> Columns:
    """Find the columns of query, grade and id by their names.

    A column that `columns` names must exist. The id column that `like` remembers may be missing:
    then each document is named by its row.

    Args:
        rows: the table.
        columns: the names that the user gave.
        like: Queries or a ranker whose names are taken where the user gave none.
        labelled: whether there must be a column of grades.

    Raises:
        DataError: if a column is missing; the message tells how to name it.
    """
    names = known_names(columns, like)
    describer = None if like is None else like.describer
    default_roles = Columns(ID, group=QUERY)
    if describer is not None:
        default_roles = _described_columns(describer)
    query_column = default_roles.group
    if names.query == ALL_ROWS:
        query_column = None
    elif names.query is not None:
        query_column = names.query
    grade_column = names.grade
    has_named_grade = columns is not None and columns.grade is not None
    is_guess = grade_column is None or grade_column.lower() in GRADES
    if is_guess and not has_named_grade and grade_column not in rows.columns:
        found_columns = (column for column in rows.columns if column.lower() in GRADES)
        grade_column = next(found_columns, grade_column or GRADES[0])
    id_column = default_roles.id if names.id is None else names.id

    # If a column is looked for by its default name, the message advises to name the right column.
    advice: dict[str | None, str] = {}
    if names.query is None and describer is None:
        likely = _likely_column(rows.columns, _WORDS_OF_QUERIES)
        advice[query_column] = (
            f": --query {likely or 'NAME'} (in Python query) names the column of the queries, "
            "and with none all rows are one query"
        )
    if names.grade is None:
        likely = _likely_column(rows.columns, _WORDS_OF_GRADES)
        advice[grade_column] = (
            f": --grade {likely or 'NAME'} (in Python grade) names the column of the grades"
        )
    needed_id = None if columns is None else columns.id  # any other id column may be missing
    needed = (query_column, needed_id, grade_column if labelled else None)
    _refuse_missing(rows, needed, advice)

    return replace(
        default_roles,
        group=query_column,
        id=_if_present(id_column, rows),
        grade=_if_present(grade_column, rows),
    )


def _likely_column(columns: Iterable[str], words: Collection[str]) -> str | None:
    """Find the first column with one of the words in its name, as a shell reads the name."""
    names = (name for name in columns if any(word in name.lower() for word in words))
    name = next(names, None)
    return None if name is None else printable(shlex.quote(name))


def _if_present(column: str | None, rows: Rows) -> str | None:
    """Return the name of a column; None if the table has no such column."""
    return column if column in rows.columns else None


def _refuse_missing(
    rows: Rows, needed: Collection[str | None], advice: Mapping[str | None, str]
) -> None:
    """Raise DataError if the table lacks one of the needed columns.

    Args:
        rows: the table.
        needed: names of the columns; None is skipped.
        advice: {name: what the message adds}.
    """
    for column in needed:
        if column is not None and column not in rows.columns:
            fault = no_column(column, rows.columns)
            if column in advice:  # the name is a default, and so no misspelt column
                fault = f"there is no column {shown(column)} in {listed(rows.columns)}"
                fault += advice[column]
            raise DataError(f"{rows.path}: {fault}")


def read_item_folder(
    path: Path, describer: Describer, *, labelled: bool, progress: Progress
) -> Queries:
    """Read the files of a folder as the documents of one query, with the describer's features."""
    needed_columns = describer.given  # features that are not made of texts and images
    if labelled:
        needed_columns = (*needed_columns, GRADES[0])
    if needed_columns:
        raise DataError(f"{path}: a folder has no column {shown(needed_columns[0])}: give a table")
    items, _ = read_with_roles(path, least=1, progress=progress)
    _refuse_other_kind(items, describer)
    queries = Queries.from_arrays(
        describer.apply(items, progress=progress).features,
        docids=items.ids,
        feature_names=describer.feature_names,
        source=str(path),
    )
    return replace(queries, describer=describer)


def _described_columns(describer: Describer) -> Columns:
    """Name the columns from which the describer makes its features."""
    unused_roles = {"audio", "context"}
    if not describer.of_texts:
        unused_roles.add("text")
    if not describer.of_images:
        unused_roles.add("image")
    used = {role: name for role, name in describer.columns.items() if role not in unused_roles}
    return Columns(**used)  # type: ignore[arg-type]


def _refuse_other_kind(items: Items, describer: Describer) -> None:
    """Raise DataError if the describer needs texts or images and the items have none."""
    values_of_kinds = {"text": items.texts, "image": items.images, "sound": items.audio}
    present = [kind for kind, values in values_of_kinds.items() if any(values)]
    is_needed = {"text": describer.of_texts, "image": describer.of_images}
    for kind in is_needed:
        if not is_needed[kind] or kind in present:
            continue
        fault = f"the model ranks items by {kind}, these have none"
        if present:
            fault += f": they have {' and '.join(f'{name}s' for name in present)}"
        raise DataError(f"{items.source}: {fault}")
