"""The judge of a run as its store keeps it, to go on with: JSON without keys and functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from sortnet.errors import SortNetError
from sortnet.judges import Function, LanguageModel, Program
from sortnet.judges.any_judge import MachineJudge
from sortnet.judges.prompts import Prompt
from sortnet.judges.request import part_of_judge

# {attribute of a judge: its name in a record}, where these differ
_NAMES = {"command": "judge", "key_variable": "key", "patience": "store_patience"}
# Attributes that are no JSON values: a function, and a function that returns a key.
_NOT_STORED = {LanguageModel: ("key",), Program: (), Function: ("function", "name")}
_KEY_FUNCTION = "key_is_from_function"
# Names in a record that a resumed run cannot change: the answers would be of two judges.
_ALIKE = ("model", "function", "question", "both_orders", "prompt_hash")


def record_of(judge: MachineJudge, question: str) -> dict[str, Any]:
    """The record of a judge; of a key the variable's name alone, of a function its name.

    >>> record = record_of(LanguageModel("qwen3", "http://localhost:8000", key=lambda: "sk-1"), "?")
    >>> record["model"], record["key"], record["key_is_from_function"]
    ('qwen3', None, True)
    """
    names = [field.name for field in fields(judge) if field.name not in _NOT_STORED[type(judge)]]
    record = {_NAMES.get(name, name): getattr(judge, name) for name in names}
    if isinstance(judge, LanguageModel):
        record["request"] = dict(judge.request)
        record |= {"prompt_hash": Prompt(judge.prompt).hash, _KEY_FUNCTION: judge.key is not None}
    if isinstance(judge, Function):
        record["function"] = judge.annotator
    return {**record, "question": question}


def recorded_judge(record: Mapping[str, Any]) -> MachineJudge:
    """The judge of a record; in place of its function stands a function that cannot be called."""
    if record.get("function") is not None:
        return Function(_function_of_earlier, record["function"], record["workers"])
    kind = LanguageModel if record.get("judge") is None else Program
    attributes = {field.name: _NAMES.get(field.name, field.name) for field in fields(kind)}
    attributes = {
        attribute: name
        for attribute, name in attributes.items()
        if name in record and attribute not in _NOT_STORED[kind]
    }
    return kind(**{attribute: record[name] for attribute, name in attributes.items()})


def _function_of_earlier(left: object, right: object) -> str:
    raise SortNetError("the function that the run asked is not stored")


def is_stored_whole(record: Mapping[str, Any]) -> bool:
    """Whether a record says all that it takes to ask the judge again.

    >>> is_stored_whole(record_of(Program("python judge.py"), "?"))
    True
    >>> is_stored_whole(record_of(Function(max), "?"))
    False
    """
    return record.get("function") is None and not record.get(_KEY_FUNCTION)


def other_argument(record: Mapping[str, Any], stored: Mapping[str, Any]) -> str | None:
    """The argument by which a judge is not the stored one; None if their answers go together.

    A program may have another command: it may have been moved or mended.

    >>> stored = record_of(Program("python judge.py"), "Which is longer?")
    >>> other_argument(record_of(Program("python3 judge.py"), "Which is longer?"), stored)
    >>> other_argument(record_of(Program("python judge.py"), "Which is shorter?"), stored)
    'question'
    """
    if kind_of(record) != kind_of(stored):
        return "judge"
    for name in _ALIKE:
        if name in record and name in stored and record[name] != stored[name]:
            return name.removesuffix("_hash")
    if part_of_judge(record.get("request", {})) != part_of_judge(stored.get("request", {})):
        return "request"
    if record.get("structured", False) != stored.get("structured", False):
        return "structured"
    return None


def kind_of(record: Mapping[str, Any]) -> str:
    """The kind of a recorded judge: `function`, `program` or `language model`."""
    if record.get("function") is not None:
        return "function"
    return "language model" if record.get("judge") is None else "program"
