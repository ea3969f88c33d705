"""Convert a describer of items to the JSON and arrays that a model folder stores, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sortnet.errors import ModelError
from sortnet.files import check_fields, shown
from sortnet.items.features import MADE, Describer
from sortnet.items.texts import MOST_TERMS, Meanings, WordCounts, Words
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
_ANY_LENGTH = None  # any length, in the shape that an array is expected to have
# Lowest and highest valid value of an array. An inverse document frequency is at most
# 1 + log(number of texts), which is far below the limit.
_RANGE_OF_IDF = (0.01, 100.0)
_RANGE_IN_UNIT_VECTOR = (-1.01, 1.01)  # a vector of length 1 has values up to 1, with rounding


def to_json(describer: Describer) -> dict[str, Any]:
    """Make the JSON document of a describer, without its arrays.

    `_FIELDS` lists the keys of the document. `arrays_of` collects the arrays.

    >>> to_json(Describer(("sugar",), columns={"id": "name"}))["given"]
    ['sugar']
    """
    n_texts = None if describer.counts is None else describer.counts.texts
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
    if describer.counts is not None and describer.words is not None:
        counts = describer.counts.counts
        arrays["counts.words"] = _lines(counts)
        arrays["counts.texts"] = np.array(list(counts.values()), np.int64)
        arrays["words.terms"] = _lines(describer.words.terms)
        arrays["words.idf"] = describer.words.idf
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
    unused_arrays = dict(arrays)  # the functions named `_pop_...` remove the arrays that they use
    if "topics" in arrays:
        raise ModelError(
            "items: the model describes texts by topics, as versions up to 0.4 did: train it again"
        )
    counts = None
    words = None
    if document["texts"] is not None:
        counts = _pop_word_counts(unused_arrays, int(document["texts"]))
        words = _pop_words(unused_arrays)
    describer = Describer(
        given=tuple(document["given"]),
        made=tuple(document["made"]),
        columns=document["columns"],
        counts=counts,
        words=words,
        meanings=_pop_meanings(unused_arrays) if document["embedded"] else None,
    )
    if unused_arrays:
        raise ModelError(f"items: {shown(min(unused_arrays))} is none of their arrays")
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


def _pop_word_counts(unused_arrays: Arrays, n_texts: int) -> WordCounts:
    """Restore the frequencies of words in `n_texts` texts."""
    if n_texts < 1:
        raise ModelError(f"items: texts cannot be {n_texts}")
    words = _pop_terms(unused_arrays, "counts.words")
    counts = _pop_array(
        unused_arrays, "counts.texts", np.int64, (len(words),), value_range=(2, n_texts)
    )
    return WordCounts(n_texts, dict(zip(words, counts.tolist(), strict=True)))


def _pop_words(unused_arrays: Arrays) -> Words:
    """Restore the words that are features, and their inverse document frequencies."""
    terms = _pop_terms(unused_arrays, "words.terms")
    if len(terms) > MOST_TERMS:
        raise ModelError(f"items: words.terms has {len(terms)} words; the limit is {MOST_TERMS}")
    idf = _pop_array(
        unused_arrays, "words.idf", np.float32, (len(terms),), value_range=_RANGE_OF_IDF
    )
    return Words(terms, idf)


def _pop_meanings(unused_arrays: Arrays) -> Meanings:
    """Restore the axes of sentence embeddings; embeddings and axes are vectors of length 1."""
    mean = _pop_array(
        unused_arrays,
        "meanings.mean",
        np.float64,
        (_ANY_LENGTH,),
        value_range=_RANGE_IN_UNIT_VECTOR,
    )
    n_dimensions = len(mean)
    axes = _pop_array(
        unused_arrays,
        "meanings.axes",
        np.float64,
        (n_dimensions, _ANY_LENGTH),
        value_range=_RANGE_IN_UNIT_VECTOR,
    )
    n_axes = axes.shape[1]
    _check_number_of_axes(n_axes, n_dimensions, "meanings.axes")
    return Meanings(mean, axes)


def _check_number_of_axes(n_axes: int, n_dimensions: int, name: str) -> None:
    """Raise a ModelError if there are more axes than dimensions.

    Without this check a small file could demand much memory: an array of the shape 10^9 x 0 takes
    no bytes in the file, but its names take memory.
    """
    if n_axes > n_dimensions:
        raise ModelError(f"items: {name} has {n_axes} axes of {n_dimensions} dimensions")


def _pop_array(
    unused_arrays: Arrays,
    name: str,
    dtype: type,
    shape: tuple[int | None, ...],
    *,
    value_range: tuple[float, float],
) -> Array:
    """Remove an array from the unused arrays, and return the array after checks.

    Args:
        unused_arrays: arrays that are not used yet.
        name: name of the array.
        dtype: expected type of the values.
        shape: expected shape, perhaps with `_ANY_LENGTH`.
        value_range: lowest and highest valid value.

    Raises:
        ModelError: if the array is missing or does not fit.
    """
    array = unused_arrays.pop(name, np.empty(0, np.bool_))  # a missing array has the wrong type
    if array.dtype != dtype or not _fits(array.shape, shape):
        raise ModelError(f"items: {name} is {array.dtype} {'x'.join(map(str, array.shape))}")
    low, high = value_range
    if not bool(((array >= low) & (array <= high)).all()):
        raise ModelError(f"items: {name} has values that are not from {low:g} to {high:g}")
    return array


def _lines(terms: Iterable[str]) -> Array:
    """Encode terms as an array of UTF-8 bytes with a term in each line."""
    return np.frombuffer("\n".join(terms).encode("utf-8", "surrogatepass"), np.uint8)


def _fits(shape: tuple[int, ...], expected_shape: tuple[int | None, ...]) -> bool:
    """Whether a shape is the expected shape, which may have `_ANY_LENGTH`."""
    if len(shape) != len(expected_shape):
        return False
    lengths = zip(shape, expected_shape, strict=True)
    return all(expected in (_ANY_LENGTH, length) for length, expected in lengths)


def _pop_terms(unused_arrays: Arrays, name: str) -> tuple[str, ...]:
    """Decode the terms in an array that `_lines` made; the array is removed."""
    lines = _pop_array(unused_arrays, name, np.uint8, (_ANY_LENGTH,), value_range=(0, 255))
    encoded = lines.tobytes()
    try:
        terms = encoded.decode("utf-8", "surrogatepass").split("\n") if encoded else []
    except UnicodeDecodeError:
        raise ModelError(f"items: {name} is not UTF-8") from None
    if "" in terms or len(set(terms)) < len(terms):
        raise ModelError(f"items: {name} has a term twice, or an empty one")
    return tuple(terms)
