"""Export and import judgements: JSONL and CSV, files of other tools, chosen and rejected texts."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, Literal, NoReturn, TypeAlias

from sortnet.errors import DataError, JudgementError, StoreError
from sortnet.files import TABLES, shown, suffix_of, write_atomically
from sortnet.items import Items
from sortnet.items.item_groups import fault_across
from sortnet.preference import ANSWERS, Answer, Judgement
from sortnet.preference.base import (
    LONGEST_COMMENT,
    LONGEST_META,
    MOST_ITEMS,
    SET_ANSWERS,
    SET_FIELDS,
    Probabilities,
    check_choice,
    check_items,
    check_undo,
)
from sortnet.preference.study import Decision, questions_at, study_of
from sortnet.tables.rows import Rows, listed, read_rows
from store.collections.collection import Collection
from store.collections.collection_rows import checked_name
from store.collections.other_tools import TOOLS, as_votes
from store.collections.preference_records import preference_records

Form: TypeAlias = Literal["jsonl", "csv", "arena", "chosen", "label-studio", "argilla"]
_NAMES_OF_JUDGEMENT = [field.name for field in fields(Judgement) if field.name not in SET_FIELDS]
FIELDS = ("id", "number", *(name for name in _NAMES_OF_JUDGEMENT if name != "number"))
_OURS = {"id", "number"}  # of them, those that every version's export has
_OF_SET = ("items", *SET_FIELDS[1:])  # fields besides, of questions about more than two items
_OF_GROUP = ("group", "context")  # fields besides, if items have groups; not read again
_EXPORTED = (*FIELDS, "excluded")
_OF_QUESTION = ("criterion", "question")  # fields besides, where it is not the default; likewise
_NEEDED = ({"left", "right", "answer"}, {"winner", "loser"})
_NEEDED_OF_SET = ({"items", "answer"}, {"items", "best"})
# Other names of columns and other answers, in lower case, as files of votes have them.
_NAMES = {
    "left": ("left", "arg1", "item1", "item_1", "first", "a1", "a"),
    "right": ("right", "arg2", "item2", "item_2", "second", "a2", "b"),
    "answer": ("answer", "value", "vote", "label", "winner", "choice"),
}
_SAID: dict[str, Answer] = {
    **dict.fromkeys(("left", "a1", "arg1", "item1", "first", "a", "1", "model_a"), "left"),
    **dict.fromkeys(("right", "a2", "arg2", "item2", "second", "b", "2", "model_b"), "right"),
    **dict.fromkeys(("tie", "equal", "draw", "same", "0"), "tie"),
    **{"skip": "skip", "cant-say": "cant-say"},
}
_LARGEST = 2**31 - 1  # of whole numbers in the tables
_LATEST = 2.0**33  # seconds since 1970: the year 2242
_LONGEST = 64  # characters of an id or a strategy
ExportForm: TypeAlias = Literal["jsonl", "csv", "chosen", "conversational"]
# What spreadsheets run (https://owasp.org/www-community/attacks/CSV_Injection), and the same after
# apostrophes, so that an escaped text differs from one that has an apostrophe of its own.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_ESCAPED = "escaped"  # the column that says that the texts are escaped


@dataclass(frozen=True)
class Imported:
    """How many judgements of a file were added, and how many were already known."""

    added: int
    known: int


def export_judgements(
    collection: Collection,
    to: str | Path | IO[str],
    form: ExportForm = "jsonl",
    *,
    prompt: str = "",
    weights: Mapping[str, float] | None = None,
    for_spreadsheets: bool = True,
) -> int:
    """Write a collection's judgements to a file, atomically; returns the number of lines.

    `jsonl` and `csv` hold everything, including undos, comments and flags, and `import_judgements`
    reads them; `at` is in seconds since 1970, `excluded` whether the annotator is excluded. An
    answer about more than two items has no left and right, but the `items` in their places (in CSV
    a JSON list in one cell), the `best` and the `worst`. Where
    items have groups, they have the group and its context, too; where a question was set, the
    criterion and the question as it was asked then. `chosen` and `conversational` are
    JSON lines of `preference_records`, for preference tuning; undone judgements and those of
    excluded annotators do not count.

    Args:
        prompt: the prompt of every record; empty: the context of the group, else its name.
        weights: of the annotators in the records' weight, see `annotator_weights`; None: 1 each.
        for_spreadsheets: put an apostrophe before the texts of `csv` that a spreadsheet would run
            as formulas. Where there are such texts, the column `escaped` says so, and an import
            takes the apostrophes off. Otherwise, and in other forms, texts are as they are.

    Raises:
        DataError: if there is no record to write, or an item has no text.
        SortNetError: if the file cannot be written.
        StoreError: if the collection has criteria.
    """
    collection.check_one_question()
    items, decisions = collection.items(), collection.decisions()
    names = _EXPORTED if items.groups is None else (*_EXPORTED, *_OF_GROUP)
    if form in ("chosen", "conversational"):
        lines = _records(collection, items, prompt, weights, form == "conversational")
    else:
        judgements, excluded = collection.judgements(), study_of(decisions).excluded
        if judgements.is_set.any():
            names = (*names, *_OF_SET)
        # Ids read later may be more; those of the judgements are the first of them.
        ids = collection.judgement_ids()
        lines = [
            _fields(j, id, items) | {"excluded": j.annotator in excluded}
            for j, id in zip(judgements, ids, strict=False)
        ]
        if any(decision.kind == "question" for decision in decisions):
            names = (*names, *_OF_QUESTION)
            asked = questions_at(decisions, [j.at for j in judgements])
            for line, question in zip(lines, asked, strict=True):
                line |= dict(zip(_OF_QUESTION, (collection.criterion, question), strict=True))
    has_formulas = any(_is_formula(value) for line in lines for value in line.values())
    if form == "csv" and for_spreadsheets and has_formulas:
        names, lines = (*names, _ESCAPED), [_escaped(line) for line in lines]
    if not isinstance(to, str | Path):
        _write(to, lines, form, names)
        return len(lines)

    def write(path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            _write(file, lines, form, names)

    write_atomically(Path(to).resolve(), write)
    return len(lines)


def _records(
    collection: Collection,
    items: Items,
    prompt: str,
    weights: Mapping[str, float] | None,
    conversational: bool,
) -> list[dict[str, Any]]:
    judgements = collection.counted_judgements()
    how: dict[str, Any] = {"prompt": prompt, "weights": weights, "conversational": conversational}
    lines = list(preference_records(judgements, items, **how))
    if not lines:  # what loads data sets refuses empty files with other words
        what = "no pair has a majority of answers yet" if judgements else "nobody has answered yet"
        raise DataError(f"{collection.name}: {what}, so there is no chosen item to write")
    return lines


def _is_formula(value: Any) -> bool:
    return isinstance(value, str) and _FORMULA.match(value) is not None


def _escaped(line: dict[str, Any]) -> dict[str, Any]:
    """A line whose texts are no formulas: those that look like one start with an apostrophe."""
    escaped = {name: f"'{value}" if _is_formula(value) else value for name, value in line.items()}
    return escaped | {_ESCAPED: True}


def _unescaped(rows: Rows) -> Rows:
    """Rows as they were before `_escaped`, if they are rows of such an export."""
    if not {*_OURS, _ESCAPED} <= {*rows.columns}:
        return rows

    def plain(value: Any) -> Any:
        return value[1:] if _is_formula(value) and value.startswith("'") else value

    columns = rows.columns.items()
    return replace(rows, columns={name: [*map(plain, values)] for name, values in columns})


def import_judgements(
    collection: Collection,
    path: str | Path,
    *,
    form: Form | None = None,
    annotator: str | None = None,
    sides: tuple[str, str] | None = None,
    probabilities: Probabilities | None = None,
) -> Imported:
    """Add a file's judgements to a collection of the same items, all or none.

    Each line needs left, right and answer, or winner and loser, and an annotator; items are given
    by their ids. A line about more than two has `items`, a list of three to six ids, with `best`
    and perhaps `worst`, or with the answer same, skip or cant-say. Columns may also be called arg1,
    arg2, value, ...; an answer is left, a1, 1, ..., right, a2, 2, ..., tie, equal, 0, ..., skip,
    cant-say, or an item's id. Judgements get new
    numbers after the existing ones, undos are adjusted. A judgement is recognised by its `id`, or
    without one by its content and the number of equal lines before: importing a file again adds
    nothing, importing it with more lines adds those.

    Files of other tools are known by their columns: battles of Chatbot Arena, whose models are the
    items; chosen and rejected texts; Label Studio's JSON export of a Pairwise tag; Argilla's JSON
    records with a ranking or a label that names a field. Their texts must be those of items, each
    of one item only in the group of its prompt.

    Args:
        form: of the file; None: by its suffix (JSONL, JSON, CSV, TSV or Parquet) and its columns.
        annotator: of the judgements that name none.
        sides: the fields of Label Studio's tasks that hold the left and the right item; None: by
            their names, such as text1 and text2.
        probabilities: what the `p` of its annotators is; None: as it was decided before, a share of
            votes without a decision.

    Raises:
        DataError: on the first error, with file and line; then nothing is added.
    """
    items = collection.items()
    lines = read_lines(Path(path), items, form=form, annotator=annotator, sides=sides)
    try:
        added = collection.append(
            [line.judgement for line in lines], ids=[line.id for line in lines]
        )
    except JudgementError as error:
        raise DataError(f"{path}: {error}") from None
    if probabilities is not None:
        names = {line.judgement.annotator for line in lines if line.judgement.p is not None}
        study = collection.study()
        collection.decide(
            *(
                Decision(f"p-{probabilities}", name)
                for name in sorted(names)
                if study.probabilities.get(name, "share") != probabilities
            )
        )
    return Imported(len(added), len(lines) - len(added))


def _fields(judgement: Judgement, id: str, items: Items) -> dict[str, Any]:
    facts = {**vars(judgement), "id": id}
    sides = {side: items.ids[facts[side]] for side in ("left", "right")}
    facts = {name: facts[name] for name in FIELDS} | sides
    if judgement.further:
        facts = {name: value for name, value in facts.items() if name not in sides}
        facts["items"] = [items.ids[item] for item in judgement.items]
        for name in ("best", "worst"):
            item = getattr(judgement, name)
            facts[name] = None if item is None else items.ids[item]
    if items.groups is not None:
        of_group = items.groups[judgement.left], items.context(judgement.left)
        facts |= dict(zip(_OF_GROUP, of_group, strict=True))
    return facts


def _write(
    file: IO[str], lines: Sequence[dict[str, Any]], form: ExportForm, names: Sequence[str]
) -> None:
    if form == "csv":
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        for line in lines:
            if "items" in line:
                line = line | {"items": json.dumps(line["items"], ensure_ascii=False)}
            writer.writerow(line)
        return
    for line in lines:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")


@dataclass(frozen=True)
class Line:
    """A judgement read from a file, with its place, the id that recognises it, and its row."""

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
    """All judgements of a file, checked; see `import_judgements`."""
    rows = read_rows(path, _kind(path, form), may_be_empty=True)
    if rows.lines and set(rows.columns) >= _OURS and rows.unfinished:
        _refuse(rows.place(-1), "half a line, the file was cut")
    rows = as_votes(_unescaped(rows), items, form if form in TOOLS else None, sides)
    lines: list[Line] = []
    before, numbers = _Before(), {id: number for number, id in enumerate(items.ids)}
    names = _names_of(rows, numbers)
    for row, values in enumerate(zip(*rows.columns.values(), strict=True)):
        record = dict(zip(names, values, strict=True))
        line = _line(rows.place(row), record, numbers, annotator, before)
        left, *others = line.judgement.items
        for other in others:
            if fault := fault_across(items, left, other):
                _refuse(line.where, f"item {shown(items.ids[left])} {fault}")
        before.check(line)
        lines.append(line)
    return lines


def _kind(path: Path, form: Form | None) -> str:
    """The kind of table, as a suffix."""
    suffix = suffix_of(path)
    if form in ("csv", "jsonl"):
        return ".tsv" if (form, suffix) == ("csv", ".tsv") else f".{form}"
    if path.exists() and suffix not in (*TABLES, ".json"):
        _refuse(str(path), f"is none of {', '.join(TABLES)}, .json: say which format it has")
    return suffix


def _names_of(rows: Rows, items: Mapping[str, int]) -> list[str]:
    """The names of the columns; one that is left, right or answer by another name has that name."""
    names = list(rows.columns)
    if {"winner", "loser"} <= set(names):
        return names
    low = {name.lower(): k for k, name in reversed([*enumerate(names)])}
    for field, others in _NAMES.items():
        if field not in names and (found := [low[name] for name in others if name in low]):
            names[found[0]] = field
    answers = rows.columns[[*rows.columns][names.index("answer")]] if "answer" in names else ()
    if {str(said).strip() for said in answers} - {"skip", "cant-say", "", *items} == {"0", "1"}:
        _refuse(
            str(rows.path),
            "the answers are 0 and 1 only, and 0 would be a tie: write left or right, 1 or 2, "
            "a1 or a2, or an item's id; tie for neither",
        )
    return names


class _Before:
    """The earlier lines: their ids and numbers, and the judgements they undo."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}
        self.contents: dict[str, int] = {}
        self.numbers: dict[int, Line] = {}
        self.undone: set[int] = set()

    def id_of(self, given: Mapping[str, Any]) -> str:
        """An id made from the content, the same in every file; equal lines get different ids."""
        content = json.dumps([[str(key), str(given[key])] for key in sorted(given)])
        times = self.contents[content] = self.contents.get(content, 0) + 1
        return blake2b(f"{times} {content}".encode(), digest_size=12).hexdigest()

    def check(self, line: Line) -> None:
        """Reject duplicate ids and undos of unknown judgements."""
        if line.id in self.ids:
            _refuse(line.where, f"id {line.id!r} is already in {self.ids[line.id]}")
        number, undoes = line.judgement.number, line.judgement.undoes
        if number in self.numbers:
            _refuse(line.where, f"number {number} is already in {self.numbers[number].where}")
        if undoes is not None:
            if (found := self.numbers.get(undoes)) is None:
                _refuse(line.where, f"an undo of judgement {undoes}, which no earlier line has")
            try:
                check_undo(line.judgement, found.judgement, undone=undoes in self.undone)
            except JudgementError as error:
                _refuse(line.where, f"{error} ({found.where.rpartition(', ')[2]})")
            self.undone.add(undoes)
        self.ids[line.id] = line.where
        if number:
            self.numbers[number] = line


