"""Read items from tables, folders and LETOR text."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sortnet.core import Progress
from sortnet.errors import DataError
from sortnet.files import reading, shown
from sortnet.items.base import MAX_TEXT, Items, check_id, checked_text, inside
from sortnet.items.images import load_image
from sortnet.items.table_documents import items_of_table
from sortnet.tables.read_csv import decoded
from sortnet.tables.read_rows import read_rows
from sortnet.tables.roles import AUDIO, IMAGES, Columns, choose_columns, kept_as_read

LETOR = ".txt"  # ending of a file in the LETOR format
TEXT_FILES = (".txt", ".md")
ITEM_FILES = (*TEXT_FILES, *IMAGES, *AUDIO)


def read_items(
    path: str | os.PathLike[str],
    named: Columns | None = None,
    *,
    ignore: Collection[str] = (),
    features: Sequence[str] | None = None,
) -> Items:
    """Read items from a table, or from a folder of texts, images or sounds.

    A table is CSV, TSV, JSONL or Parquet. The role of a column that `named` does not have is
    recognised by the column's name (`id`, `text`, `title`, ...) or by its values (names of image
    files). Every other column of numbers is a feature. If no column can be an id, items are named
    by row number. Image and sound files must be in the table's folder, and are named by paths
    relative to this folder.

    A column is categorical if it has at least two different short texts, and each text is in three
    items on average. Each of its 50 most frequent texts becomes a feature `column=value`, which is
    1 for the items that have the text and 0 for all other items. Further columns are ignored.

    In a folder, each file is an item, which is named by its path in the folder. A `.txt` file is
    LETOR text: its qids are the groups, its features are the features, and its grades are ignored.

    Args:
        path: a table (`.csv`, `.tsv`, `.jsonl`, `.ndjson`, `.json`, `.parquet`), a folder, or LETOR
            text (`.txt`).
        named: roles of columns; the roles `group`, `context` and `shown` are never guessed.
        ignore: names of columns to leave out.
        features: names of the features: columns of numbers, or `column=value`; None: all columns
            that can be features.

    Raises:
        DataError: naming file, line and value: an id that is missing or not unique, a text of
            more than 1 MB, an image that is missing, broken or outside the folder, a number that
            is infinite, a nested value, fewer than two items.

    Cost: 10,000 rows of text in half a second; every image is decoded once.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "sweets.csv")
    ...     _ = path.write_text("name,sugar\\nOne dime,0.01\\nTwix,0.55\\n")
    ...     items = read_items(path)
    >>> items.ids, items.feature_names, items.features.tolist()
    (('One dime', 'Twix'), ('sugar',), [[0.009999999776482582], [0.550000011920929]])
    """
    items, _ = read_with_roles(path, named, ignore=ignore, features=features)
    return items


def read_with_roles(
    path: str | os.PathLike[str],
    named: Columns | None = None,
    *,
    ignore: Collection[str] = (),
    features: Sequence[str] | None = None,
    like: Items | None = None,
    least: int = 2,
    progress: Progress = lambda text: None,
) -> tuple[Items, Columns]:
    """Read items from a table, folder or LETOR text; also return the roles of the columns.

    Args:
        path: a table, a folder or LETOR text.
        named: roles of columns that the caller knows.
        ignore: names of columns to leave out.
        features: names of the features; None: all columns that can be features.
        like: items of the same collection. Columns that are categorical or shown to annotators in
            this collection get the same roles here. None: the categorical columns are chosen.
        least: smallest number of items that is allowed.
        progress: called with a text about each image that is checked.

    Raises:
        DataError: if `read_items` would raise it, or on fewer than `least` items.
    """
    path = Path(path)
    named = named or Columns()
    is_letor = path.name.lower().removesuffix(".gz").endswith(LETOR)
    names_columns = named != Columns() or bool(ignore) or features is not None
    if names_columns and (path.is_dir() or is_letor):
        kind = "a folder" if path.is_dir() else "LETOR text"
        raise DataError(f"{path}: is {kind}, which has no columns to name")
    if path.is_dir():
        items, roles = _read_folder(path)
    elif is_letor:
        items, roles = _read_letor(path)
    else:
        items, roles = _read_table(path, named, ignore, features, like)
    if len(items) < least:
        n_items = "one" if len(items) else "no"
        raise DataError(f"{path}: has {n_items} item; sorting needs two at least")
    for name, image in zip(items.ids, items.images, strict=True):
        if image is not None and items.root is not None:
            progress(f"looking at {image}")
            place = f"{items.source}, item {shown(name)}: {image}"
            load_image(items.root / image, place, side=1)  # a reduced size shows any damage
    return items, roles


def _read_table(
    path: Path,
    named_roles: Columns,
    ignore: Collection[str],
    features: Sequence[str] | None,
    like: Items | None,
) -> tuple[Items, Columns]:
    """Read the items of a table; return the items and the roles of the columns.

    The arguments are as in `read_with_roles`.
    """
    shown_columns: set[str] = set()  # further columns in which annotators see a text of some item
    feature_names: Sequence[str] | None = None
    if like is not None:
        shown_columns.update(*(texts_of_item or () for texts_of_item in like.shown or ()))
        shown_columns.difference_update(ignore)
        feature_names = like.feature_names
    keep = kept_as_read(*vars(named_roles).values(), *named_roles.shown, *shown_columns)
    rows = read_rows(path, keep=keep)
    if like is not None and not named_roles.shown:  # the user's choice of columns has precedence
        columns = tuple(column for column in rows.columns if column in shown_columns)
        named_roles = replace(named_roles, shown=columns)
    roles = choose_columns(rows, named_roles, ignore, features, feature_names)
    return items_of_table(rows, roles), roles


def _read_letor(path: Path) -> tuple[Items, Columns]:
    """Read the documents of LETOR text as items, grouped by query.

    A document is named by its id, or by its query and row if an id is missing or not unique.

    Returns:
        The items; and the roles that the fields of a line have, as if the text were a table.
    """
    from sortnet.tables.letor import read_letor

    queries = read_letor(path)
    qids = tuple(queries.qids[queries.query_of_docs()].tolist())  # the query of each document
    docids = () if queries.docids is None else tuple(queries.docids.tolist())
    has_ids = len(docids) > 0 and "" not in docids and len({*docids}) == len(docids)
    ids = docids
    if not has_ids:
        ids = tuple(f"{qid}:{row}" for qid, row in zip(qids, queries.rows, strict=True))
    for id, row in zip(ids, queries.rows, strict=True):
        check_id(id, f"{path}, document {row + 1}")
    feature_names = queries.feature_names
    if feature_names is None:
        feature_names = tuple(str(k + 1) for k in range(queries.n_features))
    no_content = (None,) * queries.n_docs  # LETOR text has features only
    items = Items(
        ids,
        texts=no_content,
        images=no_content,
        audio=no_content,
        features=queries.features,
        feature_names=feature_names,
        source=str(path),
        groups=qids,
    )
    id_column = "docid" if has_ids else "qid:row"
    roles = Columns(id=id_column, features=feature_names, ignored=("grade",), group="qid")
    return items, roles


def _read_folder(path: Path) -> tuple[Items, Columns]:
    """Read the text, image and sound files of a folder as items.

    Returns:
        The items; and the roles `text`, `image` and `audio` of the files, as if the folder were a
        table with the column `files`.
    """
    with reading(path):
        root = path.resolve()
        paths = [file.relative_to(root) for file in root.rglob("*") if not file.is_dir()]
        # Files with a hidden folder above them are hidden, too.
        visible = [file for file in paths if not any(part.startswith(".") for part in file.parts)]
        files = sorted(file.as_posix() for file in visible)
        ids = [file for file in files if _has_ending(file, ITEM_FILES)]
        for name in ids:
            check_id(name, f"{path}")
            inside(root, name, str(path), ITEM_FILES)
        items = items_of_files(root, ids, str(path))
    if not ids:
        raise DataError(f"{path}: there is no text, image or sound file in this folder")
    roles = Columns(
        id="files",
        text="files" if any(items.texts) else None,
        image="files" if any(items.images) else None,
        audio="files" if any(items.audio) else None,
        ignored=tuple(name for name in files if not _has_ending(name, ITEM_FILES)),
    )
    return items, roles


def items_of_files(root: Path, names: Sequence[str], source: str) -> Items:
    """Make an item from each text, image or sound file, named by its path relative to `root`."""
    return Items(
        ids=tuple(names),
        texts=tuple(
            _read_text(root / name, name) if _has_ending(name, TEXT_FILES) else None
            for name in names
        ),
        images=tuple(name if _has_ending(name, IMAGES) else None for name in names),
        audio=tuple(name if _has_ending(name, AUDIO) else None for name in names),
        features=np.empty((len(names), 0), np.float32),
        feature_names=(),
        root=root,
        source=source,
    )


def _has_ending(name: str, suffixes: tuple[str, ...]) -> bool:
    """Whether a file name ends with one of the suffixes, in upper or lower case."""
    return name.lower().endswith(suffixes)


def _read_text(path: Path, name: str) -> str | None:
    """Read the text of a file; None if the file is blank.

    `name` is the id of the item in messages.
    """
    size = path.stat().st_size
    if size > MAX_TEXT:
        raise DataError(f"{path}: the text has {size:,} bytes; the limit is {MAX_TEXT:,}")
    text = decoded(path, path.read_bytes())
    return checked_text(text, name, str(path))
