"""Features of texts and images: fitted on some items, applied to any items."""

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

_SAME = 1e-5  # relative difference; smaller differences are rounding
_TEXT = "text: "
_IMAGE = "image: "
MADE = (_TEXT, _IMAGE)  # prefixes of the names of features that are made here
_MEANING = f"{_TEXT}meaning "
_TOPIC = re.compile(r"topic \d+ \((.+)\)")
_FOLDER = "files"  # stands for a column where the items are the files of a folder

Make = Callable[[Items], F32]  # computes features of items, a column for each


def _silent(text: str) -> None:
    """Report no progress."""


@dataclass(frozen=True, eq=False)
class Describer:
    """Maker of features: fitted on some items, it gives any items the same features.

    Attributes:
        given: features that items must already have.
        made: features that are made of texts (`text: ...`) and images (`image: ...`).
        columns: {role: column} of the table that the items came from, as far as known.
        words: frequencies of the words; None without features of texts.
        topics: topics of the texts; None without features of texts.
        meanings: axes of the sentence embeddings; None without embeddings.
    """

    given: tuple[str, ...]
    made: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    words: WordCounts | None = None
    topics: Topics | None = None
    meanings: Meanings | None = None

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of all features, in order."""
        return self.given + self.made

    def readable_names(self) -> tuple[str, ...]:
        """Names of the features for people, see `readable_names`."""
        return readable_names(self.feature_names, self.columns)

    @property
    def of_texts(self) -> bool:
        """Whether features are computed from texts, so that all items need texts."""
        return any(name.startswith(_TEXT) for name in self.made)

    @property
    def of_images(self) -> bool:
        """Whether features are computed from images, so that all items need images."""
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
        """Fit a describer on items, and apply it to them.

        Args:
            made: whether features are made of texts and images; None: they are made if the items
                have such features, or no features at all.
            embed: whether sentence embeddings are made, too; they always are if the items have
                them.
            columns: {role: column} of the table that the items came from; see `NAMED`.

        Raises:
            DataError: see `describe`.

        Cost: as `describe`.
        """
        bare_items = given_only(items)
        describer = cls(bare_items.feature_names, columns=_columns_of_table(columns or {}))
        if made is None:
            has_made = bare_items.feature_names != items.feature_names
            made = has_made or not items.feature_names
        if not made:
            return describer, bare_items
        vectors = None
        if any(bare_items.texts):
            progress("terms of the texts")
            topics = Topics.fit(bare_items.texts)
            describer = replace(describer, words=WordCounts.of(bare_items.texts), topics=topics)
            if embed or any(name.startswith(_MEANING) for name in items.feature_names):
                vectors = embeddings(bare_items.texts, progress)
                describer = replace(describer, meanings=Meanings.fit(vectors))
        parts = describer._parts(any(bare_items.images), progress, vectors)
        names, features = _joined(parts, bare_items)
        varies = _varies(features)
        describer = replace(describer, made=tuple(np.asarray(names, object)[varies]))
        if not describer.of_texts:
            describer = replace(describer, words=None, topics=None, meanings=None)
        return describer, _with_features(bare_items, features[:, varies], describer.made)

    def apply(self, items: Items, *, progress: Progress = _silent) -> Items:
        """The items with the features of this describer only, in its order.

        The features of an item depend on this item only. A made feature is missing (topics are 0)
        where the item has no text or no image.

        Raises:
            DataError: if a given feature is missing; on an image that is broken; if sentence
                embeddings are needed and not installed.

        Cost: as `describe`.
        """
        column_of = {name: column for column, name in enumerate(items.feature_names)}
        for name in self.given:
            if name not in column_of:
                raise DataError(f"{items.source}: there is no feature {shown(name)}")
        given_features = items.features[:, [column_of[name] for name in self.given]]
        bare_items = replace(items, features=given_features, feature_names=self.given)
        if not self.made:
            return bare_items
        names, features = _joined(self._parts(self.of_images, progress), bare_items)
        made_features = features[:, [names.index(name) for name in self.made]]
        return _with_features(bare_items, made_features, self.made)

    def possible(self) -> tuple[str, ...]:
        """Names of all features that the describer can make."""
        return tuple(name for names, _ in self._parts(images=True) for name in names)

    def _parts(
        self, images: bool, progress: Progress = _silent, vectors: F64 | None = None
    ) -> Iterator[tuple[tuple[str, ...], Make]]:
        """Names of features together with the function that makes these features.

        Args:
            images: whether features are made of images.
            vectors: embeddings of the texts, if they are known already.
        """
        words = self.words
        topics = self.topics
        meanings = self.meanings
        if words is not None and topics is not None:
            yield _prefixed(_TEXT, SURFACE), lambda items: surface_features(items.texts, words)
            yield _prefixed(_TEXT, topics.names()), lambda items: topics(items.texts)
        if meanings is not None:

            def make_meanings(items: Items) -> F32:
                if vectors is not None:
                    return meanings(vectors)
                return meanings(embeddings(items.texts, progress))

            yield _prefixed(_TEXT, meanings.names()), make_meanings
        if images:

            def make_image_features(items: Items) -> F32:
                root = items.root or Path()
                return image_features(items.images, root, source=items.source, progress=progress)

            yield _prefixed(_IMAGE, IMAGE_FEATURES), make_image_features


def describe(items: Items, *, embed: bool = False, progress: Progress = _silent) -> Items:
    """Add features of the items' texts and images to the features that the items have.

    Texts get `surface_features` and `Topics`, and sentence embeddings with `embed`; images get
    `image_features`. Sounds get no features: their scores are learned item by item. Constant
    columns are left out. `Describer` gives other items the same features.

    Raises:
        DataError: on an image that is broken; if `embed` is asked for and not installed.

    A second call recomputes the made features (named `text: ...` and `image: ...`): the topics of a
    text depend on the other texts.

    Cost: 1.5 s for 1,000 short texts, 10 s for 1,000 photos.

    >>> import numpy as np
    >>> texts = ("a cat", "a dog and a cat", "Why?")
    >>> none = np.empty((3, 0), np.float32)
    >>> items = Items(("x", "y", "z"), texts, (None,) * 3, (None,) * 3, none, ())
    >>> describe(items).feature_names[:2]
    ('text: log characters', 'text: log words')
    """
    _, described = Describer.fit_apply(given_only(items), made=True, embed=embed, progress=progress)
    return described


def readable_names(names: Sequence[str], columns: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of features for people: columns in place of prefixes, words in place of topics.

    Two features that would have the same name keep their stored names.

    Args:
        names: names as they are stored.
        columns: {role: column} of the table that the items came from; see `NAMED`.

    >>> readable_names(("sugar", "text: topic 1 (ship, rare)"), {"text": "description"})
    ('sugar', 'description: ship, rare')
    """
    column_of_role = _columns_of_table(columns)
    readable = []
    for name in names:
        role, separator, feature = name.partition(": ")
        if role + separator in MADE:
            topic = _TOPIC.fullmatch(feature)
            words = feature if topic is None else topic[1]
            name = f"{column_of_role.get(role, role)}: {words}"
        readable.append(name)
    n_features_named = Counter(readable)
    return tuple(
        name if n_features_named[name] == 1 else stored_name
        for name, stored_name in zip(readable, names, strict=True)
    )