def _line(
    where: str,
    record: Mapping[str, Any],
    items: Mapping[str, int],
    annotator: str | None,
    before: _Before,
) -> Line:
    cells = {key: value for key, value in record.items() if value not in (None, "")}
    if not any(cells.keys() >= needed for needed in (*_NEEDED, *_NEEDED_OF_SET)):
        columns = listed(map(str, record)) or "nothing"
        needed = "left, right and answer, or winner and loser, or items and best"
        _refuse(where, f"needs {needed}; there is {columns}")
    if annotator is not None:
        cells.setdefault("annotator", annotator)  # part of the content
    id = _id(where, cells["id"]) if "id" in cells else before.id_of(cells)
    asked: tuple[int, ...]
    choice: dict[str, int] = {}
    if cells.keys() >= _NEEDED[1]:
        asked, answer = _of_winner(where, cells, items, id)
    elif cells.keys() >= _NEEDED[0]:
        asked, answer = _of_answer(where, cells, items)
        if answer in SET_ANSWERS:
            _refuse(where, f"{answer!r} is no answer about two items")
    else:
        asked, answer, choice = _of_set(where, cells, items)
    if (answer == "undo") != ("undoes" in cells):
        _refuse(where, '`undoes` must be set if and only if answer is "undo"')
    facts = {key: _FACTS[key](where, key, cells[key]) for key in cells if key in _FACTS}
    left, right = asked[:2]
    facts |= {"further": asked[2:], **choice}
    judgement = Judgement(_annotator(where, cells), left, right, answer, **facts)
    return Line(where, id, judgement, record)


