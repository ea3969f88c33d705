"""What the tests of optional parts share."""

from __future__ import annotations

import importlib
import os

import pytest


def needs(name: str) -> None:
    """Skips where an extra is not installed; in CI that is a failure."""
    if not os.environ.get("CI"):
        pytest.importorskip(name)
    importlib.import_module(name)
