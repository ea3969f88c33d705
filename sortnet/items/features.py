"""Make features from texts and images: fitted on some items, computed for any items.

A model folder stores the JSON and arrays that `to_json` and `arrays_of` make of a `Describer`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sortnet.core import F32, F64, Bool, Progress
from sortnet.errors import DataError, ModelError
from sortnet.files import check_fields, shown
from sortnet.items.base import Items
from sortnet.items.images import IMAGE_FEATURES, image_features
from sortnet.items.texts import MOST_TERMS, SURFACE, Meanings, Words, embeddings, surface_features
from sortnet.tables.roles import NAMED

_ROUNDING = 1e-5  # relative difference of values that differ by rounding only
_TEXT = "text: "  # prefix of the names of features that are made of texts
_IMAGE = "image: "  # prefix of the names of features that are made of images
MADE = (_TEXT, _IMAGE)
_MEANING = f"{_TEXT}meaning "  # prefix of the names of features from sentence embeddings
_FOLDER = "files"  # takes the place of a column if the items are the files of a folder
Array = NDArray[Any]
Arrays = dict[str, Array]
_Kind = tuple[Any, int, float, float]

# The fields of the JSON document, with their types. See `Describer` for the first three fields.
_FIELDS: dict[str, Any] = {
    "columns": dict,
    "given": list[str],
    "made": list[str],
    "texts": int | None,  # number of texts that were counted; None if no features are of texts
    "embedded": bool,  # whether features are made of sentence embeddings
}

# {name of an array: its type, number of dimensions, and lowest and highest value}
# An inverse document frequency is at most 1 + log(number of texts), which is far below the limit.
# Embeddings and axes are vectors of length 1, whose values are at most 1 but for rounding.
_WORD_ARRAYS: dict[str, _Kind] = {
    "counts.words": (np.uint8, 1, 0, 255),
    "counts.texts": (np.int64, 1, 2, np.inf),
    "words.terms": (np.uint8, 1, 0, 255),
    "words.idf": (np.float32, 1, 0.01, 100),
}
_MEANING_ARRAYS: dict[str, _Kind] = {
    "meanings.mean": (np.float64, 1, -1.01, 1.01),
    "meanings.axes": (np.float64, 2, -1.01, 1.01),
}


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
        progress: Progress = lambda text: None,
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

    def apply(self, items: Items, *, progress: Progress = lambda text: None) -> Items:
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


def describe(items: Items, *, embed: bool = False, progress: Progress = lambda text: None) -> Items:
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


def to_json(describer: Describer) -> dict[str, Any]:
    """Make the JSON document of a describer, without its arrays.

    `_FIELDS` lists the keys of the document. `arrays_of` collects the arrays.

    >>> to_json(Describer(("sugar",), columns={"id": "name"}))["given"]
    ['sugar']
    """
    return {
        "columns": dict(describer.columns),
        "given": list(describer.given),
        "made": list(describer.made),
        "texts": None if describer.words is None else describer.words.texts,
        "embedded": describer.meanings is not None,
    }


def arrays_of(describer: Describer) -> Arrays:
    """Collect the arrays of a describer by name; terms become UTF-8 bytes with a term in each line.

    >>> arrays_of(Describer(("sugar",)))
    {}
    """
    arrays: Arrays = {}
    words = describer.words
    if words is not None:
        arrays["counts.words"] = _lines(words.counts)
        arrays["counts.texts"] = np.array(list(words.counts.values()), np.int64)
        arrays["words.terms"] = _lines(words.terms)
        arrays["words.idf"] = words.idf
    if describer.meanings is not None:
        arrays["meanings.mean"] = describer.meanings.mean
        arrays["meanings.axes"] = describer.meanings.axes
    return arrays


def load_describer(document: object, arrays: Mapping[str, Array]) -> Describer:
    """Restore a describer from the results of `to_json` and `arrays_of`.

    Args:
        document: the result of `to_json`.
        arrays: the result of `arrays_of`.

    Raises:
        ModelError: if a field or array is missing, unknown or cannot come from these functions.

    Cost: linear in the number of terms.

    >>> load_describer(to_json(Describer(("sugar",))), {}).feature_names
    ('sugar',)
    """
    if not isinstance(document, dict):
        raise ModelError(f"items cannot be {shown(document)}")
    check_fields(document, _FIELDS, "items")
    for role, column in document["columns"].items():
        if role not in NAMED or not isinstance(column, str):
            raise ModelError(f"items: columns cannot have {shown(role)}: {shown(column)}")
    if "topics" in arrays:
        raise ModelError(
            "items: the model describes texts by topics, as versions up to 0.4 did: train it again"
        )
    n_texts = document["texts"]
    kinds = {} if n_texts is None else _WORD_ARRAYS
    if document["embedded"]:
        kinds = kinds | _MEANING_ARRAYS
    _check_arrays(arrays, kinds)
    describer = Describer(
        given=tuple(document["given"]),
        made=tuple(document["made"]),
        columns=document["columns"],
        words=None if n_texts is None else _words(arrays, n_texts),
        meanings=_meanings(arrays) if document["embedded"] else None,
    )
    _check_names(describer)
    return describer


def _check_arrays(arrays: Mapping[str, Array], kinds: Mapping[str, _Kind]) -> None:
    """Raise a ModelError unless the arrays are of these kinds, and have possible values."""
    unknown = arrays.keys() - kinds.keys()
    if unknown:
        raise ModelError(f"items: {shown(min(unknown))} is none of their arrays")
    for name, (dtype, dimensions, low, high) in kinds.items():
        array = arrays.get(name)
        if array is None:
            raise ModelError(f"items: there is no array {name}")
        if array.dtype != dtype or array.ndim != dimensions:
            raise ModelError(f"items: {name} is {array.dtype} of {array.ndim} dimensions")
        if not bool(((array >= low) & (array <= high)).all()):
            raise ModelError(f"items: {name} has values that are not from {low:g} to {high:g}")


def _words(arrays: Mapping[str, Array], n_texts: int) -> Words:
    """Restore the words that are features, and the frequencies of words in `n_texts` texts."""
    words = _terms(arrays, "counts.words")
    counts = arrays["counts.texts"]
    if len(counts) != len(words) or n_texts < max(1, counts.max(initial=1)):
        raise ModelError(f"items: {n_texts} texts, or counts.texts, do not fit the words")
    terms = _terms(arrays, "words.terms")
    if len(terms) > MOST_TERMS or len(arrays["words.idf"]) != len(terms):
        raise ModelError(f"items: words.idf or the limit of {MOST_TERMS} does not fit {len(terms)}")
    return Words(
        terms, arrays["words.idf"], n_texts, dict(zip(words, counts.tolist(), strict=True))
    )


def _meanings(arrays: Mapping[str, Array]) -> Meanings:
    """Restore the axes of sentence embeddings.

    There are at most as many axes as dimensions. Otherwise a small file could demand much memory:
    an array of the shape 0 x 10^9 takes no bytes in the file, but its names take memory.
    """
    mean, axes = arrays["meanings.mean"], arrays["meanings.axes"]
    if len(axes) != len(mean) or axes.shape[1] > len(mean):
        raise ModelError(f"items: meanings.axes of shape {axes.shape} do not fit meanings.mean")
    return Meanings(mean, axes)


def _terms(arrays: Mapping[str, Array], name: str) -> tuple[str, ...]:
    """Decode the terms in an array that `_lines` made."""
    encoded = arrays[name].tobytes()
    try:
        terms = encoded.decode("utf-8", "surrogatepass").split("\n") if encoded else []
    except UnicodeDecodeError:
        raise ModelError(f"items: {name} is not UTF-8") from None
    if "" in terms or len(set(terms)) < len(terms):
        raise ModelError(f"items: {name} has a term twice, or an empty one")
    return tuple(terms)


def _lines(terms: Iterable[str]) -> Array:
    """Encode terms as an array of UTF-8 bytes with a term in each line."""
    return np.frombuffer("\n".join(terms).encode("utf-8", "surrogatepass"), np.uint8)


def _check_names(describer: Describer) -> None:
    """Raise a ModelError if feature names are not unique, or a feature cannot be made."""
    names = describer.feature_names
    if len(set(names)) < len(names):
        raise ModelError("items: two features have one name")
    if any(name.startswith(MADE) for name in describer.given):
        raise ModelError("items: a given feature is named as those that are made")
    unknown = set(describer.made) - set(describer.possible())
    if unknown:
        raise ModelError(f"items: nothing makes the feature {shown(min(unknown))}")
