"""Judgement files of other tools: Arena battles, chosen/rejected records, Label Studio, Argilla."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import combinations, islice
from typing import Any, NoReturn, TypeAlias

from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.items import Items
from sortnet.tables.rows import Rows, listed

Record: TypeAlias = Mapping[str, Any]
# The columns by which each tool's file is known.
TOOLS = {
    "arena": ("model_a", "model_b", "winner"),
    "chosen": ("chosen", "rejected"),
    "label-studio": ("data", "annotations"),
    "argilla": ("fields", "responses"),
}
_OWN = ({"left", "right", "answer"}, {"winner", "loser"})
_TIES = ("tie", "equal", "draw", "same", "both")
_LISTED = 3  # names of models in a message
_LONGEST = 1e9  # seconds for an answer
# Ends, or starts, of the names of two fields that say which is shown on the left.
_ORDER = (("left", "right"), ("1", "2"), ("a", "b"), ("0", "1"))


def as_votes(
    rows: Rows, items: Items, tool: str | None = None, sides: tuple[str, str] | None = None
) -> Rows:
    """A tool's rows as rows of items' ids, answers and annotators; other rows as they are.

    The tool is a name in `TOOLS`; None: by the columns. A DataError where a row cannot be mapped
    with certainty.
    """
    names = {*rows.columns}
    if tool is None and not any(own <= names for own in _OWN):
        tool = next((tool for tool, needed in TOOLS.items() if {*needed} <= names), None)
    if tool is None:
        return rows
    if missing := [name for name in TOOLS[tool] if name not in names]:
        if rows.lines:
            has = f"needs {', '.join(missing)}; has {listed(rows.columns)}"
            _refuse(str(rows.path), f"a file of {tool} {has}")
        return rows
    records = [
        dict(zip(rows.columns, values, strict=True))
        for values in zip(*rows.columns.values(), strict=True)
    ]
    read = _reader(tool, str(rows.path), records, _Finder(items), sides)
    votes = [
        (line, vote)
        for row, (line, record) in enumerate(zip(rows.lines, records, strict=True))
        for vote in read(rows.place(row), record)
    ]
    names_of = dict.fromkeys(name for _, vote in votes for name in vote)
    columns = {name: [vote.get(name) for _, vote in votes] for name in names_of}
    return Rows(rows.path, columns, [line for line, _ in votes], rows.unit)


Read: TypeAlias = Callable[[str, Record], Iterator[dict[str, Any]]]


class _Finder:
    """Items by what another tool has of them: id, text, name of an image or sound."""

    def __init__(self, items: Items) -> None:
        self.items, self.ids = items, {*items.ids}
        self._named: defaultdict[str, dict[int, None]] = defaultdict(dict)
        self._groups: defaultdict[str, set[str]] = defaultdict(set)
        self._group_names = {*(items.groups or ())}
        for number, names in enumerate(
            zip(items.ids, items.texts, items.images, items.audio, strict=True)
        ):
            for name in filter(None, names):
                self._named[name.strip()][number] = None
        for group, context in zip(items.groups or (), items.contexts or (), strict=False):
            self._groups[(context or "").strip()].add(group)

    def knows(self, value: Any) -> bool:
        return _said(value) in self._named

    def pair(self, where: str, first: Any, second: Any, record: Record) -> tuple[str, str]:
        """The ids of two items of one group, that of the record's prompt if it has one."""
        left, right = (self._numbers(where, value, record) for value in (first, second))
        groups = self.items.groups
        pairs = ((a, b) for a in left for b in right if a != b)
        alike = (pair for pair in pairs if groups is None or len({groups[n] for n in pair}) == 1)
        found = [*islice(alike, 2)]
        what = f"{shown(_said(first))} and {shown(_said(second))}"
        if len(found) > 1:
            _refuse(where, f"{what} are of more than one pair of items: name the items by id")
        if not found:
            _refuse(where, f"{what} are one item, or of different groups")
        a, b = found[0]
        return self.items.ids[a], self.items.ids[b]

    def _numbers(self, where: str, value: Any, record: Record) -> list[int]:
        name = _said(value)
        found = [*self._named.get(name, ())] if name is not None else []
        if not found:
            what = shown(value if name is None else name)
            _refuse(where, f"no item of the collection has the id or text {what}")
        groups, of = self._groups_of(record), self.items.groups
        if groups and of is not None:
            found = [number for number in found if of[number] in groups]
            if not found:
                _refuse(where, f"no item of the group of its prompt is {shown(name)}")
        return found

    def _groups_of(self, record: Record) -> set[str]:
        """The groups with a context that the record has, or that it names as group or prompt."""
        if not self._group_names:
            return set()
        said = {key: name for key, value in record.items() if (name := _said(value))}
        found = {group for name in said.values() for group in self._groups.get(name, ())}
        named = {said[key] for key in ("group", "prompt") if key in said}
        return found or named & self._group_names


