"""Make items from Python values: texts, rows of a table, files, or rows of numbers."""

from __future__ import annotations

import hashlib
import math
import os
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sortnet.core import F64
from sortnet.errors import DataError
from sortnet.files import is_table, reading, shown
from sortnet.items.base import Items, checked_text, inside
from sortnet.items.read_items import ITEM_FILES, items_of_files, read_with_roles
from sortnet.items.table_documents import items_of_table
from sortnet.tables.read_rows import as_pandas, is_frame, read_rows, rows_of_frame
from sortnet.tables.roles import Columns, choose_columns, kept_as_read
from sortnet.tables.rows import Rows
from sortnet.tables.values import numbers_of

_SOURCE = "items"
_LONGEST_ID = 60  # characters: a text up to this length is itself the id of its item
_START = 40  # characters of a longer text with which the id of its item begins
_DIGITS_OF_HASH = 8  # hexadecimal digits of a content's hash in an id
_DURATION = ":"  # is in the texts of durations and times of day, which a judge gets as written
_UNPRINTABLE = ("Cc", "Cs")  # Unicode's categories of control characters and surrogates


@dataclass(frozen=True, eq=False)
class GivenItems:
    """Items, together with the Python values that the caller passed.

    Attributes:
        items: the items; equal values are a single item.
        roles: roles of a table's columns; None if the values are no table.
        values: (n_rows,) values as the caller passed them: texts, paths, rows of numbers or dicts.
        number: (n_rows,) number of the item that each value belongs to.
    """

    items: Items
    roles: Columns | None
    values: Sequence[Any]
    number: Sequence[int]

    def value_of_id(self) -> dict[str, Any]:
        """Return {id: value} with the first value that the caller passed for each item."""
        values: dict[str, Any] = {}
        for value, number in zip(self.values, self.number, strict=True):
            values.setdefault(self.items.ids[number], value)
        return values


def items_from(
    values: Any,
    *,
    text: str | None = None,
    id: str | None = None,
    group: str | None = None,
    ignore: Sequence[str] = (),
    least: int = 2,
) -> GivenItems:
    """Make items from a list, a data frame, an array, a file or a folder.

    A list has texts (`str`), paths of files (`Path`) with texts, images or sounds, rows of numbers,
    or dicts, which are rows of a table. The columns of a table get roles as in `read_items`. An
    item without an id is named by its text or content, so that the item has the same name in a
    later call with more items.

    Args:
        values: the list, data frame or array, or the path of the file or folder.
        text: name of a table's column of texts; None: recognised by its name.
        id: name of a table's column of ids; None: recognised by its name.
        group: name of a table's column of groups; None: there are no groups.
        ignore: names of a table's columns that are left out.
        least: smallest number of items that is allowed.

    Raises:
        DataError: on fewer items, values of several kinds, or columns and files that `read_items`
            refuses.

    >>> given = items_from(["a fine text", "another", "a fine text"])
    >>> given.items.ids, given.number
    (('a fine text', 'another'), [0, 1, 0])

    Cost: linear.
    """
    named = Columns(text=text, id=id, group=group)
    if isinstance(values, str | os.PathLike):
        return _items_of_file(Path(values), named, ignore, least)
    if not isinstance(values, Iterable) or isinstance(values, Mapping | bytes):
        raise DataError(f"items: {shown(values)} is no list, data frame, array or file")
    if np.ma.isMaskedArray(values) and not is_frame(values):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    if isinstance(values, tuple) or not is_frame(values):
        values = list(values)
    if is_frame(values):
        return _items_of_frame(values, named, ignore, least)
    if named != Columns() or ignore:
        raise DataError("items: text, id, group and ignore name columns, and a list has none")
    _refuse_few(len(values), least)
    if all(isinstance(value, str) for value in values):
        rows = Rows(_SOURCE, {"text": values}, range(len(values)), "number")
        items = items_of_table(rows, Columns(text="text"))
        items = replace(items, ids=_ids_by_content(values, values))
    elif all(isinstance(value, os.PathLike) for value in values):
        items = _items_of_paths(values)
    else:
        items = _items_of_numbers(values)
    return _without_duplicates(values, items, least)


def _refuse_few(n_items: int, least: int) -> None:
    """Raise a DataError if there are fewer items than the least number that is allowed."""
    if n_items < least:
        raise DataError(f"items: there are {n_items}; sorting needs {least} at least")


def _items_of_file(
    path: Path, named_roles: Columns, ignore: Sequence[str], least: int
) -> GivenItems:
    """Read the items of a table or a folder.

    The values of the items are the rows of the table, the texts and paths in the folder, or the
    features of LETOR text.
    """
    items, roles = read_with_roles(path, named_roles, ignore=ignore, least=least)
    values: list[Any] = []
    if is_table(path):
        values = _rows_of_file(path, roles)
    else:
        contents = zip(items.texts, items.images, items.audio, items.features, strict=True)
        for text, image, audio, features in contents:
            file = image or audio
            text_or_features = features if items.feature_names else text
            values.append(Path(items.root or path, file) if file else text_or_features)
    return GivenItems(items, roles, values, range(len(items)))  # each value is a different item


