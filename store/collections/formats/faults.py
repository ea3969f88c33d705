"""Refuse a judgement file with an error that names the row."""

from __future__ import annotations

from typing import NoReturn

from sortnet.errors import DataError


def refuse(place: str, fault: str) -> NoReturn:
    """Raise a DataError about `place`, which is the name of a file or of one of its rows."""
    raise DataError(f"{place}: {fault}")
