"""Read the files of Chatbot Arena, preference tuning, Label Studio and Argilla as votes.

A vote is a row of a judgement file: the ids of two items, the answer, the annotator and the time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import combinations, islice
from typing import Any, NamedTuple, NoReturn, TypeAlias

from sortnet.errors import DataError
from sortnet.files import Record, shown
from sortnet.items import Items
from sortnet.tables.rows import Rows, listed

Vote: TypeAlias = Record
_OWN_COLUMNS = ({"left", "right", "answer"}, {"winner", "loser"})  # columns of a judgement file
_BOTH_BAD = ("tie (bothbad)", "bothbad", "both_bad")
_TIE_WORDS = ("tie", "equal", "draw", "same", "both")
_MOST_SECONDS = 1e9  # a longer time for an answer is an error of the file, and is ignored
# The endings by which field names tell the left item from the right, as in text1 and text2.
_SIDE_ENDINGS = (("left", "right"), ("1", "2"), ("a", "b"), ("0", "1"))


def votes_of_foreign_rows(
    rows: Rows,
    items: Items,
    form: str | None,
    sides: tuple[str, str] | None,
) -> Rows:
    """Convert rows of another tool's file to rows with the columns of a judgement file.

    Rows that are already in the format of a judgement file are returned as they are.

    Args:
        rows: the rows of the file.
        items: the items of the collection.
        form: name of the format, a key of `FOREIGN_COLUMNS`. If None, it is recognised by the
            columns.
        sides: the fields of Label Studio's tasks that have the left and the right item.

    Raises:
        DataError: if it is not certain which items a row is about.
    """
    names = {*rows.columns}
    is_own = any(columns <= names for columns in _OWN_COLUMNS)
    forms = [name for name, columns in FOREIGN_COLUMNS.items() if names.issuperset(columns)]
    if form is None and (is_own or not forms):
        return rows
    form = form or forms[0]
    if form not in forms:
        if rows.lines:
            needed = ", ".join(FOREIGN_COLUMNS[form])
            refuse(str(rows.path), f"a file of {form} needs {needed}; has {listed(rows.columns)}")
        return rows  # an empty file has no columns
    cells = zip(*rows.columns.values(), strict=True)
    records = [dict(zip(rows.columns, values, strict=True)) for values in cells]
    read_answers, read_votes = _READERS[form]
    answers = [
        (row, answer)
        for row, record in enumerate(records)
        for answer in read_answers(rows.place(row), record)
    ]
    question = _compared_question(str(rows.path), [answer for _, answer in answers])
    finder = ItemFinder(items, sides)
    votes: list[Vote] = []
    lines: list[int] = []
    for row, answer in answers:
        if answer.question in ("", question):
            new_votes = [*read_votes(finder, rows.place(row), records[row], answer)]
            votes += new_votes
            lines += [rows.lines[row]] * len(new_votes)
    columns = dict.fromkeys(name for vote in votes for name in vote)
    return Rows(
        rows.path, {name: [vote.get(name) for vote in votes] for name in columns}, lines, rows.unit
    )


class _Answer(NamedTuple):
    """An answer of an annotator to one of the questions about a record.

    Attributes:
        question: the name of the question or tag; empty for a skip, and if the record is a vote.
        value: the answer.
        compares: whether the answer compares items.
        facts: the annotator, and perhaps times.
    """

    question: str
    value: Any
    compares: bool
    facts: Vote


def _compared_question(path: str, answers: Sequence[_Answer]) -> str:
    """Find the question of a file whose answers compare items; empty if nobody has answered.

    Args:
        path: the file, for messages.
        answers: all answers in the file.

    Raises:
        DataError: if several questions compare items, or no answered question does.
    """
    # These dicts are sets of questions, which keep the order of the first answers.
    answered = dict.fromkeys(answer.question for answer in answers if answer.question)
    comparing = dict.fromkeys(name for name, _, compares, _ in answers if name and compares)
    if len(comparing) > 1:
        refuse(path, f"the questions {listed(comparing)} compare items: import one at a time")
    if answered and not comparing:
        refuse(
            path,
            "no answer names the better field, or gives each field a rank; there are answers to "
            f"{listed(answered)}",
        )
    return next(iter(comparing), "")


def _whole_record(place: str, record: Record) -> Iterator[_Answer]:
    """Yield the only answer in a record that is a vote."""
    yield _Answer("", record, compares=True, facts={})


def _battle(finder: ItemFinder, place: str, battle: Record, answer: _Answer) -> Iterator[Vote]:
    """Yield the vote of a battle of Chatbot Arena, whose models are the items."""
    left_item, right_item = finder.pair(place, battle["model_a"], battle["model_b"], {})
    winner = str(battle["winner"]).strip()
    # Versions of the data set name the judge in different columns.
    judges = [battle.get(column) for column in ("judge", "judge_hash", "annotator")]
    yield {
        "left": left_item,
        "right": right_item,
        "answer": "tie" if winner in _BOTH_BAD else winner,
        "annotator": next(filter(None, judges), None),
        "at": battle.get("tstamp"),
    }


def _preference(finder: ItemFinder, place: str, record: Record, answer: _Answer) -> Iterator[Vote]:
    """Yield the vote of a record for its chosen text and against its rejected text.

    The items are recognised by the ids that our export writes, or else by the two texts.
    """
    winner, loser = record.get("chosen_id"), record.get("rejected_id")
    if not {winner, loser} <= {*finder.ids}:
        chosen = record["chosen"]
        prompt = record.get("prompt")
        if prompt is None and isinstance(chosen, list):
            prompt = chosen  # both conversations begin with the prompt
        group = {"prompt": text_of(prompt, role="user"), "group": record.get("group")}
        winner, loser = finder.pair(place, chosen, record["rejected"], group)
    yield {"winner": winner, "loser": loser, "annotator": record.get("annotator")}


def _task(finder: ItemFinder, place: str, task: Record, answer: _Answer) -> Iterator[Vote]:
    """Yield the vote of an annotation of a task of Label Studio, by its Pairwise tag."""
    data = task["data"]
    if not answer.value:
        return
    left_field, right_field = finder.sides or _fields_of_sides(place, data, finder)
    for field in (left_field, right_field):
        if field not in data:
            refuse(place, f"has no field {shown(field)}; there are {listed(data)}")
    left_item, right_item = finder.pair(place, data[left_field], data[right_field], data)
    yield {"left": left_item, "right": right_item, "answer": answer.value, **answer.facts}


def _answers_of_task(place: str, task: Record) -> Iterator[_Answer]:
    """Yield the results of all annotations of a task; a skipped task has the answer "skip".

    Predictions are left out.
    """
    if not isinstance(task["data"], dict) or not isinstance(task["annotations"], list):
        refuse(place, "is no task of Label Studio: data is an object, annotations an array")
    for annotation in objects_in(task["annotations"]):
        user = annotation.get("completed_by")
        if isinstance(user, dict):
            user = user.get("email") or user.get("username") or user.get("id")
        facts = {
            "annotator": user,
            "milliseconds": _milliseconds(annotation.get("lead_time")),
            "at": _seconds_since_1970(annotation.get("created_at")),
        }
        if annotation.get("was_cancelled"):
            yield _Answer("", "skip", True, facts)
            continue
        for result in objects_in(annotation.get("result")):
            value = result.get("value")
            selected = value.get("selected") if isinstance(value, dict) else None
            is_pairwise = result.get("type") == "pairwise"
            name = result.get("from_name") or result.get("type")
            yield _Answer(str(name), selected, is_pairwise, facts)


def _fields_of_sides(place: str, data: Record, finder: ItemFinder) -> tuple[str, str]:
    """Find the fields with the left and the right item by their names.

    If the names of several pairs of fields fit, only fields with items count.

    Raises:
        DataError: if no pair of fields fits, or more than one pair.
    """
    field_of_lower = {field.lower(): field for field in data}
    pairs = [
        (left_field, field_of_lower[right_name])
        for left_name, left_field in field_of_lower.items()
        for right_name in _right_names(left_name) & field_of_lower.keys()
    ]
    if len(pairs) > 1:
        pairs = [pair for pair in pairs if all(finder.is_item(data[field]) for field in pair)]
    if len(pairs) != 1:
        question = "which field holds the left item, and which the right one?"
        refuse(place, f"{question} --fields LEFT RIGHT; there are {listed(data)}")
    return pairs[0]


def _right_names(left_name: str) -> set[str]:
    """Return the names that the right field may have, given the name of the left field.

    The names differ at their ends (such as left and right, 1 and 2, a and b), or at their starts.

    >>> _right_names("text1"), _right_names("left_text")
    ({'text2'}, {'right_text'})
    """
    names = {
        left_name.removesuffix(left_end) + right_end
        for left_end, right_end in _SIDE_ENDINGS
        if left_name.endswith(left_end)
    }
    if left_name.startswith("left"):
        names.add(left_name.replace("left", "right", 1))
    return names


def _record(finder: ItemFinder, place: str, record: Record, answer: _Answer) -> Iterator[Vote]:
    """Yield the votes that follow from an answer in a record of Argilla."""
    fields = record["fields"]
    for (better, rank), (worse, worse_rank) in _ranked_pairs(place, answer.value, fields, finder):
        if not isinstance(rank, int) or not isinstance(worse_rank, int):
            refuse(place, f"rank {shown(rank)} or {shown(worse_rank)} is no whole number")
        if rank > worse_rank:
            better, worse = worse, better
        winner, loser = finder.pair(place, fields[better], fields[worse], fields)
        if rank == worse_rank:
            yield {"left": winner, "right": loser, "answer": "tie", **answer.facts}
        else:
            yield {"winner": winner, "loser": loser, **answer.facts}


def _answers_of_record(place: str, record: Record) -> Iterator[_Answer]:
    """Yield the submitted answers in a record of Argilla; suggestions are left out.

    Argilla's SDK writes {question: [response, ...]}. Its REST API returns [{"values": {question:
    {"value": value}}, "user_id": ..., ...}, ...]: an object has the answers of one user.
    """
    responses = record["responses"]
    if not isinstance(record["fields"], dict):
        refuse(place, "is no record of Argilla: fields is an object")
    answers: list[tuple[str, Record, Record]] = []  # (question, answer, facts about it)
    if isinstance(responses, dict):
        for question, values in responses.items():
            answers += [(question, response, response) for response in objects_in(values)]
    for response in objects_in(responses):
        values = response.get("values")
        if isinstance(values, dict):
            answers += [(name, value, response) for name, value in values.items()]
    for question, answer, facts in answers:
        if isinstance(answer, dict) and facts.get("status") in (None, "submitted"):
            value = answer.get("value")
            compares = bool(_ranks(value, record["fields"]))
            yield _Answer(question, value, compares, {"annotator": facts.get("user_id")})


def _ranked_pairs(
    place: str, value: Any, fields: Record, finder: ItemFinder
) -> list[tuple[tuple[str, Any], tuple[str, Any]]]:
    """Return the pairs of fields that an answer compares, each field with its rank.

    Args:
        place: the file and record, for messages.
        value: the answer, a label or a ranking.
        fields: the fields of the record.
        finder: tells which fields have items.
    """
    fields_of_items = [name for name in fields if finder.is_item(fields[name])]
    if isinstance(value, str) and value in fields:
        # A label names the best field. All other fields with items are worse, but are not compared
        # with each other.
        return [((value, 1), (other, 2)) for other in fields_of_items if other != value]
    ranks = _ranks(value, fields)
    if not ranks and len(fields_of_items) == 2 and str(value).strip().lower() in _TIE_WORDS:
        ranks = dict.fromkeys(fields_of_items, 1)
    if not ranks:
        refuse(place, f"the answer {shown(value)} is no field of it: {listed(fields)}")
    return [*combinations([entry for entry in ranks.items() if entry[1] is not None], 2)]


def _ranks(value: Any, fields: Record) -> Record:
    """Return {field: rank} of an answer; empty if the answer is neither a field nor a ranking."""
    if isinstance(value, str) and value in fields:
        return {value: 1}
    entries = objects_in(value)
    ranks = {str(entry.get("value")): entry.get("rank") for entry in entries}
    is_ranking = entries and entries == value and ranks.keys() <= fields.keys()
    return ranks if is_ranking else {}


def _milliseconds(seconds: Any) -> int | None:
    """Convert seconds to milliseconds; return None if the value is no plausible number."""
    if not isinstance(seconds, int | float) or not 0 <= seconds < _MOST_SECONDS:
        return None
    return round(1000 * seconds)


def _seconds_since_1970(iso_time: Any) -> float | None:
    """Convert an ISO time to seconds since 1970.

    Return None for a value that is no time, a time without time zone, or a time of 1970 or before.
    """
    try:
        time = datetime.fromisoformat(iso_time)
    except (TypeError, ValueError):
        return None
    if time.tzinfo is None or time.year <= 1970:
        return None
    return time.timestamp()


# {format: columns by which a file of this format is recognised}.
FOREIGN_COLUMNS = {
    "arena": ("model_a", "model_b", "winner"),
    "chosen": ("chosen", "rejected"),
    "label-studio": ("data", "annotations"),
    "argilla": ("fields", "responses"),
}
# {format: (function that yields the answers in a record, function that yields the votes that follow
# from an answer)}
_READERS: dict[str, tuple[Any, Any]] = {
    "arena": (_whole_record, _battle),
    "chosen": (_whole_record, _preference),
    "label-studio": (_answers_of_task, _task),
    "argilla": (_answers_of_record, _record),
}


def refuse(place: str, fault: str) -> NoReturn:
    """Raise a DataError about `place`, which is the name of a file or of one of its rows."""
    raise DataError(f"{place}: {fault}")


def objects_in(value: Any) -> list[Record]:
    """List the objects of a JSON array; a value that is no array has none."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def text_of(value: Any, role: str = "assistant") -> str | None:
    """Return the text of a field; None if the field has no text.

    The text of a conversation is its last message by `role`. The text of a whole number is its
    digits.
    """
    if isinstance(value, list):
        messages = [message for message in objects_in(value) if message.get("role") == role]
        value = messages[-1].get("content") if messages else None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value.strip() if isinstance(value, str) else None


