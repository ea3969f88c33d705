# mypy: allow-untyped-calls
"""Compile functions by numba, with a cache of the compiled code where one can be written."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import FunctionCache

from sortnet.messages import WHEN_COMPILING

_F = TypeVar("_F", bound=Callable[..., Any])


def compiled(**options: Any) -> Callable[[_F], _F]:
    """Compile a function once per machine; once per process if its cache cannot be read or written.

    The function releases the interpreter's lock.

    Args:
        options: options of `numba.njit`.
    """

    def compile_when_called(function: _F) -> _F:
        """Make the compiled function, which numba compiles at its first call."""
        kernel = numba.njit(nogil=True, **options)(function)
        # With `cache=True` numba ends the work where no folder can be written or the disk is full.
        with suppress(Exception):
            if not _cache_goes_astray():
                kernel._cache = _HarmlessCache(function)
        return cast(_F, kernel)

    return compile_when_called


class _HarmlessCache(FunctionCache):
    """Cache of compiled code whose faults stop nothing: damaged files, a full disk, no right."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the code for a signature; None if it is not cached or cannot be loaded."""
        code = None
        try:
            code = super().load_overload(sig, target_context)
        except Exception:
            with suppress(Exception):
                self.flush()  # a damaged index would never be replaced
        if code is None:
            for tell in WHEN_COMPILING:
                tell("compiling, once on this machine")
        return code

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the code for a signature if that is possible."""
        with suppress(Exception):
            super().save_overload(sig, data)


def _cache_goes_astray() -> bool:
    """Whether numba would make the user's cache folder in the current folder.

    It does so for a user without a home, in a folder that is named `~`, and if XDG_CACHE_HOME is no
    absolute path.
    """
    user_folder = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~"))  # noqa: PTH111
    is_elsewhere = bool(numba.config.CACHE_DIR)  # type: ignore[attr-defined]
    return not is_elsewhere and not Path(user_folder).is_absolute()
