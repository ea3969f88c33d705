"""Items of a collection: the content that annotators see, and the features."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from sortnet.core import F32, F64
from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.messages import printable

MAX_TEXT = 1_000_000  # bytes of UTF-8
MAX_ID = 200  # characters
_MOST_CHARACTERS_IN_LINE = 1000  # of a text that describes its item in a line
# The fields of `Items` that have a value for each item, besides the features.
ITEM_FIELDS = ("ids", "texts", "images", "audio", "groups", "contexts", "shown")


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
