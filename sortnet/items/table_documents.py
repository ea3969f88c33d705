"""Make documents from the rows of a table, for the readers of queries and of items.

A reader first chooses the roles of the columns with `sortnet.tables.roles.choose_columns`. Then
`documents_of` makes features and names from the rows, `TableDocuments.items` makes the items that
annotators see, and `described` adds the features of texts and images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sortnet.core import F32, F64, Progress
from sortnet.core.float32 import refuse_lost, shortened
from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.items.base import Items, check_id, checked_text, other_context
from sortnet.items.features import Describer
from sortnet.items.media import inside
from sortnet.tables.roles import AUDIO, IMAGES, Columns, feature_matrix
from sortnet.tables.rows import Rows

_LONGEST_NAME = 1024  # characters of a query's or document's name


class NameRule(Enum):
    """Rule for the names of documents and groups that a table may have.

    Attributes:
        UNIQUE: names that can be shown to annotators; an id occurs once in the table.
        UNIQUE_IN_GROUP: names that can be shown to annotators; an id occurs once in a group.
        ANY: names that can be any texts; a document may have no name.
    """

    UNIQUE = auto()
    UNIQUE_IN_GROUP = auto()
    ANY = auto()


@dataclass(frozen=True, eq=False)
class TableDocuments:
    """The rows of a table as documents.

    Attributes:
        rows: the table.
        roles: roles of the columns.
        features: (n, d) features in float64, made from columns of numbers, dates and categories;
            NaN where a value is missing.
        groups: (n,) names of the rows' groups or queries; None without a column of groups.
        ids: (n,) names of the rows; None without a column of names.
    """

    rows: Rows
    roles: Columns
    features: F64
    groups: list[str] | None
    ids: list[str] | None

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features: columns of numbers and dates, then categories."""
        return self.roles.features + self.roles.categories

    def items(self, ids: Sequence[str] | None = None) -> Items:
        """Make the items that annotators see, by `items_of`.

        Args:
            ids: (n,) names of the items; None: the names of the documents.
        """
        names = self.ids if ids is None else ids
        is_date = np.isin(self.feature_names, self.roles.dates)
        features = shortened(self.features, is_date)
        return items_of(self.rows, self.roles, names, self.groups, features)


def documents_of(rows: Rows, roles: Columns, rule: NameRule) -> TableDocuments:
    """Make documents from the rows of a table.

    Args:
        rows: the table.
        roles: roles of the columns.
        rule: rule for the names of documents and groups.

    Raises:
        DataError: naming file and line, on a feature that is not a number, values of a feature that
            differ but are equal in float32, or a name that is not allowed.

    >>> rows = Rows("t", {"id": ["a", "b"], "size": ["1", "2.5"]}, [2, 3])
    >>> documents = documents_of(rows, Columns("id", features=("size",)), NameRule.UNIQUE)
    >>> documents.ids, documents.features.tolist()
    (['a', 'b'], [[1.0], [2.5]])

    Cost: linear.
    """
    features = feature_matrix(rows, roles.features + roles.categories)
    if rule is NameRule.ANY:
        groups = None if roles.group is None else names_of(rows, roles.group, needed=True)
        ids = None if roles.id is None else names_of(rows, roles.id, needed=False)
    else:
        all_in_one_group = np.zeros(len(rows), np.int64)
        is_number = ~np.isin(roles.features + roles.categories, roles.dates)
        numbers = [name for name in roles.features if name not in roles.dates]
        refuse_lost(features[:, is_number], all_in_one_group, numbers, str(rows.path))
        groups = group_names(rows, roles.group)
        groups_of_ids = groups if rule is NameRule.UNIQUE_IN_GROUP else None
        ids = unique_ids(rows, roles.id, groups_of_ids)
    return TableDocuments(rows, roles, features, groups, ids)


class Described(NamedTuple):
    """Features of documents in float64, their names, and the describer of texts and images."""

    features: F64
    names: tuple[str, ...]
    describer: Describer | None


def described(
    documents: TableDocuments,
    describer: Describer | None,
    progress: Progress = lambda text: None,
    deviations: F64 | None = None,
) -> Described:
    """Make the features of documents, also from texts and images.

    Args:
        documents: the documents.
        describer: makes the features that it makes of other documents; None: a new describer is
            fitted, if there is a column of texts or images.
        progress: called with a text about each slow step.
        deviations: (n,) grade of each document less the mean grade of its query, by which a new
            describer chooses words; None: there are no grades.
    """
    roles = documents.roles
    if describer is None and not (roles.text or roles.image):
        return Described(documents.features, documents.feature_names, None)
    items = documents.items()
    is_new = describer is None
    if describer is None:
        describer, items = Describer.fit_apply(
            items, made=True, columns=vars(roles), deviations=deviations, progress=progress
        )
    else:
        items = describer.apply(items, progress=progress)
    made_features = items.features[:, len(describer.given) :]
    features = np.concatenate([documents.features, made_features], axis=1)
    # A new describer that makes no feature from the texts and images is not needed later.
    is_needed = bool(describer.made) or not is_new
    return Described(features, describer.feature_names, describer if is_needed else None)


