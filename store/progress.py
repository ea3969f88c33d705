"""Show progress in one line of a terminal, below a notebook's cell, or in the log elsewhere."""

from __future__ import annotations

import logging
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from sortnet.core import Progress
from sortnet.messages import cut, printable

# A function is called with each text; False shows nothing; None and True show each text in a
# terminal or a notebook, or log some of the texts elsewhere.
ProgressOption: TypeAlias = Callable[[str], None] | bool | None
_LOG_SECONDS = 10.0  # seconds between two lines of the log


@contextmanager
def shown_progress(option: ProgressOption = None) -> Iterator[Progress]:
    """Yield a function that shows texts of progress within a `with` block.

    Args:
        option: a function that is called with each text. If False, nothing is shown. If None or
            True, the last text is shown below a notebook's cell, or in the terminal of stderr.
            Elsewhere the first text, the last text, and a text every ten seconds are logged.

    """
    display = _notebook_display()
    if callable(option):
        yield option
    elif option is False:
        yield lambda text: None
    elif display is not None:
        yield from _in_notebook(display)
    elif sys.stderr is not None and sys.stderr.isatty():
        yield from _in_terminal()
    else:
        yield from _in_log()


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


def _in_log() -> Iterator[Progress]:
    """Yield a function that logs the first text, a text every ten seconds, and the last text."""
    next_time = -math.inf
    waiting_text: str | None = None  # the last text, unless it is logged

    def show(text: str) -> None:
        nonlocal next_time, waiting_text
        waiting_text = text
        if time.monotonic() >= next_time:
            _log(text)
            waiting_text = None
            next_time = time.monotonic() + _LOG_SECONDS

    yield show
    if waiting_text is not None:
        _log(waiting_text)


def _log(text: str) -> None:
    """Log a text in the log `sortnet`, or print it on stderr if the program handles no logs."""
    logger = logging.getLogger("sortnet")
    if logger.hasHandlers():
        logger.info("%s", printable(text))
    elif sys.stderr is not None:
        print(f"sortnet: {printable(text)}", file=sys.stderr, flush=True)
