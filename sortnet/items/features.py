"""Make features from texts and images: fitted on some items, computed for any items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from sortnet.core import F32, F64, Bool, Progress
from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.items.base import Items
from sortnet.items.images import IMAGE_FEATURES, image_features
from sortnet.items.texts import SURFACE, Meanings, Words, embeddings, surface_features
from sortnet.tables.roles import NAMED

_ROUNDING = 1e-5  # relative difference of values that differ by rounding only
_TEXT = "text: "  # prefix of the names of features that are made of texts
_IMAGE = "image: "  # prefix of the names of features that are made of images
MADE = (_TEXT, _IMAGE)
_MEANING = f"{_TEXT}meaning "  # prefix of the names of features from sentence embeddings
_FOLDER = "files"  # takes the place of a column if the items are the files of a folder


def _silent(text: str) -> None:
    """Report no progress."""


@dataclass(frozen=True, eq=False)
class Describer:
    """Recipe for features that is fitted on some items and gives any items the same features.

    Attributes:
        given: names of features that items must already have.
        made: names of features that are made of texts (`text: ...`) and images (`image: ...`).
        columns: {role: column} of the table that the items came from; empty if the items came from
            no table.
        words: words that are features, and their frequencies; None if no features are made of
            texts.
        meanings: axes of the sentence embeddings; None if there are no embeddings.
    """

    given: tuple[str, ...]
    made: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    words: Words | None = None
    meanings: Meanings | None = None

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of all features, in order."""
        return self.given + self.made

    def readable_names(self) -> tuple[str, ...]:
        """Return the names of the features in a form that people understand."""
        return readable_names(self.feature_names, self.columns)

    def column_of(self, feature: str) -> str | None:
        """Find the column of texts or images that a feature is made of; None if it is given.

        >>> Describer((), ("text: log words",), {"text": "note"}).column_of("text: log words")
        'note'
        """
        role, _, _ = feature.partition(": ")
        return self.columns.get(role, role) if feature in self.made else None

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
        deviations: F64 | None = None,
        progress: Progress = _silent,
    ) -> tuple[Describer, Items]:
        """Fit a describer on items; return the describer, and the items with its features.

        Features that have the same value for all items are not made.

        Args:
            items: the items. Features that were made before are made again.
            made: whether features are made of texts and images. If None, they are made if the items
                have such features already, or no features at all.
            embed: whether features are made of sentence embeddings, too. They are always made if
                the items have such features already.
            columns: {role: column} of the table that the items came from. The roles are those in
                `sortnet.tables.roles.NAMED`; other keys are ignored.
            deviations: (n,) grade of each item less the mean grade of its query, by which words are
                chosen; None: there are no grades.
            progress: called with a text about each slow step.

        Raises:
            DataError: on a broken image, or if sentence embeddings are needed and not installed.

        Cost: .5 s for 1,000 short texts, 10 s for 1,000 photos.
        """
        bare_items = given_only(items)
        describer = cls(bare_items.feature_names, columns=_columns_of_table(columns or {}))
        if made is None:
            made = bare_items is not items or not items.feature_names
        if not made:
            return describer, bare_items
        vectors = None  # sentence embeddings (n, 384)
        texts = bare_items.texts
        if any(texts):
            progress("words of the texts")
            describer = replace(describer, words=Words.fit(texts, deviations))
            if embed or any(name.startswith(_MEANING) for name in items.feature_names):
                vectors = embeddings(texts, progress)
                describer = replace(describer, meanings=Meanings.fit(vectors))
        features = describer._computed(bare_items, progress, vectors)
        varies = _varies(features)
        describer = replace(describer, made=tuple(compress(describer.possible(), varies)))
        if not describer.of_texts:  # no feature of texts varies, so the fits to texts are not used
            describer = replace(describer, words=None, meanings=None)
        return describer, describer._completed(bare_items, features[:, varies])

    def apply(self, items: Items, *, progress: Progress = _silent) -> Items:
        """Return the items with exactly the features of this describer, in its order.

        The features of an item depend on this item only. If an item has no text or no image, the
        features that are made of it are NaN, except words, which are 0.

        Raises:
            DataError: if the items do not have a given feature; on a broken image; if sentence
                embeddings are needed and not installed.

        Cost: .5 s for 1,000 short texts, 10 s for 1,000 photos.
        """
        column_of_name = {name: column for column, name in enumerate(items.feature_names)}
        for name in self.given:
            if name not in column_of_name:
                raise DataError(f"{items.source}: there is no feature {shown(name)}")
        given_features = items.features[:, [column_of_name[name] for name in self.given]]
        bare_items = replace(items, features=given_features, feature_names=self.given)
        if not self.made:
            return bare_items
        described_items = bare_items
        if not self.of_images:
            described_items = replace(bare_items, images=(None,) * len(items))
        features = self._computed(described_items, progress)
        names = self.possible()
        return self._completed(bare_items, features[:, [names.index(name) for name in self.made]])

    def possible(self) -> tuple[str, ...]:
        """Return the names of all features that the describer can make."""
        of_texts: list[str] = []
        if self.words is not None:
            of_texts += (*SURFACE, *self.words.terms)
        if self.meanings is not None:
            of_texts += self.meanings.names()
        return (
            *(f"{_TEXT}{name}" for name in of_texts),
            *(f"{_IMAGE}{name}" for name in IMAGE_FEATURES),
        )

    def _computed(self, items: Items, progress: Progress, vectors: F64 | None = None) -> F32:
        """Compute all features in `possible()`, (n, d); NaN without an image or a text.

        Args:
            items: the items.
            progress: called with a text about each slow step.
            vectors: sentence embeddings (n, 384) of the items, if they are computed already.
        """
        root = items.root or Path()
        blocks = []
        if self.words is not None:
            blocks += [surface_features(items.texts, self.words), self.words(items.texts)]
        if self.meanings is not None:
            if vectors is None:
                vectors = embeddings(items.texts, progress)
            blocks.append(self.meanings(vectors))
        blocks.append(image_features(items.images, root, source=items.source, progress=progress))
        return np.concatenate(blocks, axis=1)

    def _completed(self, bare_items: Items, made_features: F32) -> Items:
        """Append the made features to items that have the given features only."""
        features = np.concatenate([bare_items.features, made_features], axis=1)
        return replace(bare_items, features=features, feature_names=self.feature_names)


