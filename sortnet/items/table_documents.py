"""Make documents from the rows of a table, for the readers of queries and of items.

A reader first chooses the roles of the columns with `sortnet.tables.roles.choose_columns`. Then
`documents_of` makes features and names from the rows, `described` adds the features of texts and
images, and `items_of_table` makes the items that annotators see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sortnet.core import F64, Progress
from sortnet.core.float32 import refuse_lost, shortened
from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.items.base import Items, check_id, checked_text, inside
from sortnet.items.features import Describer
from sortnet.tables.roles import AUDIO, IMAGES, Columns, feature_matrix
from sortnet.tables.rows import Rows

_LONGEST_NAME = 1024  # characters of a query's or document's name


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

    def items(self) -> Items:
        """Make the items that annotators see; an item without a name is named by its row, from 1.

        Raises:
            DataError: on a text or file that cannot be shown, or different contexts in a group.
        """
        rows = self.rows
        roles = self.roles
        ids = tuple(self.ids or map(str, range(1, len(rows) + 1)))
        contexts = None
        if roles.context is not None and self.groups is not None:
            contexts = _texts(rows, roles.context, self.groups, "context")
        root = Path(rows.path).parent.resolve()
        return Items(
            ids=ids,
            texts=_texts(rows, roles.text, ids),
            images=_media(rows, roles.image, root, IMAGES),
            audio=_media(rows, roles.audio, root, AUDIO),
            features=shortened(self.features, np.isin(self.feature_names, roles.dates)),
            feature_names=self.feature_names,
            root=root if roles.image or roles.audio else None,
            source=str(rows.path),
            groups=None if self.groups is None else tuple(self.groups),
            contexts=contexts,
            shown=_shown(rows, roles.shown, ids),
        )


def documents_of(rows: Rows, roles: Columns) -> TableDocuments:
    """Make documents from the rows of a table; their names may be any texts, or missing.

    Args:
        rows: the table.
        roles: roles of the columns.

    Raises:
        DataError: naming file and line, on a feature that is not a number, or a missing group.

    >>> rows = Rows("t", {"id": ["a", "b"], "size": ["1", "2.5"]}, [2, 3])
    >>> documents = documents_of(rows, Columns("id", features=("size",)))
    >>> documents.ids, documents.features.tolist()
    (['a', 'b'], [[1.0], [2.5]])

    Cost: linear.
    """
    features = feature_matrix(rows, roles.features + roles.categories)
    groups = None if roles.group is None else names_of(rows, roles.group, needed=True)
    ids = None if roles.id is None else names_of(rows, roles.id, needed=False)
    return TableDocuments(rows, roles, features, groups, ids)


def items_of_table(rows: Rows, roles: Columns, *, is_unique_in_group: bool = False) -> Items:
    """Make items from the rows of a table, with names that can be shown to annotators.

    Args:
        rows: the table.
        roles: roles of the columns.
        is_unique_in_group: whether an id must be unique in its group only, not in the table.

    Raises:
        DataError: naming file and line, as `documents_of` and `TableDocuments.items`; also on
            values of a feature that differ but are equal in float32, and on a name that is missing,
            not unique, or cannot be shown.
    """
    documents = documents_of(rows, roles)
    is_number = ~np.isin(documents.feature_names, roles.dates)
    numbers = [name for name in roles.features if name not in roles.dates]
    all_in_one_group = np.zeros(len(rows), np.int64)
    refuse_lost(documents.features[:, is_number], all_in_one_group, numbers, str(rows.path))
    groups = _shown_names(rows, documents.groups, "group")
    ids = _shown_names(rows, documents.ids, "id")
    groups_of_ids = groups if is_unique_in_group else None
    _refuse_repeated(rows, ids or [], groups_of_ids or [""] * len(rows))
    return replace(documents, groups=groups, ids=ids).items()


def described(
    documents: TableDocuments,
    describer: Describer | None,
    progress: Progress = lambda text: None,
    deviations: F64 | None = None,
) -> tuple[F64, tuple[str, ...], Describer | None]:
    """Make the features of documents, also from texts and images.

    Args:
        documents: the documents.
        describer: makes the features that it makes of other documents; None: a new describer is
            fitted, if there is a column of texts or images.
        progress: called with a text about each slow step.
        deviations: (n,) grade of each document less the mean grade of its query, by which a new
            describer chooses words; None: there are no grades.

    Returns:
        The features in float64, their names, and the describer of texts and images.
    """
    roles = documents.roles
    if describer is None and not (roles.text or roles.image):
        return documents.features, documents.feature_names, None
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
    return features, describer.feature_names, describer if is_needed else None


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


def _shown_names(rows: Rows, names: list[str] | None, noun: str) -> list[str] | None:
    """Strip the names of rows; raise a DataError if a name is missing or cannot be shown."""
    if names is None:
        return None
    stripped = [name.strip() for name in names]
    for row, name in enumerate(stripped):
        check_id(name, rows.place(row), noun)
    return stripped


def _refuse_repeated(rows: Rows, ids: Sequence[str], groups: Sequence[str]) -> None:
    """Raise a DataError if two rows of a group have the same id."""
    row_of_id: dict[tuple[str, str], int] = {}
    for row, group_and_id in enumerate(zip(groups, ids, strict=False)):
        first_row = row_of_id.setdefault(group_and_id, row)
        if first_row != row:
            raise DataError(
                f"{rows.place(row)}: the id {shown(ids[row])} is there twice, see {rows.unit} "
                f"{rows.lines[first_row]}"
            )


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
