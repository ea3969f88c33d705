"""Refuse a file, naming the place of the fault."""

from __future__ import annotations

from typing import NoReturn

from sortnet.errors import DataError


def refuse(place: str, fault: str) -> NoReturn:
    """Raise a DataError about a file, or about a row of it."""
    raise DataError(f"{place}: {fault}")