def describe(items: Items, *, embed: bool = False, progress: Progress = _silent) -> Items:
    """Add features of the items' texts and images to the features that the items have.

    Texts get the features of `surface_features` and `Words`, and with `embed` also features of
    sentence embeddings. Images get the features of `image_features`. Sounds get no features. A
    feature that is the same for all items is left out. The names of the added features begin with
    `text: ` or `image: `. `Describer` gives other items the same features.

    If an earlier call has added features, they are made again, since the other texts decide which
    words are features.

    Args:
        items: the items.
        embed: whether features are made of sentence embeddings, too.
        progress: called with a text about each slow step.

    Raises:
        DataError: on a broken image, or if `embed` is asked for and not installed.

    Cost: .5 s for 1,000 short texts, 10 s for 1,000 photos.

    >>> import numpy as np
    >>> texts = ("a cat", "a dog and a cat", "Why?")
    >>> nothing = (None,) * 3
    >>> no_features = np.empty((3, 0), np.float32)
    >>> items = Items(("x", "y", "z"), texts, nothing, nothing, no_features, feature_names=())
    >>> describe(items).feature_names[:2]
    ('text: log characters', 'text: log words')
    """
    # Earlier features are removed first: otherwise `fit_apply` would embed texts that were embedded
    # before, even if `embed` is False.
    bare_items = given_only(items)
    _, described_items = Describer.fit_apply(bare_items, made=True, embed=embed, progress=progress)
    return described_items


def readable_names(names: Sequence[str], columns: Mapping[str, Any]) -> tuple[str, ...]:
    """Make names of features for people: with columns for prefixes.

    Two features that would get the same name keep their stored names.

    Args:
        names: names as they are stored.
        columns: {role: column} of the table that the items came from. The roles are those in
            `sortnet.tables.roles.NAMED`; other keys are ignored.

    >>> readable_names(("sugar", "text: rare ship"), {"text": "description"})
    ('sugar', 'description: rare ship')
    """
    column_of_role = _columns_of_table(columns)
    readable = []
    for name in names:
        role, separator, feature = name.partition(": ")
        if role + separator in MADE:
            name = f"{column_of_role.get(role, role)}: {feature}"
        readable.append(name)
    n_features_named = Counter(readable)
    return tuple(
        name if n_features_named[name] == 1 else stored_name
        for name, stored_name in zip(readable, names, strict=True)
    )


def given_only(items: Items) -> Items:
    """Return the items without the features that `describe` made."""
    names = items.feature_names
    columns = [column for column, name in enumerate(names) if not name.startswith(MADE)]
    if len(columns) == len(names):
        return items
    given_names = tuple(names[column] for column in columns)
    return replace(items, features=items.features[:, columns], feature_names=given_names)


def _columns_of_table(columns: Mapping[str, Any]) -> dict[str, str]:
    """Select {role: column} for the roles in `NAMED`; empty if the items came from a folder.

    For the files of a folder, `_FOLDER` takes the place of the names of columns.
    """
    content_columns = [columns.get(role) for role in ("text", "image", "audio")]
    is_folder = columns.get("id") == _FOLDER and _FOLDER in content_columns
    if is_folder:
        return {}
    return {role: str(columns[role]) for role in NAMED if columns.get(role)}


def _varies(features: F32) -> Bool:
    """Tell for each of the d columns whether its values differ by more than rounding.

    Missing values, which are NaN, do not count.
    """
    low = np.fmin.reduce(features, axis=0, initial=np.inf)
    high = np.fmax.reduce(features, axis=0, initial=-np.inf)
    varies: Bool = high - low > _ROUNDING * np.maximum(1, np.abs(high))
    return varies
