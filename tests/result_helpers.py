"""Read what commands print with --json."""

from __future__ import annotations

import json
from typing import Any

from cli.printing.results import RESERVED


def value_of(printed: str, name: str | None = None) -> Any:
    """The value in a command's JSON document, after a check of the document's shape.

    Args:
        name: key of the value; default: any.
    """
    document = json.loads(printed)
    first, *own, notes, step = document
    assert (first, notes, step) == RESERVED
    (key,) = own
    assert name in (None, key)
    assert all(isinstance(note, str) for note in document["notes"])
    return document[key]


def notes_of(printed: str) -> list[str]:
    """The notes in a command's JSON document."""
    notes: list[str] = json.loads(printed)["notes"]
    return notes
