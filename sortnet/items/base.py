"""Items of a collection: the content that annotators see, the features, and the groups.

Only items of the same group are compared; `read_pairs` reads pairs to ask from a file.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sortnet.core import F32, F64, I64
from sortnet.errors import DataError
from sortnet.files import one_line, shown
from sortnet.messages import printable
from sortnet.tables.read_rows import read_rows
from sortnet.tables.rows import listed

MAX_TEXT = 1_000_000  # bytes of UTF-8
MAX_ID = 200  # characters
_MOST_CHARACTERS_IN_LINE = 1000  # most characters of a text in a line about its item
# The fields of `Items` that have a value for each item, besides the features.
ITEM_FIELDS = ("ids", "texts", "images", "audio", "groups", "contexts", "shown")
_SIDES = ("left", "right")  # columns of a file of pairs


class ItemContent(NamedTuple):
    """Content of an item that a page, a terminal or a line of JSON may show.

    Attributes:
        id: name of the item.
        text: text of the item; None if it has no text.
        image: image file, relative to the folder of the items; None without an image.
        audio: sound file, relative to the folder of the items; None without a sound.
        shown: {column: text}, the texts in further columns that annotators see.
    """

    id: str
    text: str | None
    image: str | None
    audio: str | None
    shown: dict[str, str]


@dataclass(frozen=True, eq=False)
class Items:
    """Items to be sorted, numbered from 0.

    Attributes:
        ids: (n,) unique names of the items.
        texts: (n,) texts of the items; None for an item without a text.
        images: (n,) image files relative to `root`; None for an item without an image.
        audio: (n,) sound files relative to `root`; None for an item without a sound.
        features: (n, d) features in float32, or in float64 if float32 would round dates; NaN where
            a value is missing. There may be no features, so that d is 0.
        feature_names: (d,) names of the features.
        root: folder of images and sounds; no file outside this folder is ever shown.
        source: file or value that the items came from, for messages.
        groups: (n,) names of the items' groups, such as prompts, scenes, topics or queries. Only
            items of the same group are compared. None: any two items can be compared.
        contexts: (n,) texts of the items' groups, which annotators see with a question; None: the
            groups have no texts.
        shown: (n,) {column: text} for the texts in further columns that annotators see; None for an
            item without such texts. None in place of the tuple: there are no such columns.
    """

    ids: tuple[str, ...]
    texts: tuple[str | None, ...]
    images: tuple[str | None, ...]
    audio: tuple[str | None, ...]
    features: F32 | F64
    feature_names: tuple[str, ...]
    root: Path | None = None
    source: str = "items"
    groups: tuple[str, ...] | None = None
    contexts: tuple[str | None, ...] | None = None
    shown: tuple[Mapping[str, str] | None, ...] | None = None

    def __post_init__(self) -> None:
        """Raise a DataError if there are contexts without groups, or two contexts in a group."""
        if self.contexts is None:
            return
        if self.groups is None:
            raise DataError(f"{self.source}: a context belongs to a group, and there are no groups")
        context_of_group: dict[str, str | None] = {}
        for id, group, context in zip(self.ids, self.groups, self.contexts, strict=True):
            if context != context_of_group.setdefault(group, context):
                raise DataError(
                    f"{self.source}: item {shown(id)} has another context than others of its "
                    f"group {shown(group)}: {shown(context or '')}"
                )

    def __len__(self) -> int:
        return len(self.ids)

    def content(self, k: int) -> ItemContent:
        """Return the content of item k that pages, terminals and programs show."""
        columns = None if self.shown is None else self.shown[k]
        return ItemContent(
            id=self.ids[k],
            text=self.texts[k],
            image=self.images[k],
            audio=self.audio[k],
            shown=dict(columns or {}),
        )

    def context(self, k: int) -> str | None:
        """Return the text of item k's group; None if the group has no text."""
        return None if self.contexts is None else self.contexts[k]

    def take(self, rows: Sequence[int]) -> Items:
        """Select the items with the numbers in `rows`, in the order of `rows`."""

        columns: dict[str, Any] = {}
        for name in ITEM_FIELDS:
            values = getattr(self, name)
            columns[name] = None if values is None else tuple(values[row] for row in rows)
        return replace(self, **columns, features=self.features[list(rows)])


def words_of(items: Items, k: int, *, files: bool = True) -> str:
    """Describe item k in a line: by the start of its text, or by its image or sound.

    Args:
        items: all items.
        k: number of the item.
        files: whether an image or a sound is described by the path of its file; if not, by the word
            `image` or `sound`.
    """
    text = items.texts[k]
    if not text:
        text = file_of(items, k)
        if text and not files:
            text = "image" if items.images[k] else "sound"
    start = text[:_MOST_CHARACTERS_IN_LINE]
    return printable(" ".join(start.split()))


def file_of(items: Items, k: int) -> str:
    """Return the path of item k's image or sound, relative to the root; empty without a file."""
    return items.images[k] or items.audio[k] or ""


