"""Read single keys from a terminal, without Enter."""

from __future__ import annotations

import codecs
import os
import re
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sortnet.errors import SortNetError

END = "end"  # Ctrl-D, or the terminal is gone
_GONE = "\x04"  # Ctrl-D
HELD = 0.08  # seconds; a key repeated faster is held down and counts once
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.)|.", re.DOTALL)
# The name of the key that sends a character or escape sequence.
_NAMES = {
    "\x1b[A": "up",
    "\x1bOA": "up",
    "\x1b[B": "down",
    "\x1bOB": "down",
    "\x1b[C": "right",
    "\x1bOC": "right",
    "\x1b[D": "left",
    "\x1bOD": "left",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    " ": "space",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x1a": "z",  # Ctrl-Z means undo
    "\x03": "q",
    _GONE: END,
    "\x1b": "escape",
}


class Keys:
    """Reader of the keys that are pressed in a terminal; `keys_of` makes it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting: list[str] = []  # characters and sequences that were not read yet
        self._last_key = ""
        self._last_time = 0.0

    def read(self, seconds: float) -> str | None:
        """Wait for the next key; return its name, or None if no key was pressed in `seconds`."""
        deadline = time.monotonic() + seconds
        while (typed := self.read_typed(deadline - time.monotonic())) is not None:
            key = _name(typed)
            if key.isprintable() and not self._is_held(key):
                return key
        return None

    def read_typed(self, seconds: float) -> str | None:
        """Wait for the next character or escape sequence; None if none was typed in `seconds`."""
        if not self._waiting:
            self._receive(max(seconds, 0))
        return self._waiting.pop(0) if self._waiting else None

    def discard(self) -> None:
        """Discard keys pressed earlier, which do not answer the question that is shown now."""
        while _GONE not in self._waiting:
            for typed in self._waiting:
                self._is_held(_name(typed))  # called to note the press, so that it stays ignored
            self._waiting.clear()
            if not self._receive(0):
                return
        self._waiting = [_GONE]

    def _receive(self, seconds: float) -> bool:
        """Wait for input; return whether input came in `seconds`."""
        if not select.select([self._fd], [], [], seconds)[0]:
            return False
        try:
            received = os.read(self._fd, 4096)
        except OSError:  # the terminal is gone
            received = b""
        if received:
            self._waiting += _SEQUENCE.findall(self._decoder.decode(received))
        else:
            self._waiting.append(_GONE)
        return True

    def _is_held(self, key: str) -> bool:
        """Note a press of a key; return whether it is repeated because the key is held down."""
        now = time.monotonic()
        is_repeat = key == self._last_key and now - self._last_time < HELD
        self._last_key = key
        self._last_time = now
        return is_repeat and key != END


def _name(typed: str) -> str:
    return _NAMES.get(typed, typed.lower())


@contextmanager
def keys_of(fd: int) -> Iterator[Keys]:
    """Read the keys of a terminal, and restore it afterwards.

    Raises:
        SortNetError: if the system has no such terminals.
    """
    try:
        import termios
        import tty
    except ImportError:
        raise SortNetError(
            "single keys need a Linux or macOS terminal: answer on the page "
            "(sortnet serve), or send lines through a pipe"
        ) from None
    original_mode = termios.tcgetattr(fd)
    try:
        tty.setcbreak(fd)
        mode = termios.tcgetattr(fd)
        mode[6][termios.VSUSP] = b"\0"  # Ctrl-Z must not suspend: it means undo
        termios.tcsetattr(fd, termios.TCSADRAIN, mode)
        yield Keys(fd)
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, original_mode)
