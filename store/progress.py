"""Show progress in one line of a terminal, or below a notebook's cell."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from sortnet.core import Progress
from sortnet.messages import cut, printable

# A function is called with each text; False shows nothing; None and True show each text in a
# terminal or a notebook.
ProgressOption: TypeAlias = Callable[[str], None] | bool | None


@contextmanager
def shown_progress(option: ProgressOption = None) -> Iterator[Progress]:
    """Yield a function that shows texts of progress within a `with` block.

    Args:
        option: a function that is called with each text. If False, nothing is shown. If None or
            True, the last text is shown below a notebook's cell, or in the terminal of stderr.
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
    """Return IPython's function that displays an object; None outside notebooks."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

    return display  # type: ignore[no-any-return,unused-ignore]


def _in_notebook(display: Callable[..., Any]) -> Iterator[Progress]:
    """Yield a function that replaces the text below a notebook's cell; clear it at the end."""
    handle = display({"text/plain": ""}, raw=True, display_id=True)

    def show(text: str) -> None:
        handle.update({"text/plain": printable(text)}, raw=True)

    try:
        yield show
    finally:
        show("")


def _in_terminal() -> Iterator[Progress]:
    """Yield a function that replaces the last line on stderr; erase the line at the end."""
    erase = "\r\x1b[K"  # moves to the start of the line, and erases up to its end
    if os.environ.get("TERM") == "dumb":  # such a terminal shows the codes that erase
        erase = "\r"

    def show(text: str) -> None:
        try:
            width = os.get_terminal_size(sys.stderr.fileno()).columns
        except OSError:
            width = 80
        # The last column stays empty, because some terminals begin a new line after it.
        sys.stderr.write(f"{erase}{cut(printable(text), width - 1)}")
        sys.stderr.flush()

    try:
        yield show
    finally:
        sys.stderr.write(erase)
        sys.stderr.flush()