def _reader(
    tool: str,
    path: str,
    records: Sequence[Record],
    find: _Finder,
    sides: tuple[str, str] | None,
) -> Read:
    """What reads a record, after a look at all of them."""
    if tool == "arena":
        _check_models(path, records, find.items)
        return _arena
    if tool == "chosen":
        return partial(_chosen, find)
    if tool == "label-studio":
        _check_controls(path, records)
        return partial(_label_studio, find, sides)
    return partial(_argilla, find, _question_of(path, records))


def _check_models(path: str, records: Sequence[Record], items: Items) -> None:
    known = {*items.ids}
    models = dict.fromkeys(str(r[side]) for r in records for side in ("model_a", "model_b"))
    unknown = [model for model in models if model not in known]
    if unknown:
        names = ", ".join(map(shown, unknown[:_LISTED]))
        if len(unknown) > _LISTED:
            names += ", ..."
        what = f"{len(unknown)} of {len(models)} models are no items of the collection"
        _refuse(path, f"{what}: {names}: add them first (sortnet items add)")


def _arena(where: str, battle: Record) -> Iterator[dict[str, Any]]:
    """A battle; its judge is the annotator, "both bad" is a tie."""
    said = str(battle["winner"]).strip()
    who = (battle.get(name) for name in ("judge", "judge_hash", "annotator"))
    yield {
        "left": battle["model_a"],
        "right": battle["model_b"],
        "answer": "tie" if said in ("tie (bothbad)", "bothbad", "both_bad") else said,
        "annotator": next(filter(None, who), None),
        "at": battle.get("tstamp"),
    }


def _chosen(find: _Finder, where: str, record: Record) -> Iterator[dict[str, Any]]:
    """A record of preference tuning; ids beside the texts, as our export has them, are certain."""
    chosen, prompt = record["chosen"], record.get("prompt")
    if prompt is None and isinstance(chosen, list):
        prompt = chosen  # an implicit prompt, which is part of both conversations
    hints = {"prompt": _said(prompt, role="user"), "group": record.get("group")}
    ids = record.get("chosen_id"), record.get("rejected_id")
    known = {*ids} <= find.ids
    winner, loser = ids if known else find.pair(where, chosen, record["rejected"], hints)
    yield {"winner": winner, "loser": loser, "annotator": record.get("annotator")}


def _results(annotation: Any) -> list[Record]:
    results = annotation.get("result") if isinstance(annotation, dict) else None
    return [r for r in results if isinstance(r, dict)] if isinstance(results, list) else []


def _check_controls(path: str, tasks: Sequence[Record]) -> None:
    """Refuse results of no or several Pairwise tags: which one to read would be a guess."""
    annotations = (a for t in tasks if isinstance(t["annotations"], list) for a in t["annotations"])
    results = [result for annotation in annotations for result in _results(annotation)]
    controls = {str(r.get("from_name")) for r in results if r.get("type") == "pairwise"}
    if len(controls) > 1:
        names = listed(sorted(controls))
        _refuse(path, f"has answers of the Pairwise tags {names}: import one at a time")
    if results and not controls:
        kinds = listed(sorted({str(result.get("type")) for result in results}))
        _refuse(path, f"no result is of type pairwise, all are {kinds}")


def _label_studio(
    find: _Finder, sides: tuple[str, str] | None, where: str, task: Record
) -> Iterator[dict[str, Any]]:
    """The annotations of a task: an answer each, or a skip; predictions are left out."""
    data, annotations = task["data"], task["annotations"]
    if not isinstance(data, dict) or not isinstance(annotations, list):
        _refuse(where, "is no task of Label Studio: data is an object, annotations an array")
    for annotation in annotations:
        said = [r.get("value") for r in _results(annotation) if r.get("type") == "pairwise"]
        selected = [value.get("selected") for value in said if isinstance(value, dict)]
        cancelled = isinstance(annotation, dict) and annotation.get("was_cancelled")
        if not selected and not cancelled:
            continue
        names = sides or _sides(where, data, find)
        if missing := [name for name in names if name not in data]:
            _refuse(where, f"has no field {shown(missing[0])}; there are {listed(data)}")
        left, right = find.pair(where, data[names[0]], data[names[1]], data)
        who = annotation.get("completed_by")
        if isinstance(who, dict):
            who = next(filter(None, map(who.get, ("email", "username", "id"))), None)
        yield {
            "left": left,
            "right": right,
            "answer": "skip" if cancelled else selected[0],
            "annotator": who,
            "milliseconds": _milliseconds(annotation.get("lead_time")),
            "at": _seconds(annotation.get("created_at")),
        }


def _sides(where: str, data: Record, find: _Finder) -> tuple[str, str]:
    """The fields of the left and the right item: the only two whose names say so."""
    known = {name.lower(): name for name in data}
    ordered = [
        (left, known[right])
        for low, left in known.items()
        for right in _right_of(low) & known.keys()
    ]
    of_items = [pair for pair in ordered if all(find.knows(data[name]) for name in pair)]
    certain = of_items if len(ordered) > 1 else ordered
    if len(certain) != 1:
        what = "which field holds the left item, and which the right one?"
        _refuse(where, f"{what} --fields LEFT RIGHT; there are {listed(data)}")
    return certain[0]


