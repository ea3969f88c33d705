"""Files of judgements, line by line: what stands in them, and in which line what is wrong."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, NoReturn

from sortnet.errors import DataError, StoreError
from sortnet.preference import ANSWERS, Judgement
from store.collections.names import checked_name

FIELDS = (
    "id", "number", "annotator", "left", "right", "answer", "milliseconds", "strategy",
    "probability", "model", "undoes", "at",
)  # fmt: skip
Form = Literal["jsonl", "csv"]
SUFFIXES: dict[str, Form] = {
    ".jsonl": "jsonl", ".json": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "csv",
}  # fmt: skip
_NEEDED = (("left", "right", "answer"), ("winner", "loser"))
# Largest whole numbers, and the time by which no clock of today will stand: the year 2242.
_LARGEST = {"milliseconds": 2**53 - 1, "model": 2**31 - 1, "number": 2**31 - 1, "undoes": 2**31 - 1}
_LATEST = 2.0**33
_LONGEST = 64  # characters of an id or a strategy


@dataclass(frozen=True)
class Line:
    """A judgement as it stands in a file: where, what it is recognised by, and what it says."""

    where: str
    id: str
    judgement: Judgement


def read_lines(
    path: Path, items: Mapping[str, int], *, form: Form | None = None, annotator: str | None = None
) -> list[Line]:
    """All judgements of a file, checked.

    Args:
        items: {id: number} of the collection.
        form: of the file; None goes by its suffix.
        annotator: whose judgements those are which name nobody.

    Raises:
        DataError: on the first fault, with file and line.
    """
    form = form or SUFFIXES.get(path.suffix.lower())
    if form is None:
        known = ", ".join(SUFFIXES)
        raise DataError(f"{path}: judgements are read from {known}; say which format it has")
    text = _text(path)
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    records = _json_records(path, text) if form == "jsonl" else _rows(path, text, delimiter)
    lines: list[Line] = []
    before = _Before()
    for where, record in records:
        line = _line(where, record, items, annotator, before)
        before.check(line)
        lines.append(line)
    return lines


class _Before:
    """What stood in earlier lines."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}
        self.contents: dict[str, int] = {}
        self.numbers: dict[int, Line] = {}
        self.undone: set[int] = set()

    def id_of(self, content: str) -> str:
        """For what has no id: the same content has the same in every file, equal lines differ."""
        times = self.contents[content] = self.contents.get(content, 0) + 1
        return blake2b(f"{times} {content}".encode(), digest_size=12).hexdigest()

    def check(self, line: Line) -> None:
        """Refuse what an earlier line says already, or an undo of what none says."""
        if line.id in self.ids:
            _refuse(line.where, f"id {line.id!r} stands in {self.ids[line.id]} already")
        number, undoes = line.judgement.number, line.judgement.undoes
        if number in self.numbers:
            where = self.numbers[number].where
            _refuse(line.where, f"number {number} stands in {where} already")
        if undoes is not None:
            self._check_undo(line, undoes)
        self.ids[line.id] = line.where
        if number:
            self.numbers[number] = line

    def _check_undo(self, line: Line, number: int) -> None:
        found = self.numbers.get(number)
        if found is None:
            _refuse(line.where, f"an undo of judgement {number}, which no line before has")
        elif found.judgement.annotator != line.judgement.annotator:
            who = line.judgement.annotator
            _refuse(line.where, f"judgement {number} ({found.where}) is not {who!r}'s to undo")
        elif found.judgement.answer == "undo" or number in self.undone:
            _refuse(line.where, f"judgement {number} ({found.where}) cannot be undone (again)")
        self.undone.add(number)


