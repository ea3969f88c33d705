"""Programs as judges: they read questions as lines of JSON, and write answers as lines of JSON."""

from __future__ import annotations

import errno
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, cast

from sortnet.errors import SortNetError
from sortnet.judges.asked_question import AskedQuestion, asked_items
from sortnet.judges.budget import Budget
from sortnet.judges.connection import JudgeConnection
from sortnet.judges.faults import Reason
from sortnet.judges.judge_file import judge_in_file
from sortnet.judges.limits import check_fields
from sortnet.judges.verdicts import KNOWN, Fault, Verdict, parse_verdict, quote, unanswered
from sortnet.messages import note, printable

LONGEST = 1 << 18  # bytes of the longest answer that is read
_GRACE = 1.0  # seconds for a program to exit by itself at the end
_TAIL = 4096  # last bytes of the program's stderr that are kept
_SHOWN = 200  # characters of the last line of stderr in a message
# Hint for a program that ended at a question about more than two items.
_HINT_ABOUT_SETS = (
    "; it was asked about {} items, so that its line has items in place of left and right: read "
    "items, or set the size to 2"
)


@dataclass(frozen=True)
class Program:
    """A program as a judge: a line of JSON for each question, a line of JSON for each answer.

    The program is started once for each worker, without a shell. A question about two items has the
    keys `id`, `question`, `instructions`, `left` and `right`. The answer is a line such as
    `{"answer": "left"}`, or `{"p": 0.8}` with the probability that the left item is better.

    A question about more than two items has the list `items` in place of `left` and `right`. Each
    of the items has a `place`, which is a letter from A, and `worst` tells whether the worst item
    is asked for, too. The answer is a line such as `{"best": "B", "worst": "D"}` or
    `{"answer": "same"}`; `skip` and `cant-say` are also answers.

    Args:
        command: command as typed in a shell, such as `python judge.py`; the answers are stored
            under this name.
        timeout: seconds for an answer.
        workers: number of copies of the program.
        batch: number of questions in a line; if it is more than 1, the line is an array.
        max_calls: number of questions after which nothing is asked; None: no limit.
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
    max_calls: int | None = None
    patience: float = 600.0

    def __post_init__(self) -> None:
        """Check the fields."""
        check_fields(self)
        split_command(self.command)

    @classmethod
    def from_file(cls, file: str | Path) -> Program:
        """Read a program from a TOML file, whose keys are the arguments of `Program`.

        Raises:
            SortNetError: if the file cannot be read, or a key is unknown, missing or has a value
                that cannot be used; the message names the file and the key.
        """
        return judge_in_file(cls, file)

    @property
    def annotator(self) -> str:
        """Name under which the answers are stored."""
        return self.command

    def connect(
        self, name: str = "", originals: Mapping[str, Any] | None = None
    ) -> JudgeConnection:
        """Make the connection to the program; each worker starts a copy when it is first asked."""
        name = name or f"judge {self.command}"
        reported_keys: set[str] = set()

        def make_workers() -> list[ProgramWorker]:
            return [ProgramWorker(self, name, reported_keys) for _ in range(self.workers)]

        return JudgeConnection(
            name, make_workers, self.batch, patience=self.patience, budget=Budget(self.max_calls)
        )


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
        SortNetError: if the program cannot be started.
    """
    program = split_command(typed)[0]
    if shutil.which(program) is None:
        code = errno.EACCES if Path(program).exists() else errno.ENOENT
        raise SortNetError(f"cannot start {program!r}: {os.strerror(code)}")


class ProgramEnded(Fault):
    """A program exited, or closed its output, before it answered."""


