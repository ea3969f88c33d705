"""A program that answers lines: started, asked, watched over, never left behind."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress

from cli.output import printable
from sortnet.errors import SortNetError

LONGEST = 1 << 16  # bytes of an answer
GRACE = 1.0  # seconds that a program has to end by itself when nothing more is asked
_TAIL = 4096  # bytes of what it says on stderr that are kept
_SHOWN = 200  # characters of it that a message has


class Fault(Exception):
    """What a program did instead of answering, in a line."""


class Program:
    """A running program, in a process group of its own.

    Raises:
        SortNetError: if it cannot be started.
    """

    def __init__(self, command: Sequence[str]) -> None:
        pipe = subprocess.PIPE
        try:
            # Not of our process group: Ctrl-C is ours to pass on.
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
            )
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise SortNetError(f"--judge: cannot start {command[0]!r}: {why}") from None
        streams = self._process.stdin, self._process.stdout, self._process.stderr
        self._stdin, self._stdout, self._stderr = (s.fileno() for s in streams if s is not None)
        for fd in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(fd, False)
        self._said, self._errors = b"", b""

    def ask(self, line: bytes, seconds: float) -> bytes:
        """Send a line; the line that comes back.

        Raises:
            Fault: if none comes in that time, or something else does.
        """
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdout, selectors.EVENT_READ)
            selector.register(self._stderr, selectors.EVENT_READ)
            if self._said or (selector.select(0) and self._hears(selector, self._stdout)):
                raise Fault("it said something without being asked")
            selector.register(self._stdin, selectors.EVENT_WRITE)
            while b"\n" not in self._said:
                left = until - time.monotonic()
                if left <= 0:
                    raise Fault(f"no answer after {seconds:g} seconds{self._last_words()}")
                for key, _ in selector.select(left):
                    if key.fd == self._stdin:
                        line = self._send(line, selector)
                    else:
                        self._hears(selector, key.fd)
        if line:
            raise Fault("it answered before it had read the pair")
        answer, _, self._said = self._said.partition(b"\n")
        return answer

    def end(self, grace: float = 0.0) -> None:
        """End it, with all that it has started."""
        try:
            if self._process.stdin is not None:
                self._process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(grace)
        finally:
            self.kill()  # its group lives on where it has ended and what it started has not
            self._process.wait()
            for stream in (self._process.stdout, self._process.stderr):
                if stream is not None:
                    stream.close()

    def kill(self) -> None:
        """Let it and all it has started stop now; an `ask` in another thread ends with a fault."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _send(self, line: bytes, selector: selectors.BaseSelector) -> bytes:
        """Send what goes through now; the rest."""
        try:
            line = line[os.write(self._stdin, line) :]
        except BrokenPipeError:
            selector.unregister(self._stdin)  # it has ended, which its output will tell
            return line
        if not line:
            selector.unregister(self._stdin)
        return line

    def _hears(self, selector: selectors.BaseSelector, fd: int) -> bool:
        """Take in what one of its streams has; whether it was an answer, or part of one."""
        try:
            read = os.read(fd, LONGEST)
        except BlockingIOError:
            return False
        if fd == self._stderr:
            self._errors = (self._errors + read)[-_TAIL:]
            if not read:
                selector.unregister(fd)
            return False
        if not read:
            raise Fault(self._ending())
        self._said += read
        if len(self._said) > LONGEST:
            raise Fault(f"its answer is longer than {LONGEST:,} bytes")
        return True

    def _ending(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        code = self._process.returncode
        with suppress(OSError):
            self._errors += os.read(self._stderr, 16 * _TAIL)
        if code is None:
            how = "it closed its output"
        else:
            how = f"it ended with code {code}" if code >= 0 else f"it was killed by signal {-code}"
        return how + self._last_words()

    def _last_words(self) -> str:
        """The last line that it said on stderr."""
        lines = self._errors.decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f": {printable(last[:_SHOWN])}" if last else ""
