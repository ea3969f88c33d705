"""Programs as judges: they read questions as lines of JSON, and write answers as lines of JSON."""

from __future__ import annotations

import errno
import json
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sortnet.errors import SortNetError
from sortnet.judges.asked_question import AskedQuestion, asked_items
from sortnet.judges.connection import JudgeConnection
from sortnet.judges.limits import MOST_WORKERS, check_number, check_whole_number
from sortnet.judges.verdicts import KNOWN, Fault, Verdict, parse_verdict, quote
from sortnet.messages import note, printable

LONGEST = 1 << 18  # maximum bytes of an answer
_GRACE = 1.0  # seconds for a program to exit by itself at the end
_TAIL = 4096  # last bytes of the program's stderr that are kept
_SHOWN = 200  # characters of the last line of stderr in a message


@dataclass(frozen=True)
class Program:
    """A program as a judge: a line of JSON for each question, a line of JSON for each answer.

    It is started once for each worker, without a shell. A line has `id`, `question`,
    `instructions`, `left` and `right`; the answer is a line such as `{"answer": "left"}`, with `p`
    if it is a probability. A line about more than two items has the list `items`, each with its
    `place`, `A` and on, and `worst`, whether the worst is asked for; the answer is
    `{"best": "B", "worst": "D"}`, or `{"answer": "same"}`, `skip` or `cant-say`.

    Args:
        command: command as typed in a shell, such as `python judge.py`; the answers are stored
            under this name.
        timeout: seconds for an answer.
        workers: copies of the program.
        batch: questions in a line, as an array.
        patience: seconds to wait for a store whose server is away.

    Raises:
        SortNetError: if the command is empty or has an open quote, or a number is out of range.

    >>> Program("python judge.py").annotator
    'python judge.py'
    """

    command: str
    timeout: float = 60.0
    workers: int = 1
    batch: int = 1
    patience: float = 600.0

    def __post_init__(self) -> None:
        split_command(self.command)
        check_number("timeout", self.timeout, may_be_zero=False)
        check_whole_number("workers", self.workers, most=MOST_WORKERS)
        check_whole_number("batch", self.batch)
        check_number("patience", self.patience)

    @property
    def annotator(self) -> str:
        """Name under which the answers are stored."""
        return self.command

    def connect(
        self, name: str = "", originals: Mapping[str, Any] | None = None
    ) -> JudgeConnection:
        """Prepare to start the program."""
        words = split_command(self.command)
        name = name or f"judge {self.command}"
        reported_keys: set[str] = set()

        def notify(text: str) -> None:
            note(f"{name}: {text}")

        def make_workers() -> list[ProgramWorker]:
            return [
                ProgramWorker(
                    words,
                    self.timeout,
                    batch=self.batch > 1,
                    reported_keys=reported_keys,
                    notify=notify,
                )
                for _ in range(self.workers)
            ]

        return JudgeConnection(name, make_workers, self.batch, patience=self.patience)


def split_command(typed: str) -> list[str]:
    """Split a command as a shell would.

    Raises:
        SortNetError: if the command is empty, or a quote is not closed.
    """
    if os.name != "posix":
        raise SortNetError("a program as judge needs Linux or macOS")
    try:
        words = shlex.split(typed)
    except ValueError as error:
        raise SortNetError(f"command {typed!r}: {error}") from None
    if not words:
        raise SortNetError("a program as judge: no command")
    return words


def refuse_missing_program(typed: str) -> None:
    """Refuse a command whose program does not exist or cannot be run, without starting it.

    Raises:
        SortNetError: with the message that starting the program would give.
    """
    program = split_command(typed)[0]
    if shutil.which(program) is None:
        code = errno.EACCES if Path(program).exists() else errno.ENOENT
        raise SortNetError(f"cannot start {program!r}: {os.strerror(code)}")


class ProgramEnded(Fault):
    """A program exited, or closed its output, before it answered."""


