"""What describes items as JSON and arrays, as a model folder keeps it."""

from __future__ import annotations

from collections.abc import Mapping
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

_FIELDS: dict[str, Any] = {
    "columns": dict,
    "given": list[str],
    "made": list[str],
    "texts": int | None,
    "embedded": bool,
}
_LARGEST_IDF = 100.0  # 1 + log of the number of texts
_LARGEST_LOADING = 1.01  # of vectors of length 1


def to_json(describer: Describer) -> dict[str, Any]:
    """What describes items, but for its arrays.

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
    """Its arrays by name; terms as UTF-8, each on a line.

    >>> arrays_of(Describer(("sugar",)))
    {}
    """
    found: Arrays = {}
    if describer.words is not None and describer.topics is not None:
        counts = describer.words.counts
        found |= {"counts.words": _lines(counts)}
        found |= {"counts.texts": np.array(list(counts.values()), np.int64)}
        for name in ("words", "letters"):
            terms: Terms = getattr(describer.topics, name)
            found |= {f"{name}.terms": _lines(terms.terms), f"{name}.idf": terms.idf}
        found |= {"topics": describer.topics.loadings}
    if describer.meanings is not None:
        found |= {f"meanings.{name}": axes for name, axes in vars(describer.meanings).items()}
    return found


def load_describer(about: object, arrays: Mapping[str, Array]) -> Describer:
    """What `to_json` and `arrays_of` said.

    Raises:
        ModelError: if anything is missing, too much, or not what those write.

    Cost: linear in the number of terms.

    >>> load_describer(to_json(Describer(("sugar",))), {}).feature_names
    ('sugar',)
    """
    if not isinstance(about, dict):
        raise ModelError(f"items cannot be {shown(about)}")
    check_fields(about, _FIELDS, "items")
    for role, column in about["columns"].items():
        if role not in NAMED or not isinstance(column, str):
            raise ModelError(f"items: columns cannot have {shown(role)}: {shown(column)}")
    left, words, topics = dict(arrays), None, None
    if about["texts"] is not None:
        words, topics = _word_counts(left, int(about["texts"])), _topics(left)
    found = Describer(
        tuple(about["given"]),
        tuple(about["made"]),
        about["columns"],
        words,
        topics,
        _meanings(left) if about["embedded"] else None,
    )
    if left:
        raise ModelError(f"items: {shown(min(left))} is none of their arrays")
    _check_names(found)
    return found


def _check_names(found: Describer) -> None:
    names = found.feature_names
    if len(set(names)) < len(names):
        raise ModelError("items: two features have one name")
    if any(name.startswith(MADE) for name in found.given):
        raise ModelError("items: a given feature is named as those that are made")
    unknown = next(iter(set(found.made) - set(found.possible())), None)
    if unknown is not None:
        raise ModelError(f"items: nothing makes the feature {shown(unknown)}")


def _word_counts(left: Arrays, texts: int) -> WordCounts:
    if texts < 1:
        raise ModelError(f"items: texts cannot be {texts}")
    words = _terms(left, "counts.words")
    counts = _take(left, "counts.texts", np.int64, (len(words),), 2, texts)
    return WordCounts(texts, dict(zip(words, counts.tolist(), strict=True)))


def _topics(left: Arrays) -> Topics:
    found = []
    for name, kind in (("words", WORDS), ("letters", LETTERS)):
        terms = _terms(left, f"{name}.terms")
        idf = _take(left, f"{name}.idf", np.float32, (len(terms),), 0.01, _LARGEST_IDF)
        found.append(Terms(kind, terms, idf))
    size, most = sum(len(each.terms) for each in found), _LARGEST_LOADING
    loadings = _take(left, "topics", np.float32, (None, size), -most, most)
    _check_number(len(loadings), size, "topics")
    return Topics(found[0], found[1], loadings)


def _meanings(left: Arrays) -> Meanings:
    most = _LARGEST_LOADING  # embeddings have length 1, too
    mean = _take(left, "meanings.mean", np.float64, (None,), -most, most)
    axes = _take(left, "meanings.axes", np.float64, (len(mean), None), -most, most)
    _check_number(axes.shape[1], len(mean), "meanings.axes")
    return Meanings(mean, axes)


def _check_number(found: int, dimensions: int, name: str) -> None:
    """Refuse more axes than dimensions: a shape such as 10^9 x 0 takes no bytes."""
    if found > dimensions:
        raise ModelError(f"items: {name} has {found} axes of {dimensions} dimensions")


def _take(
    left: Arrays, name: str, dtype: type, shape: tuple[int | None, ...], low: float, high: float
) -> Array:
    """An array of that type and shape (None: any length), with all its values in a range."""
    found = left.pop(name, np.empty(0, np.bool_))
    fits = len(shape) == found.ndim and all(
        size in (None, own) for size, own in zip(shape, found.shape, strict=True)
    )
    if found.dtype != dtype or not fits:
        raise ModelError(f"items: {name} is {found.dtype} {'x'.join(map(str, found.shape))}")
    if not bool(((found >= low) & (found <= high)).all()):
        raise ModelError(f"items: {name} has values that are not from {low:g} to {high:g}")
    return found


def _lines(terms: Any) -> Array:
    return np.frombuffer("\n".join(terms).encode("utf-8", "surrogatepass"), np.uint8)


def _terms(left: Arrays, name: str) -> tuple[str, ...]:
    raw = _take(left, name, np.uint8, (None,), 0, 255).tobytes()
    try:
        terms = raw.decode("utf-8", "surrogatepass").split("\n") if raw else []
    except UnicodeDecodeError:
        raise ModelError(f"items: {name} is not UTF-8") from None
    if "" in terms or len(set(terms)) < len(terms):
        raise ModelError(f"items: {name} has a term twice, or an empty one")
    return tuple(terms)
