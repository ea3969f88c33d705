"""Read the lines of a judgement file; check each line with the items and with earlier lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from sortnet.errors import JudgementError, StoreError
from sortnet.files import TABLES, shown, suffix_of
from sortnet.items import Items
from sortnet.items.item_groups import fault_across
from sortnet.preference import ANSWERS, Judgement
from sortnet.preference.base import MOST_ITEMS, SIDES, Word, check_undo
from sortnet.tables.read_rows import read_rows
from sortnet.tables.rows import Rows, listed
from store.collections.collection_rows import checked_name
from store.collections.formats.faults import refuse
from store.collections.formats.foreign_rows import FOREIGN_COLUMNS, votes_of_foreign_rows
from store.collections.judgement_cells import CELL_READERS, read_id
from store.csv_file import without_escapes

Form: TypeAlias = Literal["jsonl", "csv", "arena", "chosen", "label-studio", "argilla"]

_EXPORTED_ALWAYS = {"id", "number"}  # columns that the exports of all versions have
_WINNER_COLUMNS = {"winner", "loser"}
# The columns of the items in their places; files of votes have other names for the first two.
PLACE_COLUMNS = tuple(f"item{place}" for place in range(1, MOST_ITEMS + 1))
_PLACES = ("left", "right", *PLACE_COLUMNS[2:])
# The names that files of votes use for our columns, in lower case.
_COLUMN_ALIASES = {
    "left": ("left", "arg1", "item1", "item_1", "first", "a1", "a"),
    "right": ("right", "arg2", "item2", "item_2", "second", "a2", "b"),
    "answer": ("answer", "value", "vote", "label", "winner", "choice"),
}
# The words that files of votes use for answers about two items, in lower case.
_WORD_OF_VOTE: dict[str, Word] = {
    **dict.fromkeys(("left", "a1", "arg1", "item1", "first", "a", "1", "model_a"), "left"),
    **dict.fromkeys(("right", "a2", "arg2", "item2", "second", "b", "2", "model_b"), "right"),
    **dict.fromkeys(("tie", "equal", "draw", "same", "0"), "tie"),
}


@dataclass(frozen=True)
class Line:
    """A judgement read from a file.

    Attributes:
        where: the file and row, for messages.
        id: the id by which imports recognise the judgement.
        judgement: the judgement.
        row: {column: cell} of the row.
    """

    where: str
    id: str
    judgement: Judgement
    row: Mapping[str, Any]


def read_lines(
    path: Path,
    items: Items,
    *,
    form: Form | None = None,
    annotator: str | None = None,
    sides: tuple[str, str] | None = None,
) -> list[Line]:
    """Read and check all judgements of a file.

    `import_judgements` describes the columns.

    Args:
        path: the file.
        items: the items of the collection.
        form: the format of the file. If None, it is recognised by the suffix and the columns.
        annotator: the annotator of lines that name no annotator.
        sides: the fields of Label Studio's tasks that have the left and the right item.

    Raises:
        DataError: on the first line with an error.
    """
    foreign_form = form if form in FOREIGN_COLUMNS else None
    rows = votes_of_foreign_rows(_read_table(path, form), items, foreign_form, sides)
    number_of_id = {id: number for number, id in enumerate(items.ids)}
    names = _column_names(rows, number_of_id)
    earlier = _EarlierLines()
    lines: list[Line] = []
    for row, cells in enumerate(zip(*rows.columns.values(), strict=True)):
        record = dict(zip(names, cells, strict=True))
        line = _read_line(rows.place(row), record, number_of_id, annotator, earlier)
        _refuse_across_groups(line, items)
        earlier.add(line)
        lines.append(line)
    return lines


def _read_table(path: Path, form: Form | None) -> Rows:
    """Read the rows of a file; in an export of SortNet, remove the apostrophes for spreadsheets.

    Raises:
        DataError: if the file cannot be read, or is an export whose end is missing.
    """
    rows = read_rows(path, _table_suffix(path, form), may_be_empty=True)
    is_export = set(rows.columns) >= _EXPORTED_ALWAYS
    if not is_export:
        return rows
    # An export of SortNet ends with a newline. Files of other tools may end without a newline.
    if rows.lines and rows.unfinished:
        refuse(rows.place(-1), "half a line, the file was cut")
    return without_escapes(rows)


def _refuse_across_groups(line: Line, items: Items) -> None:
    """Refuse a judgement that compares items of different groups."""
    first, *others = line.judgement.items
    for other in others:
        fault = fault_across(items, first, other)
        if fault:
            refuse(line.where, f"item {shown(items.ids[first])} {fault}")


def _table_suffix(path: Path, form: Form | None) -> str:
    """Return the suffix by which `read_rows` recognises the format of the table.

    The format `form` counts more than the suffix of the file. If it is `csv`, a file `.tsv` is
    still read with tabs between its columns.
    """
    suffix = suffix_of(path)
    if form == "csv" and suffix == ".tsv":
        return suffix
    if form in ("csv", "jsonl"):
        return f".{form}"
    if path.exists() and suffix not in TABLES:
        refuse(str(path), f"is none of {', '.join(TABLES)}: say which format it has")
    return suffix


def _column_names(rows: Rows, number_of_id: Mapping[str, int]) -> list[str]:
    """Return the names of the columns; other names for left, right and answer are replaced."""
    names_in_file = list(rows.columns)
    if set(names_in_file) >= _WINNER_COLUMNS:
        return names_in_file
    column_of_name: dict[str, str] = {}  # {name in the file: `left`, `right` or `answer`}
    for column, aliases in _COLUMN_ALIASES.items():
        name_in_file = _find_column(column, aliases, names_in_file)
        if name_in_file is not None:
            column_of_name[name_in_file] = column
            if column == "answer":
                _refuse_zero_and_one(rows, name_in_file, number_of_id)
    return [column_of_name.get(name, name) for name in names_in_file]


def _find_column(column: str, aliases: Iterable[str], names_in_file: Sequence[str]) -> str | None:
    """Find the name that a file has for a column; None if the file has no such column.

    The name of the column itself is preferred to an alias. An alias may have capitals in the file.

    >>> _find_column("left", ["arg1", "item1"], ["Item1", "item1", "text"])
    'Item1'
    """
    if column in names_in_file:
        return column
    for alias in aliases:
        for name in names_in_file:
            if name.lower() == alias:
                return name
    return None


def _refuse_zero_and_one(rows: Rows, column: str, number_of_id: Mapping[str, int]) -> None:
    """Refuse a column of answers 0 and 1, whose 0 may mean the right item but also a tie."""
    answers = {str(answer).strip() for answer in rows.columns[column]}
    # If an item has the id 0 or 1, the digit means this item.
    clear_answers = {"skip", "cant-say", "", *number_of_id}
    if answers - clear_answers == {"0", "1"}:
        refuse(
            str(rows.path),
            "the answers are 0 and 1 only, and 0 would be a tie: write left or right, 1 or 2, "
            "a1 or a2, or an item's id; tie for neither",
        )


class _EarlierLines:
    """The lines read so far, by their ids and numbers, with the judgements that they undo."""

    def __init__(self) -> None:
        """Begin without lines."""
        self._place_of_id: dict[str, str] = {}
        self._n_lines_of_content: dict[str, int] = {}
        self._line_of_number: dict[int, Line] = {}
        self._undone_numbers: set[int] = set()

    def make_id(self, cells: Mapping[str, Any]) -> str:
        """Make an id from the content of a line, and count the lines with this content.

        A line gets the same id in every file. Lines with equal content get different ids, because
        the number of equal lines so far is a part of the id.
        """
        content = json.dumps([[str(column), str(cells[column])] for column in sorted(cells)])
        n_equal = self._n_lines_of_content.get(content, 0) + 1
        self._n_lines_of_content[content] = n_equal
        return blake2b(f"{n_equal} {content}".encode(), digest_size=12).hexdigest()

    def add(self, line: Line) -> None:
        """Check the id, the number and the undo of a line, and add the line to the earlier lines.

        Raises:
            DataError: if an earlier line has its id or number, or if it undoes a judgement that no
                earlier line has, or that is undone already.
        """
        if line.id in self._place_of_id:
            refuse(line.where, f"id {line.id!r} is already in {self._place_of_id[line.id]}")
        number = line.judgement.number
        if number in self._line_of_number:
            first_place = self._line_of_number[number].where
            refuse(line.where, f"number {number} is already in {first_place}")
        if line.judgement.undoes is not None:
            self._add_undo(line, line.judgement.undoes)
        self._place_of_id[line.id] = line.where
        if number:
            self._line_of_number[number] = line

    def _add_undo(self, undo: Line, number: int) -> None:
        """Check an undo of the judgement with this number, and remember that it is undone."""
        undone_line = self._line_of_number.get(number)
        if undone_line is None:
            refuse(undo.where, f"an undo of judgement {number}, which no earlier line has")
        is_undone = number in self._undone_numbers
        try:
            check_undo(undo.judgement, undone_line.judgement, undone=is_undone)
        except JudgementError as error:
            _, _, row = undone_line.where.rpartition(", ")
            refuse(undo.where, f"{error} ({row})")
        self._undone_numbers.add(number)


def _read_line(
    place: str,
    record: Mapping[str, Any],
    number_of_id: Mapping[str, int],
    annotator: str | None,
    earlier: _EarlierLines,
) -> Line:
    """Read a judgement from a row of a file.

    Args:
        place: the file and row, for messages.
        record: {column: cell} of the row.
        number_of_id: {id: number} of the items.
        annotator: the annotator of a row that names no annotator.
        earlier: the lines before this row.
    """
    cells = _filled_cells(place, record)
    if annotator is not None:
        # The annotator is set first, because an id is made of all cells of the line.
        cells.setdefault("annotator", annotator)
    id = read_id(place, cells["id"]) if "id" in cells else earlier.make_id(cells)
    items, word = _read_answer(place, cells, number_of_id, id)
    if (word == "undo") != ("undoes" in cells):
        refuse(place, '`undoes` must be set if and only if answer is "undo"')
    # All further columns, such as comments and times, are fields of the judgement.
    facts = {
        column: CELL_READERS[column](place, column, cell)
        for column, cell in cells.items()
        if column in CELL_READERS
    }
    for column in ("best", "worst"):
        if column in cells:
            facts[column] = _read_item(place, cells[column], number_of_id)
            if facts[column] not in items:
                refuse(place, f"{column} {shown(cells[column])} is none of the items in question")
    try:
        judgement = Judgement.of(_read_annotator(place, cells), items, word, **facts)
    except JudgementError as error:
        refuse(place, str(error))
    return Line(place, id, judgement, record)


def _filled_cells(place: str, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return {column: cell} of the cells of a row that are not empty.

    Raises:
        DataError: if the row lacks a cell that every answer needs.
    """
    cells = {column: cell for column, cell in record.items() if cell not in (None, "")}
    has_items = "items" in cells or cells.keys() >= {"left", "right"}
    has_answer = "answer" in cells or "best" in cells
    if not (has_items and has_answer) and not cells.keys() >= _WINNER_COLUMNS:
        columns_of_row = listed(map(str, record)) or "nothing"
        needed = "left, right and answer, or winner and loser, or items and best"
        refuse(place, f"needs {needed}; there is {columns_of_row}")
    return cells