def _rows_of_file(path: Path, roles: Columns) -> list[dict[str, Any]]:
    """Read the rows of a table as a judge gets them: texts as written, and numbers as numbers."""
    rows = read_rows(path)
    dicts = rows.dicts()
    for name in {*roles.features} - {*roles.dates}:
        numbers, _ = numbers_of(rows.columns[name])
        for row, number in zip(dicts, numbers.tolist(), strict=True):
            if isinstance(row[name], str) and _DURATION not in row[name]:
                row[name] = None if math.isnan(number) else number
    return dicts


def _items_of_frame(
    table: Any, named_roles: Columns, ignore: Sequence[str], least: int
) -> GivenItems:
    """Make an item from each row of a data frame or list of dicts; see `items_from`."""
    frame = as_pandas(table)  # once: the query of a lazy frame may take long
    values = table if isinstance(table, list) else frame.to_dict("records")
    _refuse_few(len(values), least)
    rows = rows_of_frame(frame, "the data frame", kept_as_read(*vars(named_roles).values()))
    for name, cells in rows.columns.items():
        for row, cell in enumerate(cells):
            if isinstance(cell, str):
                checked_text(cell, cell, rows.place(row), f"column {name}")
    roles = choose_columns(rows, named_roles, ignore, None)
    items = items_of_table(rows, roles, is_unique_in_group=True)
    if roles.id is not None:  # the ids are unique, so no row is a duplicate
        return GivenItems(items, roles, values, range(len(items)))
    # Rows of the same group with equal cells are the same item.
    groups = items.groups or (None,) * len(items)
    contents = [repr((group, cells)) for group, cells in zip(groups, rows.dicts(), strict=True)]
    ids = _ids_by_content([text or "" for text in items.texts], contents)
    return _without_duplicates(values, replace(items, ids=ids), least, roles)


def _items_of_paths(values: Sequence[os.PathLike[str]]) -> Items:
    """Make an item from each text, image or sound file, named by its path in the common folder."""
    paths = [Path(value).resolve() for value in values]
    root = Path(os.path.commonpath([path.parent for path in paths]))
    names = [inside(root, str(path), _SOURCE, ITEM_FILES) for path in paths]
    with reading(root):
        return items_of_files(root, names, _SOURCE)


def _items_of_numbers(values: Sequence[Any]) -> Items:
    """Make an item from each row of numbers, which become its features.

    A number in place of a row is a row with a single number.
    """
    matrix = _matrix_of_numbers(values)
    columns = {str(k): column for k, column in enumerate(matrix.T, start=1)}
    items = items_of_table(
        Rows(_SOURCE, columns, range(len(values)), "number"), Columns(features=tuple(columns))
    )
    texts = [", ".join(f"{value:g}" for value in row) for row in matrix]
    contents = [row.tobytes().hex() for row in matrix]
    return replace(items, ids=_ids_by_content(texts, contents))


def _matrix_of_numbers(values: Sequence[Any]) -> F64:
    """Convert n rows of d numbers to a matrix (n, d); n single numbers become (n, 1).

    Raises:
        DataError: if a value is no number, or the rows have different lengths.
    """
    try:
        if any(value is None or isinstance(value, str | bytes) for value in values):
            raise TypeError
        matrix = np.array(values, np.float64)
        if matrix.ndim == 1:
            matrix = matrix[:, None]
        if matrix.ndim != 2:
            raise ValueError
        return matrix
    except (TypeError, ValueError):
        kinds = sorted({type(value).__name__ for value in values})
        raise DataError(
            f"items: they are of the kinds {', '.join(kinds)}: give texts, paths, dicts, or rows "
            "of as many numbers each"
        ) from None


def _ids_by_content(texts: Sequence[str], contents: Sequence[str]) -> tuple[str, ...]:
    """Make the ids of items that have none, so that equal contents get equal ids.

    A short text on one line is its own id. Any other id is the start of the text, if it can be
    printed, and a hash of the content.

    Args:
        texts: (n,) texts of the items; empty for an item without a text.
        contents: (n,) everything in which the items can differ, as texts.

    >>> _ids_by_content(["short", ""], ["short", "a row"])
    ('short', 'adc376f3')
    """
    ids = []
    for text, content in zip(texts, contents, strict=True):
        line = " ".join(text.split())
        if any(unicodedata.category(letter) in _UNPRINTABLE for letter in line):
            line = ""
        # The text is on one line, and there is no more.
        is_all_content = line == text == content
        if is_all_content and 0 < len(line) <= _LONGEST_ID:
            ids.append(line)
            continue
        sha256 = hashlib.sha256(content.encode("utf-8", "surrogatepass"))
        ids.append(f"{line[:_START]} {sha256.hexdigest()[:_DIGITS_OF_HASH]}".strip())
    return tuple(ids)


def _without_duplicates(
    values: Sequence[Any], items: Items, least: int, roles: Columns | None = None
) -> GivenItems:
    """Keep the first item of each id, and record for each value the number of its item.

    Args:
        values: (n,) values of the items, as the caller passed them.
        items: n items; items with the same id are equal.
        least: smallest number of different items that is allowed.
        roles: roles of the columns, if the items came from a table.

    Raises:
        DataError: if there are fewer than `least` different items.
    """
    number_of_id = {id: number for number, id in enumerate(dict.fromkeys(items.ids))}
    if len(number_of_id) < least:
        raise DataError(f"items: all {len(items)} are equal; sorting needs {least} different ones")
    numbers = [number_of_id[id] for id in items.ids]
    _, first_rows = np.unique(numbers, return_index=True)
    return GivenItems(items.take(first_rows.tolist()), roles, values, numbers)
