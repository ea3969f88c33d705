"""Read the lines of a judgement file; check each line with the items and with earlier lines."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from sortnet.errors import JudgementError, StoreError
from sortnet.files import TABLES, Record, shown, suffix_of
from sortnet.items import Items
from sortnet.items.base import fault_across
from sortnet.preference import ANSWERS, Judgement
from sortnet.preference.base import (
    LONGEST_COMMENT,
    LONGEST_META,
    MOST_ITEMS,
    SIDES,
    Word,
    check_undo,
)
from sortnet.preference.study import Decision
from sortnet.tables.read_rows import read_rows
from sortnet.tables.rows import Rows, listed
from store.collections.collection_rows import checked_name
from store.collections.foreign_votes import FOREIGN_COLUMNS, refuse, votes_of_foreign_rows
from store.csv_file import without_escapes

Form: TypeAlias = Literal["jsonl", "csv", "arena", "chosen", "label-studio", "argilla"]

_EXPORTED_ALWAYS = {"id", "number"}  # columns that the exports of all versions have
_WINNER_COLUMNS = {"winner", "loser"}
# The columns of the items in their places; files of votes have other names for the first two.
PLACE_COLUMNS = tuple(f"item{place}" for place in range(1, MOST_ITEMS + 1))
_PLACES = ("left", "right", *PLACE_COLUMNS[2:])
_IN_ANY_CASE = {"annotator", "items", "best", "worst", *_WINNER_COLUMNS, *PLACE_COLUMNS}
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

# {optional column of texts: most characters of a text}
_TEXT_COLUMNS = {"strategy": 64, "comment": LONGEST_COMMENT, "meta": LONGEST_META}
_LONGEST_ID = 64  # most characters of an id
_LARGEST_INTEGER = 2**31 - 1  # the largest number that a database column of integers can have
# Optional columns of whole numbers, and of other numbers, with the least and the largest number.
_WHOLE_NUMBER_COLUMNS: dict[str, tuple[int, float]] = {
    "milliseconds": (0, 2**53 - 1),  # all whole numbers up to this one are exact as floats
    "model": (0, _LARGEST_INTEGER),
    "number": (1, _LARGEST_INTEGER),
    "undoes": (1, _LARGEST_INTEGER),
}
_NUMBER_COLUMNS: dict[str, tuple[int, float]] = {
    "probability": (0, 1),
    "p": (0, 1),
    "at": (0, 2.0**33),  # seconds from 1970 to the year 2242
    "cost": (0, 1e12),
    **_WHOLE_NUMBER_COLUMNS,
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
    row: Record


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
    reader = _LineReader(items, annotator)
    names = reader.column_names(rows)
    for row, cells in enumerate(zip(*rows.columns.values(), strict=True)):
        reader.add(rows.place(row), dict(zip(names, cells, strict=True)))
    return reader.lines


def read_gold(path: str | Path, items: Items, *, remove: bool = False) -> list[Decision]:
    """Read the gold pairs of a file, and return decisions that add or remove the pairs.

    Each line names two items by their ids: `winner` and `loser`, or `left`, `right` and `answer`.

    Args:
        path: the file.
        items: the items of the collection.
        remove: whether the decisions remove the pairs.

    Raises:
        DataError: on the first line with an error; the message names the line.
    """
    kind = "no-gold" if remove else "gold"
    decisions: dict[tuple[int, int], Decision] = {}
    for line in read_lines(Path(path), items, annotator="gold"):
        judgement = line.judgement
        if judgement.word not in ("left", "right"):
            refuse(
                line.where, f"the answer of a gold pair is left or right, not {judgement.word!r}"
            )
        better = judgement.best
        worse = judgement.right if better == judgement.left else judgement.left
        decision = Decision(kind, item=better, other=worse)
        if decisions.setdefault(judgement.pair, decision).item != better:
            refuse(line.where, "an earlier line has the other answer to this pair")
    return list(decisions.values())


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


class _LineReader:
    """Reads judgements from the rows of a file, and checks each row with the rows before.

    Args:
        items: the items of the collection.
        annotator: the annotator of rows that name no annotator.

    Attributes:
        lines: the judgements that were read.
    """

    def __init__(self, items: Items, annotator: str | None) -> None:
        """Begin without rows; the class describes the arguments."""
        self._items = items
        self._number_of_id = {id: number for number, id in enumerate(items.ids)}
        self._annotator = annotator
        self._n_rows_of_content: Counter[str] = Counter()
        self._line_of: dict[str | int, Line] = {}  # {id or number: line}
        self._undone_numbers: set[int] = set()
        self.lines: list[Line] = []

    def column_names(self, rows: Rows) -> list[str]:
        """Return the names of columns; other names and capitals are replaced by our names.

        The name of the column itself is preferred to an alias. Names may have capitals in the file.
        """
        names_in_file = [
            name.lower() if name.lower() in _IN_ANY_CASE - rows.columns.keys() else name
            for name in rows.columns
        ]
        if set(names_in_file) >= _WINNER_COLUMNS:
            return names_in_file
        column_of_name: dict[str, str] = {}  # {name in the file: `left`, `right` or `answer`}
        for column, aliases in _COLUMN_ALIASES.items():
            names = [name for alias in aliases for name in names_in_file if name.lower() == alias]
            name_in_file = column if column in names_in_file else next(iter(names), None)
            if name_in_file is not None:
                column_of_name[name_in_file] = column
        names = [column_of_name.get(name, name) for name in names_in_file]
        if "answer" in names:
            cells = [*rows.columns.values()][names.index("answer")]
            # If an item has the id 0 or 1, the digit means this item.
            words = {str(cell).strip() for cell in cells} - {"skip", "cant-say", ""}
            if words - self._number_of_id.keys() == {"0", "1"}:
                refuse(
                    str(rows.path),
                    "the answers are 0 and 1 only, and 0 would be a tie: write left or right, 1 or "
                    "2, a1 or a2, or an item's id; tie for neither",
                )
        return names

    def add(self, place: str, record: Record) -> None:
        """Read the judgement of a row.

        Args:
            place: the file and row, for messages.
            record: {column: cell} of the row.

        Raises:
            DataError: on an error in the row, and if an earlier row has its id or its number, or
                if it undoes a judgement that no earlier row has, or that is undone already.
        """
        cells = {column: cell for column, cell in record.items() if cell not in (None, "")}
        if self._annotator is not None:
            # The annotator is set first, because an id is made of all cells of the row.
            cells.setdefault("annotator", self._annotator)
        id = cells["id"] if "id" in cells else self._make_id(cells)
        if not (isinstance(id, str) and id.isalnum() and id.isascii() and len(id) <= _LONGEST_ID):
            refuse(
                place, f"id {shown(id)} is not a text of at most {_LONGEST_ID} letters and digits"
            )
        line = Line(place, id, self._read_judgement(place, cells, id), record)
        number = line.judgement.number
        for name, value in (("id", id), ("number", number)):
            earlier = self._line_of.get(value)
            if earlier is not None:
                refuse(place, f"{name} {value!r} is already in {earlier.where}")
        if line.judgement.undoes is not None:
            self._add_undo(line, line.judgement.undoes)
        self._line_of[id] = line
        if number:
            self._line_of[number] = line
        self.lines.append(line)

    def _make_id(self, cells: Record) -> str:
        """Make an id from the content of a row.

        A row gets the same id in every file. Rows with equal content get different ids, because the
        number of equal rows so far is a part of the id.
        """
        content = json.dumps([[str(column), str(cells[column])] for column in sorted(cells)])
        self._n_rows_of_content[content] += 1
        text = f"{self._n_rows_of_content[content]} {content}"
        return blake2b(text.encode(), digest_size=12).hexdigest()

    def _add_undo(self, undo: Line, number: int) -> None:
        """Check an undo of the judgement with this number, and remember that it is undone."""
        if number not in self._line_of:
            refuse(undo.where, f"an undo of judgement {number}, which no earlier line has")
        undone_line = self._line_of[number]
        is_undone = number in self._undone_numbers
        try:
            check_undo(undo.judgement, undone_line.judgement, undone=is_undone)
        except JudgementError as error:
            _, _, row = undone_line.where.rpartition(", ")
            refuse(undo.where, f"{error} ({row})")
        self._undone_numbers.add(number)

    def _read_judgement(self, place: str, cells: Record, id: str) -> Judgement:
        """Read the judgement in the filled cells of a row.

        Args:
            place: the file and row, for messages.
            cells: {column: cell} without empty cells.
            id: the id of the judgement.
        """
        items, word = self._read_answer(place, cells, id)
        if (word == "undo") != ("undoes" in cells):
            refuse(place, '`undoes` must be set if and only if answer is "undo"')
        # All further columns, such as comments and times, are fields of the judgement.
        facts = {
            column: _read_cell(place, column, cell)
            for column, cell in cells.items()
            if column in _NUMBER_COLUMNS or column in _TEXT_COLUMNS or column == "flagged"
        }
        for column in ("best", "worst"):
            if column in cells:
                facts[column] = self._read_item(place, cells[column])
                if facts[column] not in items:
                    refuse(
                        place, f"{column} {shown(cells[column])} is none of the items in question"
                    )
        if "annotator" not in cells:
            refuse(place, "no annotator: add the column or give --as NAME")
        try:
            annotator = checked_name("annotator", str(cells["annotator"]).strip())
            return Judgement.of(annotator, items, word, **facts)
        except (StoreError, JudgementError) as error:
            refuse(place, str(error))

    def _read_answer(self, place: str, cells: Record, id: str) -> tuple[tuple[int, ...], Word]:
        """Read the items of a row in their places, and the answer in words.

        If the row names winner and loser, the last digit of the id decides whether the winner is in
        the first place. If it was always there, annotators would seem to prefer this place.
        """
        if cells.keys() >= _WINNER_COLUMNS:
            if "answer" in cells:
                refuse(place, "has both answer and winner, loser: leave out one or the other")
            winner, loser = self._read_items(place, [cells["winner"], cells["loser"]])
            last_digit = int(id[-1:], base=36)  # an id has letters and digits
            return ((winner, loser), "left") if last_digit % 2 else ((loser, winner), "right")
        has_items = "items" in cells or cells.keys() >= {"left", "right"}
        if not has_items or not cells.keys() & {"answer", "best"}:
            needed = "left, right and answer, or winner and loser, or items and best"
            refuse(place, f"needs {needed}; there is {listed(map(str, cells)) or 'nothing'}")
        items = self._read_items(place, _ids_of_items(cells))
        word = cells.get("answer", "best")  # the column `best` names the item
        return items, self._read_word(place, word, items)

    def _read_word(self, place: str, answer: Any, items: tuple[int, ...]) -> Word:
        """Read the cell of an answer; about two items it may be an id or a word of votes."""
        if answer in (*SIDES, *ANSWERS):
            return cast(Word, answer)
        text = str(answer).strip()
        if len(items) == 2:
            # A word that is the id of an item means this item, even if the id is 1 or 2.
            side_of_item: dict[int | None, Word] = {items[0]: "left", items[1]: "right"}
            item = self._number_of_id.get(text)
            word = side_of_item.get(item) or _WORD_OF_VOTE.get(text.lower())
            if word is not None:
                return word
        known = ", ".join((*SIDES, *ANSWERS))
        refuse(place, f"unknown answer {shown(answer)}; known are {known}")

    def _read_items(self, place: str, ids: Any) -> tuple[int, ...]:
        """Read the numbers of two to six different items of one group from a list of ids."""
        if not isinstance(ids, list) or not 2 <= len(ids) <= MOST_ITEMS:
            refuse(place, f"items {shown(ids)} is no list of 2 to {MOST_ITEMS} ids")
        items = tuple(self._read_item(place, id) for id in ids)
        for item in items:
            if items.count(item) > 1:
                id = shown(self._items.ids[item])
                refuse(place, f"item {id} cannot be compared with itself")
        first, *other_items = items
        for other in other_items:
            fault = fault_across(self._items, first, other)
            if fault:
                refuse(place, f"item {shown(self._items.ids[first])} {fault}")
        return items

    def _read_item(self, place: str, value: Any) -> int:
        """Read the number of the item whose id is in a cell.

        An id of digits may be stored as a number in the cell. Other tools write blanks around ids.
        """
        id = str(value) if isinstance(value, int | str) else ""
        number = self._number_of_id.get(id, self._number_of_id.get(id.strip(" ")))
        if number is None:
            refuse(place, f"the collection has no item {shown(value)}")
        return number


def _ids_of_items(cells: Record) -> Any:
    """List the ids of a row's items in their places: a list in one cell, or a cell for each."""
    if "items" not in cells:
        return [cells[column] for column in _PLACES if column in cells]
    if not isinstance(cells["items"], str):
        return cells["items"]
    try:
        return json.loads(cells["items"])
    except (ValueError, RecursionError):
        return None


