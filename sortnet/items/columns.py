"""Roles of a table's columns: id, text, image, audio, group, context, features, or ignored."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sortnet.errors import DataError
from sortnet.items.media import AUDIO, IMAGES
from sortnet.items.rows import Rows, listed, shown
from sortnet.types import F32
from sortnet.types.precision import refuse_lost

NAMED = ("id", "text", "image", "audio", "group", "context")  # roles that can be named
IDS = ("id", "docid", "doc_id", "item_id", "itemid", "uid", "uuid", "key", "item", "name")
NAMES_OF_OTHERS = (*IDS, "qid", "index")  # numbers without a magnitude
TEXTS = (
    *("text", "content", "body", "essay", "argument", "description", "sentence", "review"),
    *("comment", "question", "answer", "response", "output", "summary", "title", "headline"),
)
MISSING = frozenset(("", "null", "nan", "na", "n/a", "none", "<na>"))

_LONGEST_NAME = 100  # characters of a value that may still be a name
_WORDS_OF_A_TEXT = 3.0  # on average


@dataclass(frozen=True)
class Columns:
    """The role of each column.

    Attributes:
        id: the id column; None if items are named by row number; `files` for a folder.
        text, image, audio: columns, or None.
        features: columns of numbers.
        ignored: the columns, or files of a folder, that were left out.
        group, context: columns of the group's name and its own text, never guessed; or None.
    """

    id: str | None = None
    text: str | None = None
    image: str | None = None
    audio: str | None = None
    features: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    group: str | None = None
    context: str | None = None


def choose_columns(
    rows: Rows, named: Columns, ignore: Collection[str], features: Sequence[str] | None
) -> Columns:
    """Choose each column's role: as named, and the rest by their names and values."""
    explicit = (*(getattr(named, role) for role in NAMED), *(features or ()))
    if named.context and not named.group:
        raise DataError(f"{rows.path}: a context is that of a group: --group names its column")
    for name in (*explicit, *ignore):
        if name is not None and name not in rows.columns:
            raise DataError(
                f"{rows.path}: there is no column {shown(name)} in {listed(rows.columns)}"
            )
    left = {c: v for c, v in rows.columns.items() if c not in ignore or c in explicit}
    words = {c: v for c, v in left.items() if c not in explicit and not is_numeric(v)}
    image = named.image or _media(words, IMAGES)
    words.pop(image or "", None)
    audio = named.audio or _media(words, AUDIO)
    words.pop(audio or "", None)
    by_name = named.id or _named_id(rows, {c: v for c, v in left.items() if c not in explicit})
    words.pop(by_name or "", None)
    text = named.text or _text(words)
    id_ = by_name or _first_unique(words)
    special = {id_, text, image, audio, named.group, named.context}
    if features is None:
        features = [
            c
            for c, v in left.items()
            if c not in special and c.lower() not in NAMES_OF_OTHERS and is_numeric(v)
        ]
    if not (text or image or audio or features or (id_ and not is_numeric(left[id_]))):
        raise DataError(f"{rows.path}: no column can be shown or learned from (--text names one)")
    used = special | set(features)
    ignored = tuple(c for c in rows.columns if c not in used)
    return Columns(id_, text, image, audio, tuple(features), ignored, named.group, named.context)


def number(value: Any) -> float:
    """A cell as a number, NaN where it is missing; a ValueError if it is none.

    >>> number(" 1.5 "), number("n/a"), number(True)
    (1.5, nan, 1.0)
    """
    if value is None:
        return math.nan
    if isinstance(value, str):
        if value.strip().lower() in MISSING:
            return math.nan
        if "_" in value:  # 1_000 is a number to Python only
            raise ValueError(value)
    elif not isinstance(value, bool | int | float):
        raise ValueError(value)
    try:
        return float(value)
    except OverflowError:
        return math.inf


def is_numeric(values: Sequence[Any]) -> bool:
    """Whether there are only numbers and missing values, and at least one number."""
    some = False
    for value in values:
        try:
            some = not math.isnan(number(value)) or some
        except ValueError:
            return False
    return some


def feature_matrix(rows: Rows, names: Sequence[str]) -> F32:
    """The columns as (n, d) float32, NaN where a value is missing.

    Raises:
        DataError: on a value that is not a number, or is infinite in float32; on a column whose
            differences are lost in float32.
    """
    matrix = np.empty((len(rows.lines), len(names)), np.float32)
    one = np.zeros(len(matrix), np.int64)  # the items are one query
    for k, name in enumerate(names):
        matrix[:, k] = numbers = _finite(rows, name)
        refuse_lost(numbers[:, None], one, [name], str(rows.path))
    return matrix


def _finite(rows: Rows, name: str) -> NDArray[np.float64]:
    values = rows.columns[name]
    numbers = np.empty(len(values))
    for row, value in enumerate(values):
        try:
            numbers[row] = number(value)
        except ValueError:
            fault = f"{shown(value)} is not a number"
            raise DataError(f"{rows.place(row)}: column {shown(name)}: {fault}") from None
    infinite = np.abs(numbers) > np.finfo(np.float32).max
    if infinite.any():
        row = int(infinite.argmax())
        fault = f"{shown(values[row])} is infinite in float32"
        raise DataError(f"{rows.place(row)}: column {shown(name)}: {fault}")
    return numbers


def _strings(values: Sequence[Any]) -> list[str]:
    """A column's values that are not missing, if all are strings; else none."""
    there = [v for v in values if v is not None and v != ""]
    return there if all(isinstance(v, str) for v in there) else []


def _media(columns: dict[str, list[Any]], suffixes: Collection[str]) -> str | None:
    """The first column with files of that kind only."""
    for name, values in columns.items():
        there = _strings(values)
        if there and all(_is_file(value, suffixes) for value in there):
            return name
    return None


def _is_file(value: str, suffixes: Collection[str]) -> bool:
    return "://" not in value and value.lower().endswith(tuple(suffixes))


def _named_id(rows: Rows, columns: dict[str, list[Any]]) -> str | None:
    """The column named like an id: `id` always, others if their values are unique."""
    by_name = {name.lower(): name for name in reversed(columns)}
    candidates = [by_name[name] for name in IDS if name in by_name]
    if not candidates or candidates[0].lower() == "id":
        return candidates[0] if candidates else None
    return next((c for c in candidates if _is_unique(columns[c])), None)


def _first_unique(columns: dict[str, list[Any]]) -> str | None:
    """The first column of short, unique strings."""
    for name, values in columns.items():
        if _is_unique(values) and max(map(len, _strings(values)), default=999) <= _LONGEST_NAME:
            return name
    return None


def _is_unique(values: Sequence[Any]) -> bool:
    there = [str(v).strip() for v in values if isinstance(v, str | int) and str(v).strip()]
    return len(set(there)) == len(values)


def _text(columns: dict[str, list[Any]]) -> str | None:
    """The column named like a text, else the one with most words, if there are enough."""
    by_name = {name.lower(): name for name in reversed(columns) if _strings(columns[name])}
    for name in TEXTS:
        if name in by_name:
            return by_name[name]
    words = {name: _words(_strings(values)) for name, values in columns.items()}
    longest = max(words, key=lambda name: words[name], default=None)
    return longest if longest and words[longest] >= _WORDS_OF_A_TEXT else None


def _words(values: Sequence[str]) -> float:
    return sum(len(v.split()) for v in values) / len(values) if values else 0.0
