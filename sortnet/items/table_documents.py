"""Rows of a table -> documents: the steps that readers of queries and of items share.

A reader chooses the roles of the columns, `sortnet.tables.roles.choose_columns`; from there on
`documents_of` makes features and names of the rows, `TableDocuments.items` what annotators see, and
`with_described` adds the features of texts and images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from sortnet.core import F32, F64, Progress
from sortnet.core.float32 import refuse_lost
from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.items.base import Items, check_id, checked_text, other_context
from sortnet.items.features import Describer
from sortnet.items.media import inside
from sortnet.tables.roles import AUDIO, IMAGES, Columns, feature_matrix
from sortnet.tables.rows import Rows

_LONGEST_NAME = 1024

C = TypeVar("C", bound=Columns)


class NameRule(Enum):
    """Which names of documents and groups a table may have.

    Attributes:
        UNIQUE: those that annotators can see; an id is there once in the table.
        UNIQUE_IN_GROUP: the same, but an id is there once in a group.
        ANY: all texts; a document may have no name.
    """

    UNIQUE = auto()
    UNIQUE_IN_GROUP = auto()
    ANY = auto()


@dataclass(frozen=True, eq=False)
class TableDocuments(Generic[C]):
    """The rows of a table as documents.

    Attributes:
        rows: the table.
        roles: of its columns.
        features: (n, d) float64, of columns of numbers, dates and categories; NaN where a value is
            missing.
        groups: (n,) the group, or query, of each row; None without a column of these.
        ids: (n,) the name of each row; None without a column of these.
    """

    rows: Rows
    roles: C
    features: F64
    groups: list[str] | None
    ids: list[str] | None

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.roles.features + self.roles.categories

    def items(self, ids: Sequence[str] | None = None) -> Items:
        """The documents as annotators see them, see `items_of`; `ids` are in place of theirs."""
        names = self.ids if ids is None else ids
        return items_of(self.rows, self.roles, names, self.groups, self.features.astype(np.float32))


def documents_of(rows: Rows, roles: C, rule: NameRule) -> TableDocuments[C]:
    """Make documents of the rows of a table whose columns have roles.

    Raises:
        DataError: naming file and line, on a feature that is not a number or whose differences are
            lost in float32, and on a name that is not allowed.

    >>> rows = Rows("t", {"id": ["a", "b"], "size": ["1", "2.5"]}, [2, 3])
    >>> documents = documents_of(rows, Columns("id", features=("size",)), NameRule.UNIQUE)
    >>> documents.ids, documents.features.tolist()
    (['a', 'b'], [[1.0], [2.5]])

    Cost: linear.
    """
    features = feature_matrix(rows, roles.features + roles.categories)
    if rule is NameRule.ANY:
        # Queries with grades are checked when they are made, each query by itself.
        groups = None if roles.group is None else names_of(rows, roles.group, needed=True)
        ids = None if roles.id is None else names_of(rows, roles.id, needed=False)
    else:
        in_one_group = np.zeros(len(rows), np.int64)
        refuse_lost(features, in_one_group, roles.features, str(rows.path))
        groups = group_names(rows, roles.group)
        ids = unique_ids(rows, roles.id, groups if rule is NameRule.UNIQUE_IN_GROUP else None)
    return TableDocuments(rows, roles, features, groups, ids)


def with_described(
    features: F64,
    items: Items,
    describer: Describer | None,
    roles: Columns,
    progress: Progress = lambda text: None,
) -> tuple[F64, Describer]:
    """Add the features that a describer makes of texts and images to those of the documents.

    Args:
        features: (n, d) those that the items have.
        describer: fitted on other items; None: it is fitted on these.
        roles: the columns that the items came from, which a new describer keeps.

    Returns:
        (n, d + made) features, in the order of the describer's names; and the describer.
    """
    if describer is None:
        describer, described = Describer.fit_apply(
            items, made=True, columns=vars(roles), progress=progress
        )
    else:
        described = describer.apply(items, progress=progress)
    made = described.features[:, len(describer.given) :]
    return np.concatenate([features, made], axis=1), describer


def items_of(
    rows: Rows,
    roles: Columns,
    ids: Sequence[str] | None,
    groups: Sequence[str] | None,
    features: F32,
) -> Items:
    """The items of a table whose columns have roles, with their features in `roles`.

    Args:
        ids, groups: of the rows; None: the numbers of the rows, and no groups.

    Raises:
        DataError: on a text or file that cannot be shown, a context that differs in a group.
    """
    root = Path(rows.path).parent.resolve()
    ids = tuple(ids if ids is not None else map(str, range(1, len(rows) + 1)))
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
    """The names of queries or documents; `needed`: in every row."""
    names = rows.texts(column)
    for row, name in enumerate(names):
        if needed and not name:
            raise DataError(f"{rows.place(row)}: there is no {column!r}")
        if len(name) > _LONGEST_NAME:
            fault = f"column {column!r}: a name of {len(name)} characters is too long"
            raise DataError(f"{rows.place(row)}: {fault}")
    return names


def group_names(rows: Rows, column: str | None) -> list[str] | None:
    """The group of each row, by its column; None without one.

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
    """The ids of a column, each there once, or once in a group.

    Raises:
        DataError: on one that is missing or there twice.
    """
    if column is None:
        return None
    names = [name.strip() for name in rows.texts(column)]
    first: dict[tuple[str, str], int] = {}
    for row, name in enumerate(names):
        check_id(name, rows.place(row))
        before = first.setdefault((groups[row] if groups else "", name), row)
        if before != row:
            where = f"{rows.unit} {rows.lines[before]}"
            raise DataError(f"{rows.place(row)}: the id {shown(name)} is there twice, see {where}")
    return names


def _texts(
    rows: Rows, column: str | None, names: Sequence[str], what: str = "text"
) -> tuple[str | None, ...]:
    both = zip(rows.texts(column), names, strict=True)
    return tuple(
        checked_text(text, name, rows.place(row), what) for row, (text, name) in enumerate(both)
    )


def _contexts(
    rows: Rows, column: str | None, groups: Sequence[str] | None
) -> tuple[str | None, ...] | None:
    if column is None or groups is None:
        return None
    texts = _texts(rows, column, groups, "context")
    if (row := other_context(groups, texts)) is not None:
        first = rows.place(groups.index(groups[row])).rpartition(", ")[2]
        what = f"the context of group {shown(groups[row])} is another than in {first}"
        raise DataError(f"{rows.place(row)}: {what}: {shown(texts[row] or '')}")
    return texts


def _shown(
    rows: Rows, columns: Sequence[str], ids: tuple[str, ...]
) -> tuple[Mapping[str, str] | None, ...] | None:
    if not columns:
        return None
    texts = [_texts(rows, column, ids, f"column {shown(column)}") for column in columns]
    there = (
        {c: text for c, text in zip(columns, row, strict=True) if text is not None}
        for row in zip(*texts, strict=True)
    )
    return tuple(row or None for row in there)


def _media(
    rows: Rows, column: str | None, root: Path, suffixes: tuple[str, ...]
) -> tuple[str | None, ...]:
    return tuple(
        inside(root, name.strip(), rows.place(row), suffixes) if name.strip() else None
        for row, name in enumerate(rows.texts(column))
    )
