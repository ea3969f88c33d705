"""Roles of a table's columns: id, text, image, audio, group, grade, features, or ignored.

`choose_columns` decides the roles for all readers: of labelled tables (`sortnet.data.read_tables`),
of items (`sortnet.items.read_items`, `given_items`) and of frames (`sortnet.estimator.arrays`).
`sortnet.tables.values` says whether the cells of a column are numbers, dates or categories.
Short texts that repeat become features here; other texts are described by `sortnet.items.features`,
with the numbers that `sortnet.items.texts` makes of a text.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import fmean
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sortnet.core import F64
from sortnet.core.large_arrays import allocate
from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.tables.rows import Rows, listed, no_column
from sortnet.tables.values import Cells, decimal_comma, is_numeric, levels, numbers_of

IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp")
AUDIO = (".wav", ".mp3", ".ogg", ".flac", ".m4a")
NAMED = ("id", "text", "image", "audio", "group", "context")  # roles that can be named
IDS = ("id", "docid", "doc_id", "item_id", "itemid", "uid", "uuid", "key", "item", "name")
TEXTS = (
    *("text", "content", "body", "essay", "argument", "description", "sentence", "review"),
    *("comment", "question", "answer", "response", "output", "summary", "title", "headline"),
)
GROUPS = ("group", "prompt", "prompt_id", "question", "topic", "scene", "query", "qid")
GRADES = ("label", "grade", "relevance")
_NO_FEATURES = {*IDS, *GRADES, "qid", "index"}  # numbers without a magnitude, or the answer
_KEPT = {*IDS, *TEXTS, *GROUPS}  # read as they are written

_LONGEST_NAME = 100  # characters of a value that may still be a name
_WORDS_OF_A_TEXT = 3.0  # on average


def kept_as_read(*named: str | None) -> Any:
    """Whether the cells of a column are needed as they are written, by its name."""
    return lambda column: column in named or column.lower() in _KEPT


@dataclass(frozen=True)
class Columns:
    """The role of each column.

    Attributes:
        id: the id column; None if items are named by row number; `files` for a folder.
        text, image, audio: columns, or None.
        features: columns of numbers and dates.
        ignored: the columns, or files of a folder, that were left out.
        group, context: columns of the group's name and its own text, never guessed; or None.
        shown: further columns that annotators see, never guessed; they may be features, too.
        categories: features `column=value`, of categorical columns.
        dates: those of the features that are dates.
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
    dates: tuple[str, ...] = ()


@dataclass(frozen=True)
class LabelledColumns(Columns):
    """The role of each column of a labelled table, whose group is the query.

    Attributes:
        grade: the column of the grades; None if there is none.
    """

    grade: str | None = None


C = TypeVar("C", bound=Columns)


def choose_columns(
    rows: Rows,
    named: C,
    ignore: Collection[str],
    features: Sequence[str] | None,
    known: Sequence[str] | None = None,
) -> C:
    """Choose each column's role: as named, and the rest by their names and values.

    Args:
        features: those to take; None: all that there are.
        known: features that other rows have, which say what is categorical; None: the values say.
    """
    given = (column_of(name, rows.columns) for name in features or ())
    explicit = (*(getattr(named, role) for role in NAMED), *given)
    if named.context and not named.group:
        raise DataError(f"{rows.path}: a context is that of a group: --group names its column")
    for name in (*explicit, *named.shown, *ignore):
        if name is not None and name not in rows.columns:
            raise DataError(f"{rows.path}: {no_column(name, rows.columns)}")
    left = {c: v for c, v in rows.columns.items() if c not in ignore or c in explicit}
    _refuse_nested(rows, left)
    coded = tuple(f for f in known or () if f not in rows.columns and column_of(f, left) in left)
    taken = {*explicit, *named.shown, *(column_of(name, left) for name in coded)}
    words = {c: v for c, v in left.items() if c not in taken and not is_numeric(v)}
    words = {c: v for c, v in words.items() if c.lower() not in GRADES}
    if features is None:
        refuse_decimal_commas(rows, words)
    notes = (*_notes(rows, words, named), *_group_notes(rows, named, ignore))
    image = named.image or _media(words, IMAGES)
    words.pop(image or "", None)
    audio = named.audio or _media(words, AUDIO)
    words.pop(audio or "", None)
    by_name = named.id or _named_id(rows, {c: v for c, v in left.items() if c not in explicit})
    words.pop(by_name or "", None)
    text = named.text or _text(words)
    short = (
        c for c, v in words.items() if max(map(len, _strings(v)), default=999) <= _LONGEST_NAME
    )
    id_ = by_name or next((c for c in short if _is_unique(words[c])), None)
    special = {id_, text, image, audio, named.group, named.context}
    if features is None:
        rest = {c: v for c, v in left.items() if c not in special}
        rest = {c: v for c, v in rest.items() if c.lower() not in _NO_FEATURES}
        found = choose_features(rest, rows.columns)
        coded = coded if known is not None else tuple(f for f in found if f not in rest)
        by_code = {column_of(name, rest) for name in coded}
        features = [name for name in found if name in rest and name not in by_code]
    else:
        coded = ()
    seen = (text, image, audio, *named.shown, *features, *coded)
    if not any(seen) and not (id_ and not is_numeric(left[id_])):
        raise DataError(f"{rows.path}: no column can be shown or learned from (--text names one)")
    used = {*special, *named.shown, *(column_of(f, rows.columns) for f in (*features, *coded))}
    ignored = tuple(c for c in rows.columns if c not in used)
    chosen = replace(named, id=id_, text=text, image=image, audio=audio, features=tuple(features))
    dates = tuple(name for name in features if name in rows.dates)
    return replace(chosen, ignored=ignored, categories=coded, notes=notes, dates=dates)


