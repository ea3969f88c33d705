"""Features for items that come without any: fitted on some items, applied to any."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sortnet.core import F32, F64, Bool, Progress
from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.items.base import Items
from sortnet.items.images import IMAGE_FEATURES, image_features
from sortnet.items.texts import SURFACE, Meanings, Topics, WordCounts, embeddings, surface_features
from sortnet.tables.roles import NAMED

_SAME = 1e-5  # relative; smaller differences are rounding
_TEXT, _IMAGE = MADE = ("text: ", "image: ")  # prefixes of the names of made features
_MEANING = f"{_TEXT}meaning "
_TOPIC = re.compile(r"topic \d+ \((.+)\)")
_FOLDER = "files"  # stands for a column where the items are the files of a folder

Make = Callable[[Items], F32]


def _silent(text: str) -> None:
    """Report no progress."""


@dataclass(frozen=True, eq=False)
class Describer:
    """What describes items: fitted on some, it gives any others the same features.

    Attributes:
        given: the features that items must have.
        made: the features it makes of texts (`text: ...`) and images (`image: ...`).
        columns: {role: column} of the table that the items came from, as far as known.
        words: how rare words are, where there are texts.
        topics: likewise.
        meanings: where sentence embeddings were asked for.
    """

    given: tuple[str, ...]
    made: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    words: WordCounts | None = None
    topics: Topics | None = None
    meanings: Meanings | None = None

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.given + self.made

    def readable_names(self) -> tuple[str, ...]:
        """The features' names for people, see `readable_names`."""
        return readable_names(self.feature_names, self.columns)

    @property
    def of_texts(self) -> bool:
        """Whether items need texts."""
        return any(name.startswith(_TEXT) for name in self.made)

    @property
    def of_images(self) -> bool:
        """Whether items need images."""
        return any(name.startswith(_IMAGE) for name in self.made)

    @classmethod
    def fit_apply(
        cls,
        items: Items,
        *,
        made: bool | None = None,
        embed: bool = False,
        columns: Mapping[str, Any] | None = None,
        progress: Progress = _silent,
    ) -> tuple[Describer, Items]:
        """Fit what describes items, and apply it to them.

        Args:
            made: whether features are made of texts and images; None: if the items have such
                features, or none at all.
            embed: whether sentence embeddings are among them; they are if the items have them.
            columns: {role: column} of the table that the items came from; see `NAMED`.

        Raises:
            DataError: see `describe`.

        Cost: as `describe`.
        """
        given = given_only(items)
        fitted = cls(given.feature_names, columns=_real(columns or {}))
        if made is None:
            made = not items.feature_names or given.feature_names != items.feature_names
        if not made:
            return fitted, given
        vectors = None
        if any(given.texts):
            progress("terms of the texts")
            topics = Topics.fit(given.texts)
            fitted = replace(fitted, words=WordCounts.of(given.texts), topics=topics)
            if embed or any(name.startswith(_MEANING) for name in items.feature_names):
                vectors = embeddings(given.texts, progress)
                fitted = replace(fitted, meanings=Meanings.fit(vectors))
        names, features = _joined(fitted._parts(any(given.images), progress, vectors), given)
        kept = _varies(features)
        fitted = replace(fitted, made=tuple(np.asarray(names, object)[kept]))
        if not fitted.of_texts:
            fitted = replace(fitted, words=None, topics=None, meanings=None)
        return fitted, _with(given, features[:, kept], fitted.made)

    def apply(self, items: Items, *, progress: Progress = _silent) -> Items:
        """The items with these features, and no others, in this order.

        The row of an item depends on that item only. A made feature is missing (topics are 0)
        where the item has no text or no image.

        Raises:
            DataError: if a given feature is missing; on an image that is broken; if sentence
                embeddings are needed and not installed.

        Cost: as `describe`.
        """
        where = {name: k for k, name in enumerate(items.feature_names)}
        for name in self.given:
            if name not in where:
                raise DataError(f"{items.source}: there is no feature {shown(name)}")
        kept = items.features[:, [where[name] for name in self.given]]
        given = replace(items, features=kept, feature_names=self.given)
        if not self.made:
            return given
        names, features = _joined(self._parts(self.of_images, progress), given)
        return _with(given, features[:, [names.index(name) for name in self.made]], self.made)

    def possible(self) -> tuple[str, ...]:
        """The names of all features that it can make."""
        return tuple(name for names, _ in self._parts(images=True) for name in names)

    def _parts(
        self, images: bool, progress: Progress = _silent, vectors: F64 | None = None
    ) -> Iterator[tuple[tuple[str, ...], Make]]:
        """Names of features, and what makes them; `vectors` are embeddings of the texts."""
        if self.words is not None and self.topics is not None:
            words, topics = self.words, self.topics
            yield _called(_TEXT, SURFACE), lambda items: surface_features(items.texts, words)
            yield _called(_TEXT, topics.names()), lambda items: topics(items.texts)
        if self.meanings is not None:
            meanings = self.meanings

            def embedded(items: Items) -> F32:
                return meanings(embeddings(items.texts, progress) if vectors is None else vectors)

            yield _called(_TEXT, meanings.names()), embedded
        if images:
            yield (
                _called(_IMAGE, IMAGE_FEATURES),
                lambda items: image_features(
                    items.images, items.root or Path(), source=items.source, progress=progress
                ),
            )


