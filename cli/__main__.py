"""Load the command `sortnet` and run it; `python -m cli` is the same.

Modules take a fraction of a second to load, on a busy machine several. A signal that comes
meanwhile ends the process with one line: an exception would be raised in the middle of an import,
some of which lose it or print a traceback. SIGTERM and SIGHUP also end a command with one line
where it has nothing to clean up: commands load large libraries when they need them.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
_MOMENT = 0.05  # seconds
_CODE = 2  # exit code of every command that is interrupted


def main() -> None:
    """Load the command group and run the command."""
    interrupt = signal.getsignal(signal.SIGINT)
    _end_at_once()
    from cli.main import main as command

    if interrupt is not None:  # else it was not set from Python
        signal.signal(signal.SIGINT, interrupt)
    sys.unraisablehook = _interrupt_again_if_lost
    try:
        command()
    except SystemExit as ending:
        _end_silently(ending.code)
        raise


def _end_at_once() -> None:
    """Let signals end this process with one line, except ignored ones."""
    process = os.getpid()

    def end(number: int, frame: object) -> None:
        if os.getpid() != process:  # a fork of this process, which reports nothing
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        _end(number)

    _handle_signals(end)


def _end_silently(code: object) -> None:
    """Let signals end this process with the exit code of its command, which has reported already.

    The interpreter takes a moment to end, in which a signal would print a second reason.
    """
    with suppress(OSError, ValueError):  # a closed pipe
        sys.stdout.flush()
    exit_code = code if isinstance(code, int) else int(code is not None)  # as the interpreter's

    def end(number: int, frame: object) -> None:
        os._exit(exit_code)

    _handle_signals(end)


def _handle_signals(handler: Callable[[int, FrameType | None], None]) -> None:
    """Set the handler of the signals that end a command, except ignored ones."""
    for name in _SIGNALS:
        number = getattr(signal, name, None)  # not every system has SIGHUP
        if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
            signal.signal(number, handler)


def _end(number: int) -> None:
    """Say which signal came, and end the process, in which nothing must be cleaned up."""
    name = signal.Signals(number).name
    reason = "interrupted" if name == "SIGINT" else f"ended by {name}"
    try:
        os.write(2, f"sortnet: {reason}\n".encode())
    finally:
        os._exit(_CODE)


def _interrupt_again_if_lost(lost: sys.UnraisableHookArgs) -> None:
    """Interrupt the command a moment later if an interrupt came in a callback, which loses it.

    Imports and finalisers have such callbacks. Python would print a traceback and go on.
    """
    if issubclass(lost.exc_type, KeyboardInterrupt):
        again = threading.Timer(_MOMENT, _thread.interrupt_main)
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(lost)


if __name__ == "__main__":
    main()