def _of_winner(
    where: str, cells: Mapping[str, Any], items: Mapping[str, int], id: str
) -> tuple[tuple[int, int], Answer]:
    """The pair (left, right) and the answer of a row that names winner and loser.

    The id decides which of the two is left: always the left one would look like a side bias.
    """
    if "answer" in cells:
        _refuse(where, "has both answer and winner, loser: leave out one or the other")
    if int(id[-1:], 36) % 2:
        return _pair(where, cells, items, ("winner", "loser")), "left"
    return _pair(where, cells, items, ("loser", "winner")), "right"


def _of_answer(
    where: str, cells: Mapping[str, Any], items: Mapping[str, int]
) -> tuple[tuple[int, int], Answer]:
    """The pair (left, right) and the answer of a row that names the answer."""
    pair = _pair(where, cells, items, ("left", "right"))
    if cells["answer"] in ANSWERS:
        return pair, cells["answer"]
    word = str(cells["answer"]).strip()
    # Ids take precedence: items may be named 1 and 2.
    sides: dict[int | None, Answer] = {pair[0]: "left", pair[1]: "right"}
    answer = sides.get(items.get(word)) or _SAID.get(word.lower())
    if answer is None:
        answers = ", ".join(ANSWERS)
        _refuse(where, f"unknown answer {shown(cells['answer'])}; known are {answers}")
    return pair, answer