def _read_answer(
    place: str, cells: Mapping[str, Any], number_of_id: Mapping[str, int], id: str
) -> tuple[tuple[int, ...], Word]:
    """Read the items of a row in their places, and the answer in words.

    If the row names winner and loser, the last character of the id decides whether the winner is in
    the first place. If it was always there, annotators would seem to prefer this place.
    """
    if not cells.keys() >= _WINNER_COLUMNS:
        items = _read_items(place, _ids_of_items(cells), number_of_id)
        return items, _read_word(place, cells.get("answer", "best"), items, number_of_id)
    if "answer" in cells:
        refuse(place, "has both answer and winner, loser: leave out one or the other")
    winner, loser = _read_items(place, [cells["winner"], cells["loser"]], number_of_id)
    last_digit = int(id[-1:], base=36)  # an id has letters and digits
    if last_digit % 2 == 1:
        return (winner, loser), "left"
    return (loser, winner), "right"


def _read_word(
    place: str, answer: Any, items: tuple[int, ...], number_of_id: Mapping[str, int]
) -> Word:
    """Read the cell of an answer, which about two items may also be an id or a word of votes."""
    if answer in (*SIDES, *ANSWERS):
        return cast(Word, answer)
    text = str(answer).strip()
    if len(items) == 2:
        # A word that is the id of an item means this item, even if the id is 1 or 2.
        side_of_item: dict[int | None, Word] = {items[0]: "left", items[1]: "right"}
        word = side_of_item.get(number_of_id.get(text)) or _WORD_OF_VOTE.get(text.lower())
        if word is not None:
            return word
    known = ", ".join((*SIDES, *ANSWERS))
    refuse(place, f"unknown answer {shown(answer)}; known are {known}")