def without_unique_text(roles: C, named: Columns) -> C:
    """The roles of documents, whose id is not a text that happens to be unique.

    Args:
        roles: as `choose_columns` chose them.
        named: the roles that were named.
    """
    if named.id is None and (roles.id or "").lower() not in IDS:
        return replace(roles, id=None)
    return roles


def choose_features(columns: Mapping[str, Cells], names: Collection[str] = ()) -> tuple[str, ...]:
    """The columns that are numbers, and `column=value` for each value of the categorical ones.

    A categorical column is left out if its name, or that of another column in `names`, leaves open
    which column a feature is of.

    >>> choose_features({"size": ["1", "n/a"], "kind": ["a", "b"] * 3, "text": ["one", "two"]})
    ('size', 'kind=a', 'kind=b')
    """
    features = list[str]()
    for name, cells in columns.items():
        if is_numeric(cells):
            features.append(name)
        elif "=" not in name:
            coded = [f"{name}={value}" for value in levels(cells)]
            features += coded if not {*coded} & {*names} else []
    return tuple(features)


def column_of(feature: str, columns: Collection[str]) -> str:
    """The column that a feature is made of: of `column=value`, where no column is called so.

    >>> column_of("colour=red", ["colour"]), column_of("a=b", ["a", "a=b"])
    ('colour', 'a=b')
    """
    return feature if feature in columns else feature.partition("=")[0]


def feature_matrix(rows: Rows, names: Sequence[str]) -> F64:
    """The features as (n, d) float64, NaN where a number is missing.

    `column=value` is 1 for the rows that have the value, and 0 for all others.

    Raises:
        DataError: if a column is missing; on a value that is not a number, or is infinite in
            float32.

    Cost: linear; a cell that is text takes about a microsecond.
    """
    what = f"{rows.path}: {len(rows)} rows of {len(names)} features"
    matrix: F64 = allocate((len(rows), len(names)), np.float64, what)
    texts: dict[str, NDArray[Any]] = {}
    for k, name in enumerate(names):
        if (column := column_of(name, rows.columns)) not in rows.columns:
            raise DataError(
                f"{rows.path}: there is no column {shown(column)} in {listed(rows.columns)}"
            )
        if column == name:
            matrix[:, k] = _finite(rows, name)
            continue
        if column not in texts:
            texts = {column: np.array([*map(str.strip, rows.texts(column))], object)}
        matrix[:, k] = texts[column] == name[len(column) + 1 :]
    return matrix


def _finite(rows: Rows, name: str) -> F64:
    cells = rows.columns[name]
    numbers, wrong = numbers_of(cells)
    infinite = np.abs(numbers) > np.finfo(np.float32).max
    for faults, what in ((wrong, "is not a number"), (infinite, "is infinite in float32")):
        if faults.any():
            row = int(faults.argmax())
            fault = f"{shown(cells[row])} {what}"
            raise DataError(f"{rows.place(row)}: column {shown(name)}: {fault}")
    return numbers


