"""Run a program that answers lines, with timeouts, and stop it with all its children."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress

from cli.output import printable
from cli.terminal.verdicts import Fault
from sortnet.errors import SortNetError

LONGEST = 1 << 18  # maximum bytes of an answer
GRACE = 1.0  # seconds for a program to exit by itself at the end
_TAIL = 4096  # bytes of its stderr that are kept
_SHOWN = 200  # characters of it in a message


class Program:
    """A running program, in a process group of its own.

    Raises:
        SortNetError: if it cannot be started.
    """

    def __init__(self, command: Sequence[str]) -> None:
        pipe = subprocess.PIPE
        try:
            # In its own process group, so that Ctrl-C reaches only us.
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
        """Send a line and return the reply line.

        Raises:
            Fault: if no valid reply comes in time.
        """
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdout, selectors.EVENT_READ)
            selector.register(self._stderr, selectors.EVENT_READ)
            if self._said or (selector.select(0) and self._hears(selector, self._stdout)):
                raise Fault("it sent output without a question")
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
        """Stop the program and its children."""
        try:
            if self._process.stdin is not None:
                self._process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(grace)
        finally:
            self.kill()  # the group outlives the program if a child still runs
            self._process.wait()
            for stream in (self._process.stdout, self._process.stderr):
                if stream is not None:
                    stream.close()

    def kill(self) -> None:
        """Kill the program and its children; an `ask` in another thread then raises Fault."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _send(self, line: bytes, selector: selectors.BaseSelector) -> bytes:
        """Send what the pipe accepts; return the rest."""
        try:
            line = line[os.write(self._stdin, line) :]
        except BrokenPipeError:
            selector.unregister(self._stdin)  # it has exited, which its output will show
            return line
        if not line:
            selector.unregister(self._stdin)
        return line

    def _hears(self, selector: selectors.BaseSelector, fd: int) -> bool:
        """Read from one stream; return whether it was (part of) an answer."""
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
        lines = self._errors.decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f": {printable(last[:_SHOWN])}" if last else ""