def given_only(items: Items) -> Items:
    """The items without the features that `describe` made."""
    names = items.feature_names
    columns = [column for column, name in enumerate(names) if not name.startswith(MADE)]
    given_names = tuple(names[column] for column in columns)
    return replace(items, features=items.features[:, columns], feature_names=given_names)


def _columns_of_table(columns: Mapping[str, Any]) -> dict[str, str]:
    """{role: column} of the roles that columns of a table have; empty for items of a folder."""
    contents = [columns.get(role) for role in ("text", "image", "audio")]
    if columns.get("id") == _FOLDER and _FOLDER in contents:
        return {}
    return {role: str(columns[role]) for role in NAMED if columns.get(role)}


def _prefixed(prefix: str, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(prefix + name for name in names)


def _joined(
    parts: Iterator[tuple[tuple[str, ...], Make]], items: Items
) -> tuple[tuple[str, ...], F32]:
    """The names and the columns of the features of all parts."""
    names: tuple[str, ...] = ()
    blocks = [np.empty((len(items), 0), np.float32)]
    for part_names, make in parts:
        names += part_names
        blocks.append(make(items))
    return names, np.concatenate(blocks, axis=1)


def _with_features(items: Items, made: F32, names: tuple[str, ...]) -> Items:
    """The items with further features."""
    features = np.concatenate([items.features, made], axis=1)
    return replace(items, features=features, feature_names=items.feature_names + names)


def _varies(features: F32) -> Bool:
    """Whether each column has different values, without its missing values."""
    is_present = ~np.isnan(features)
    low = np.where(is_present, features, np.inf).min(axis=0, initial=np.inf)
    high = np.where(is_present, features, -np.inf).max(axis=0, initial=-np.inf)
    varies: Bool = high - low > _SAME * np.maximum(1, np.abs(high))
    return varies