class ItemFinder:
    """Finds items of a collection by id, by text, and by the name of their image or sound.

    Attributes:
        ids: the ids of the items.
        sides: the fields of Label Studio's tasks with the left and the right item. If None, the
            fields are recognised by their names.
    """

    def __init__(self, items: Items, sides: tuple[str, str] | None = None) -> None:
        """Map ids, texts, names of images and sounds, and contexts of groups to the items."""
        self.ids = items.ids
        self.sides = sides
        # Each id, text or name is mapped to the numbers of the items that have it. The numbers are
        # keys of a dict, which keeps them in order and without duplicates.
        self._numbers: defaultdict[str, dict[int, None]] = defaultdict(dict)
        columns = [items.ids, items.texts, items.images, items.audio]
        for number, names in enumerate(zip(*columns, strict=True)):
            for name in filter(None, names):
                self._numbers[name.strip()][number] = None
        self._group = items.groups or ("",) * len(items)
        # A group is found by its name, and by its context, which several groups may share.
        self._groups_of_context: defaultdict[str, set[str]] = defaultdict(set)
        for group, context in zip(self._group, items.contexts or (), strict=False):
            self._groups_of_context[(context or "").strip()].add(group)

    def is_item(self, value: Any) -> bool:
        """Whether an item has this id, text or name."""
        return text_of(value) in self._numbers

    def pair(self, place: str, left: Any, right: Any, record: Record) -> tuple[str, str]:
        """Find two items of one group, and return their ids.

        If the record names a group or a group's context, the items must be in this group.

        Args:
            place: the file and row, for messages.
            left: the field of the left item: its id, text, or name of an image or sound.
            right: the field of the right item, like `left`.
            record: the record.

        Raises:
            DataError: if no pair of items fits, or more than one pair.
        """
        groups = self._groups_of(record) or {*self._group}
        pairs = (
            (self.ids[first], self.ids[second])
            for first in self._numbers_of(place, left)
            for second in self._numbers_of(place, right)
            if first != second and self._group[first] == self._group[second]
            if self._group[first] in groups
        )
        # Two pairs are enough to know that it is not clear which pair is meant.
        first_pairs = list(islice(pairs, 2))
        names = f"{shown(text_of(left))} and {shown(text_of(right))}"
        if not first_pairs:
            refuse(place, f"{names} are one item, or not both of the group of the prompt")
        if len(first_pairs) > 1:
            refuse(place, f"{names} are of more than one pair of items: name the items by id")
        return first_pairs[0]

    def _numbers_of(self, place: str, value: Any) -> list[int]:
        """List the numbers of all items that a field may mean; raise a DataError if none fits."""
        name = text_of(value)
        if name is None or name not in self._numbers:
            text = shown(value if name is None else name)
            refuse(
                place, f"no item of the collection has the id or text {text} (sortnet items add)"
            )
        return [*self._numbers[name]]

    def _groups_of(self, record: Record) -> set[str]:
        """Return the groups whose context is in a record, or else the groups that it names."""
        texts = {text_of(value) for value in record.values()} - {"", None}
        by_context = [self._groups_of_context.get(str(text), set()) for text in texts]
        names = {text_of(record.get("group")), text_of(record.get("prompt"))}
        by_name = {group for group in self._group if group and group in names}
        return set().union(*by_context) or by_name
