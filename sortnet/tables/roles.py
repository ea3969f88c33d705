"""Choose the role of each column of a table: id, text, image, audio, group, grade or feature.

All readers call `choose_columns`: `sortnet.data.read_tables` for labelled tables,
`sortnet.items.read_items` and `given_items` for items, and `sortnet.estimator.arrays` for frames.
`sortnet.tables.values` recognises numbers, dates and categories in the cells of a column. Short
texts that repeat are categories and become features; other texts are described by
`sortnet.items.features`, with the numbers that `sortnet.items.texts` computes.
`columns_sentence` tells what was made of the columns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sortnet.core import F64
from sortnet.core.memory import allocate
from sortnet.errors import DataError
from sortnet.files import note, shown
from sortnet.messages import count, printable
from sortnet.tables.rows import Rows, listed, no_column
from sortnet.tables.values import Cells, decimal_comma, is_missing, is_numeric, levels, numbers_of

IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")
AUDIO = (".wav", ".mp3", ".ogg", ".flac", ".m4a")
NAMED = ("id", "text", "image", "audio", "group", "context")  # roles that can be named
IDS = ("id", "docid", "doc_id", "item_id", "itemid", "uid", "uuid", "key", "item", "name")
TEXTS = (
    *("text", "content", "body", "essay", "argument", "description", "sentence", "review"),
    *("comment", "question", "answer", "response", "output", "summary", "title", "headline"),
)
GROUPS = ("group", "prompt", "prompt_id", "question", "topic", "scene", "query", "qid")
GRADES = ("label", "grade", "relevance")
# Names of columns that are never features, because their numbers are names of documents, or are the
# grades that a ranker shall predict.
_NO_FEATURES = {*IDS, *GRADES, "qid", "index"}
_KEPT = {*IDS, *TEXTS, *GROUPS}  # columns whose cells are kept exactly as written

_NESTED = (list, tuple, dict, set, frozenset, np.ndarray)
_LONGEST_NAME = 100  # largest number of characters of a value that can be an id
_WORDS_OF_A_TEXT = 3.0  # least mean number of words in a column of texts
# Matches numbers with a unit or a currency, and dates, such as `10 %`, `$1,000`, `23-Nov-2026`.
_AMOUNT = re.compile(r"\W*\d[\d\W]*[^\W\d]{0,4}[\d\W]*")
_FORM_OF_NUMBERS = "write 1234.5, 2026-11-23, and nothing for a missing value"
_LONGEST_AMOUNT = 40  # characters
_LISTED = 20  # largest number of names in a line


def kept_as_read(*names: str | None) -> Any:
    """Make a function that says whether the cells of a column must be kept exactly as written.

    The function is true for columns with one of the given names, and for columns whose names are
    typical for ids, texts or groups.
    """
    return lambda column: column in names or column.lower() in _KEPT


@dataclass(frozen=True)
class Columns:
    """Roles of the columns of a table.

    Attributes:
        id: name of the id column. None if items are named by row number; `files` for a folder.
        text: name of the column of texts, or None.
        image: name of the column of images, or None.
        audio: name of the column of sounds, or None.
        features: names of the columns of numbers and dates.
        ignored: the columns, or files of a folder, that are not used.
        group: name of the column of groups, or None; it is never guessed.
        context: name of the column of texts about the groups, or None; it is never guessed.
        shown: further columns that annotators see, never guessed. They may also be features.
        categories: names of features `column=value`, made from categorical columns.
        dates: names of the features that are dates.
        grade: name of the column of grades of a labelled table, whose groups are the queries; None
            if there are no grades.
        notes: lines of text about columns that look like images, sounds or groups, but are not
            used as such.
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
    grade: str | None = None


