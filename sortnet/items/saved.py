"""Convert a describer of items to the JSON and arrays that a model folder stores, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sortnet.errors import ModelError
from sortnet.files import check_fields, shown
from sortnet.items.features import MADE, Describer
from sortnet.items.texts import LETTERS, WORDS, Meanings, Terms, Topics, WordCounts
from sortnet.tables.roles import NAMED

Array = NDArray[Any]
Arrays = dict[str, Array]

# The fields of the JSON document, with their types. See `Describer` for the first three fields.
_FIELDS: dict[str, Any] = {
    "columns": dict,
    "given": list[str],
    "made": list[str],
    "texts": int | None,  # number of texts that were counted; None if no features are of texts
    "embedded": bool,  # whether features are made of sentence embeddings
}
# An inverse document frequency is at most 1 + log(number of texts), which is far below this limit.
_LARGEST_IDF = 100.0
_LARGEST_LOADING = 1.01  # a vector of length 1 has values up to 1, apart from rounding


def to_json(describer: Describer) -> dict[str, Any]:
    """Make the JSON document of a describer, without its arrays.

    `_FIELDS` lists the keys of the document. `arrays_of` collects the arrays.

    >>> to_json(Describer(("sugar",), columns={"id": "name"}))["given"]
    ['sugar']
    """
    n_texts = None if describer.words is None else describer.words.texts
    has_embeddings = describer.meanings is not None
    return {
        "columns": dict(describer.columns),
        "given": list(describer.given),
        "made": list(describer.made),
        "texts": n_texts,
        "embedded": has_embeddings,
    }


def arrays_of(describer: Describer) -> Arrays:
    """Collect the arrays of a describer by name; terms become UTF-8 bytes with a term in each line.

    >>> arrays_of(Describer(("sugar",)))
    {}
    """
    arrays: Arrays = {}
    topics = describer.topics
    if describer.words is not None and topics is not None:
        counts = describer.words.counts
        arrays["counts.words"] = _lines(counts)
        arrays["counts.texts"] = np.array(list(counts.values()), np.int64)
        arrays["words.terms"] = _lines(topics.words.terms)
        arrays["words.idf"] = topics.words.idf
        arrays["letters.terms"] = _lines(topics.letters.terms)
        arrays["letters.idf"] = topics.letters.idf
        arrays["topics"] = topics.loadings
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
    arrays_left = dict(arrays)  # each array is removed when it is used
    words = None
    topics = None
    if document["texts"] is not None:
        words = _word_counts(arrays_left, int(document["texts"]))
        topics = _topics(arrays_left)
    describer = Describer(
        given=tuple(document["given"]),
        made=tuple(document["made"]),
        columns=document["columns"],
        words=words,
        topics=topics,
        meanings=_meanings(arrays_left) if document["embedded"] else None,
    )
    if arrays_left:
        raise ModelError(f"items: {shown(min(arrays_left))} is none of their arrays")
    _check_names(describer)
    return describer


def _check_names(describer: Describer) -> None:
    """Raise a ModelError if feature names are not unique, or a feature cannot be made."""
    names = describer.feature_names
    if len(set(names)) < len(names):
        raise ModelError("items: two features have one name")
    if any(name.startswith(MADE) for name in describer.given):
        raise ModelError("items: a given feature is named as those that are made")
    unknown = next(iter(set(describer.made) - set(describer.possible())), None)
    if unknown is not None:
        raise ModelError(f"items: nothing makes the feature {shown(unknown)}")


def _word_counts(arrays_left: Arrays, n_texts: int) -> WordCounts:
    """Restore the frequencies of words in `n_texts` texts."""
    if n_texts < 1:
        raise ModelError(f"items: texts cannot be {n_texts}")
    words = _terms(arrays_left, "counts.words")
    counts = _take(arrays_left, "counts.texts", np.int64, (len(words),), low=2, high=n_texts)
    return WordCounts(n_texts, dict(zip(words, counts.tolist(), strict=True)))


def _topics(arrays_left: Arrays) -> Topics:
    """Restore the topics of texts from their terms and loadings."""
    words = _terms_with_weights(arrays_left, "words", WORDS)
    letters = _terms_with_weights(arrays_left, "letters", LETTERS)
    n_terms = len(words.terms) + len(letters.terms)
    loadings = _take(
        arrays_left, "topics", np.float32, (None, n_terms),
        low=-_LARGEST_LOADING, high=_LARGEST_LOADING,
    )  # fmt: skip
    _check_number_of_axes(len(loadings), n_terms, "topics")
    return Topics(words, letters, loadings)


def _terms_with_weights(arrays_left: Arrays, name: str, kind: tuple[str, tuple[int, int]]) -> Terms:
    """Restore terms and their inverse document frequencies from two arrays.

    Args:
        arrays_left: arrays that are not used yet; two arrays are removed.
        name: start of the names of the two arrays, `words` or `letters`.
        kind: kind of the terms, `WORDS` or `LETTERS`.
    """
    terms = _terms(arrays_left, f"{name}.terms")
    idf = _take(arrays_left, f"{name}.idf", np.float32, (len(terms),), low=0.01, high=_LARGEST_IDF)
    return Terms(kind, terms, idf)


def _meanings(arrays_left: Arrays) -> Meanings:
    """Restore the axes of sentence embeddings."""
    largest = _LARGEST_LOADING  # embeddings and axes have length 1
    mean = _take(arrays_left, "meanings.mean", np.float64, (None,), low=-largest, high=largest)
    shape = (len(mean), None)
    axes = _take(arrays_left, "meanings.axes", np.float64, shape, low=-largest, high=largest)
    _check_number_of_axes(axes.shape[1], len(mean), "meanings.axes")
    return Meanings(mean, axes)


def _check_number_of_axes(n_axes: int, n_dimensions: int, name: str) -> None:
    """Raise a ModelError if there are more axes than dimensions.

    Without this check a small file could demand much memory: an array of the shape 10^9 x 0 takes
    no bytes in the file, but its names take memory.
    """
    if n_axes > n_dimensions:
        raise ModelError(f"items: {name} has {n_axes} axes of {n_dimensions} dimensions")


def _take(
    arrays_left: Arrays,
    name: str,
    dtype: type,
    shape: tuple[int | None, ...],
    *,
    low: float,
    high: float,
) -> Array:
    """Remove an array from the arrays that are left, and return it after checks.

    Args:
        arrays_left: arrays that are not used yet.
        name: name of the array.
        dtype: expected type of the values.
        shape: expected shape; None stands for any length.
        low, high: range in which the values must be.

    Raises:
        ModelError: if the array is missing or does not fit.
    """
    array = arrays_left.pop(name, np.empty(0, np.bool_))  # a missing array has the wrong type
    if array.dtype != dtype or not _fits(array.shape, shape):
        raise ModelError(f"items: {name} is {array.dtype} {'x'.join(map(str, array.shape))}")
    if not bool(((array >= low) & (array <= high)).all()):
        raise ModelError(f"items: {name} has values that are not from {low:g} to {high:g}")
    return array


def _lines(terms: Iterable[str]) -> Array:
    """Encode terms as an array of UTF-8 bytes with a term in each line."""
    return np.frombuffer("\n".join(terms).encode("utf-8", "surrogatepass"), np.uint8)


def _fits(shape: tuple[int, ...], expected_shape: tuple[int | None, ...]) -> bool:
    """Whether a shape is the expected shape, in which None stands for any length."""
    if len(shape) != len(expected_shape):
        return False
    lengths = zip(shape, expected_shape, strict=True)
    return all(expected in (None, length) for length, expected in lengths)


def _terms(arrays_left: Arrays, name: str) -> tuple[str, ...]:
    """Decode the terms in an array that `_lines` made."""
    encoded = _take(arrays_left, name, np.uint8, (None,), low=0, high=255).tobytes()
    try:
        terms = encoded.decode("utf-8", "surrogatepass").split("\n") if encoded else []
    except UnicodeDecodeError:
        raise ModelError(f"items: {name} is not UTF-8") from None
    if "" in terms or len(set(terms)) < len(terms):
        raise ModelError(f"items: {name} has a term twice, or an empty one")
    return tuple(terms)