class RunningProgram:
    """A running program, in a process group of its own.

    Raises:
        SortNetError: if it cannot be started.
    """

    def __init__(self, command: Sequence[str]) -> None:
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,  # so that Ctrl-C does not reach the program
            )
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise SortNetError(f"cannot start {command[0]!r}: {why}") from None
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._streams = [stream for stream in pipes if stream is not None]
        self._stdin, self._stdout, self._stderr = (stream.fileno() for stream in self._streams)
        for stream in self._streams:
            os.set_blocking(stream.fileno(), False)
        self._output = b""  # read from stdout, and not returned yet
        self._errors = b""  # the end of stderr

    def ask(self, line: bytes, seconds: float) -> bytes:
        """Send a line and return the program's line.

        Raises:
            Fault: if no line comes in time, or the program writes at another time.
        """
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdout, selectors.EVENT_READ)
            selector.register(self._stderr, selectors.EVENT_READ)
            if selector.select(0):
                self._read(selector, self._stdout)
            if self._output:
                raise Fault("it sent output without a question")
            selector.register(self._stdin, selectors.EVENT_WRITE)
            while b"\n" not in self._output:
                seconds_left = deadline - time.monotonic()
                if seconds_left <= 0:
                    raise Fault(f"no answer after {seconds:g} seconds{self._last_error_line()}")
                for key, _ in selector.select(seconds_left):
                    if key.fd == self._stdin:
                        line = self._send(line, selector)
                    else:
                        self._read(selector, key.fd)
        if line:
            raise Fault("it answered before it had read the pair")
        answer, _, self._output = self._output.partition(b"\n")
        return answer

    def end(self, grace: float = 0.0) -> None:
        """Stop the program and its children."""
        self._streams[0].close()
        try:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(grace)
        finally:
            self.kill()  # the group outlives the program if a child still runs
            self._process.wait()
            for stream in self._streams:
                stream.close()

    def kill(self) -> None:
        """Kill the program and its children; an `ask` in another thread then raises Fault."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _send(self, line: bytes, selector: selectors.BaseSelector) -> bytes:
        """Send as much of a line as the program takes now; returns the rest."""
        try:
            n_sent = os.write(self._stdin, line)
        except BrokenPipeError:
            selector.unregister(self._stdin)  # the end of the output will show that it has exited
            return line
        rest = line[n_sent:]
        if not rest:
            selector.unregister(self._stdin)
        return rest

    def _read(self, selector: selectors.BaseSelector, fd: int) -> None:
        """Read what the program has written to stdout or stderr.

        Raises:
            ProgramEnded: if stdout is at its end.
            Fault: if the answer is too long.
        """
        try:
            data = os.read(fd, LONGEST)
        except BlockingIOError:
            return
        if fd == self._stderr:
            self._errors = (self._errors + data)[-_TAIL:]
            if not data:
                selector.unregister(fd)
            return
        if not data:
            raise ProgramEnded(self._ending())
        self._output += data
        if len(self._output) > LONGEST:
            raise Fault(f"its answer is longer than {LONGEST:,} bytes")

    def _ending(self) -> str:
        """Words for the way in which the program ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)
        with suppress(OSError):
            self._errors += os.read(self._stderr, 16 * _TAIL)
        code = self._process.returncode
        if code is None:
            ending = "it closed its output"
        elif code >= 0:
            ending = f"it ended with code {code}"
        else:
            ending = f"it was killed by signal {-code}"
        return ending + self._last_error_line()

    def _last_error_line(self) -> str:
        """A colon and the last line of stderr, to end a message; empty if stderr is empty."""
        lines = self._errors.decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f": {printable(last[:_SHOWN])}" if last else ""