def _read_cell(place: str, column: str, value: Any) -> Any:
    """Read the cell of an optional column: a text, a number, or whether the answer is flagged.

    Args:
        place: the file and row, for messages.
        column: the name of the column.
        value: the cell. Spreadsheets and pandas may have written a whole number as 900.0.
    """
    if column == "flagged":
        if str(value).lower() not in ("true", "false", "1", "0"):
            refuse(place, f"{column} {shown(value)} is neither true nor false")
        # An answer is flagged by True. It has no flag otherwise, which is stored as None.
        return str(value).lower() in ("true", "1") or None
    if column in _TEXT_COLUMNS:
        text = json.dumps(value) if column == "meta" and not isinstance(value, str) else value
        longest = _TEXT_COLUMNS[column]
        # A strategy is a name, which tables print in one line.
        is_text = isinstance(text, str) and (column != "strategy" or text.isprintable())
        if not is_text or len(text) > longest:
            refuse(place, f"{column} {shown(text)} is not a text of at most {longest} characters")
        return text
    least, most = _NUMBER_COLUMNS[column]
    is_whole = column in _WHOLE_NUMBER_COLUMNS
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (ValueError, TypeError, OverflowError):
        number = math.nan  # NaN is outside every range, so that it is refused below
    if not least <= number <= most or (is_whole and not number.is_integer()):
        noun = "whole number" if is_whole else "number"
        refuse(place, f"{column} {shown(value)} is not a {noun} from {least} to {most:.0f}")
    return int(number) if is_whole else number
