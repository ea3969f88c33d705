"""A terminal for tests: a command under a pseudo-terminal, and what its screen shows."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable

from forked_processes import Forked

WAIT = 180.0
# Images (APC and DCS) are passed over.
_PART = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b[_P].*?\x1b\\|\x1b[^\[_P]|.", re.DOTALL)


class Terminal:
    """A command in a terminal of its own; `raw` is all that it wrote."""

    def __init__(self, *args: str, columns: int = 80, rows: int = 24, **env: str) -> None:
        self.fd, self._theirs = pty.openpty()
        self.columns, self.rows, self.raw = columns, rows, b""
        self.resize(columns, rows)
        inherited = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
        self.mode = termios.tcgetattr(self._theirs)
        self.process = Forked(
            args, [self._theirs] * 3, {**inherited, "TERM": "xterm-256color", **env}
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(WAIT)
        os.close(self._theirs)
        os.close(self.fd)

    def resize(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, key: str) -> None:
        """Press a key as soon as the command waits for one, and wait for what it does.

        Keys that are typed earlier are thrown away.
        """
        self.waiting()
        self._send(key)

    def waiting(self) -> str:
        """Wait until the command waits for a key, and return the screen."""
        return self.until_so(lambda: not self.reads_lines(), "waiting for a key")

    def type(self, line: str) -> None:
        """Type a line as soon as the command waits for a line."""
        self.until_so(self.reads_lines, "waiting for a line")
        self._send(f"{line}\n")

    def _send(self, typed: str) -> None:
        self._read_all()
        n_read = len(self.raw)
        os.write(self.fd, typed.encode())
        self.until_so(lambda: len(self.raw) > n_read or self.process.poll() is not None, "reply")

    def reads_lines(self) -> bool:
        local_modes: int = termios.tcgetattr(self._theirs)[3]
        return bool(local_modes & termios.ICANON)

    def until(self, *texts: str) -> str:
        """Wait until the screen shows all the texts, and return the screen."""
        return self.until_so(lambda: all(text in self.shown() for text in texts), *texts)

    def ended(self) -> int:
        """Wait until the command has ended, and return its exit code."""
        self.until_so(lambda: self.process.poll() is not None, "the end")
        self._read_all()
        return self.process.wait()

    def send(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def is_as_before(self) -> bool:
        return termios.tcgetattr(self._theirs) == self.mode

    def shown(self) -> str:
        """Draw the screen; of the escape sequences, cursor movements are followed."""
        grid = [[" "] * self.columns for _ in range(self.rows)]
        x = y = 0
        for part in _PART.finditer(self.raw.decode("utf-8", "ignore")):
            text = part.group()
            if part.group(2) == "H":
                y, x = (int(number) - 1 for number in (part.group(1) or "1;1").split(";"))
            elif text == "\n" and y == self.rows - 1:
                grid = [*grid[1:], [" "] * self.columns]
            elif text == "\n":
                y += 1
            elif text == "\r":
                x = 0
            elif text[0] != "\x1b" and y < self.rows and x < self.columns:
                grid[y][x] = text
                x += 1
        return "\n".join("".join(row).rstrip() for row in grid)

    def until_so(self, so: Callable[[], bool], *what: str) -> str:
        end = time.monotonic() + WAIT
        while not so():
            if select.select([self.fd], [], [], 0.05)[0]:
                self._read()
            if time.monotonic() > end:
                raise AssertionError(f"no {what} on this screen:\n{self.shown()}")
        self._read_all()
        return self.shown()

    def _read_all(self) -> None:
        while select.select([self.fd], [], [], 0)[0]:
            self._read()

    def _read(self) -> None:
        self.raw += os.read(self.fd, 65536)