class ProgramWorker:
    """One copy of the program, started on demand.

    Args:
        command: words of the command.
        seconds: time for an answer to one question.
        batch: whether a line has an array of questions; else it has one question.
        reported_keys: unknown keys of answers that were reported already, shared by all workers.
        notify: called with a message about an unknown key.
    """

    def __init__(
        self,
        command: Sequence[str],
        seconds: float,
        *,
        batch: bool,
        reported_keys: set[str],
        notify: Callable[[str], None] = note,
    ) -> None:
        self._command = command
        self._seconds = seconds
        self._batch = batch
        self._reported_keys = reported_keys
        self._notify = notify
        self._program: RunningProgram | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()

    def ask(self, questions: Sequence[AskedQuestion]) -> list[Verdict]:
        """Ask about some questions; stop a program that fails."""
        if self._batch:
            return self._verdicts(questions, json.dumps(list(questions)))
        verdicts = []
        for question in questions:
            verdicts += self._verdicts([question], json.dumps(question))
        return verdicts

    def _verdicts(self, questions: Sequence[AskedQuestion], line: str) -> list[Verdict]:
        """Send a line, again as long as the program says to ask later."""
        while True:
            try:
                replies = self._replies(questions, line.encode() + b"\n")
            except ProgramEnded as ended:
                raise Fault(f"{ended}{_hint_about_sets(questions)}") from None
            waits = [reply for reply in replies if isinstance(reply, float)]
            if not waits:
                return [reply for reply in replies if isinstance(reply, Verdict)]
            if self._over.wait(max(waits)):
                raise Fault("interrupted")

    def _replies(self, questions: Sequence[AskedQuestion], line: bytes) -> list[Verdict | float]:
        """Send a line; returns a verdict for each question, or the seconds before asking again."""
        with self._lock:
            if self._over.is_set():
                raise Fault("interrupted")
            if self._program is None:
                self._program = RunningProgram(self._command)
            program = self._program
        try:
            return self._parsed(program.ask(line, self._seconds * len(questions)), questions)
        except BaseException:
            with self._lock:
                self._program = None
                program.end()
            raise

    def _parsed(self, line: bytes, questions: Sequence[AskedQuestion]) -> list[Verdict | float]:
        """Parse a line of the program; returns a verdict for each question, or seconds to wait.

        Raises:
            Fault: if the line does not answer the questions.
        """
        quoted = quote(line)
        try:
            answers = json.loads(line)
        except (ValueError, RecursionError):
            answers = None
        is_wait_for_all = isinstance(answers, dict) and "retry_after" in answers
        if not self._batch or is_wait_for_all:
            answers = [answers] * len(questions)
        if not isinstance(answers, list) or not all(isinstance(item, dict) for item in answers):
            form = '[{"answer": "left"}, ...]' if self._batch else '{"answer": "left"}'
            raise Fault(f"not a line of JSON such as {form}: {quoted}")
        if len(answers) != len(questions):
            raise Fault(f"{len(answers)} answers to {len(questions)} pairs: {quoted}")
        for answer, question in zip(answers, questions, strict=True):
            if answer.get("id", question["id"]) != question["id"]:
                raise Fault(f"an answer to another pair: {quoted}")
        replies = []
        for answer, question in zip(answers, questions, strict=True):
            n_items = len(asked_items(question))
            worst = question.get("worst", False)
            replies.append(parse_verdict(answer, quoted, n_items, worst=worst))
        keys = {key for answer in answers for key in answer}
        for key in keys - {*KNOWN} - self._reported_keys:
            self._reported_keys.add(key)
            self._notify(f"{quote(key)!r} is no key of an answer and not kept: put it into meta")
        return replies

    def stop(self) -> None:
        """Cancel the pending request and stop the worker."""
        with self._lock:
            self._over.set()
            if self._program is not None:
                self._program.kill()

    def end(self) -> None:
        """Stop the idle program."""
        if self._program is not None:
            self._program.end(_GRACE)


def _hint_about_sets(questions: Sequence[AskedQuestion]) -> str:
    """A hint for a program that ended at a question about more than two items.

    The hint is empty where all questions were about two items.
    """
    largest = max(len(asked_items(question)) for question in questions)
    if largest == 2:
        return ""
    return (
        f"; it was asked about {largest} items, so that its line has items in place of left and "
        "right: read items, or set the size to 2"
    )
