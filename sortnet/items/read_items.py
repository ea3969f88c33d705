"""Files and folders -> Items."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sortnet.core import Progress, Queries
from sortnet.errors import DataError
from sortnet.files import reading, shown
from sortnet.items.base import MAX_TEXT, Items, check_id, checked_text
from sortnet.items.media import inside, load_image
from sortnet.items.table_documents import NameRule, documents_of
from sortnet.tables.roles import AUDIO, IMAGES, Columns, choose_columns, kept_as_read
from sortnet.tables.rows import decoded, read_rows

LETOR = ".txt"
TEXT_FILES = (".txt", ".md")


def read_items(
    path: str | os.PathLike[str],
    named: Columns | None = None,
    *,
    ignore: Collection[str] = (),
    features: Sequence[str] | None = None,
) -> Items:
    """Read items from a table, or from a folder of texts, images or sounds.

    A table is CSV, TSV, JSONL or Parquet. A column not named here is recognised by its name (`id`,
    `text`, `title`, ...) and its values (names of image files); every other column of numbers is
    a feature. A column is categorical if it has two different short texts at least, each in three
    items on average; each of its 50 most frequent texts becomes a feature `column=value`, which is
    1 for the items that have the text and 0 for all other items. Further columns are ignored. If no
    column can be an id, items are named by row number.
    Image and sound files are relative to the table's folder and inside it. In a folder each file
    is an item, named by its path in the folder. A `.txt` file is LETOR text: its features are
    taken as they are, its qid is the group, its grades are ignored.

    Args:
        path: `.csv`, `.tsv`, `.jsonl`, `.ndjson`, `.parquet`, a folder, or LETOR text (`.txt`).
        named: roles of columns; `group`, `context` and `shown` are never guessed.
        ignore: columns to leave out.
        features: columns of numbers, or `column=value`, that are features; None: all such columns.

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
    return read_with_roles(path, named, ignore=ignore, features=features)[0]


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
    """`read_items` with the roles of the columns.

    Args:
        like: items whose categorical and shown columns these have, if any; None: the categorical
            ones are chosen.
        least: the minimum number of items.
    """
    path, named = Path(path), named or Columns()
    if path.is_dir() or path.name.lower().removesuffix(".gz").endswith(LETOR):
        what, read = ("a folder", _folder) if path.is_dir() else ("LETOR text", _letor)
        if named != Columns() or ignore or features is not None:
            raise DataError(f"{path}: is {what}, which has no columns to name")
        items, roles = read(path)
    else:
        beside = {c for row in (like and like.shown) or () for c in row or ()} - {*ignore}
        rows = read_rows(path, keep=kept_as_read(*vars(named).values(), *named.shown, *beside))
        if like is not None and not named.shown:
            named = replace(named, shown=tuple(c for c in rows.columns if c in beside))
        known = None if like is None else like.feature_names
        roles = choose_columns(rows, named, ignore, features, known)
        items = documents_of(rows, roles, NameRule.UNIQUE).items()
    if len(items) < least:
        has = "one" if len(items) else "no"
        raise DataError(f"{path}: has {has} item; sorting needs two at least")
    _check_images(items, progress)
    return items, roles


def _letor(path: Path) -> tuple[Items, Columns]:
    from sortnet.tables.letor import read_letor

    queries = read_letor(path)
    names = tuple(str(k + 1) for k in range(queries.n_features))
    groups = tuple(queries.qids[queries.query_of_docs()].tolist())
    nothing = ((None,) * queries.n_docs,) * 3
    ids = _letor_ids(queries, groups)
    items = Items(ids, *nothing, queries.features, names, source=str(path), groups=groups)
    by = "docid" if queries.docids is not None and ids[0] == queries.docids[0] else "qid:row"
    return items, Columns(by, features=names, ignored=("grade",), group="qid")


def _letor_ids(queries: Queries, groups: tuple[str, ...]) -> tuple[str, ...]:
    """The documents' ids if they are there and unique in the file, else qid:row."""
    ids = () if queries.docids is None else tuple(queries.docids.tolist())
    if "" in ids or len(set(ids)) < queries.n_docs:
        ids = tuple(f"{g}:{row}" for g, row in zip(groups, queries.rows.tolist(), strict=True))
    for id, row in zip(ids, queries.rows.tolist(), strict=True):
        check_id(id, f"{queries.source}, document {row + 1}")
    return ids


def _check_images(items: Items, progress: Progress) -> None:
    for name, image in zip(items.ids, items.images, strict=True):
        if image is not None and items.root is not None:
            progress(f"looking at {image}")
            load_image(items.root / image, f"{items.source}, item {shown(name)}: {image}", side=1)


def _folder(path: Path) -> tuple[Items, Columns]:
    kinds = (*TEXT_FILES, *IMAGES, *AUDIO)
    with reading(path):
        root = path.resolve()
        found = sorted(_files(root))
        ids = [file for file in found if _ends(file, kinds)]
        for name in ids:
            check_id(name, f"{path}")
            inside(root, name, str(path), kinds)
        texts = [_text_file(root / name, name) if _ends(name, TEXT_FILES) else None for name in ids]
    if not ids:
        raise DataError(f"{path}: there is no text, image or sound file in this folder")
    items = Items(
        ids=tuple(ids),
        texts=tuple(texts),
        images=tuple(name if _ends(name, IMAGES) else None for name in ids),
        audio=tuple(name if _ends(name, AUDIO) else None for name in ids),
        features=np.empty((len(ids), 0), np.float32),
        feature_names=(),
        root=root,
        source=str(path),
    )
    text, image, audio = (
        "files" if any(values) else None for values in (items.texts, items.images, items.audio)
    )
    others = tuple(name for name in found if not _ends(name, kinds))
    return items, Columns("files", text, image, audio, ignored=others)


def _files(root: Path) -> Iterable[str]:
    """Every file in a folder and its subfolders, except hidden ones."""
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if not name.startswith("."):
                yield Path(folder, name).relative_to(root).as_posix()


def _ends(name: str, suffixes: tuple[str, ...]) -> bool:
    return name.lower().endswith(suffixes)


def _text_file(path: Path, name: str) -> str | None:
    size = path.stat().st_size
    if size > MAX_TEXT:
        raise DataError(f"{path}: the text has {size:,} bytes; the limit is {MAX_TEXT:,}")
    text = decoded(path, path.read_bytes())
    return checked_text(text, name, str(path))