def choose_columns(
    rows: Rows,
    named_roles: Columns,
    ignore: Collection[str],
    features: Sequence[str] | None,
    known_features: Sequence[str] | None = None,
) -> Columns:
    """Choose the role of every column by the names and the values of the columns.

    Args:
        rows: the table.
        named_roles: roles that the user named, which are not guessed.
        ignore: names of columns to leave out, unless they have a named role.
        features: names of the features. If None, all features that the table has.
        known_features: names of the features of other data; a column is numeric or categorical if
            it is so there. If None, the values decide.

    Raises:
        DataError: if a named column is missing, a cell holds a list or dict, a number has a decimal
            comma, or no column can be used.
    """
    # The columns with a named role; None stands for a role without a column.
    named_columns = [getattr(named_roles, role) for role in (*NAMED, "grade")]
    named_columns += [column_of(name, rows.columns) for name in features or ()]
    _refuse_named_roles(rows, named_roles, (*named_columns, *named_roles.shown, *ignore))
    usable = {
        name: cells
        for name, cells in rows.columns.items()
        if name not in ignore or name in named_columns
    }
    checked = usable
    if features is not None:  # nothing is made of the other columns, which may be nested
        checked = {name: cells for name, cells in usable.items() if name in named_columns}
    _refuse_nested(rows, checked, named_columns)

    # A column of texts without a role may become the column of ids, texts, images or sounds.
    known_categories: list[str] | None = None
    if known_features is not None:
        known_categories = [
            feature
            for feature in known_features
            if feature not in rows.columns and column_of(feature, usable) in usable
        ]
    known_columns = {column_of(name, usable) for name in known_features or ()}
    with_role = {*named_columns, *named_roles.shown, *known_columns}
    text_columns = {
        name: cells
        for name, cells in _without(usable, with_role).items()
        if name.lower() not in GRADES and not is_numeric(cells)
    }
    if features is None:
        refuse_decimal_commas(rows, text_columns)
    roles = _with_contents(named_roles, _without(usable, named_columns), text_columns)

    # The remaining columns may become features.
    other_roles = {getattr(roles, role) for role in (*NAMED, "grade")}
    if features is None:
        candidates = {
            name: cells
            for name, cells in _without(usable, other_roles).items()
            if name.lower() not in _NO_FEATURES
        }
        numeric, categories = _choose_features(
            candidates, rows.columns, known_columns, known_categories
        )
    else:
        numeric, categories = _given_features(features, rows.columns)
    _refuse_without_content(rows, roles, (*named_roles.shown, *numeric, *categories))
    feature_columns = {column_of(name, rows.columns) for name in (*numeric, *categories)}
    used = {*other_roles, *named_roles.shown, *feature_columns}
    if features is None:
        unread = _without(text_columns, {*feature_columns, roles.image, roles.audio})
        for name, cells in unread.items():
            _note_amounts(rows, name, cells)
    return replace(
        roles,
        features=numeric,
        ignored=tuple(name for name in rows.columns if name not in used),
        categories=categories,
        notes=(*_media_notes(rows, text_columns, roles), *_group_notes(rows, named_roles, ignore)),
        dates=tuple(name for name in numeric if name in rows.dates),
    )


def _refuse_named_roles(rows: Rows, named_roles: Columns, names: Iterable[str | None]) -> None:
    """Raise DataError for a context without a group, or for a name that no column has.

    Args:
        rows: the table.
        named_roles: the roles that the user named.
        names: names of columns that must exist; None is skipped.
    """
    if named_roles.context and not named_roles.group:
        raise DataError(f"{rows.path}: a context belongs to a group: --group names its column")
    for name in names:
        if name is not None and name not in rows.columns:
            raise DataError(f"{rows.path}: {no_column(name, rows.columns)}")


def _with_contents(
    named_roles: Columns, without_role: Mapping[str, Cells], text_columns: Mapping[str, Cells]
) -> Columns:
    """Choose the columns of ids, texts, images and sounds.

    Args:
        named_roles: roles that the user named.
        without_role: the columns that have no named role.
        text_columns: the columns of texts that have no role yet.
    """
    image = named_roles.image or _find_media_column(text_columns, IMAGES)
    remaining = _without(text_columns, {image})
    audio = named_roles.audio or _find_media_column(remaining, AUDIO)
    remaining = _without(remaining, {audio})
    id_column = named_roles.id or _named_id(without_role)
    remaining = _without(remaining, {id_column})
    text = named_roles.text or _find_text_column(remaining)
    # Without an id by its name, a column of unique short texts is the id, even if it is the text.
    id_column = id_column or _unique_short_text(remaining)
    return replace(named_roles, id=id_column, text=text, image=image, audio=audio)


def _without(columns: Mapping[str, Cells], removed: Collection[str | None]) -> dict[str, Cells]:
    """Select the columns that are not named in `removed`; None is no name of a column."""
    return {name: cells for name, cells in columns.items() if name not in removed}


def _refuse_without_content(rows: Rows, roles: Columns, shown_or_learned: Collection[str]) -> None:
    """Raise DataError for a table without a column that can be shown or learned from.

    An id can be shown, but a number as the only thing that is shown tells nothing.

    Args:
        rows: the table.
        roles: the roles of the columns of ids, texts, images and sounds.
        shown_or_learned: names of further columns that are shown, and of features.
    """
    if roles.text or roles.image or roles.audio or any(shown_or_learned):
        return
    if not roles.id or is_numeric(rows.columns[roles.id]):
        if roles.grade:
            names = listed(rows.columns)
            raise DataError(f"{rows.path}: there is no feature column with a value in {names}")
        raise DataError(f"{rows.path}: no column can be shown or learned from (--text names one)")


