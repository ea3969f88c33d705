"""Refuse a file with an error that names the place of the fault."""

from __future__ import annotations

from typing import NoReturn

from sortnet.errors import DataError


def refuse(place: str, fault: str) -> NoReturn:
    """Raise a DataError that names a file, or a row of the file."""
    raise DataError(f"{place}: {fault}")
