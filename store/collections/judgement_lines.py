"""Read the lines of a judgement file, and check each against the items and the earlier lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, TypeAlias

from sortnet.errors import JudgementError, StoreError
from sortnet.files import TABLES, shown, suffix_of
from sortnet.items import Items
from sortnet.items.item_groups import fault_across
from sortnet.preference import ANSWERS, Answer, Judgement
from sortnet.preference.base import (
    MOST_ITEMS,
    SET_ANSWERS,
    check_choice,
    check_items,
    check_undo,
)
from sortnet.tables.rows import Rows, listed, read_rows
from store.collections.collection_rows import checked_name
from store.collections.formats.faults import refuse
from store.collections.formats.foreign_rows import FOREIGN_COLUMNS, votes_of_foreign_rows
from store.collections.formula_escapes import without_escapes
from store.collections.judgement_cells import CELL_READERS, read_id

Form: TypeAlias = Literal["jsonl", "csv", "arena", "chosen", "label-studio", "argilla"]

_EXPORTED_ALWAYS = {"id", "number"}  # columns of every version's export
_ANSWER_COLUMNS = {"left", "right", "answer"}
_WINNER_COLUMNS = {"winner", "loser"}
_SET_COLUMNS = ({"items", "answer"}, {"items", "best"})
# Other names of columns and other answers, in lower case, that files of votes have.
_COLUMN_ALIASES = {
    "left": ("left", "arg1", "item1", "item_1", "first", "a1", "a"),
    "right": ("right", "arg2", "item2", "item_2", "second", "a2", "b"),
    "answer": ("answer", "value", "vote", "label", "winner", "choice"),
}
_ANSWER_OF_WORD: dict[str, Answer] = {
    **dict.fromkeys(("left", "a1", "arg1", "item1", "first", "a", "1", "model_a"), "left"),
    **dict.fromkeys(("right", "a2", "arg2", "item2", "second", "b", "2", "model_b"), "right"),
    **dict.fromkeys(("tie", "equal", "draw", "same", "0"), "tie"),
    **{"skip": "skip", "cant-say": "cant-say"},
}


@dataclass(frozen=True)
class Line:
    """A judgement read from a file, with its place, the id that recognises it, and its row."""

    where: str
    id: str
    judgement: Judgement
    row: Mapping[str, Any]


@dataclass(frozen=True)
class _AnswerCells:
    """The items of a row in their places, the answer, and the items that it chooses."""

    items: tuple[int, ...]
    answer: Answer
    best: int | None = None
    worst: int | None = None


def read_lines(
    path: Path,
    items: Items,
    *,
    form: Form | None = None,
    annotator: str | None = None,
    sides: tuple[str, str] | None = None,
) -> list[Line]:
    """Read all judgements of a file, checked; see `import_judgements`."""
    rows = read_rows(path, _table_suffix(path, form), may_be_empty=True)
    is_export = set(rows.columns) >= _EXPORTED_ALWAYS
    if is_export:
        if rows.lines and rows.unfinished:
            refuse(rows.place(-1), "half a line, the file was cut")
        rows = without_escapes(rows)
    foreign_form = form if form in FOREIGN_COLUMNS else None
    rows = votes_of_foreign_rows(rows, items, foreign_form, sides)
    number_of_id = {id: number for number, id in enumerate(items.ids)}
    names = _column_names(rows, number_of_id)
    earlier = _EarlierLines()
    lines: list[Line] = []
    for row, values in enumerate(zip(*rows.columns.values(), strict=True)):
        record = dict(zip(names, values, strict=True))
        line = _read_line(rows.place(row), record, number_of_id, annotator, earlier)
        first, *others = line.judgement.items
        for other in others:
            fault = fault_across(items, first, other)
            if fault:
                refuse(line.where, f"item {shown(items.ids[first])} {fault}")
        earlier.add(line)
        lines.append(line)
    return lines


def _table_suffix(path: Path, form: Form | None) -> str:
    """The suffix that says how the table is read."""
    suffix = suffix_of(path)
    if form == "csv" and suffix == ".tsv":
        return suffix
    if form in ("csv", "jsonl"):
        return f".{form}"
    if path.exists() and suffix not in (*TABLES, ".json"):
        refuse(str(path), f"is none of {', '.join(TABLES)}, .json: say which format it has")
    return suffix


def _column_names(rows: Rows, number_of_id: Mapping[str, int]) -> list[str]:
    """The names of the columns; aliases of left, right and answer are replaced."""
    names = list(rows.columns)
    if set(names) >= _WINNER_COLUMNS:
        return names
    positions: dict[str, int] = {}
    for position, name in enumerate(names):
        positions.setdefault(name.lower(), position)
    for column, aliases in _COLUMN_ALIASES.items():
        present = [alias for alias in aliases if alias in positions]
        if column not in names and present:
            names[positions[present[0]]] = column
    if "answer" in names:
        _refuse_zero_and_one(rows, names.index("answer"), number_of_id)
    return names


def _refuse_zero_and_one(rows: Rows, position: int, number_of_id: Mapping[str, int]) -> None:
    """Refuse a column of 0 and 1: its 0 may mean the right item, and would be read as a tie."""
    column = [*rows.columns][position]
    answers = {str(answer).strip() for answer in rows.columns[column]}
    if answers - {"skip", "cant-say", "", *number_of_id} == {"0", "1"}:
        refuse(
            str(rows.path),
            "the answers are 0 and 1 only, and 0 would be a tie: write left or right, 1 or 2, "
            "a1 or a2, or an item's id; tie for neither",
        )


class _EarlierLines:
    """The lines read so far: their ids and numbers, and the judgements that they undo."""

    def __init__(self) -> None:
        self._place_of_id: dict[str, str] = {}
        self._n_of_content: dict[str, int] = {}
        self._line_of_number: dict[int, Line] = {}
        self._undone: set[int] = set()

    def id_of(self, cells: Mapping[str, Any]) -> str:
        """An id made from the content, the same in every file; equal lines get different ids."""
        content = json.dumps([[str(column), str(cells[column])] for column in sorted(cells)])
        n_equal = self._n_of_content.get(content, 0) + 1
        self._n_of_content[content] = n_equal
        return blake2b(f"{n_equal} {content}".encode(), digest_size=12).hexdigest()

    def add(self, line: Line) -> None:
        """Add a line; a DataError if its id or number is taken, or what it undoes is unknown."""
        if line.id in self._place_of_id:
            refuse(line.where, f"id {line.id!r} is already in {self._place_of_id[line.id]}")
        number, undoes = line.judgement.number, line.judgement.undoes
        if number in self._line_of_number:
            first_place = self._line_of_number[number].where
            refuse(line.where, f"number {number} is already in {first_place}")
        if undoes is not None:
            self._add_undo(line, undoes)
        self._place_of_id[line.id] = line.where
        if number:
            self._line_of_number[number] = line

    def _add_undo(self, undo: Line, number: int) -> None:
        undone = self._line_of_number.get(number)
        if undone is None:
            refuse(undo.where, f"an undo of judgement {number}, which no earlier line has")
        try:
            check_undo(undo.judgement, undone.judgement, undone=number in self._undone)
        except JudgementError as error:
            refuse(undo.where, f"{error} ({undone.where.rpartition(', ')[2]})")
        self._undone.add(number)


def _read_line(
    place: str,
    record: Mapping[str, Any],
    number_of_id: Mapping[str, int],
    annotator: str | None,
    earlier: _EarlierLines,
) -> Line:
    cells = {column: cell for column, cell in record.items() if cell not in (None, "")}
    if annotator is not None:
        # The content, from which the id is made, includes the annotator.
        cells.setdefault("annotator", annotator)
    names_winner = cells.keys() >= _WINNER_COLUMNS
    names_sides = cells.keys() >= _ANSWER_COLUMNS
    names_set = any(cells.keys() >= columns for columns in _SET_COLUMNS)
    if not (names_winner or names_sides or names_set):
        columns = listed(map(str, record)) or "nothing"
        needed = "left, right and answer, or winner and loser, or items and best"
        refuse(place, f"needs {needed}; there is {columns}")
    id = read_id(place, cells["id"]) if "id" in cells else earlier.id_of(cells)
    if names_winner:
        answer_cells = _read_winner(place, cells, number_of_id, id)
    elif names_sides:
        answer_cells = _read_sides(place, cells, number_of_id)
    else:
        answer_cells = _read_set(place, cells, number_of_id)
    if (answer_cells.answer == "undo") != ("undoes" in cells):
        refuse(place, '`undoes` must be set if and only if answer is "undo"')
    facts = {
        column: CELL_READERS[column](place, column, cell)
        for column, cell in cells.items()
        if column in CELL_READERS
    }
    left, right, *further = answer_cells.items
    judgement = Judgement(
        _read_annotator(place, cells),
        left,
        right,
        answer_cells.answer,
        **facts,
        further=tuple(further),
        best=answer_cells.best,
        worst=answer_cells.worst,
    )
    return Line(place, id, judgement, record)


def _read_winner(
    place: str, cells: Mapping[str, Any], number_of_id: Mapping[str, int], id: str
) -> _AnswerCells:
    """The answer of a row that names winner and loser.

    The id decides which of the two is left: a winner who is always left would look like a side
    bias.
    """
    if "answer" in cells:
        refuse(place, "has both answer and winner, loser: leave out one or the other")
    if int(id[-1:], 36) % 2:
        items = _read_pair(place, cells, number_of_id, ("winner", "loser"))
        return _AnswerCells(items, "left")
    items = _read_pair(place, cells, number_of_id, ("loser", "winner"))
    return _AnswerCells(items, "right")


def _read_sides(
    place: str, cells: Mapping[str, Any], number_of_id: Mapping[str, int]
) -> _AnswerCells:
    """The answer of a row that names left, right and answer."""
    left, right = _read_pair(place, cells, number_of_id, ("left", "right"))
    answer = cells["answer"]
    if answer not in ANSWERS:
        word = str(answer).strip()
        # Ids take precedence over other words: items may be named 1 and 2.
        side_of_item: dict[int | None, Answer] = {left: "left", right: "right"}
        answer = side_of_item.get(number_of_id.get(word)) or _ANSWER_OF_WORD.get(word.lower())
    if answer is None:
        answers = ", ".join(ANSWERS)
        refuse(place, f"unknown answer {shown(cells['answer'])}; known are {answers}")
    if answer in SET_ANSWERS:
        refuse(place, f"{answer!r} is no answer about two items")
    return _AnswerCells((left, right), answer)


def _read_set(
    place: str, cells: Mapping[str, Any], number_of_id: Mapping[str, int]
) -> _AnswerCells:
    """The answer of a row about more than two items."""
    items = _read_items(place, cells["items"], number_of_id)
    if "p" in cells:
        refuse(place, f"a p is for two items, and there are {len(items)}")
    chosen_items = {
        name: _read_item(place, cells[name], number_of_id)
        for name in ("best", "worst")
        if name in cells
    }
    answer: Answer = cells.get("answer", "best")
    if answer not in ANSWERS:
        answers = ", ".join(ANSWERS)
        refuse(place, f"unknown answer {shown(answer)}; known are {answers}")
    for name, item in chosen_items.items():
        if item not in items:
            refuse(place, f"{name} {shown(cells[name])} is none of the items in question")
    best, worst = chosen_items.get("best"), chosen_items.get("worst")
    if best is not None and best == worst:
        refuse(place, f"item {shown(cells['best'])} cannot be the best and the worst")
    try:
        check_items(items, answer)
        check_choice(items, answer, best, worst)
    except JudgementError as error:
        refuse(place, str(error))
    return _AnswerCells(items, answer, best, worst)


def _read_items(place: str, value: Any, number_of_id: Mapping[str, int]) -> tuple[int, ...]:
    """The items of a question about three to six, from a list of ids or its JSON."""
    ids = value
    if isinstance(value, str):
        try:
            ids = json.loads(value)
        except (ValueError, RecursionError):
            ids = None
    if not isinstance(ids, list) or not 2 < len(ids) <= MOST_ITEMS:
        refuse(place, f"items {shown(value)} is no list of 3 to {MOST_ITEMS} ids")
    items = tuple(_read_item(place, id, number_of_id) for id in ids)
    for id in ids:
        if ids.count(id) > 1:
            refuse(place, f"item {shown(id)} cannot be compared with itself")
    return items


def _read_pair(
    place: str,
    cells: Mapping[str, Any],
    number_of_id: Mapping[str, int],
    columns: tuple[str, str],
) -> tuple[int, int]:
    """The items that two columns of a row name; they must differ."""
    first, second = (_read_item(place, cells[column], number_of_id) for column in columns)
    if first == second:
        refuse(place, f"item {shown(cells[columns[0]])} cannot be compared with itself")
    return first, second


def _read_item(place: str, value: Any, number_of_id: Mapping[str, int]) -> int:
    id = str(value) if isinstance(value, int) else value
    if not isinstance(id, str) or id not in number_of_id:
        refuse(place, f"the collection has no item {shown(value)}")
    return number_of_id[id]


def _read_annotator(place: str, cells: Mapping[str, Any]) -> str:
    """The annotator that a row names; a DataError if there is none, or the name is not allowed."""
    if "annotator" not in cells:
        refuse(place, "no annotator: add the column or give --as NAME")
    try:
        return checked_name("annotator", str(cells["annotator"]))
    except StoreError as error:
        refuse(place, str(error))