def _choose_features(
    candidates: Mapping[str, Cells],
    names: Collection[str],
    known_columns: Collection[str],
    known_categories: Sequence[str] | None,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Choose features by the values of columns: numeric columns, and levels of categorical columns.

    A categorical column is left out if its features would be ambiguous: if its name has a `=`, or
    if a column is called like one of the features.

    Args:
        candidates: the columns that may become features.
        names: names of all columns of the table.
        known_columns: columns that are features of other data, and so are features here, too.
        known_categories: the features `column=value` that other data have. If None, the values
            decide which columns are categorical.

    Returns:
        The names of numeric columns, and the features `column=value`.
    """
    numeric: list[str] = []
    categories = [*(known_categories or ())]
    categorical_columns = {column_of(name, candidates) for name in categories}
    for name, cells in candidates.items():
        if name in categorical_columns:
            continue
        if is_numeric(cells) or name in known_columns:
            numeric.append(name)
        elif known_categories is None and "=" not in name:
            levels_of_column = [f"{name}={value}" for value in levels(cells)]
            if not {*levels_of_column} & {*names}:
                categories += levels_of_column
    return tuple(numeric), tuple(categories)


def _given_features(
    features: Sequence[str], names: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Divide features that the user or a model names in those of columns and those of levels.

    The order of the features stays, so that levels before a column are listed with the columns.

    Args:
        features: names of the features.
        names: names of all columns of the table.
    """
    n_with_columns = len(features)
    while n_with_columns and features[n_with_columns - 1] not in names:
        n_with_columns -= 1
    return tuple(features[:n_with_columns]), tuple(features[n_with_columns:])


def without_unique_text(roles: Columns, named_roles: Columns) -> Columns:
    """Remove an id column that was guessed only because its texts are unique.

    Documents, unlike items, need no id.

    Args:
        roles: the roles that `choose_columns` chose.
        named_roles: the roles that the user named.
    """
    if named_roles.id is None and (roles.id or "").lower() not in IDS:
        unused = () if roles.id is None or roles.id == roles.text else (roles.id,)
        return replace(roles, id=None, ignored=roles.ignored + unused)
    return roles


def column_of(feature: str, columns: Collection[str]) -> str:
    """Find the column of a feature: the column with its name, or else with the part before `=`.

    >>> column_of("colour=red", ["colour"]), column_of("a=b", ["a", "a=b"])
    ('colour', 'a=b')
    """
    return feature if feature in columns else feature.partition("=")[0]


def feature_matrix(rows: Rows, names: Sequence[str]) -> F64:
    """Make the features (n_rows, n_features) in float64; a missing number becomes NaN.

    A feature `column=value` is 1 for the rows that have the value, and 0 for all other rows.

    Raises:
        DataError: if a column is missing, or a value is not a number or is infinite in float32.

    Cost: linear; a cell with text takes about a microsecond.
    """
    size = f"{rows.path}: {len(rows)} rows of {len(names)} features"
    matrix: F64 = allocate((len(rows), len(names)), np.float64, size)
    texts: dict[str, NDArray[Any]] = {}
    for k, name in enumerate(names):
        column = column_of(name, rows.columns)
        if column not in rows.columns:
            raise DataError(
                f"{rows.path}: there is no column {shown(column)} in {listed(rows.columns)}"
            )
        if column == name:
            matrix[:, k] = _finite_numbers(rows, name)
            continue
        # Features of the same column follow each other, so only one column's texts are in memory.
        if column not in texts:
            texts = {column: np.array([*map(str.strip, rows.texts(column))], object)}
        value = name[len(column) + 1 :]
        matrix[:, k] = texts[column] == value
    return matrix


def _finite_numbers(rows: Rows, name: str) -> F64:
    """Convert a column to numbers; raise DataError for a text, or a number infinite in float32."""
    cells = rows.columns[name]
    numbers, is_text = numbers_of(cells)
    is_infinite = np.abs(numbers) > np.finfo(np.float32).max
    kind = "a date, such as 2026-11-23" if name in rows.dates else "a number"
    for has_fault, fault in ((is_text, f"is not {kind}"), (is_infinite, "is infinite in float32")):
        if has_fault.any():
            row = int(has_fault.argmax())
            place = f"{rows.place(row)}: column {shown(name)}"
            raise DataError(f"{place}: {shown(cells[row])} {fault}; {_FORM_OF_NUMBERS}")
    return numbers


def _refuse_nested(
    rows: Rows, columns: Mapping[str, Cells], named_columns: Collection[str | None]
) -> None:
    """Raise DataError if a cell of the columns holds a list, an array, a set or a dict.

    The message advises to leave the column out, unless its name is in `named`.
    """
    for column, cells in columns.items():
        types = () if isinstance(cells, np.ndarray) else {*map(type, cells)}
        if not any(issubclass(cell_type, _NESTED) for cell_type in types):
            continue
        for row, cell in enumerate(cells):
            if isinstance(cell, _NESTED):
                fault = f"column {shown(column)} holds a nested value: {shown(cell)}"
                if column not in named_columns:
                    fault += f"; --ignore {printable(column)} leaves it out"
                raise DataError(f"{rows.place(row)}: {fault}")


def refuse_decimal_commas(rows: Rows, columns: Mapping[str, Cells]) -> None:
    """Raise DataError for numbers with decimal commas, which would otherwise count as texts."""
    for column, cells in columns.items():
        if column.lower() in _KEPT:
            continue
        row = decimal_comma(cells)
        if row is not None:
            place = f"{rows.place(row)}: column {shown(column)}: {shown(cells[row])}"
            raise DataError(f"{place} is not a number: numbers have a decimal point, not a comma")


def _note_amounts(rows: Rows, column: str, cells: Cells) -> None:
    """Log a note if all texts of a column look like numbers or dates that cannot be read."""
    first_row = None
    for row, cell in enumerate(cells):
        if is_missing(cell):
            continue
        text = cell.strip() if isinstance(cell, str) else ""
        if len(text) > _LONGEST_AMOUNT or not _AMOUNT.fullmatch(text):
            return
        first_row = row if first_row is None else first_row
    if first_row is not None and column.lower() not in _NO_FEATURES:
        fault = f"column {shown(column)}: {shown(cells[first_row])} is read as text"
        advice = f"not as a number or a date; {_FORM_OF_NUMBERS}"
        note(rows.place(first_row), f"{fault}, {advice}")


def _media_notes(rows: Rows, columns: Mapping[str, Cells], roles: Columns) -> list[str]:
    """Write notes about columns in which at least half, but not all, values name images or sounds.

    There is no note about images if there is a column of images, and likewise for sounds.

    Args:
        rows: the table.
        columns: the columns of texts.
        roles: the roles that were chosen.
    """
    notes = []
    for kind, column, suffixes in (("images", roles.image, IMAGES), ("sounds", roles.audio, AUDIO)):
        for name, cells in columns.items() if column is None else ():
            values = {
                row: cell for row, cell in enumerate(cells) if cell is not None and cell != ""
            }
            other_rows = [row for row, value in values.items() if not _is_file(value, suffixes)]
            # A URL may end like the name of a file.
            n_with_suffix = sum(str(v).strip().lower().endswith(suffixes) for v in values.values())
            if not other_rows or 2 * n_with_suffix < len(values):
                continue
            row = other_rows[0]
            is_url = "://" in str(cells[row])
            fault = "is a URL" if is_url else f"is none of {' '.join(suffixes)}"
            notes.append(
                f"{rows.place(row)}: column {shown(name)} looks like {kind}, but "
                f"{shown(cells[row])} {fault}: no {kind} are taken from it"
            )
    return notes


def _group_notes(rows: Rows, named_roles: Columns, ignore: Collection[str]) -> list[str]:
    """Write a note about the first column with repeated values and a name that groups often have.

    The list has no note or one note.
    """
    if named_roles.group:
        return []
    for name, cells in rows.columns.items():
        if name.lower() not in GROUPS or name in ignore:
            continue
        if len(cells) >= 2 * len({str(cell) for cell in cells}):
            return [
                f"{rows.path}: column {shown(name)} repeats its values: with --group {name}, only "
                "items of the same value are compared"
            ]
    return []


def _strings(cells: Cells) -> list[str]:
    """List the cells that are not empty, if all of these cells are strings; else return no cell."""
    values = [v for v in cells if v is not None and v != ""]
    return values if all(isinstance(v, str) for v in values) else []


def _find_media_column(columns: Mapping[str, Cells], suffixes: tuple[str, ...]) -> str | None:
    """Find the first column whose values are all names of files with these suffixes, or None."""
    for name, cells in columns.items():
        values = _strings(cells)
        if values and all(_is_file(value, suffixes) for value in values):
            return name
    return None


def _is_file(value: Any, suffixes: tuple[str, ...]) -> bool:
    """Whether a value is the name of a file, no URL, with one of the suffixes."""
    if not isinstance(value, str) or "://" in value:
        return False
    return value.strip().lower().endswith(suffixes)


def _named_id(columns: Mapping[str, Cells]) -> str | None:
    """Find the id column by its name.

    A column called `id`, in capital or small letters, is always the id. A column with another name
    in `IDS` is the id if its values are unique.
    """
    # Among columns that differ only in case, the first counts.
    by_lower_name = {name.lower(): name for name in reversed([*columns])}
    if "id" in by_lower_name:
        return by_lower_name["id"]
    for name in IDS:
        if name in by_lower_name and _is_unique(columns[by_lower_name[name]]):
            return by_lower_name[name]
    return None


def _is_unique(cells: Cells) -> bool:
    values = [str(v).strip() for v in cells if isinstance(v, str | int) and str(v).strip()]
    return len(set(values)) == len(cells)


def _unique_short_text(columns: dict[str, Cells]) -> str | None:
    """Find the first column of unique texts that are short enough to be names of items."""
    for name, cells in columns.items():
        values = _strings(cells)
        if values and max(map(len, values)) <= _LONGEST_NAME and _is_unique(cells):
            return name
    return None


def _find_text_column(columns: dict[str, Cells]) -> str | None:
    """Find the column of texts by its name, or else by the number of its words; None without one.

    If no column has a name in `TEXTS`, the column with most words per text is the column of texts.
    It must have at least three words per text on average, and must not be categorical.
    """
    # Among columns that differ only in case, the first counts.
    by_lower_name = {name.lower(): name for name in reversed(columns) if _strings(columns[name])}
    for name in TEXTS:
        if name in by_lower_name:
            return by_lower_name[name]
    mean_words = {}
    for name, cells in columns.items():
        is_categorical = bool(levels(cells))
        values = _strings(cells)
        if values and not is_categorical:
            mean_words[name] = fmean(len(value.split()) for value in values)
    if not mean_words:
        return None
    longest = max(mean_words, key=lambda name: mean_words[name])
    return longest if mean_words[longest] >= _WORDS_OF_A_TEXT else None


def columns_sentence(roles: Columns, computed: Sequence[str]) -> str:
    """Tell which columns became features, by their kinds, and which are not used.

    Args:
        roles: the roles of the table's columns.
        computed: the stored names of the features that were computed from texts and images.

    >>> columns_sentence(Columns(features=("x1", "x2"), ignored=("url",)), ())
    'features are made of numbers (x1, x2); not used: url'
    """
    groups = feature_groups(roles, computed)
    features_sentence = ", ".join(f"{kind} ({names})" for kind, names in groups.items())
    sentence = (
        f"features are made of {features_sentence}"
        if features_sentence
        else "no column is a feature"
    )
    if roles.ignored:
        sentence += f"; not used: {listed_names(roles.ignored)}"
    return sentence


def feature_groups(roles: Columns, computed: Sequence[str]) -> dict[str, str]:
    """List the columns that became features, in groups by their kind.

    Args:
        roles: the roles of the table's columns.
        computed: the stored names of the features that were computed from texts and images.

    Returns:
        {kind of columns: their names}; kinds without columns are left out.

    >>> roles = Columns(text="note", features=("size", "born"), dates=("born",))
    >>> feature_groups(roles, ["text: log words", "text: log links"])
    {'numbers': 'size', 'dates': 'born', 'texts': 'note (2 features)'}
    """
    # A categorical column has a feature for each value: the features are counted by their column.
    n_values = Counter(column_of(feature, ()) for feature in roles.categories)
    groups = {
        "numbers": [name for name in roles.features if name not in roles.dates],
        "dates": [*roles.dates],
        "categories": [f"{column} ({count(n, 'value')})" for column, n in n_values.items()],
        # Items from a folder have texts or images without a column.
        "texts": _described_column(roles.text or "texts", "text: ", computed),
        "images": _described_column(roles.image or "images", "image: ", computed),
    }
    return {group: listed_names(names) for group, names in groups.items() if names}


def _described_column(column: str, prefix: str, computed: Sequence[str]) -> list[str]:
    """Name a column of texts or images with the number of its features; empty without features.

    Args:
        column: name of the column.
        prefix: text with which the names of the column's features begin.
        computed: the stored names of all computed features.
    """
    n_features = sum(feature.startswith(prefix) for feature in computed)
    return [f"{column} ({count(n_features, 'feature')})"] if n_features else []


def listed_names(names: Sequence[str]) -> str:
    """Write names in one line: the first 20, and how many there are.

    >>> listed_names(["price", "x1", "x2"])
    'price, x1, x2'
    """
    first = ", ".join(map(printable, names[:_LISTED]))
    return first if len(names) <= _LISTED else f"{first}, ... ({len(names)} in all)"
