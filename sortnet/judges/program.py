"""Programs as judges: they read questions as lines of JSON, and write answers as lines of JSON."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from tempfile import TemporaryFile
from typing import IO, Any, cast

from sortnet.errors import SortNetError
from sortnet.judges.asked_question import AskedQuestion, asked_items
from sortnet.judges.budget import Budget
from sortnet.judges.connection import JudgeConnection
from sortnet.judges.faults import Reason
from sortnet.judges.judge_fields import check_fields, judge_in_file
from sortnet.judges.verdicts import Fault, Verdict, parse_verdict, quote, unanswered
from sortnet.messages import printable

LONGEST = 1 << 18  # bytes of the longest answer that is read
_SHORTEST_WAIT = 0.1  # seconds that count for a wait, so that no program waits forever
_GRACE = 1.0  # seconds for a program to exit by itself at the end
_TAIL = 4096  # last bytes of the program's stderr that are read
_MOST_CHARACTERS = 200  # most characters of the last line of stderr in a message


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
        patience: seconds in all for which a program that asks to wait is asked again.

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
        """Make the connection to the program; each worker starts a copy when it is first asked.

        Raises:
            SortNetError: if the program does not exist or cannot be run.
        """
        program = split_command(self.command)[0]
        if shutil.which(program) is None:
            code = errno.EACCES if Path(program).exists() else errno.ENOENT
            raise SortNetError(f"cannot start {program!r}: {os.strerror(code)}")

        def make_workers() -> list[ProgramWorker]:
            return [ProgramWorker(self) for _ in range(self.workers)]

        budget = Budget(self.max_calls)
        return JudgeConnection(
            name or f"judge {self.command}", make_workers, self.batch, budget=budget
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


class RunningProgram:
    """A running program, in a process group of its own.

    Raises:
        SortNetError: if the program cannot be started.
    """

    def __init__(self, command: Sequence[str]) -> None:
        """Start the program."""
        self._further = b""  # output after the last answer
        self._errors = TemporaryFile()  # noqa: SIM115 `end` closes the file
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                start_new_session=True,  # so that Ctrl-C does not reach the program
            )
        except (OSError, ValueError) as error:
            self._errors.close()
            why = getattr(error, "strerror", None) or error
            raise SortNetError(f"cannot start {command[0]!r}: {why}") from None
        self._stdin = cast(IO[bytes], self._process.stdin)
        self._stdout = cast(IO[bytes], self._process.stdout)
        os.set_blocking(self._stdin.fileno(), False)  # the program may stop reading at any moment

    def ask(self, line: bytes, seconds: float) -> bytes:
        """Send a line to the program, and return the line that it answers.

        Raises:
            Fault: if no answer comes in time, the program writes before it has read the line, or
                it ends before it answers.
        """
        answer = b""
        with DefaultSelector() as selector:
            selector.register(self._stdout, EVENT_READ)
            if self._further or (selector.select(0.0) and self._read()):
                raise Fault("it sent output without a question")
            selector.register(self._stdin, EVENT_WRITE)
            end = time.monotonic() + seconds
            while b"\n" not in answer:
                ready = [key.fileobj for key, _ in selector.select(max(end - time.monotonic(), 0))]
                if not ready:
                    why = f"no answer after {seconds:g} seconds; it must flush each line it writes"
                    raise Fault(f"{why}{self._last_error_line()}")
                if self._stdin in ready:
                    line = self._unsent(line)
                    if not line:
                        selector.unregister(self._stdin)
                if self._stdout in ready:
                    answer += self._read()
                if len(answer) > LONGEST:
                    raise Fault(f"its answer is longer than {LONGEST:,} bytes")
        if line:
            raise Fault("it answered before it had read the pair")
        first_line, _, self._further = answer.partition(b"\n")
        return first_line

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
            self._stdout.close()
            self._errors.close()

    def kill(self) -> None:
        """Kill the program and its children; an `ask` in another thread then raises Fault."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _unsent(self, line: bytes) -> bytes:
        """Send as much of a line as the program takes, and return the rest."""
        try:
            return line[self._stdin.write(line) :]
        except BrokenPipeError:
            return b""  # the program has ended, as its output will tell

    def _read(self) -> bytes:
        """Read a part of the output.

        Raises:
            Fault: at the end of the output.
        """
        part = self._stdout.read(LONGEST)
        if not part:
            raise Fault(self._ending())
        return part

    def _ending(self) -> str:
        """Describe how the program ended, with the last line of stderr."""
        # A program that has closed its output is usually about to exit, and to report an error.
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)
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
        file = self._errors.fileno()
        end = os.fstat(file).st_size
        # A seek in the file would move the place at which the program writes.
        errors = os.pread(file, _TAIL, max(0, end - _TAIL))
        last_line = errors.decode("utf-8", "replace").strip().split("\n")[-1]
        return f": {printable(last_line.strip()[:_MOST_CHARACTERS])}" if last_line else ""


class ProgramWorker:
    """Worker that asks a copy of the program, which is started at the first question.

    Args:
        judge: the program.
    """

    def __init__(self, judge: Program) -> None:
        self._judge = judge
        self._program: RunningProgram | None = None
        self._lock = threading.Lock()  # guards `_program`, because any thread may call `stop`
        self._stopped = threading.Event()

    def ask(self, questions: Sequence[AskedQuestion]) -> Iterator[Verdict]:
        """Ask the program some questions, and yield the verdicts; stop a program that fails.

        If the program fails at several questions, it is asked each of them alone. A question at
        which it fails then got no answer.

        Raises:
            Fault: at an interrupt.
        """
        try:
            verdicts = self._ask_until_answered(questions)
        except Fault as fault:
            if self._stopped.is_set():
                raise Fault("interrupted") from None
            verdicts = [unanswered(Reason.ERROR, str(fault))]
            if len(questions) > 1:
                verdicts = [verdict for alone in questions for verdict in self.ask([alone])]
        yield from verdicts

    def _ask_until_answered(self, questions: Sequence[AskedQuestion]) -> list[Verdict]:
        """Send a line and return the verdicts; send it again if the program asks to wait.

        The program is started if it does not run. On any exception it is ended, so that the next
        call starts a new copy.

        Raises:
            Fault: if the worker is stopped, no answer comes in time, or the answer is not valid.
        """
        line = json.dumps(list(questions) if self._judge.batch > 1 else questions[0])
        seconds_to_wait = seconds_waited = 0.0
        while seconds_waited <= self._judge.patience:
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
            seconds_waited += max(seconds_to_wait, _SHORTEST_WAIT)
        raise Fault(f"it asked to wait for more than {self._judge.patience:g} seconds in all")

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
