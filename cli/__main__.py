"""Load the command `sortnet` and run it; `python -m cli` is the same.

Modules take a fraction of a second to load, or some seconds on a busy machine. A signal that comes
meanwhile ends the process with one line. An exception would be raised in the middle of an import,
and some imports lose it or print a traceback. SIGTERM and SIGHUP also end a command with one line
while it has nothing to clean up, as commands load large libraries when they need them.
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
    interrupt_handler = signal.getsignal(signal.SIGINT)
    _end_at_once()
    from cli.main import main as command

    if interrupt_handler is not None:  # else it was not set from Python
        signal.signal(signal.SIGINT, interrupt_handler)
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
        if os.getpid() != process:  # a fork of this process must report nothing
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        _end(number)

    _handle_signals(end)


def _end_silently(code: object) -> None:
    """Let signals end this process with the exit code of its command, which has reported already.

    The interpreter takes a moment to end: a signal in that moment would print a second reason.
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
    """Print which signal came, and end the process without a cleanup."""
    name = signal.Signals(number).name
    reason = "interrupted" if name == "SIGINT" else f"ended by {name}"
    try:
        os.write(2, f"sortnet: {reason}\n".encode())
    finally:
        os._exit(_CODE)


def _interrupt_again_if_lost(unraisable: sys.UnraisableHookArgs) -> None:
    """Interrupt the command again, a moment later, if a callback has lost an interrupt.

    Imports and finalisers have such callbacks. Python would print a traceback and continue.
    """
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        timer = threading.Timer(_MOMENT, _thread.interrupt_main)
        timer.daemon = True
        timer.start()
    else:
        sys.__unraisablehook__(unraisable)


if __name__ == "__main__":
    main()
