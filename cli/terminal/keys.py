"""Single keys of a terminal, without Enter."""

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
_GONE = "\x04"
HELD = 0.08  # seconds; a key repeated faster is held down and counts once
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.)|.", re.DOTALL)
_NAMES = {
    **{f"\x1b{lead}{letter}": name for lead in "[O" for letter, name in
       zip("ABCD", ("up", "down", "right", "left"), strict=True)},
    **{"\x1b[5~": "page up", "\x1b[6~": "page down", " ": "space", "\r": "enter", "\n": "enter"},
    **{"\x7f": "backspace", "\x08": "backspace", "\x1a": "z", "\x03": "q", _GONE: END},
    "\x1b": "escape",
}  # fmt: skip


class Keys:
    """Names of pressed keys, or what was typed; see `keys_of`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting: list[str] = []
        self._last = ("", 0.0)

    def read(self, seconds: float) -> str | None:
        """The next key; None if none was pressed in that time."""
        until = time.monotonic() + seconds
        while (part := self.part(until - time.monotonic())) is not None:
            key = _name(part)
            if key.isprintable() and not self._is_held(key):
                return key
        return None

    def part(self, seconds: float) -> str | None:
        """The next character or escape sequence as it was typed; None if none came in that time."""
        if not self._waiting:
            self._take(max(seconds, 0))
        return self._waiting.pop(0) if self._waiting else None

    def drop(self) -> None:
        """Discard earlier key presses: they did not answer what is shown now."""
        while _GONE not in self._waiting:
            for part in self._waiting:
                self._is_held(_name(part))
            self._waiting.clear()
            if not self._take(0):
                return
        self._waiting = [_GONE]

    def _take(self, seconds: float) -> bool:
        if not select.select([self._fd], [], [], seconds)[0]:
            return False
        try:
            read = os.read(self._fd, 4096)
        except OSError:  # the terminal is gone
            read = b""
        self._waiting += _SEQUENCE.findall(self._decoder.decode(read)) if read else [_GONE]
        return True

    def _is_held(self, key: str) -> bool:
        now = time.monotonic()
        (before, at), self._last = self._last, (key, now)
        return key == before and now - at < HELD and key != END


def _name(part: str) -> str:
    return _NAMES.get(part, part.lower())


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
    before = termios.tcgetattr(fd)
    try:
        tty.setcbreak(fd)
        mode = termios.tcgetattr(fd)
        mode[6][termios.VSUSP] = b"\0"  # Ctrl-Z means undo here
        termios.tcsetattr(fd, termios.TCSADRAIN, mode)
        yield Keys(fd)
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
