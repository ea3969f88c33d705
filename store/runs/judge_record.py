"""The JSON records of a run's judges, used to resume the run, without keys and functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from sortnet.errors import SortNetError
from sortnet.judges import Function, LanguageModel, Program
from sortnet.judges.any_judge import MachineJudge
from sortnet.judges.prompts import Prompt
from sortnet.judges.request import part_of_judge

_KEY_FUNCTION = "key_is_from_function"
# {argument of a judge: its name in a record}, where the two differ.
_NAMES = {"command": "judge", "patience": "store_patience"}
# A resumed run cannot change these arguments, because it would mix the answers of two judges.
_FIXED = ("model", "function", "question", "both_orders", "prompt_hash")


def record_of(judge: MachineJudge, question: str) -> dict[str, Any]:
    """Make the record of a judge and its question, without functions and secret keys.

    A key that is a function is not recorded, only that it is a function.

    >>> record = record_of(LanguageModel("qwen3", "http://localhost:8000", key=lambda: "sk-1"), "?")
    >>> record["model"], record["key"], record["key_is_from_function"]
    ('qwen3', None, True)
    """
    if isinstance(judge, Function):
        return {"function": judge.annotator, "workers": judge.workers, "question": question}
    record = {
        _NAMES.get(field.name, field.name): getattr(judge, field.name) for field in fields(judge)
    }
    record["question"] = question
    if isinstance(judge, LanguageModel):
        record["key"] = judge.key if isinstance(judge.key, str) else None
        record[_KEY_FUNCTION] = callable(judge.key)
        record["prompt_hash"] = Prompt(judge.prompt).hash
    return record


def recorded_judge(record: Mapping[str, Any]) -> MachineJudge:
    """Make the judge that a record describes.

    A judge that was a function is not recorded, so the judge made here raises an error when asked.
    Names that a record lacks have their defaults, and names of earlier versions are ignored.
    """
    if record.get("function") is not None:
        return Function(_missing_function, record["function"], record["workers"])
    kind = LanguageModel if record.get("judge") is None else Program
    names = {field.name: _NAMES.get(field.name, field.name) for field in fields(kind)}
    return kind(**{field: record[name] for field, name in names.items() if name in record})


def _missing_function(left: object, right: object) -> str:
    """Stand in for a judge that was a function, which a resumed run must pass again."""
    raise SortNetError("the function that the run asked is not stored")


def is_stored_whole(record: Mapping[str, Any]) -> bool:
    """Whether a record has all that is needed to ask the judge again.

    A judge or a key that is a function is not in the record, and must be passed again.

    >>> is_stored_whole(record_of(Program("python judge.py"), "?"))
    True
    >>> is_stored_whole(record_of(Function(max), "?"))
    False
    """
    return record.get("function") is None and not record.get(_KEY_FUNCTION)


def other_argument(record: Mapping[str, Any], stored: Mapping[str, Any]) -> str | None:
    """Return the argument in which a judge differs from the stored judge; None if they are equal.

    A run must not mix the answers of two judges. The command of a program may differ, because the
    program may have been moved or mended.

    Args:
        record: the record of the judge to ask.
        stored: the record of the judge that the run has asked so far.

    >>> stored = record_of(Program("python judge.py"), "Which is longer?")
    >>> other_argument(record_of(Program("python3 judge.py"), "Which is longer?"), stored)
    >>> other_argument(record_of(Program("python judge.py"), "Which is shorter?"), stored)
    'question'
    """
    if kind_of(record) != kind_of(stored):
        return "judge"
    for name in _FIXED:
        # Records of older versions do not have all names.
        if name in record and name in stored and record[name] != stored[name]:
            return name.removesuffix("_hash")  # prompts are compared by their hashes
    if part_of_judge(record.get("request", {})) != part_of_judge(stored.get("request", {})):
        return "request"
    if record.get("structured", False) != stored.get("structured", False):
        return "structured"
    return None


def kind_of(record: Mapping[str, Any]) -> str:
    """Return the kind of a recorded judge: `function`, `program` or `language model`."""
    if record.get("function") is not None:
        return "function"
    if record.get("judge") is not None:
        return "program"
    return "language model"
