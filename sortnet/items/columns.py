"""Roles of a table's columns: id, text, image, audio, group, context, features, or ignored."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.items.media import AUDIO, IMAGES
from sortnet.items.rows import Rows, column_texts, listed
from sortnet.types import F32
from sortnet.types.precision import refuse_lost

NAMED = ("id", "text", "image", "audio", "group", "context")  # roles that can be named
IDS = ("id", "docid", "doc_id", "item_id", "itemid", "uid", "uuid", "key", "item", "name")
NAMES_OF_OTHERS = (*IDS, "qid", "index")  # numbers without a magnitude
TEXTS = (
    *("text", "content", "body", "essay", "argument", "description", "sentence", "review"),
    *("comment", "question", "answer", "response", "output", "summary", "title", "headline"),
)
GROUPS = ("group", "prompt", "prompt_id", "question", "topic", "scene", "query", "qid")
MISSING = frozenset(("", "null", "nan", "na", "n/a", "none", "<na>"))

_LONGEST_NAME = 100  # characters of a value that may still be a name
_WORDS_OF_A_TEXT = 3.0  # on average
_MOST_VALUES = 12  # of a categorical column
_ITEMS_A_VALUE = 3  # on average
_LONGEST_VALUE = 40  # characters; longer ones are texts


@dataclass(frozen=True)
class Columns:
    """The role of each column.

    Attributes:
        id: the id column; None if items are named by row number; `files` for a folder.
        text, image, audio: columns, or None.
        features: columns of numbers.
        ignored: the columns, or files of a folder, that were left out.
        group, context: columns of the group's name and its own text, never guessed; or None.
        shown: further columns that annotators see, never guessed; they may be features, too.
        categories: features `column=value`, of categorical columns.
        notes: lines about columns that look like images or sounds but are not, or like groups.
    """

    id: str | None = None
    text: str | None = None
    image: str | None = None
    audio: str | None = None
    features: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    group: str | None = None
    context: str | None = None
    shown: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def choose_columns(
    rows: Rows,
    named: Columns,
    ignore: Collection[str],
    features: Sequence[str] | None,
    known: Sequence[str] | None = None,
) -> Columns:
    """Choose each column's role: as named, and the rest by their names and values.

    Args:
        known: features that other items have, which say what is categorical; None: the values say.
    """
    given = (column_of(name, rows.columns) for name in features or ())
    explicit = (*(getattr(named, role) for role in NAMED), *given)
    if named.context and not named.group:
        raise DataError(f"{rows.path}: a context is that of a group: --group names its column")
    for name in (*explicit, *named.shown, *ignore):
        if name is not None and name not in rows.columns:
            raise DataError(
                f"{rows.path}: there is no column {shown(name)} in {listed(rows.columns)}"
            )
    left = {c: v for c, v in rows.columns.items() if c not in ignore or c in explicit}
    coded = _coded(rows, left, known or ())
    taken = {*explicit, *named.shown, *(column_of(name, left) for name in coded)}
    words = {c: v for c, v in left.items() if c not in taken and not is_numeric(v)}
    notes = (*_notes(rows, words, named), *_group_notes(rows, named, ignore))
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
        rest = {c: v for c, v in left.items() if c not in special}
        rest = {c: v for c, v in rest.items() if c.lower() not in NAMES_OF_OTHERS}
        coded = coded if known is not None else _categories(rows, rest)
        by_code = {column_of(name, rest) for name in coded}
        features = [c for c, v in rest.items() if c not in by_code and is_numeric(v)]
    else:
        coded = ()
    seen = (text, image, audio, *named.shown, *features, *coded)
    if not any(seen) and not (id_ and not is_numeric(left[id_])):
        raise DataError(f"{rows.path}: no column can be shown or learned from (--text names one)")
    used = special | {column_of(name, rows.columns) for name in (*features, *coded)}
    ignored = tuple(c for c in rows.columns if c not in used | set(named.shown))
    chosen = replace(named, id=id_, text=text, image=image, audio=audio, features=tuple(features))
    return replace(chosen, ignored=ignored, categories=coded, notes=notes)


def column_of(feature: str, columns: Collection[str]) -> str:
    """The column that a feature is made of: of `column=value`, where no column is called so.

    >>> column_of("colour=red", ["colour"]), column_of("a=b", ["a", "a=b"])
    ('colour', 'a=b')
    """
    return feature if feature in columns else feature.partition("=")[0]


def category_values(values: Sequence[Any]) -> tuple[str, ...]:
    """The different values of a categorical column, sorted; none if it is not categorical.

    It is if its values are texts of 40 characters at most, of which 2 to 12 are different, each of
    them that of 3 items on average.

    >>> category_values(["red", "blue", "", "red"] * 2), category_values(["1", "2"] * 9)
    (('blue', 'red'), ())
    """
    there = [value.strip() for value in _strings(values)]
    there = [value for value in there if value.lower() not in MISSING]
    found = sorted(set(there))
    few = 2 <= len(found) <= _MOST_VALUES and len(there) >= _ITEMS_A_VALUE * len(found)
    short = all(len(value) <= _LONGEST_VALUE and value.isprintable() for value in found)
    return tuple(found) if few and short and not is_numeric(values) else ()


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
    """The columns as (n, d) float32, NaN where a number is missing.

    `column=value` is 1 for the items that have the value, and 0 for all others.

    Raises:
        DataError: on a value that is not a number, or is infinite in float32; on a column whose
            differences are lost in float32.
    """
    matrix = np.empty((len(rows.lines), len(names)), np.float32)
    one = np.zeros(len(matrix), np.int64)  # the items are one query
    for k, name in enumerate(names):
        if (column := column_of(name, rows.columns)) != name:
            value = name[len(column) + 1 :]
            matrix[:, k] = [text.strip() == value for text in column_texts(rows, column)]
            continue
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


def _coded(rows: Rows, left: Collection[str], known: Sequence[str]) -> tuple[str, ...]:
    """The features `column=value` among the known ones whose column is left."""
    return tuple(f for f in known if f not in rows.columns and column_of(f, left) in left)


def _categories(rows: Rows, columns: dict[str, list[Any]]) -> tuple[str, ...]:
    """The features of all categorical columns whose names say which column they are of."""
    found = [
        [f"{name}={value}" for value in category_values(values)]
        for name, values in columns.items()
        if "=" not in name
    ]
    return tuple(f for names in found if not {*names} & {*rows.columns} for f in names)


def _notes(rows: Rows, columns: dict[str, list[Any]], named: Columns) -> tuple[str, ...]:
    """A line about each column of which at least half, but not all, are files of one kind."""
    kinds = {"images": (named.image, IMAGES), "sounds": (named.audio, AUDIO)}
    notes = []
    for what, (role, suffixes) in kinds.items():
        if role or _media(columns, suffixes):
            continue
        for name, values in columns.items():
            there = {row: v for row, v in enumerate(values) if v is not None and v != ""}
            alike = [isinstance(v, str) and _ends(v, suffixes) for v in there.values()]
            if 2 * sum(alike) < max(len(alike), 1):
                continue
            row = next(r for r, v in there.items() if not _is_file(v, suffixes))
            fault = "is a URL" if "://" in str(values[row]) else f"is none of {' '.join(suffixes)}"
            notes.append(
                f"{rows.place(row)}: column {shown(name)} looks like {what}, but "
                f"{shown(values[row])} {fault}: no {what} are taken from it"
            )
    return tuple(notes)


def _group_notes(rows: Rows, named: Columns, ignore: Collection[str]) -> Iterator[str]:
    """A line about the first column that is named like a group and whose values repeat."""
    for name, values in rows.columns.items():
        repeats = len(values) >= 2 * len({str(value) for value in values})
        if name.lower() in GROUPS and repeats and not named.group and name not in ignore:
            yield (
                f"{rows.path}: column {shown(name)} repeats its values: with --group {name}, only "
                "items of the same value are compared"
            )
            return


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


def _is_file(value: Any, suffixes: Collection[str]) -> bool:
    return isinstance(value, str) and "://" not in value and _ends(value, suffixes)


def _ends(value: str, suffixes: Collection[str]) -> bool:
    return value.strip().lower().endswith(tuple(suffixes))


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
