"""Show progress in a line of a terminal, or in the output of a notebook's cell."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from sortnet.core import Progress
from sortnet.messages import cut, printable

# A function that gets each text; False: nowhere; None: a terminal or a notebook, if there is one.
ProgressOption: TypeAlias = Callable[[str], None] | bool | None


@contextmanager
def shown_progress(option: ProgressOption = None) -> Iterator[Progress]:
    """Show texts of progress until the end.

    Args:
        option: a function that gets each text; False: nothing is shown; None or True: the last text
            is shown in a notebook's output or on the terminal of stderr, if there is one.
    """
    if callable(option):
        yield option
        return
    if option is False:
        yield lambda text: None
        return
    display = _notebook_display()
    if display is not None:
        yield from _in_notebook(display)
    elif sys.stderr is not None and sys.stderr.isatty():
        yield from _in_terminal()
    else:
        yield lambda text: None


def _notebook_display() -> Callable[..., Any] | None:
    """The function that displays an object in a notebook's cell; None outside notebooks."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

    return display  # type: ignore[no-any-return,unused-ignore]


def _in_notebook(display: Callable[..., Any]) -> Iterator[Progress]:
    handle = display({"text/plain": ""}, raw=True, display_id=True)

    def show(text: str) -> None:
        handle.update({"text/plain": printable(text)}, raw=True)

    try:
        yield show
    finally:
        show("")


def _in_terminal() -> Iterator[Progress]:
    erase = "\r\x1b[K" if os.environ.get("TERM") != "dumb" else "\r"

    def show(text: str) -> None:
        try:
            width = os.get_terminal_size(sys.stderr.fileno()).columns
        except OSError:
            width = 80
        sys.stderr.write(f"{erase}{cut(printable(text), width - 1)}")
        sys.stderr.flush()

    try:
        yield show
    finally:
        sys.stderr.write(erase)
        sys.stderr.flush()