def _of_set(
    where: str, cells: Mapping[str, Any], items: Mapping[str, int]
) -> tuple[tuple[int, ...], Answer, dict[str, int]]:
    """The items of a row about more than two, the answer, and the items that it chooses."""
    asked = _items_of(where, cells["items"], items)
    if "p" in cells:
        _refuse(where, f"a p is for two items, and there are {len(asked)}")
    choice = {name: _item(where, cells[name], items) for name in ("best", "worst") if name in cells}
    answer: Answer = cells.get("answer", "best")
    if answer not in ANSWERS:
        answers = ", ".join(ANSWERS)
        _refuse(where, f"unknown answer {shown(answer)}; known are {answers}")
    for name, item in choice.items():
        if item not in asked:
            _refuse(where, f"{name} {shown(cells[name])} is none of the items in question")
    if choice.get("best") == choice.get("worst", -1):
        _refuse(where, f"item {shown(cells['best'])} cannot be the best and the worst")
    try:
        check_items(asked, answer)
        check_choice(asked, answer, choice.get("best"), choice.get("worst"))
    except JudgementError as error:
        _refuse(where, str(error))
    return asked, answer, choice


def _items_of(where: str, value: Any, items: Mapping[str, int]) -> tuple[int, ...]:
    """The items of a question about three to six, from a list of ids or its JSON."""
    ids = value
    if isinstance(value, str):
        try:
            ids = json.loads(value)
        except (ValueError, RecursionError):
            ids = None
    if not isinstance(ids, list) or not 2 < len(ids) <= MOST_ITEMS:
        _refuse(where, f"items {shown(value)} is no list of 3 to {MOST_ITEMS} ids")
    asked = tuple(_item(where, id, items) for id in ids)
    for id in ids:
        if ids.count(id) > 1:
            _refuse(where, f"item {shown(id)} cannot be compared with itself")
    return asked