def _ids_of_items(cells: Mapping[str, Any]) -> Any:
    """List the ids of a row's items in their places: a list in one cell, or a cell for each."""
    if "items" not in cells:
        return [cells[column] for column in _PLACES if column in cells]
    if not isinstance(cells["items"], str):
        return cells["items"]
    try:
        return json.loads(cells["items"])
    except (ValueError, RecursionError):
        return None


def _read_items(place: str, ids: Any, number_of_id: Mapping[str, int]) -> tuple[int, ...]:
    """Read the numbers of two to six different items from a list of ids."""
    if not isinstance(ids, list) or not 2 <= len(ids) <= MOST_ITEMS:
        refuse(place, f"items {shown(ids)} is no list of 2 to {MOST_ITEMS} ids")
    items = tuple(_read_item(place, id, number_of_id) for id in ids)
    for id in ids:
        if ids.count(id) > 1:
            refuse(place, f"item {shown(id)} cannot be compared with itself")
    return items


def _read_item(place: str, value: Any, number_of_id: Mapping[str, int]) -> int:
    """Read the number of the item whose id is in a cell.

    An id of digits may be stored as a number in the cell.
    """
    id = str(value) if isinstance(value, int) else value
    if not isinstance(id, str) or id not in number_of_id:
        refuse(place, f"the collection has no item {shown(value)}")
    return number_of_id[id]


def _read_annotator(place: str, cells: Mapping[str, Any]) -> str:
    """Read the annotator of a row; raise a DataError if none is named, or the name is invalid."""
    if "annotator" not in cells:
        refuse(place, "no annotator: add the column or give --as NAME")
    try:
        return checked_name("annotator", str(cells["annotator"]))
    except StoreError as error:
        refuse(place, str(error))
