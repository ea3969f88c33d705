"""Checks of the values that describe a judge."""

from __future__ import annotations

import math
from typing import TypeGuard

from sortnet.errors import SortNetError
from sortnet.files import shown

MOST_WORKERS = 64  # of a judge


def check_whole_number(
    name: str, value: object, *, least: int = 1, most: int | None = None
) -> None:
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
    if value is None:
        return
    if _is_whole(value) and value >= least and (most is None or value <= most):
        return
    end = "" if most is None else f" to {most}"
    raise SortNetError(f"{name}: {shown(value)} is no whole number from {least}{end}")


def check_number(name: str, value: object, *, may_be_zero: bool = True) -> None:
    """Raise SortNetError unless a value is None or a finite number above 0.

    Args:
        name: name of the argument, with which the message begins.
        value: value of the argument.
        may_be_zero: whether 0 is allowed, too.

    Raises:
        SortNetError: if the value is something else.

    >>> check_number("timeout", 0.5, may_be_zero=False)
    """
    if value is None:
        return
    if _is_finite(value) and (value > 0 or (value == 0 and may_be_zero)):
        return
    least = "from 0" if may_be_zero else "above 0"
    raise SortNetError(f"{name}: {shown(value)} is no number {least}")


def check_type(name: str, value: object, kind: type, words: str) -> None:
    """Raise SortNetError unless a value is None or of a type, such as `str`.

    Args:
        name: name of the argument, with which the message begins.
        value: value of the argument.
        kind: type of the value.
        words: what another value is, such as `no text`.

    >>> check_type("model", "qwen3", str, "no text")
    """
    if value is not None and not isinstance(value, kind):
        raise SortNetError(f"{name}: {shown(value)} is {words}")


def _is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is an int, but not True or False, which Python counts as ints."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_finite(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number that is neither infinite nor NaN."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return math.isfinite(value)