class RunningProgram:
    """A running program, in a process group of its own.

    Threads write its input and read its output, since the program may stop doing its part of either
    at any moment. The threads end with the program.

    Raises:
        SortNetError: if the program cannot be started.
    """

    def __init__(self, command: Sequence[str]) -> None:
        """Start the program, and the threads that read its output."""
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
        self._stdin, self._stdout, self._stderr = (cast(io.RawIOBase, pipe) for pipe in pipes)
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        self._errors = b""  # last bytes of stderr
        self._readers = [_started(self._read_lines), _started(self._read_errors)]

    def ask(self, line: bytes, seconds: float) -> bytes:
        """Send a line to the program, and return the line that it answers.

        Raises:
            Fault: if no answer comes in time, or the program writes before it has read the line.
            ProgramEnded: if the program ends before it answers.
        """
        with suppress(Empty):
            self._next_line(0.0)
            raise Fault("it sent output without a question")
        sender = _started(self._send, line)
        try:
            answer = self._next_line(seconds)
        except Empty:
            raise Fault(f"no answer after {seconds:g} seconds{self._last_error_line()}") from None
        sender.join(_GRACE)
        if sender.is_alive():
            raise Fault("it answered before it had read the pair")
        return answer

    def end(self, grace: float = 0.0) -> None:
        """Stop the program and its children.

        Args:
            grace: seconds in which the program may exit by itself.
        """
        self._stdin.close()  # a program that reads lines exits at the end of its input
        try:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(grace)
        finally:
            self.kill()  # a child may still run in the process group after the program has exited
            self._process.wait()
            for reader in self._readers:
                reader.join(_GRACE)

    def kill(self) -> None:
        """Kill the program and its children; an `ask` in another thread then raises Fault."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _next_line(self, seconds: float) -> bytes:
        """Return the next line of the output, without its line break.

        Raises:
            Empty: if no line comes in time.
            Fault: if the line is too long.
            ProgramEnded: at the end of the output.
        """
        line = self._lines.get(timeout=seconds)
        if len(line) > LONGEST:
            raise Fault(f"its answer is longer than {LONGEST:,} bytes")
        if not line.endswith(b"\n"):
            raise ProgramEnded(self._ending())
        return line[:-1]

    def _send(self, line: bytes) -> None:
        """Send a line to the program, unless the program ends."""
        with suppress(OSError, ValueError):
            while line:
                line = line[self._stdin.write(line) :]

    def _read_lines(self) -> None:
        """Read the output up to its end, or to a second line that nobody has taken."""
        with io.BufferedReader(self._stdout) as output:
            line = b"\n"
            while line.endswith(b"\n") and self._lines.qsize() < 2:
                line = output.readline(LONGEST + 1)
                self._lines.put(line)

    def _read_errors(self) -> None:
        """Read stderr up to its end, and keep its last bytes."""
        with self._stderr:
            while part := self._stderr.read(_TAIL):
                self._errors = (self._errors + part)[-_TAIL:]

    def _ending(self) -> str:
        """Describe how the program ended, with the last line of stderr."""
        # A program that has closed its output is usually about to exit, and to report an error.
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)
        self._readers[-1].join(_GRACE)
        code = self._process.returncode
        if code is None:
            ending = "it closed its output"
        elif code >= 0:
            ending = f"it ended with code {code}"
        else:
            ending = f"it was killed by signal {-code}"
        return ending + self._last_error_line()

    def _last_error_line(self) -> str:
        """Return a colon and the last line of stderr for a message; empty if stderr is empty."""
        lines = self._errors.decode("utf-8", "replace").strip().split("\n")
        return f": {printable(lines[-1].strip()[:_SHOWN])}" if lines[-1] else ""


def _started(task: Callable[..., None], *values: Any) -> threading.Thread:
    """Start a thread that carries out a task with values."""
    thread = threading.Thread(target=task, args=values, daemon=True)
    thread.start()
    return thread


class ProgramWorker:
    """Worker that asks a copy of the program, which is started at the first question.

    Args:
        judge: the program.
        name: name of the judge in messages.
        reported_keys: unknown keys of answers that a message has named; all workers share the set.
    """

    def __init__(self, judge: Program, name: str, reported_keys: set[str]) -> None:
        self._judge = judge
        self._name = name
        self._reported_keys = reported_keys
        self._program: RunningProgram | None = None
        self._lock = threading.Lock()  # guards `_program`, because any thread may call `stop`
        self._stopped = threading.Event()

    def ask(self, questions: Sequence[AskedQuestion]) -> list[Verdict]:
        """Ask the program some questions, and return the verdicts; stop a program that fails.

        If the program fails at several questions, it is asked each of them alone. A question at
        which it fails then got no answer.

        Raises:
            Fault: at an interrupt; the fault has the verdicts so far.
        """
        if len(questions) > 1:
            with suppress(Fault):
                return self._ask_until_answered(questions)
        verdicts: list[Verdict] = []
        for question in questions:
            try:
                verdicts += self._ask_until_answered([question])
            except Fault as fault:
                if self._stopped.is_set():
                    raise Fault("interrupted", verdicts) from None
                n_items = len(asked_items(question))
                is_unexpected = n_items > 2 and isinstance(fault, ProgramEnded)
                hint = _HINT_ABOUT_SETS.format(n_items) if is_unexpected else ""
                verdicts.append(unanswered(Reason.ERROR, f"{fault}{hint}"))
        return verdicts

    def _ask_until_answered(self, questions: Sequence[AskedQuestion]) -> list[Verdict]:
        """Send a line and return the verdicts; send it again if the program asks to wait.

        The program is started if it does not run. On any exception it is ended, so that the next
        call starts a new copy.

        Raises:
            Fault: if the worker is stopped, no answer comes in time, or the answer is not valid.
            ProgramEnded: if the program ends before it answers.
        """
        line = json.dumps(list(questions) if self._judge.batch > 1 else questions[0])
        seconds_to_wait = 0.0
        while True:
            self._stopped.wait(seconds_to_wait)
            with self._lock:
                if self._stopped.is_set():
                    raise Fault("interrupted")
                program = self._program or RunningProgram(split_command(self._judge.command))
                self._program = program
            try:
                answer = program.ask(line.encode() + b"\n", self._judge.timeout * len(questions))
                replies = self._parsed(answer, questions)
            except BaseException:
                with self._lock:
                    self._program = None
                    program.end()
                raise
            verdicts = [reply for reply in replies if isinstance(reply, Verdict)]
            if len(verdicts) == len(questions):
                return verdicts
            seconds_to_wait = max(reply for reply in replies if isinstance(reply, float))

    def _parsed(self, line: bytes, questions: Sequence[AskedQuestion]) -> list[Verdict | float]:
        """Parse a line of the program to a verdict for each question, or to seconds to wait.

        Raises:
            Fault: if the line does not answer the questions.
        """
        quoted = quote(line)
        is_batch = self._judge.batch > 1
        try:
            answers = json.loads(line)
        except (ValueError, RecursionError):
            answers = None
        # A line that asks to wait with a whole batch may have one dict, too.
        if isinstance(answers, dict) and (not is_batch or "retry_after" in answers):
            answers = [answers] * len(questions)
        if not isinstance(answers, list) or not all(isinstance(answer, dict) for answer in answers):
            form = '[{"answer": "left"}, ...]' if is_batch else '{"answer": "left"}'
            raise Fault(f"not a line of JSON such as {form}: {quoted}")
        if len(answers) != len(questions):
            raise Fault(f"{len(answers)} answers to {len(questions)} pairs: {quoted}")
        replies: list[Verdict | float] = []
        for answer, question in zip(answers, questions, strict=True):
            if answer.get("id", question["id"]) != question["id"]:  # it need not repeat the id
                raise Fault(f"an answer to another pair: {quoted}")
            n_items = len(asked_items(question))
            worst = question.get("worst", False)
            replies.append(parse_verdict(answer, quoted, n_items, worst=worst))
            for key in answer.keys() - {*KNOWN} - self._reported_keys:
                self._reported_keys.add(key)
                text = f"{quote(key)!r} is no key of an answer and not kept: put it into meta"
                note(f"{self._name}: {text}")
        return replies

    def stop(self) -> None:
        """Cancel the pending request and stop the worker."""
        with self._lock:
            self._stopped.set()
            if self._program is not None:
                self._program.kill()

    def end(self) -> None:
        """Stop the idle program."""
        if self._program is not None:
            self._program.end(_GRACE)