def _line(
    where: str,
    record: Mapping[str, Any],
    items: Mapping[str, int],
    annotator: str | None,
    before: _Before,
) -> Line:
    given = {key: value for key, value in record.items() if value not in (None, "")}
    if not any(all(key in given for key in keys) for keys in _NEEDED):
        found = ", ".join(str(key) for key in record) or "nothing"
        _refuse(where, f"needs left, right and answer, or winner and loser; there is {found}")
    if annotator is not None:
        given.setdefault("annotator", annotator)  # part of what the line is recognised by
    content = json.dumps([[key, str(given[key])] for key in sorted(given)])
    id = _text_of(where, given, "id", "") or before.id_of(content)
    answer: Any = given.get("answer")
    if "answer" in given and {"winner", "loser"} <= given.keys():
        _refuse(where, "winner and loser say what answer would: leave out one or the other")
    if answer is None:
        # A side must be dealt out: always the left one would look like a habit.
        sides = ("winner", "loser") if int(id[-1:], 36) % 2 else ("loser", "winner")
        answer = "left" if sides[0] == "winner" else "right"
    else:
        sides = ("left", "right")
    if answer not in ANSWERS:
        _refuse(where, f"unknown answer {_shown(answer)}; known are {', '.join(ANSWERS)}")
    left, right = (_item(where, given[side], items) for side in sides)
    if left == right:
        _refuse(where, f"item {_shown(given[sides[0]])} cannot be compared with itself")
    undoes = _whole(where, given, "undoes")
    if (answer == "undo") != (undoes is not None):
        _refuse(where, "an undo, and nothing else, has in undoes the number that it takes back")
    judgement = Judgement(
        _annotator(where, given.get("annotator")),
        left,
        right,
        answer,
        _whole(where, given, "milliseconds"),
        _text_of(where, given, "strategy", "given"),
        _real(where, given, "probability", 1.0) or 0.0,
        _whole(where, given, "model") or 0,
        _whole(where, given, "number") or 0,
        undoes,
        _real(where, given, "at", _LATEST),
    )
    return Line(where, id, judgement)


def _item(where: str, value: Any, items: Mapping[str, int]) -> int:
    name = str(value) if isinstance(value, int) else value
    if not isinstance(name, str) or name not in items:
        _refuse(where, f"the collection has no item {_shown(value)}")
    return items[name]


def _annotator(where: str, value: Any) -> str:
    if value is None:
        _refuse(where, "says not who judged; name an annotator")
    try:
        return checked_name("annotator", str(value))
    except StoreError as error:
        raise DataError(f"{where}: {error}") from None


def _text_of(where: str, given: Mapping[str, Any], key: str, default: str) -> str:
    value = given.get(key, default)
    if not isinstance(value, str) or len(value) > _LONGEST or not value.isprintable():
        _refuse(where, f"{key} {_shown(value)} is no text of at most {_LONGEST} characters")
    if key == "id" and value and not (value.isalnum() and value.isascii()):
        _refuse(where, f"id {_shown(value)} is not of letters and digits alone")
    return str(value)


def _whole(where: str, given: Mapping[str, Any], key: str) -> int | None:
    if key not in given:
        return None
    value = given[key]
    number = _number(value)  # 900.0 too: spreadsheets and pandas write it so
    least = 1 if key in ("number", "undoes") else 0
    if not least <= number <= _LARGEST[key] or not number.is_integer():
        _refuse(where, f"{key} {_shown(value)} is no whole number from {least} on")
    return int(number)


def _real(where: str, given: Mapping[str, Any], key: str, most: float) -> float | None:
    if key not in given:
        return 1.0 if key == "probability" else None
    value = given[key]
    number = _number(value)
    if not 0 <= number <= most:
        _refuse(where, f"{key} {_shown(value)} is no number from 0 to {most:.0f}")
    return number


def _number(value: Any) -> float:
    """The number that a value is or spells, else NaN."""
    try:
        return math.nan if isinstance(value, bool) else float(value)
    except (ValueError, TypeError, OverflowError):
        return math.nan


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _refuse(where: str, fault: str) -> NoReturn:
    raise DataError(f"{where}: {fault}")


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}:{line}: is not UTF-8 ({error.reason})") from None


def _json_records(path: Path, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        where = f"{path}:{number}"
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            cut = number == len(lines)
            fault = "half a line, the file was cut" if cut else f"is no JSON: {error}"
            raise DataError(f"{where}: {fault} ({_shown(line[-30:])})") from None
        if not isinstance(record, dict):
            _refuse(where, f"is no JSON object: {_shown(record)}")
        yield where, record


def _rows(path: Path, text: str, delimiter: str) -> Iterator[tuple[str, dict[str, Any]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header: list[str] = []
    while True:
        where = f"{path}:{reader.line_num + 1}"
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(f"{where}: is no CSV: {error}") from None
        if not header:
            header = [name.strip() for name in row]
            continue
        if not row:
            continue
        if len(row) != len(header):
            _refuse(where, f"{len(row)} fields where the header has {len(header)}")
        if set(FIELDS) <= set(header) and not text.endswith("\n") and _is_last(reader, text):
            _refuse(where, "half a line, the file was cut")
        yield where, dict(zip(header, row, strict=True))


def _is_last(reader: Any, text: str) -> bool:
    """Whether the line just read is the one at the end, which has no newline."""
    return bool(reader.line_num > text.count("\n"))
