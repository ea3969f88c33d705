"""Files to read, what they are refused with, and queries that must be the same."""

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
    """The message a file is refused with, which must be one line that begins with the file."""
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
