"""Convert a describer of items to the JSON and arrays that a model folder stores, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sortnet.errors import ModelError
from sortnet.files import check_fields, shown
from sortnet.items.features import MADE, Describer
from sortnet.items.texts import MOST_TERMS, Meanings, Words
from sortnet.tables.roles import NAMED

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
