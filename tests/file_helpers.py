"""Helpers for tests of readers: write a file, read its refusal, compare queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sortnet.core import Queries
from sortnet.data import read_queries
from sortnet.errors import DataError


def written(folder: Path, text: str | bytes, name: str = "data.txt") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refusal(path: Path, **options: Any) -> str:
    """Read a file that must be refused; return the message without the file that it begins with."""
    with pytest.raises(DataError) as raised:
        read_queries(path, **options)
    message = str(raised.value)
    assert message.startswith(str(path)) and "\n" not in message
    return message.removeprefix(str(path))


def assert_same(a: Queries, b: Queries) -> None:
    for name in ("features", "grades", "offsets", "qids", "rows", "docids"):
        x, y = getattr(a, name), getattr(b, name)
        assert (x is None) == (y is None)
        if x is not None:
            np.testing.assert_array_equal(x, y, name)
    assert a.feature_names == b.feature_names