def _right_of(name: str) -> set[str]:
    """The names that the field on the right may have if the one on the left has this name.

    >>> _right_of("text1"), _right_of("left_text")
    ({'text2'}, {'right_text'})
    """
    found = {name.removesuffix(one) + other for one, other in _ORDER if name.endswith(one)}
    return found | ({name.replace("left", "right", 1)} if name.startswith("left") else set())


def _milliseconds(seconds: Any) -> int | None:
    known = isinstance(seconds, int | float) and 0 <= seconds < _LONGEST
    return round(1000 * seconds) if known else None


def _seconds(value: Any) -> float | None:
    """Seconds since 1970 of a time in ISO form; None if it is none with a zone."""
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return time.timestamp() if time.tzinfo and time.year > 1970 else None


def _responses(record: Record) -> Iterator[tuple[str, Record]]:
    """(question, {value, user_id, status}) of a record, as the SDK or the REST API has them."""
    responses = record["responses"]
    if isinstance(responses, dict):
        for question, each in responses.items():
            given = each if isinstance(each, list) else ()
            yield from ((question, r) for r in given if isinstance(r, dict))
    for response in responses if isinstance(responses, list) else ():
        values = response.get("values") if isinstance(response, dict) else None
        for question, value in values.items() if isinstance(values, dict) else ():
            if isinstance(value, dict):
                yield question, {**response, "value": value.get("value")}


def _question_of(path: str, records: Sequence[Record]) -> str | None:
    """The only question whose answers are about the fields; None if nobody answered."""
    asked: dict[str, None] = {}
    others: dict[str, None] = {}
    for record in records:
        fields = record["fields"] if isinstance(record["fields"], dict) else {}
        for question, response in _responses(record):
            value = response.get("value")
            names = value if isinstance(value, list) else [value]
            if len(names) > 1 and all(isinstance(name, str) and name in fields for name in names):
                what = f"question {shown(question)}: a ranking without ranks, {shown(str(value))}"
                _refuse(path, f'{what}: each must be {{"value": ..., "rank": ...}}, as the API has')
            (asked if _ranks(value, fields) else others)[question] = None
    if len(asked) > 1:
        what = f"the questions {listed(asked)} compare fields"
        _refuse(path, f"{what}: leave only one in the file")
    if not asked and others:
        _refuse(path, f"no answer names a field of its record; questions are {listed(others)}")
    return next(iter(asked), None)


def _ranks(value: Any, fields: Record) -> dict[str, Any] | None:
    """{field: rank} of an answer, the best lowest; None if it is not about fields."""
    if isinstance(value, str) and value in fields:
        return {value: 1}
    if not (isinstance(value, list) and value and all(isinstance(each, dict) for each in value)):
        return None
    names = [each.get("value") for each in value]
    if not all(isinstance(name, str) and name in fields for name in names):
        return None
    return dict(zip(names, (each.get("rank") for each in value), strict=True))


def _argilla(
    find: _Finder, question: str | None, where: str, record: Record
) -> Iterator[dict[str, Any]]:
    """The submitted responses to one question; suggestions are left out."""
    fields = record["fields"]
    if not isinstance(fields, dict):
        _refuse(where, "is no record of Argilla: fields is an object")
    for asked, response in _responses(record):
        if asked != question or response.get("status") not in (None, "submitted"):
            continue
        value, who = response.get("value"), response.get("user_id")
        of_items = [name for name in fields if find.knows(fields[name])]
        if (ranks := _ranks(value, fields)) is None:
            if len(of_items) != 2 or str(value).strip().lower() not in _TIES:
                _refuse(where, f"the answer {shown(value)} is no field of it: {listed(fields)}")
            ranks = dict.fromkeys(of_items, 1)
        pairs = [*combinations([name for name in ranks if ranks[name] is not None], 2)]
        if isinstance(value, str) and value in fields:  # the best of those that hold items
            pairs = [(value, name) for name in of_items if name != value]
            ranks = dict.fromkeys(of_items, 2) | ranks
        for a, b in pairs:
            yield _compared(where, ranks, a, b, fields, find) | {"annotator": who}


def _compared(
    where: str, ranks: Record, a: str, b: str, fields: Record, find: _Finder
) -> dict[str, Any]:
    """The answer about two fields, by their ranks."""
    if not all(isinstance(ranks[name], int) for name in (a, b)):
        _refuse(where, f"rank {shown(ranks[a])} or {shown(ranks[b])} is no whole number")
    a, b = sorted((a, b), key=lambda name: ranks[name])
    better, other = find.pair(where, fields[a], fields[b], fields)
    if ranks[a] == ranks[b]:
        return {"left": better, "right": other, "answer": "tie"}
    return {"winner": better, "loser": other}


def _said(value: Any, role: str = "assistant") -> str | None:
    """A text; of a conversation the last message of that role; a whole number as text."""
    if isinstance(value, list):
        messages = [m for m in value if isinstance(m, dict) and m.get("role") == role]
        value = messages[-1].get("content") if messages else None
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return value.strip() if isinstance(value, str) else None


def _refuse(where: str, fault: str) -> NoReturn:
    raise DataError(f"{where}: {fault}")
