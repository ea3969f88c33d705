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
from sortnet.core.float32 import refuse_lost
from sortnet.errors import DataError
from sortnet.files import is_table, reading, shown
from sortnet.items.base import Items, checked_text
from sortnet.items.read_items import TEXT_FILES, items_of_files, read_with_roles
from sortnet.items.table_documents import NameRule, documents_of
from sortnet.tables.read_rows import as_pandas, is_frame, read_rows, rows_of_frame
from sortnet.tables.roles import AUDIO, IMAGES, Columns, choose_columns, kept_as_read
from sortnet.tables.values import numbers_of

_SOURCE = "items"
_LONGEST_ID = 60  # characters: a text up to this length is itself the id of its item
_START = 40  # characters of a longer text with which the id of its item begins
_DIGITS_OF_HASH = 8  # hexadecimal digits of a content's hash in an id
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
    is_path = isinstance(values, str | os.PathLike)
    if is_path:
        return _read_file(Path(values), named, ignore, least)
    is_list = isinstance(values, list | tuple)  # a function gets dicts as they are
    if is_frame(values) and not is_list:
        return _items_from_frame(values, named, ignore, least)
    return _items_from_list(_as_list(values), named, ignore, least)


def _items_from_list(
    values: list[Any], named: Columns, ignore: Sequence[str], least: int
) -> GivenItems:
    """Make items from a list of dicts, texts, paths or rows of numbers.

    Args:
        values: the list; all its values must be of the same kind.
        named: roles of columns that the caller named, which only dicts have.
        ignore: names of columns that are left out, which only dicts have.
        least: smallest number of items that is allowed.

    Raises:
        DataError: on fewer items, values of several kinds, or names of columns that a list lacks.
    """
    if len(values) < least:
        raise DataError(f"items: there are {len(values)}; sorting needs {least} at least")
    if values and all(isinstance(value, Mapping) for value in values):
        return _items_from_dicts(values, named, ignore, least)
    if named != Columns() or ignore:
        raise DataError("items: text, id, group and ignore name columns, and a list has none")
    if all(isinstance(value, str) for value in values):
        items = _items_from_texts(values)
    elif all(isinstance(value, os.PathLike) for value in values):
        items = _items_from_paths([Path(value) for value in values])
    else:
        items = _items_from_numbers(values)
    return _without_duplicates(values, items, least)


def _as_list(values: Any) -> list[Any]:
    """Return the values as a list.

    Raises:
        DataError: if `values` is a single value, such as a number, a dict or bytes.
    """
    if not isinstance(values, Iterable) or isinstance(values, Mapping | bytes):
        raise DataError(f"items: {shown(values)} is no list, data frame, array or file")
    return list(values)


def _read_file(path: Path, named: Columns, ignore: Sequence[str], least: int) -> GivenItems:
    """Read the items of a table or a folder.

    The values of the items are the rows of the table, or the texts and paths in the folder.
    """
    items, roles = read_with_roles(path, named, ignore=ignore, least=least)
    values: list[Any] = []
    if is_table(path):
        values = _rows_of_file(path, roles)
    else:
        for text, image, audio in zip(items.texts, items.images, items.audio, strict=True):
            file = image or audio
            values.append(Path(items.root or path, file) if file else text)
    return GivenItems(items, roles, values, range(len(items)))  # each value is a different item


def _rows_of_file(path: Path, roles: Columns) -> list[dict[str, Any]]:
    """Read the rows of a table as a judge gets them: texts as written, and numbers as numbers."""
    rows = read_rows(path)
    dicts = rows.dicts()
    for name in roles.features:
        if name in roles.dates:
            continue
        numbers, _ = numbers_of(rows.columns[name])
        for row, number in zip(dicts, numbers.tolist(), strict=True):
            if isinstance(row[name], str):
                row[name] = None if math.isnan(number) else number
    return dicts


def _items_from_dicts(
    values: Sequence[Mapping[str, Any]], named: Columns, ignore: Sequence[str], least: int
) -> GivenItems:
    """Make an item from each dict, a row of a table; the arguments are as in `items_from`."""
    import pandas as pd

    for number, row in enumerate(values):
        _check_unicode(row, f"{_SOURCE}, number {number}")
    return _items_from_frame(pd.DataFrame(values), named, ignore, least, values)


