"""Checks of the numbers that a judge is described by."""

from __future__ import annotations

import math

from sortnet.errors import SortNetError
from sortnet.files import shown

MOST_WORKERS = 64


def check_whole_number(
    name: str, value: object, *, least: int = 1, most: int | None = None
) -> None:
    """Refuse a value that is no whole number in a range; None is no value.

    Raises:
        SortNetError: naming the argument.

    >>> check_whole_number("workers", 8, most=64)
    """
    if value is None:
        return
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or value < least or (most is not None and value > most):  # type: ignore[operator]
        end = "" if most is None else f" to {most}"
        raise SortNetError(f"{name}: {shown(value)} is no whole number from {least}{end}")


def check_number(name: str, value: object, *, may_be_zero: bool = True) -> None:
    """Refuse a value that is no finite number from 0, or above 0; None is no value.

    Raises:
        SortNetError: naming the argument.

    >>> check_number("timeout", 0.5, may_be_zero=False)
    """
    if value is None:
        return
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and math.isfinite(value) and (value > 0 or (may_be_zero and value == 0)):  # type: ignore[arg-type, operator]
        return
    least = "from 0" if may_be_zero else "above 0"
    raise SortNetError(f"{name}: {shown(value)} is no number {least}")
