"""Load the command `sortnet` and run it; `python -m cli` is the same.

Modules take a fraction of a second to load, or some seconds on a busy machine. A signal that comes
during this time ends the process with one line on stderr. A KeyboardInterrupt in the middle of an
import would not do, because some imports lose the exception or print a traceback. Commands load
large libraries later, when they need them. So SIGTERM and SIGHUP end a command in the same way, as
long as the command has nothing to clean up.
"""

from __future__ import annotations

import _thread
import os
import re
import signal
import sys
import threading
from contextlib import suppress

from cli.signals import handle_signals

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
# Matches the loader's message about a library that does not fit under a limit of memory.
_NO_MEMORY = re.compile("failed to map segment|cannot allocate memory", re.IGNORECASE)
_MOMENT = 0.05  # seconds until a lost interrupt is raised again
_FAILED = 2  # exit code of every command that fails or is interrupted


def main() -> None:
    """Run the command, and report in one line if a library does not fit into memory."""
    try:
        _load_and_run()
    except (ImportError, MemoryError, SyntaxError, SystemError) as error:
        if isinstance(error, ImportError) and not _NO_MEMORY.search(str(error)):
            raise
        # Without memory Python may find a fault in a faultless module, or lose its own error.
        if isinstance(error, SyntaxError | SystemError) and not _has_limit_of_memory():
            raise
        last_line = str(error).strip().rpartition("\n")[2] or "a library cannot be loaded"
        print(f"sortnet: out of memory: {last_line} (ulimit -v shows a limit)", file=sys.stderr)
        sys.exit(_FAILED)


def _has_limit_of_memory() -> bool:
    """Check whether the memory of this process is limited, as after `ulimit -v`."""
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return False
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return soft_limit != resource.RLIM_INFINITY


def _load_and_run() -> None:
    """Load the command group and run the command."""
    interrupt_handler = signal.getsignal(signal.SIGINT)
    _let_signals_end_process()
    from cli.main import main as command

    if interrupt_handler is not None:  # a handler that was not set from Python cannot be restored
        signal.signal(signal.SIGINT, interrupt_handler)
    sys.unraisablehook = _interrupt_again_if_lost
    try:
        command()
    except SystemExit as ending:
        _let_signals_end_silently(ending.code)
        raise


def _let_signals_end_process() -> None:
    """Let signals that are not ignored end this process with one line on stderr."""

    def end(number: int, frame: object) -> None:
        name = signal.Signals(number).name
        reason = "interrupted" if name == "SIGINT" else f"ended by {name}"
        stderr = 2  # the stream object `sys.stderr` may be in use: a signal can come at any time
        try:
            os.write(stderr, f"sortnet: {reason}\n".encode())
        finally:
            os._exit(_FAILED)

    handle_signals(end, *_SIGNALS)


def _let_signals_end_silently(code: object) -> None:
    """Let signals end this process without a message, with the exit code of its finished command.

    The command has reported already why it ends. The interpreter takes a moment to end, and a
    signal in that moment would print a second reason.

    Args:
        code: the code of the command's SystemExit.
    """
    with suppress(OSError, ValueError):  # the reader may have closed the pipe
        sys.stdout.flush()
    # As in the interpreter, no code means success, and a text means failure.
    exit_code = 0 if code is None else 1
    if isinstance(code, int):
        exit_code = code

    def end(number: int, frame: object) -> None:
        os._exit(exit_code)

    handle_signals(end, *_SIGNALS)


def _interrupt_again_if_lost(unraisable: sys.UnraisableHookArgs) -> None:
    """Interrupt the command again, a moment later, if a KeyboardInterrupt was lost in a callback.

    Python prints an exception in a callback of an import or a finaliser, and continues.
    """
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        timer = threading.Timer(_MOMENT, _thread.interrupt_main)
        timer.daemon = True
        timer.start()
    else:
        sys.__unraisablehook__(unraisable)


if __name__ == "__main__":
    main()
