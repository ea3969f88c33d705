"""Load the command `sortnet` and run it; `python -m cli` is the same.

Modules take a fraction of a second to load, on a busy machine several. A signal that comes
meanwhile ends the process with one line: an exception would be raised in the middle of an import,
some of which lose it or print a traceback.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
from collections.abc import Callable

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
_MOMENT = 0.05  # seconds
_CODE = 2  # exit code of every command that is interrupted


def main() -> None:
    """Load the command group and run the command."""
    restore = _end_at_once()
    from cli.main import main as command

    restore()
    sys.unraisablehook = _interrupt_again_if_lost
    command()


def _end_at_once() -> Callable[[], None]:
    """Let signals end the process with one line, except ignored ones; returns what undoes that."""
    numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    handlers = {number: signal.getsignal(number) for number in numbers}
    heard = {n: handler for n, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}
    for number in heard:
        signal.signal(number, _end)

    def restore() -> None:
        for number, handler in heard.items():
            signal.signal(number, handler)

    return restore


def _end(number: int, frame: object) -> None:
    """Say which signal came, and end the process: nothing has begun that must be cleaned up."""
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
