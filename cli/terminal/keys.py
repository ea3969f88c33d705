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

END = "end"  # name of Ctrl-D, and of the end of a terminal that was closed
_GONE = "\x04"  # Ctrl-D, which also stands for the end of the terminal
_CONTROL_CHARACTERS = 6  # position of the control characters in a mode of termios
HELD = 0.08  # seconds; a key that comes again sooner is held down, and is ignored
# An escape sequence, as the arrow keys send, or else a single character.
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.)|.", re.DOTALL)
# {character or escape sequence: name of the key that sends it}.
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
    """Reader of the keys that are pressed in a terminal.

    Args:
        fd: file descriptor of a terminal that delivers single keys, as `keys_of` sets its mode.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting: list[str] = []  # characters and escape sequences that were not read yet
        self._last_key = ""
        self._last_time = 0.0  # of `time.monotonic()`, when the last key was pressed

    def read(self, seconds: float) -> str | None:
        """Wait for the next key; return its name, or None if no key was pressed in `seconds`."""
        deadline = time.monotonic() + seconds
        while True:
            typed = self.read_typed(deadline - time.monotonic())
            if typed is None:
                return None
            key = _name_of_key(typed)
            if not key.isprintable():  # a control character or a sequence without a name
                continue
            is_held = self._note_press(key)
            if not is_held:
                return key

    def read_typed(self, seconds: float) -> str | None:
        """Wait for the next character or escape sequence; None if none was typed in `seconds`."""
        if not self._waiting:
            self._receive(max(seconds, 0))
        return self._waiting.pop(0) if self._waiting else None

    def discard(self) -> None:
        """Discard keys pressed earlier, which do not answer the question that is shown now."""
        while _GONE not in self._waiting:  # the end of the terminal is never discarded
            for typed in self._waiting:
                # The press is noted, so that the key is still ignored if it is held down.
                self._note_press(_name_of_key(typed))
            self._waiting.clear()
            has_more = self._receive(0)
            if not has_more:
                return
        self._waiting = [_GONE]

    def _receive(self, seconds: float) -> bool:
        """Wait for input; return whether input came in `seconds`."""
        readable, _, _ = select.select([self._fd], [], [], seconds)
        if not readable:
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

    def _note_press(self, key: str) -> bool:
        """Note a press of a key; return whether it only repeats the last key, which is held down.

        A key that is held down sends presses at short intervals. `END` never counts as held.
        """
        now = time.monotonic()
        is_repeat = key == self._last_key and now - self._last_time < HELD
        self._last_key = key
        self._last_time = now
        return is_repeat and key != END


def _name_of_key(typed: str) -> str:
    """Return the name of the key that sends a character or escape sequence."""
    return _NAMES.get(typed, typed.lower())


@contextmanager
def keys_of(fd: int) -> Iterator[Keys]:
    """Let a terminal deliver single keys, and restore its mode afterwards.

    Raises:
        SortNetError: if the operating system has no terminals with modes.
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
        control_characters = mode[_CONTROL_CHARACTERS]
        control_characters[termios.VSUSP] = b"\0"  # Ctrl-Z means undo, and must not suspend
        termios.tcsetattr(fd, termios.TCSADRAIN, mode)
        yield Keys(fd)
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, original_mode)
