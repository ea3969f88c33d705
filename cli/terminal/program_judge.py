"""Programs as judges: a line of JSON for each pair or several, a line of JSON for the answers."""

from __future__ import annotations

import json
import os
import shlex
import threading
from collections.abc import Sequence
from typing import Any

from cli.output import say
from cli.terminal.judging import Pair
from cli.terminal.program import GRACE, Program
from cli.terminal.verdicts import KNOWN, Fault, Verdict, Wait, quote, verdict_of
from sortnet.errors import SortNetError


def command_of(typed: str) -> list[str]:
    """Split a command as a shell would.

    Raises:
        SortNetError: if it is empty, or a quote is not closed.
    """
    if os.name != "posix":
        raise SortNetError("--judge needs Linux or macOS")
    try:
        words = shlex.split(typed)
    except ValueError as error:
        raise SortNetError(f"--judge {typed!r}: {error}") from None
    if not words:
        raise SortNetError("--judge: no command")
    return words


class ProgramWorker:
    """One copy of the program, started on demand; a line has a pair, or an array with `batch`.

    Args:
        command: of the program.
        seconds: in which it has to answer.
        batch: whether a line is an array of pairs, answered by an array.
        unknown: keys of answers that were reported already; shared by all workers.
    """

    def __init__(
        self, command: Sequence[str], seconds: float, *, batch: bool, unknown: set[str]
    ) -> None:
        self._command, self._seconds, self._batch = command, seconds, batch
        self._unknown = unknown
        self._program: Program | None = None
        self._lock, self._over = threading.Lock(), threading.Event()

    def ask(self, pairs: Sequence[Pair]) -> list[Verdict]:
        """The answers; a program that fails is stopped."""
        if self._batch:
            return self._verdicts(pairs, json.dumps(list(pairs)))
        return [found for pair in pairs for found in self._verdicts([pair], json.dumps(pair))]

    def _verdicts(self, pairs: Sequence[Pair], line: str) -> list[Verdict]:
        """Ask as long as the program says to ask again later."""
        while True:
            found = self._said(pairs, line.encode() + b"\n")
            waits = [each.seconds for each in found if isinstance(each, Wait)]
            if not waits:
                return [each for each in found if isinstance(each, Verdict)]
            if self._over.wait(max(waits)):
                raise Fault("interrupted")

    def _said(self, pairs: Sequence[Pair], line: bytes) -> list[Verdict | Wait]:
        with self._lock:
            if self._over.is_set():
                raise Fault("interrupted")
            self._program = program = self._program or Program(self._command)
        try:
            return self._parsed(program.ask(line, self._seconds * len(pairs)), pairs)
        except BaseException:
            with self._lock:
                self._program = None
                program.end()
            raise

    def _parsed(self, line: bytes, pairs: Sequence[Pair]) -> list[Verdict | Wait]:
        """The verdicts in a line of the program.

        Raises:
            Fault: if it has none, or answers other questions.
        """
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            said = None
        if not self._batch or (isinstance(said, dict) and "retry_after" in said):
            said = [said] * len(pairs)
        if not isinstance(said, list) or not all(isinstance(each, dict) for each in said):
            form = '[{"answer": "left"}, ...]' if self._batch else '{"answer": "left"}'
            raise Fault(f"not a line of JSON such as {form}: {quote(line)}")
        if len(said) != len(pairs):
            raise Fault(f"{len(said)} answers to {len(pairs)} pairs: {quote(line)}")
        for one, pair in zip(said, pairs, strict=True):
            if one.get("id", pair["id"]) != pair["id"]:
                raise Fault(f"an answer to another pair: {quote(line)}")
        found = [verdict_of(one, quote(line)) for one in said]
        for one in said:
            self._tell_unknown(one)
        return found

    def _tell_unknown(self, said: dict[str, Any]) -> None:
        for name in said.keys() - set(KNOWN) - self._unknown:
            self._unknown.add(name)
            say(f"--judge: {quote(name)!r} is no key of an answer and not kept: put it into meta")

    def stop(self) -> None:
        """Cancel the pending request and stop the worker."""
        with self._lock:
            self._over.set()
            if self._program is not None:
                self._program.kill()

    def end(self) -> None:
        """Stop the idle program."""
        if self._program is not None:
            self._program.end(GRACE)