def items_of(
    rows: Rows,
    roles: Columns,
    ids: Sequence[str] | None,
    groups: Sequence[str] | None,
    features: F32 | F64,
) -> Items:
    """Make items from the rows of a table.

    Args:
        rows: the table.
        roles: roles of the columns.
        ids: (n,) names of the items; None: the numbers of the rows, from 1.
        groups: (n,) groups of the items; None: there are no groups.
        features: (n, d) features of the items.

    Raises:
        DataError: on a text or file that cannot be shown, or different contexts in a group.
    """
    root = Path(rows.path).parent.resolve()
    if ids is None:
        ids = [str(number) for number in range(1, len(rows) + 1)]
    ids = tuple(ids)
    return Items(
        ids=ids,
        texts=_texts(rows, roles.text, ids),
        images=_media(rows, roles.image, root, IMAGES),
        audio=_media(rows, roles.audio, root, AUDIO),
        features=features,
        feature_names=roles.features + roles.categories,
        root=root if roles.image or roles.audio else None,
        source=str(rows.path),
        groups=None if groups is None else tuple(groups),
        contexts=_contexts(rows, roles.context, groups),
        shown=_shown(rows, roles.shown, ids),
    )


def names_of(rows: Rows, column: str, *, needed: bool) -> list[str]:
    """Read the names of queries or documents in a column.

    Args:
        rows: the table.
        column: name of the column.
        needed: whether each row must have a name.

    Raises:
        DataError: on a name that is missing or too long.
    """
    names = rows.texts(column)
    if needed and "" in names:
        raise DataError(f"{rows.place(names.index(''))}: there is no {column!r}")
    longest = max(names, key=len, default="")
    if len(longest) > _LONGEST_NAME:
        place = f"{rows.place(names.index(longest))}: column {column!r}"
        raise DataError(f"{place}: a name of {len(longest)} characters is too long")
    return names


def group_names(rows: Rows, column: str | None) -> list[str] | None:
    """Read the group of each row, (n,); None without a column of groups.

    Raises:
        DataError: on a group that is missing or cannot be a name.
    """
    if column is None:
        return None
    names = [name.strip() for name in rows.texts(column)]
    for row, name in enumerate(names):
        check_id(name, rows.place(row), "group")
    return names


def unique_ids(
    rows: Rows, column: str | None, groups: Sequence[str] | None = None
) -> list[str] | None:
    """Read the unique ids in a column, (n,); None without a column of ids.

    Args:
        rows: the table.
        column: name of the column.
        groups: (n,) groups of the rows; an id must be unique in its group. None: an id must be
            unique in the table.

    Raises:
        DataError: on an id that is missing or occurs twice.
    """
    if column is None:
        return None
    ids = [id.strip() for id in rows.texts(column)]
    row_of_id: dict[tuple[str, str], int] = {}
    for row, id in enumerate(ids):
        check_id(id, rows.place(row))
        group = groups[row] if groups else ""
        first_row = row_of_id.setdefault((group, id), row)
        if first_row != row:
            first_place = f"{rows.unit} {rows.lines[first_row]}"
            raise DataError(
                f"{rows.place(row)}: the id {shown(id)} is there twice, see {first_place}"
            )
    return ids


def _texts(
    rows: Rows, column: str | None, names: Sequence[str], noun: str = "text"
) -> tuple[str | None, ...]:
    """Read the texts of a column, (n,); None for a row without a text.

    Args:
        rows: the table.
        column: name of the column; None: no row has a text.
        names: (n,) names of the rows in messages.
        noun: word for a text in messages.
    """
    texts_and_names = zip(rows.texts(column), names, strict=True)
    return tuple(
        checked_text(text, name, rows.place(row), noun)
        for row, (text, name) in enumerate(texts_and_names)
    )


def _contexts(
    rows: Rows, column: str | None, groups: Sequence[str] | None
) -> tuple[str | None, ...] | None:
    """Read the contexts of the rows' groups, (n,); None without groups or a column of contexts.

    Raises:
        DataError: if two rows of a group have different contexts.
    """
    if column is None or groups is None:
        return None
    contexts = _texts(rows, column, groups, "context")
    row = other_context(groups, contexts)
    if row is not None:
        first_row_of_group = groups.index(groups[row])
        first_line = rows.place(first_row_of_group).rpartition(", ")[2]  # without the file's name
        raise DataError(
            f"{rows.place(row)}: the context of group {shown(groups[row])} is another than in "
            f"{first_line}: {shown(contexts[row] or '')}"
        )
    return contexts


def _shown(
    rows: Rows, columns: Sequence[str], ids: tuple[str, ...]
) -> tuple[Mapping[str, str] | None, ...] | None:
    """Read {column: text} of each row, for the columns that annotators see.

    A row without texts in these columns has None. Without columns the result is None.
    """
    if not columns:
        return None
    texts = [_texts(rows, column, ids, f"column {shown(column)}") for column in columns]
    texts_of_rows = []
    for texts_of_row in zip(*texts, strict=True):
        cells = zip(columns, texts_of_row, strict=True)
        present = {column: text for column, text in cells if text is not None}
        texts_of_rows.append(present or None)
    return tuple(texts_of_rows)


def _media(
    rows: Rows, column: str | None, root: Path, suffixes: tuple[str, ...]
) -> tuple[str | None, ...]:
    """Read the paths of files in a column, relative to `root`; None for a row without a file."""
    names = [name.strip() for name in rows.texts(column)]
    return tuple(
        inside(root, name, rows.place(row), suffixes) if name else None
        for row, name in enumerate(names)
    )
