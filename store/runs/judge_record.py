"""The JSON record of a run's judge, used to resume the run; it has no keys and no functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sortnet.errors import SortNetError
from sortnet.judges import Function, LanguageModel, Limits, Price, Program
from sortnet.judges.any_judge import MachineJudge
from sortnet.judges.prompts import Prompt
from sortnet.judges.request import part_of_judge

_KEY_FUNCTION = "key_is_from_function"
# A resumed run cannot change these arguments, because it would mix the answers of two judges.
_FIXED = ("model", "function", "question", "both_orders", "prompt_hash")


def record_of(judge: MachineJudge, question: str) -> dict[str, Any]:
    """Make the record of a judge and its question, without functions and secret keys.

    >>> record = record_of(LanguageModel("qwen3", "http://localhost:8000", key=lambda: "sk-1"), "?")
    >>> record["model"], record["key"], record["key_is_from_function"]
    ('qwen3', None, True)
    """
    if isinstance(judge, LanguageModel):
        return {**_record_of_model(judge), "question": question}
    if isinstance(judge, Program):
        record: dict[str, Any] = {
            "judge": judge.command,
            "timeout": judge.timeout,
            "workers": judge.workers,
            "batch": judge.batch,
            "store_patience": judge.patience,
        }
        return {**record, "question": question}
    return {"function": judge.annotator, "workers": judge.workers, "question": question}


def _record_of_model(model: LanguageModel) -> dict[str, Any]:
    """Make the record of a language model.

    A key that is a function is not recorded, only that it is a function.
    """
    return {
        "model": model.model,
        "server": model.server,
        "key": model.key if isinstance(model.key, str) else None,
        _KEY_FUNCTION: callable(model.key),
        "prompt": model.prompt,
        "prompt_hash": Prompt(model.prompt).hash,
        "request": dict(model.request),
        "structured": model.structured,
        "logprobs": model.logprobs,
        "both_orders": model.both_orders,
        "max_calls": model.limits.max_calls,
        "max_tokens": model.limits.max_tokens,
        "max_cost": model.limits.max_cost,
        "price_in": model.price.price_in,
        "price_out": model.price.price_out,
        "currency": model.price.currency,
        "prices": model.price.table,
        "workers": model.workers,
        "timeout": model.timeout,
        "store_patience": model.patience,
        "insecure": model.insecure,
    }


def recorded_judge(record: Mapping[str, Any]) -> MachineJudge:
    """Make the judge that a record describes.

    A judge that was a function is not recorded, so the judge made here raises an error when asked.
    """
    if record.get("function") is not None:
        return Function(_missing_function, record["function"], record["workers"])
    if record.get("judge") is not None:
        return Program(
            record["judge"],
            timeout=record["timeout"],
            workers=record["workers"],
            batch=record["batch"],
            patience=record["store_patience"],
        )
    return _recorded_model(record)


def _recorded_model(record: Mapping[str, Any]) -> LanguageModel:
    """Make the language model of a record, with defaults for settings that version 0.4 lacked."""
    return LanguageModel(
        record["model"],
        record["server"],
        key=record["key"],
        prompt=record["prompt"],
        request=record.get("request", {}),
        structured=record.get("structured", False),
        logprobs=record.get("logprobs", True),
        both_orders=record["both_orders"],
        limits=Limits(record["max_calls"], record["max_tokens"], record["max_cost"]),
        price=Price(
            record["price_in"],
            record["price_out"],
            currency=record.get("currency"),
            table=record.get("prices"),
        ),
        workers=record["workers"],
        timeout=record["timeout"],
        patience=record["store_patience"],
        insecure=record["insecure"],
    )


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
