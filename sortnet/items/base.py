"""Items of a collection: what annotators see, and the features."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from sortnet.core import F32
from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.messages import printable

MAX_TEXT = 1_000_000  # bytes of UTF-8
MAX_ID = 200  # characters


T = TypeVar("T")


class ItemContent(NamedTuple):
    """What can be shown of an item, by a page, a terminal, or a line of JSON.

    Attributes:
        id: its name.
        text: its text, or None.
        image, audio: its files relative to the root of the items, or None.
        shown: {column: text} of its further columns.
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
        ids: (n,) their names, unique.
        texts: (n,) texts, or None.
        images: (n,) image files relative to `root`, or None.
        audio: (n,) sound files relative to `root`, or None.
        features: (n, d) float32, d may be 0; NaN where a value is missing.
        feature_names: (d,) names.
        root: the folder of images and sounds; nothing outside it is ever shown.
        source: where the items came from, for messages.
        groups: (n,) the name of each item's group (prompt, scene, topic, query): only items of one
            group are compared; None if all are.
        contexts: (n,) the group's own text, the same in the whole group; None if there are none.
        shown: (n,) {column: text} of further columns that annotators see, None for an item without;
            None if there are no such columns.
    """

    ids: tuple[str, ...]
    texts: tuple[str | None, ...]
    images: tuple[str | None, ...]
    audio: tuple[str | None, ...]
    features: F32
    feature_names: tuple[str, ...]
    root: Path | None = None
    source: str = "items"
    groups: tuple[str, ...] | None = None
    contexts: tuple[str | None, ...] | None = None
    shown: tuple[Mapping[str, str] | None, ...] | None = None

    def __post_init__(self) -> None:
        if self.contexts is not None:
            if self.groups is None:
                raise DataError(f"{self.source}: a context is that of a group, and there are none")
            if (row := other_context(self.groups, self.contexts)) is not None:
                what = f"item {self.ids[row][:60]!r} has another context than others of its group"
                raise DataError(f"{self.source}: {what}")

    def __len__(self) -> int:
        return len(self.ids)

    def content(self, k: int) -> ItemContent:
        """What can be shown of item k, which each face of a question takes from here."""
        columns = None if self.shown is None else self.shown[k]
        return ItemContent(
            self.ids[k], self.texts[k], self.images[k], self.audio[k], dict(columns or {})
        )

    def context(self, k: int) -> str | None:
        """The context of the group of item k, if it has one."""
        return None if self.contexts is None else self.contexts[k]

    def take(self, rows: Sequence[int]) -> Items:
        """Some of the items, in the order of their numbers in `rows`."""

        def some(column: Sequence[T] | None) -> tuple[T, ...] | None:
            return None if column is None else tuple(column[row] for row in rows)

        columns = ("ids", "texts", "images", "audio", "groups", "contexts", "shown")
        values: dict[str, Any] = {name: some(getattr(self, name)) for name in columns}
        return replace(self, features=self.features[list(rows)], **values)


def other_context(groups: Sequence[str], contexts: Sequence[str | None]) -> int | None:
    """The first item whose context is not that of the items before it in its group.

    >>> other_context("aabb", ("x", "x", "y", None))
    3
    """
    first: dict[str, str | None] = {}
    for row, (group, context) in enumerate(zip(groups, contexts, strict=True)):
        if first.setdefault(group, context) != context:
            return row
    return None


def words_of(items: Items, k: int, *, files: bool = True) -> str:
    """The start of an item's text, or the path of its image or sound, or which of them it is."""
    kind = "image" if items.images[k] else "sound" if items.audio[k] else ""
    what = items.texts[k] or (file_of(items, k) if files else kind)
    return printable(" ".join(what[:1000].split()))


def file_of(items: Items, k: int) -> str:
    """The path of an item's image or sound, relative to the root; empty if it has none."""
    return items.images[k] or items.audio[k] or ""


def check_id(name: str, place: str, what: str = "id") -> None:
    """Refuse an id that is empty, too long, or holds control characters."""
    if not name:
        raise DataError(f"{place}: the {what} is missing")
    if len(name) > MAX_ID:
        raise DataError(f"{place}: the {what} has {len(name)} characters; the limit is {MAX_ID}")
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in name):
        raise DataError(f"{place}: the {what} {shown(name)} holds a control character")


def checked_text(text: str, name: str, place: str, what: str = "text") -> str | None:
    """Refuse a text that a page or a database cannot hold."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise DataError(f"{place}: the {what} of {shown(name)} is not Unicode") from None
    if size > MAX_TEXT:
        has = f"the {what} of {shown(name)} has {size:,} bytes"
        raise DataError(f"{place}: {has}; the limit is {MAX_TEXT:,}")
    if "\0" in text:
        raise DataError(f"{place}: the {what} of {shown(name)} holds a NUL byte")
    return text if text.strip() else None
