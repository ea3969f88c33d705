"""Read records of Argilla, with rankings of fields or labels that name the better field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from operator import itemgetter
from typing import Any, TypeAlias

from sortnet.files import shown
from sortnet.tables.rows import listed
from store.collections.formats.faults import refuse
from store.collections.formats.item_finder import ItemFinder, Record

COLUMNS = ("fields", "responses")
Ranks: TypeAlias = Mapping[str, Any]  # {field: its rank}; the best field has the lowest rank
Ranked: TypeAlias = tuple[str, Any]  # a field and its rank
_TIE_WORDS = ("tie", "equal", "draw", "same", "both")


def compared_question(path: str, records: Sequence[Record]) -> str | None:
    """Find the question of an Argilla file whose answers rank the texts in a record's fields.

    The result is None if no question has an answer.

    Args:
        path: the file, for messages.
        records: all records of the file.

    Raises:
        DataError: if several questions compare fields, or no answered question does.
    """
    # These dicts are sets of questions, which keep the order of the first answers.
    answered: dict[str, None] = {}
    comparing: dict[str, None] = {}
    for record in records:
        fields = record["fields"]
        if not isinstance(fields, dict):
            fields = {}
        for question, response in _responses(record):
            value = response.get("value")
            _refuse_list_of_fields(path, question, value, fields)
            answered[question] = None
            if _ranks(value, fields):
                comparing[question] = None
    if not answered:
        return None
    if not comparing:
        questions = listed(answered)
        refuse(path, f"no answer names a field of its record; questions are {questions}")
    if len(comparing) > 1:
        questions = f"the questions {listed(comparing)} compare fields"
        refuse(path, f"{questions}: leave only one in the file")
    return next(iter(comparing))


def read_record(
    finder: ItemFinder, question: str | None, place: str, record: Record
) -> Iterator[dict[str, Any]]:
    """Yield the votes of the submitted responses to one question; skip suggestions.

    Args:
        finder: finds the item that has the text of a field.
        question: the question whose answers compare fields; None if nobody answered it.
        place: the file and record, for messages.
        record: the record.
    """
    fields = record["fields"]
    if not isinstance(fields, dict):
        refuse(place, "is no record of Argilla: fields is an object")
    fields_of_items = [name for name in fields if finder.is_item(fields[name])]
    for answered_question, response in _responses(record):
        is_submitted = response.get("status") in (None, "submitted")
        if answered_question != question or not is_submitted:
            continue
        for pair in _ranked_pairs(place, response.get("value"), fields, fields_of_items):
            vote = _vote(place, pair, fields, finder)
            yield {**vote, "annotator": response.get("user_id")}


def _ranked_pairs(
    place: str, value: Any, fields: Record, fields_of_items: Sequence[str]
) -> list[tuple[Ranked, Ranked]]:
    """Return the pairs of fields that an answer compares, each field with its rank.

    Args:
        place: the file and record, for messages.
        value: the answer, a label or a ranking.
        fields: the fields of the record.
        fields_of_items: names of the fields that have the text of an item.
    """
    if isinstance(value, str) and value in fields:
        # A label names the best field. All other fields with items are worse, but are not compared
        # with each other.
        return [((value, 1), (other, 2)) for other in fields_of_items if other != value]
    ranks = _ranks(value, fields)
    if ranks is None:
        is_tie = str(value).strip().lower() in _TIE_WORDS
        if len(fields_of_items) != 2 or not is_tie:
            refuse(place, f"the answer {shown(value)} is no field of it: {listed(fields)}")
        ranks = dict.fromkeys(fields_of_items, 1)
    ranked_fields = [(name, rank) for name, rank in ranks.items() if rank is not None]
    return [*combinations(ranked_fields, 2)]


def _responses(record: Record) -> list[tuple[str, Record]]:
    """Return (question, response) of a record; a response has the keys value, user_id and status.

    Argilla's SDK writes {question: [response, ...]}. Its REST API returns [{"values": {question:
    {"value": value}}, "user_id": ..., ...}, ...]: an object has the answers of one user.
    """
    answers: list[tuple[str, Any]] = []
    responses = record["responses"]
    if isinstance(responses, dict):
        for question, answers_to_question in responses.items():
            if isinstance(answers_to_question, list):
                answers += [(question, answer) for answer in answers_to_question]
    elif isinstance(responses, list):
        for response in responses:
            values = response.get("values") if isinstance(response, dict) else None
            if not isinstance(values, dict):
                continue
            for question, answer in values.items():
                if isinstance(answer, dict):
                    answers.append((question, {**response, "value": answer.get("value")}))
    return [(question, answer) for question, answer in answers if isinstance(answer, dict)]


def _refuse_list_of_fields(path: str, question: str, value: Any, fields: Record) -> None:
    """Refuse an answer that lists fields without their ranks."""
    if not isinstance(value, list) or len(value) < 2:
        return
    if all(isinstance(name, str) and name in fields for name in value):
        fault = f"question {shown(question)}: a ranking without ranks, {shown(str(value))}"
        refuse(path, f'{fault}: each must be {{"value": ..., "rank": ...}}, as the API has')


def _ranks(value: Any, fields: Record) -> Ranks | None:
    """Return {field: rank} of an answer; None if the answer is neither a field nor a ranking."""
    if isinstance(value, str) and value in fields:
        return {value: 1}
    if not isinstance(value, list) or not value:
        return None
    if not all(isinstance(entry, dict) for entry in value):
        return None
    names = [entry.get("value") for entry in value]
    if not all(isinstance(name, str) and name in fields for name in names):
        return None
    return {entry["value"]: entry.get("rank") for entry in value}


def _vote(
    place: str, pair: tuple[Ranked, Ranked], fields: Record, finder: ItemFinder
) -> dict[str, Any]:
    """Return the vote about the items in two fields; the field with the lower rank is better."""
    ranks = [rank for _, rank in pair]
    if not all(isinstance(rank, int) for rank in ranks):
        refuse(place, f"rank {shown(ranks[0])} or {shown(ranks[1])} is no whole number")
    (better, best_rank), (worse, worst_rank) = sorted(pair, key=itemgetter(1))
    better_id, worse_id = finder.pair(place, fields[better], fields[worse], fields)
    if best_rank == worst_rank:
        return {"left": better_id, "right": worse_id, "answer": "tie"}
    return {"winner": better_id, "loser": worse_id}
