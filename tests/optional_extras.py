"""Skip tests whose optional library is not installed."""

from __future__ import annotations

import importlib
import os

import pytest


def needs(name: str) -> None:
    """Skip the test if a library is not installed; in CI a missing library is a failure."""
    if not os.environ.get("CI"):
        pytest.importorskip(name)
    importlib.import_module(name)
