"""Count how often a function is called, wherever it was imported to."""

from __future__ import annotations

import sys
from collections import Counter


def count_calls(monkeypatch, *functions):
    """A counter of the calls of some functions by name, in all modules that have them."""
    calls = Counter()

    def counted(function):
        def call(*args, **options):
            calls[function.__name__] += 1
            return function(*args, **options)

        return call

    for function in functions:
        wrapper = counted(function)
        for module in [*sys.modules.values()]:
            if getattr(module, "__dict__", {}).get(function.__name__) is function:
                monkeypatch.setattr(module, function.__name__, wrapper)
    return calls