def _pair(
    where: str, cells: Mapping[str, Any], items: Mapping[str, int], columns: tuple[str, str]
) -> tuple[int, int]:
    """The items that two columns of a row name; they must differ."""
    first, second = (_item(where, cells[column], items) for column in columns)
    if first == second:
        _refuse(where, f"item {shown(cells[columns[0]])} cannot be compared with itself")
    return first, second


def _annotator(where: str, cells: Mapping[str, Any]) -> str:
    """The annotator that a row names.

    Raises:
        DataError: if there is none, or the name is not one that an annotator may have.
    """
    if "annotator" not in cells:
        _refuse(where, "no annotator: add the column or give --as NAME")
    try:
        return checked_name("annotator", str(cells["annotator"]))
    except StoreError as error:
        _refuse(where, str(error))


def _item(where: str, value: Any, items: Mapping[str, int]) -> int:
    name = str(value) if isinstance(value, int) else value
    if not isinstance(name, str) or name not in items:
        _refuse(where, f"the collection has no item {shown(value)}")
    return items[name]


def _text_of(
    where: str, key: str, value: Any, *, longest: int = _LONGEST, lines: bool = False
) -> str:
    if not isinstance(value, str) or len(value) > longest or not (lines or value.isprintable()):
        _refuse(where, f"{key} {shown(value)} is not a text of at most {longest} characters")
    return value


def _id(where: str, value: Any) -> str:
    id = _text_of(where, "id", value)
    if not (id.isalnum() and id.isascii()):
        _refuse(where, f"id {shown(value)} must have letters and digits only")
    return id


def _whole(where: str, key: str, value: Any, *, least: int = 0, most: int = _LARGEST) -> int:
    said = f"a whole number from {least} on"
    number = _real(where, key, value, least=least, most=most, said=said)
    if not number.is_integer():  # 900.0 is whole: spreadsheets and pandas write so
        _refuse(where, f"{key} {shown(value)} is not {said}")
    return int(number)


def _real(
    where: str, key: str, value: Any, *, most: float, least: float = 0, said: str = ""
) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (ValueError, TypeError, OverflowError):
        number = math.nan
    if not least <= number <= most:
        _refuse(where, f"{key} {shown(value)} is not {said or f'a number from 0 to {most:.0f}'}")
    return number


def _meta(where: str, key: str, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    if len(text) > LONGEST_META:
        _refuse(where, f"{key} {shown(text)} is longer than {LONGEST_META} characters")
    return text


def _flag(where: str, key: str, value: Any) -> bool | None:
    if str(value).lower() not in ("true", "false", "1", "0"):
        _refuse(where, f"{key} {shown(value)} is neither true nor false")
    return str(value).lower() in ("true", "1") or None


# How the optional fields are read.
_FACTS: dict[str, Callable[[str, str, Any], Any]] = {
    "milliseconds": partial(_whole, most=2**53 - 1),
    "strategy": _text_of,
    "probability": partial(_real, most=1.0),
    "model": _whole,
    "number": partial(_whole, least=1),
    "undoes": partial(_whole, least=1),
    "at": partial(_real, most=_LATEST),
    "comment": partial(_text_of, longest=LONGEST_COMMENT, lines=True),
    "flagged": _flag,
    "p": partial(_real, most=1.0),
    "cost": partial(_real, most=1e12),
    "meta": _meta,
}


def _refuse(where: str, fault: str) -> NoReturn:
    raise DataError(f"{where}: {fault}")