def check_id(name: str, place: str, noun: str = "id") -> None:
    """Raise a DataError if an id is empty, too long, or has control characters.

    Args:
        name: the id.
        place: file and line of the id, for the message.
        noun: word for an id in the message, such as `group`.
    """
    if not name:
        raise DataError(f"{place}: the {noun} is missing")
    if len(name) > MAX_ID:
        raise DataError(f"{place}: the {noun} has {len(name)} characters; the limit is {MAX_ID}")
    has_control = not name.isprintable() and any(
        unicodedata.category(letter) in ("Cc", "Cs") for letter in name
    )
    if has_control:
        raise DataError(f"{place}: the {noun} {shown(name)} holds a control character")


def checked_text(text: str, name: str, place: str, noun: str = "text") -> str | None:
    """Return a text, or None if it is blank; refuse a text that a database cannot store.

    Args:
        text: the text.
        name: id of the item that has the text, for the message.
        place: file and line of the text, for the message.
        noun: word for the text in the message, such as `context`.

    Raises:
        DataError: if the text is not Unicode, too long or has a NUL byte.
    """
    try:
        size = len(text.encode())
    except UnicodeEncodeError:  # half of a surrogate pair
        raise DataError(f"{place}: the {noun} of {shown(name)} is not Unicode") from None
    if size > MAX_TEXT:
        raise DataError(
            f"{place}: the {noun} of {shown(name)} has {size:,} bytes; the limit is {MAX_TEXT:,}"
        )
    if "\0" in text:
        raise DataError(f"{place}: the {noun} of {shown(name)} holds a NUL byte")
    return text if text.strip() else None


def inside(root: Path, name: str, place: str, suffixes: tuple[str, ...]) -> str:
    """Check that a file exists in a folder; return its path relative to the folder, with `/`.

    Links are resolved first, so that no link leads out of the folder.

    Args:
        root: the folder, with links resolved.
        name: path of the file, relative to `root` or absolute.
        place: file and line that name the file, with which messages begin.
        suffixes: allowed endings of the name, in lower case.

    Raises:
        DataError: if there is no such file, or the file is outside of `root`.
    """
    try:
        path = (root / name).resolve()
        is_file = path.is_file()
    except (OSError, ValueError, RuntimeError) as error:
        raise DataError(f"{place}: {name[:60]!r} is no file name: {one_line(error)}") from None
    if not path.is_relative_to(root):
        raise DataError(f"{place}: {name!r} lies outside the folder {root}")
    if not is_file:
        raise DataError(f"{place}: there is no file {name!r} in the folder {root}")
    if path.suffix.lower() not in suffixes:
        raise DataError(f"{place}: {name!r} is none of {' '.join(suffixes)}")
    return path.relative_to(root).as_posix()


def lone_groups(items: Items) -> list[str]:
    """List the names of groups with a single item, about which nothing can be asked.

    Raises:
        DataError: if all groups have one item.
    """
    sizes = Counter(items.groups or ())
    lone = [name for name, size in sizes.items() if size == 1]
    if sizes and len(lone) == len(sizes):
        raise DataError(
            f"{items.source}: each group has one item, such as {shown(lone[0])}; sorting needs two "
            "in a group at least"
        )
    return lone


def note_on_lone_groups(lone: Sequence[str]) -> str:
    """Make a note of one line about groups that have a single item.

    >>> note_on_lone_groups(["q1"])
    "1 group has one item, which is compared with nothing: 'q1'"
    """
    subject = "1 group has" if len(lone) == 1 else f"{len(lone)} groups have"
    return f"{subject} one item, which is compared with nothing: {listed(map(shown, lone))}"


def read_pairs(path: Path, items: Items) -> I64:
    """Read pairs of items from a table with two columns of ids.

    The columns are named `left` and `right`, or the table has no other columns.

    Args:
        path: file of the table.
        items: all items.

    Returns:
        (m, 2) the numbers of the items in each of m different pairs, the lower number first.

    Raises:
        DataError: naming file and line, on other columns, an unknown id, an item paired with
            itself, a pair across groups, or a file without pairs.
    """
    rows = read_rows(path)
    columns = _SIDES if {*_SIDES} <= rows.columns.keys() else tuple(rows.columns)
    if len(columns) != 2:
        raise DataError(
            f"{rows.path}: needs the columns left and right, or two only; has {listed(columns)}"
        )
    number_of_id = {id: number for number, id in enumerate(items.ids)}
    pairs = []
    for row, ids in enumerate(zip(*map(rows.texts, columns), strict=True)):
        pair = []
        for id in map(str.strip, ids):
            if id not in number_of_id:
                raise DataError(f"{rows.place(row)}: there is no item {shown(id)}")
            pair.append(number_of_id[id])
        a, b = pair
        fault = "is paired with itself" if a == b else fault_across(items, a, b)
        if fault:
            raise DataError(f"{rows.place(row)}: item {shown(items.ids[a])} {fault}")
        pairs.append(sorted(pair))
    if not pairs:
        raise DataError(f"{path}: there is no pair in it")
    different_pairs: I64 = np.unique(np.array(pairs, np.int64), axis=0)
    return different_pairs


def fault_across(items: Items, a: int, b: int) -> str:
    """Explain why items of different groups cannot be compared; empty if the group is the same."""
    groups = items.groups
    if groups is None or groups[a] == groups[b]:
        return ""
    return (
        f"is of group {shown(groups[a])}, but {shown(items.ids[b])} of {shown(groups[b])}: pairs "
        "are within groups"
    )
