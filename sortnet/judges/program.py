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
from typing import Any, TypeGuard

from sortnet.errors import SortNetError
from sortnet.judges.asked_question import AskedQuestion, asked_items
from sortnet.judges.budget import Budget
from sortnet.judges.connection import JudgeConnection
from sortnet.judges.faults import Reason
from sortnet.judges.judge_file import judge_in_file
from sortnet.judges.limits import MOST_WORKERS, check_number, check_type, check_whole_number
from sortnet.judges.verdicts import KNOWN, Fault, Verdict, parse_verdict, quote, unanswered
from sortnet.messages import note, printable

LONGEST = 1 << 18  # bytes of the longest answer that is read
_GRACE = 1.0  # seconds for a program to exit by itself at the end
_TAIL = 4096  # last bytes of the program's stderr that are kept
_LONGEST_ENDING = 16 * _TAIL  # bytes of stderr that are read after the program has ended
_SHOWN = 200  # characters of the last line of stderr in a message


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
        check_type("command", self.command, str, "no text")
        split_command(self.command)
        check_number("timeout", self.timeout, may_be_zero=False)
        check_whole_number("workers", self.workers, most=MOST_WORKERS)
        check_whole_number("batch", self.batch)
        check_whole_number("max_calls", self.max_calls)
        check_number("patience", self.patience)

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

    Raises:
        SortNetError: if the program cannot be started.
    """

    def __init__(self, command: Sequence[str]) -> None:
        """Start the program, with pipes that never block."""
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
        self._streams = [stream for stream in pipes if stream is not None]  # all three are pipes
        descriptors = [stream.fileno() for stream in self._streams]
        self._stdin, self._stdout, self._stderr = descriptors
        for stream in self._streams:
            os.set_blocking(stream.fileno(), False)
        self._output = b""  # bytes of stdout that `ask` has not returned yet
        self._errors = b""  # last bytes of stderr

    def ask(self, line: bytes, seconds: float) -> bytes:
        """Send a line to the program, and return the line that it answers.

        Raises:
            Fault: if no answer comes in time, or the program writes before it has read the line.
        """
        unsent = line
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdout, selectors.EVENT_READ)
            selector.register(self._stderr, selectors.EVENT_READ)
            self._refuse_early_output(selector)
            selector.register(self._stdin, selectors.EVENT_WRITE)
            while b"\n" not in self._output:
                seconds_left = deadline - time.monotonic()
                if seconds_left <= 0:
                    raise Fault(f"no answer after {seconds:g} seconds{self._last_error_line()}")
                for key, _ in selector.select(seconds_left):
                    if key.fd == self._stdin:
                        unsent = self._send(unsent, selector)
                    else:
                        self._read(selector, key.fd)
        if unsent:
            raise Fault("it answered before it had read the pair")
        answer, _, self._output = self._output.partition(b"\n")
        return answer

    def end(self, grace: float = 0.0) -> None:
        """Stop the program and its children.

        Args:
            grace: seconds in which the program may exit by itself.
        """
        stdin = self._streams[0]
        stdin.close()  # a program that reads lines exits at the end of its input
        try:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(grace)
        finally:
            self.kill()  # a child may still run in the process group after the program has exited
            self._process.wait()
            for stream in self._streams:
                stream.close()

    def kill(self) -> None:
        """Kill the program and its children; an `ask` in another thread then raises Fault."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _refuse_early_output(self, selector: selectors.BaseSelector) -> None:
        """Raise a Fault if there is output already, which would be taken for the answer."""
        if selector.select(0):  # some output can be read without waiting
            self._read(selector, self._stdout)
        if self._output:
            raise Fault("it sent output without a question")

    def _send(self, line: bytes, selector: selectors.BaseSelector) -> bytes:
        """Send as much of a line as the program can take now; return the rest of the line."""
        try:
            n_sent = os.write(self._stdin, line)
        except BrokenPipeError:
            selector.unregister(self._stdin)  # `_read` will find the end of stdout, and raise
            return line
        rest = line[n_sent:]
        if not rest:
            selector.unregister(self._stdin)
        return rest

    def _read(self, selector: selectors.BaseSelector, fd: int) -> None:
        """Read the bytes that the program has written to stdout or stderr.

        Args:
            selector: selector from which stderr is removed at its end.
            fd: file descriptor of stdout or stderr.

        Raises:
            ProgramEnded: at the end of stdout.
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
        """Describe how the program ended, with the last line of stderr."""
        # A program that has closed its output is usually about to exit, and to report an error.
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)
        with suppress(OSError):
            self._errors += os.read(self._stderr, _LONGEST_ENDING)
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
        lines = self._errors.decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f": {printable(last[:_SHOWN])}" if last else ""


class ProgramWorker:
    """Worker that asks a copy of the program, which is started at the first question.

    Args:
        command: words of the command.
        seconds: time for an answer to one question.
        batch: whether a line has an array of questions; otherwise a line has one question.
        reported_keys: unknown keys of answers that a message has named; all workers share the set.
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
        """Note how to ask the program, which the first call of `ask` starts.

        All workers of a judge get the same set `reported_keys`, so that `notify` is called once for
        each unknown key. `seconds` is the time for an answer to one question.
        """
        self._command = command
        self._seconds = seconds
        self._batch = batch
        self._reported_keys = reported_keys
        self._notify = notify
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
        if self._batch and len(questions) > 1:
            with suppress(Fault):
                return self._ask_until_answered(questions)
        verdicts: list[Verdict] = []
        for question in questions:
            try:
                verdicts += self._ask_until_answered([question])
            except Fault as fault:
                if self._stopped.is_set():
                    raise Fault("interrupted", verdicts) from None
                verdicts.append(unanswered(Reason.ERROR, str(fault)))
        return verdicts

    def _ask_until_answered(self, questions: Sequence[AskedQuestion]) -> list[Verdict]:
        """Send a line and return the verdicts; send it again if the program asks to wait.

        Raises:
            Fault: if the program fails, or the worker is stopped.
        """
        line = json.dumps(list(questions) if self._batch else questions[0])
        while True:
            try:
                replies = self._replies(questions, line.encode() + b"\n")
            except ProgramEnded as ended:
                raise Fault(f"{ended}{_hint_about_sets(questions)}") from None
            seconds_to_wait = [reply for reply in replies if isinstance(reply, float)]
            if not seconds_to_wait:
                return [reply for reply in replies if isinstance(reply, Verdict)]
            if self._stopped.wait(max(seconds_to_wait)):
                raise Fault("interrupted")

    def _replies(self, questions: Sequence[AskedQuestion], line: bytes) -> list[Verdict | float]:
        """Send a line once; return for each question a verdict, or seconds to wait (a float).

        The program is started if it does not run. On any exception it is ended, so that the next
        call starts a new copy.

        Raises:
            Fault: if the worker is stopped, no answer comes in time, or the answer is not valid.
            ProgramEnded: if the program ends before it answers.
        """
        with self._lock:
            if self._stopped.is_set():
                raise Fault("interrupted")
            if self._program is None:
                self._program = RunningProgram(self._command)
            program = self._program
        seconds = self._seconds * len(questions)
        try:
            answer = program.ask(line, seconds)
            return self._parsed(answer, questions)
        except BaseException:
            with self._lock:
                self._program = None
                program.end()
            raise

    def _parsed(self, line: bytes, questions: Sequence[AskedQuestion]) -> list[Verdict | float]:
        """Parse a line of the program to a verdict for each question, or to seconds to wait.

        Raises:
            Fault: if the line does not answer the questions.
        """
        quoted = quote(line)
        answers = self._answers_in(line, questions)
        replies = []
        for answer, question in zip(answers, questions, strict=True):
            n_items = len(asked_items(question))
            worst = question.get("worst", False)
            replies.append(parse_verdict(answer, quoted, n_items, worst=worst))
        self._report_unknown_keys(answers)
        return replies

    def _answers_in(
        self, line: bytes, questions: Sequence[AskedQuestion]
    ) -> list[Mapping[str, Any]]:
        """Parse the JSON of a line; return a dict for each question.

        Raises:
            Fault: if the line does not have a dict for each question.
        """
        quoted = quote(line)
        try:
            answers = json.loads(line)
        except (ValueError, RecursionError):
            answers = None
        # A line without a batch has one dict. So may a line that asks to wait with a whole batch.
        asks_to_wait = isinstance(answers, dict) and "retry_after" in answers
        has_one_dict_for_all = not self._batch or asks_to_wait
        if has_one_dict_for_all:
            answers = [answers] * len(questions)
        if not _are_dicts(answers):
            form = '[{"answer": "left"}, ...]' if self._batch else '{"answer": "left"}'
            raise Fault(f"not a line of JSON such as {form}: {quoted}")
        if len(answers) != len(questions):
            raise Fault(f"{len(answers)} answers to {len(questions)} pairs: {quoted}")
        for answer, question in zip(answers, questions, strict=True):
            repeated_id = answer.get("id", question["id"])  # a program need not repeat the id
            if repeated_id != question["id"]:
                raise Fault(f"an answer to another pair: {quoted}")
        return answers

    def _report_unknown_keys(self, answers: Sequence[Mapping[str, Any]]) -> None:
        """Report keys that an answer cannot have, each key once for all workers together."""
        keys = {key for answer in answers for key in answer}
        for key in keys - {*KNOWN} - self._reported_keys:
            self._reported_keys.add(key)
            self._notify(f"{quote(key)!r} is no key of an answer and not kept: put it into meta")

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


def _are_dicts(values: Any) -> TypeGuard[list[Mapping[str, Any]]]:
    """Whether parsed JSON is a list of dicts."""
    return isinstance(values, list) and all(isinstance(value, dict) for value in values)


def _hint_about_sets(questions: Sequence[AskedQuestion]) -> str:
    """Make a hint for a program that ended at a question about more than two items.

    The hint is empty if all questions were about two items.
    """
    largest = max(len(asked_items(question)) for question in questions)
    if largest == 2:
        return ""
    return (
        f"; it was asked about {largest} items, so that its line has items in place of left and "
        "right: read items, or set the size to 2"
    )