def describe(items: Items, *, embed: bool = False, progress: Progress = _silent) -> Items:
    """Add features of the items' texts and images to those they have.

    Texts get `surface_features` and `Topics`, and sentence embeddings where `embed` asks for
    them; images get `image_features`. Sounds get none: their scores are learned item by item.
    Columns that are constant are left out. `Describer` gives other items the same features.

    Raises:
        DataError: on an image that is broken; if `embed` is asked for and not installed.

    Called again, it recomputes the made features (named `text: ...` and `image: ...`): the topics
    of a text depend on the other texts.

    Cost: 1.5 s for 1,000 short texts, 10 s for 1,000 photos.

    >>> import numpy as np
    >>> texts = ("a cat", "a dog and a cat", "Why?")
    >>> none = np.empty((3, 0), np.float32)
    >>> items = Items(("x", "y", "z"), texts, (None,) * 3, (None,) * 3, none, ())
    >>> describe(items).feature_names[:2]
    ('text: log characters', 'text: log words')
    """
    given = given_only(items)
    return Describer.fit_apply(given, made=True, embed=embed, progress=progress)[1]


def readable_names(names: Sequence[str], columns: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of features for people: computed ones are named by their column, topics by their words.

    Where two would have one name, both keep the one under which they are stored.

    Args:
        names: as they are stored.
        columns: {role: column} of the table that the items came from; see `NAMED`.

    >>> readable_names(("sugar", "text: topic 1 (ship, rare)"), {"text": "description"})
    ('sugar', 'description: ship, rare')
    """
    column_of_role = _real(columns)
    readable = []
    for name in names:
        role, separator, feature = name.partition(": ")
        if role + separator in MADE:
            topic = _TOPIC.fullmatch(feature)
            words = feature if topic is None else topic[1]
            name = f"{column_of_role.get(role, role)}: {words}"
        readable.append(name)
    times = Counter(readable)
    return tuple(
        name if times[name] == 1 else stored for name, stored in zip(readable, names, strict=True)
    )


def given_only(items: Items) -> Items:
    """The items without the features that `describe` made."""
    kept = [k for k, name in enumerate(items.feature_names) if not name.startswith(MADE)]
    names = tuple(items.feature_names[k] for k in kept)
    return replace(items, features=items.features[:, kept], feature_names=names)


def _real(columns: Mapping[str, Any]) -> dict[str, str]:
    """The columns of items' roles that are there: a folder has none."""
    if columns.get("id") == _FOLDER and _FOLDER in map(columns.get, ("text", "image", "audio")):
        return {}
    return {role: str(columns[role]) for role in NAMED if columns.get(role)}


def _called(kind: str, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(kind + name for name in names)


def _joined(
    parts: Iterator[tuple[tuple[str, ...], Make]], items: Items
) -> tuple[tuple[str, ...], F32]:
    """The names and columns of all parts."""
    names: tuple[str, ...] = ()
    blocks = [np.empty((len(items), 0), np.float32)]
    for called, make in parts:
        names += called
        blocks.append(make(items))
    return names, np.concatenate(blocks, axis=1)


def _with(items: Items, made: F32, names: tuple[str, ...]) -> Items:
    features = np.concatenate([items.features, made], axis=1)
    return replace(items, features=features, feature_names=items.feature_names + names)


def _varies(features: F32) -> Bool:
    """Which columns vary among the values present."""
    there = ~np.isnan(features)
    low = np.where(there, features, np.inf).min(axis=0, initial=np.inf)
    high = np.where(there, features, -np.inf).max(axis=0, initial=-np.inf)
    varies: Bool = high - low > _SAME * np.maximum(1, np.abs(high))
    return varies