def _refuse_nested(rows: Rows, columns: Mapping[str, Cells]) -> None:
    for column, cells in columns.items():
        for row, cell in enumerate(() if isinstance(cells, np.ndarray) else cells):
            if isinstance(cell, list | dict):
                what = f"column {shown(column)} holds a nested value"
                raise DataError(f"{rows.place(row)}: {what}: {shown(cell)}")


def refuse_decimal_commas(rows: Rows, columns: Mapping[str, Cells]) -> None:
    """Refuse a column of numbers with decimal commas, which would be no feature, silently."""
    for column, cells in columns.items():
        row = None if column.lower() in (*IDS, *TEXTS, *GROUPS) else decimal_comma(cells)
        if row is not None:
            place = f"{rows.place(row)}: column {shown(column)}: {shown(cells[row])}"
            raise DataError(f"{place} is not a number: numbers have a decimal point, not a comma")


def _notes(rows: Rows, columns: dict[str, Cells], named: Columns) -> tuple[str, ...]:
    """A line about each column of which at least half, but not all, are files of one kind."""
    kinds = {"images": (named.image, IMAGES), "sounds": (named.audio, AUDIO)}
    notes = []
    for what, (role, suffixes) in kinds.items():
        if role or _media(columns, suffixes):
            continue
        for name, values in columns.items():
            there = {row: v for row, v in enumerate(values) if v is not None and v != ""}
            alike = [str(v).strip().lower().endswith(suffixes) for v in there.values()]
            if 2 * sum(alike) < max(len(alike), 1):
                continue
            row = next(r for r, v in there.items() if not _is_file(v, suffixes))
            fault = "is a URL" if "://" in str(values[row]) else f"is none of {' '.join(suffixes)}"
            notes.append(
                f"{rows.place(row)}: column {shown(name)} looks like {what}, but "
                f"{shown(values[row])} {fault}: no {what} are taken from it"
            )
    return tuple(notes)


def _group_notes(rows: Rows, named: Columns, ignore: Collection[str]) -> list[str]:
    """A line about the first column that is named like a group and whose values repeat."""
    repeated = (
        f"{rows.path}: column {shown(name)} repeats its values: with --group {name}, only "
        "items of the same value are compared"
        for name, cells in rows.columns.items()
        if name.lower() in GROUPS
        and name not in ignore
        and len(cells) >= 2 * len({str(cell) for cell in cells})
    )
    return [] if named.group else [*islice(repeated, 1)]


def _strings(values: Cells) -> list[str]:
    """A column's values that are not missing, if all are strings; else none."""
    there = [v for v in values if v is not None and v != ""]
    return there if all(isinstance(v, str) for v in there) else []


def _media(columns: dict[str, Cells], suffixes: tuple[str, ...]) -> str | None:
    """The first column with files of that kind only."""
    texts = {name: _strings(cells) for name, cells in columns.items()}
    files = (n for n, there in texts.items() if all(_is_file(v, suffixes) for v in there) and there)
    return next(files, None)


def _is_file(value: Any, suffixes: tuple[str, ...]) -> bool:
    there = isinstance(value, str) and "://" not in value
    return there and value.strip().lower().endswith(suffixes)


def _named_id(rows: Rows, columns: dict[str, Cells]) -> str | None:
    """The column named like an id: `id` always, others if their values are unique."""
    by_name = {name.lower(): name for name in reversed(columns)}
    candidates = [by_name[name] for name in IDS if name in by_name]
    if not candidates or candidates[0].lower() == "id":
        return candidates[0] if candidates else None
    return next((c for c in candidates if _is_unique(columns[c])), None)


def _is_unique(values: Cells) -> bool:
    there = [str(v).strip() for v in values if isinstance(v, str | int) and str(v).strip()]
    return len(set(there)) == len(values)


def _text(columns: dict[str, Cells]) -> str | None:
    """The column named like a text, else the one with most words, if there are enough."""
    by_name = {name.lower(): name for name in reversed(columns) if _strings(columns[name])}
    for name in TEXTS:
        if name in by_name:
            return by_name[name]
    texts = {name: _strings(v) for name, v in columns.items() if not levels(v)}
    words = {name: fmean(len(v.split()) for v in there) for name, there in texts.items() if there}
    longest = max(words, key=lambda name: words[name], default=None)
    return longest if longest and words[longest] >= _WORDS_OF_A_TEXT else None
