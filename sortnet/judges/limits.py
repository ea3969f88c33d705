"""Checks of the values that describe a judge."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sortnet.errors import SortNetError
from sortnet.files import shown

MOST_WORKERS = 64  # of a judge
SMALLEST_SIDE = 16  # pixels: nothing can be seen in a smaller image


def check_whole_number(name: str, value: Any, *, least: int = 1, most: int | None = None) -> None:
    """Raise SortNetError unless a value is None or a whole number from `least` to `most`.

    Args:
        name: name of the argument, with which the message begins.
        value: value of the argument.
        least: smallest number that is allowed.
        most: largest number that is allowed; None: there is no largest number.

    Raises:
        SortNetError: if the value is something else.

    >>> check_whole_number("workers", 8, most=64)
    """
    is_whole = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if value is None or (is_whole and (most is None or value <= most)):
        return
    end = "" if most is None else f" to {most}"
    raise SortNetError(f"{name}: {shown(value)} is no whole number from {least}{end}")


def check_fields(judge: object) -> None:
    """Raise SortNetError unless the fields of a judge have values that `_FIELDS` allows, or None.

    The message names the field.
    """
    for name, value in vars(judge).items():
        if name in _WHOLE_NUMBERS:
            check_whole_number(name, value, **_WHOLE_NUMBERS[name])
        is_right, words = _FIELDS.get(name, (None, ""))
        if value is not None and is_right is not None and not is_right(value):
            raise SortNetError(f"{name}: {shown(value)} is {words}")


def _is_finite(value: Any) -> bool:
    """Whether a value is a number that is neither infinite nor NaN."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


# {field of a judge: its smallest and largest number}
_WHOLE_NUMBERS: dict[str, dict[str, int]] = {
    "batch": {},
    "image_size": {"least": SMALLEST_SIDE},
    "max_calls": {},
    "workers": {"most": MOST_WORKERS},
}
# {field of a judge: (whether it may have a value, what another value is)}
_FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(
        ("command", "model", "prompt", "server"), (lambda value: isinstance(value, str), "no text")
    ),
    **dict.fromkeys(
        ("both_orders", "logprobs", "structured"),
        (lambda value: isinstance(value, bool), "neither true nor false"),
    ),
    **dict.fromkeys(
        ("max_cost", "timeout"),
        (lambda value: _is_finite(value) and value > 0, "no number above 0"),
    ),
    **dict.fromkeys(
        ("patience", "price_in", "price_out"),
        (lambda value: _is_finite(value) and value >= 0, "no number from 0"),
    ),
}