def _items_from_frame(
    frame: Any,
    named: Columns,
    ignore: Sequence[str],
    least: int,
    dicts: Sequence[Mapping[str, Any]] | None = None,
) -> GivenItems:
    """Make an item from each row of a data frame.

    Args:
        frame: the data frame.
        named: roles of columns that the caller named.
        ignore: names of columns that are left out.
        least: smallest number of items that is allowed.
        dicts: (n,) values of the items, if the caller made the frame from dicts; None: the values
            are the rows.
    """
    keep = kept_as_read(*vars(named).values())
    frame = as_pandas(frame)  # once: the query of a lazy frame may take long
    rows = rows_of_frame(frame, "the data frame", keep)
    if len(rows) < least:
        raise DataError(f"items: there are {len(rows)}; sorting needs {least} at least")
    roles = choose_columns(rows, named, ignore, None)
    documents = documents_of(rows, roles, NameRule.UNIQUE_IN_GROUP)
    items = documents.items()
    dicts_of_rows = rows.dicts()
    values = frame.to_dict("records") if dicts is None else dicts
    if documents.ids is not None:  # the ids are unique, so no row is a duplicate
        return GivenItems(items, roles, values, range(len(items)))
    # Rows of the same group with equal cells are the same item.
    groups: Sequence[str | None] = documents.groups or [None] * len(items)
    contents = [repr((group, cells)) for group, cells in zip(groups, dicts_of_rows, strict=True)]
    texts = [text or "" for text in items.texts]
    named_items = replace(items, ids=_ids_by_content(texts, contents))
    return _without_duplicates(values, named_items, least, roles)


def _check_unicode(row: Mapping[str, Any], place: str) -> None:
    """Raise a DataError if a row, {column: cell}, has a text that a database cannot store."""
    for name, cell in row.items():
        if isinstance(cell, str):
            checked_text(cell, cell, place, f"column {name}")


def _items_from_texts(values: Sequence[str]) -> Items:
    """Make an item from each text."""
    ids = _ids_by_content(values, values)
    texts = tuple(
        checked_text(value, id, f"{_SOURCE}, number {number}")
        for number, (value, id) in enumerate(zip(values, ids, strict=True))
    )
    no_files = (None,) * len(ids)
    no_features = np.empty((len(ids), 0), np.float32)
    return Items(ids, texts, no_files, no_files, no_features, (), source=_SOURCE)


def _items_from_paths(paths: Sequence[Path]) -> Items:
    """Make an item from each text, image or sound file, named by its path in the common folder."""
    for path in paths:
        if path.suffix.lower() not in (*IMAGES, *AUDIO, *TEXT_FILES):
            raise DataError(f"items: {path} is neither a text (.txt, .md) nor an image nor a sound")
        if not path.is_file():
            raise DataError(f"items: {path}: no such file")
    root = Path(os.path.commonpath([path.resolve().parent for path in paths]))
    names = [path.resolve().relative_to(root).as_posix() for path in paths]
    with reading(root):
        return items_of_files(root, names, _SOURCE)


def _items_from_numbers(values: Sequence[Any]) -> Items:
    """Make an item from each row of numbers, which become its features.

    A number in place of a row is a row with a single number.
    """
    matrix = _matrix_of_numbers(values)
    names = tuple(str(k + 1) for k in range(matrix.shape[1]))
    all_in_one_group = np.zeros(len(matrix), np.int64)
    refuse_lost(matrix, all_in_one_group, names, _SOURCE)
    texts = [", ".join(f"{value:g}" for value in row) for row in matrix]
    contents = [row.tobytes().hex() for row in matrix]
    ids = _ids_by_content(texts, contents)
    no_content = (None,) * len(ids)
    features = matrix.astype(np.float32)
    return Items(ids, no_content, no_content, no_content, features, names, source=_SOURCE)


def _matrix_of_numbers(values: Sequence[Any]) -> F64:
    """Convert n rows of d numbers to a matrix (n, d); n single numbers become (n, 1).

    Raises:
        DataError: if a value is no number, or the rows have different lengths.
    """
    try:
        if any(value is None or isinstance(value, str | bytes) for value in values):
            raise TypeError
        matrix = np.array(values, np.float64)
    except (TypeError, ValueError):
        kinds = sorted({type(value).__name__ for value in values})
        raise DataError(
            f"items: they are of the kinds {', '.join(kinds)}: give texts, paths, dicts, or rows "
            "of as many numbers each"
        ) from None
    if matrix.ndim == 1:
        matrix = matrix[:, None]
    if matrix.ndim != 2:
        raise DataError(f"items: an array of {matrix.ndim} dimensions; rows of numbers have two")
    return matrix


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
        is_printable = not any(unicodedata.category(letter) in _UNPRINTABLE for letter in line)
        is_short = 0 < len(line) <= _LONGEST_ID
        is_all_content = line == text == content  # the text is on one line, and there is no more
        if is_short and is_all_content and is_printable:
            ids.append(line)
            continue
        sha256 = hashlib.sha256(content.encode("utf-8", "surrogatepass"))
        digest = sha256.hexdigest()[:_DIGITS_OF_HASH]
        if is_printable:
            ids.append(f"{line[:_START]} {digest}".strip())  # only the digest if there is no text
        else:
            ids.append(digest)
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
    number_of_id: dict[str, int] = {}
    first_rows = []
    numbers = []
    for row, id in enumerate(items.ids):
        if id not in number_of_id:
            number_of_id[id] = len(number_of_id)
            first_rows.append(row)
        numbers.append(number_of_id[id])
    if len(first_rows) < least:
        raise DataError(f"items: all {len(items)} are equal; sorting needs {least} different ones")
    return GivenItems(items.take(first_rows), roles, values, numbers)
