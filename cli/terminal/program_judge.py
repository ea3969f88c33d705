"""Programs as judges: a line of JSON for each pair, a line of JSON for each answer."""

from __future__ import annotations

import json
import os
import shlex
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from cli.output import cut, printable, say
from cli.terminal.asking import ANSWERED, REPLIES, nothing_left
from cli.terminal.program import GRACE, Fault, Program
from sortnet.errors import LeaseError, SortNetError
from sortnet.items import Items
from sortnet.preference import Answer
from sortnet.preference.base import TARGETS
from sortnet.preference.study import Study
from store import Lease
from store.database.engine import plain
from store.service.labelling import LabellingService

PATIENCE = 3  # maximum failures in a row per worker


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


def question_line(items: Items, lease: Lease, study: Study) -> bytes:
    """The JSON object of a pair for the program."""
    asked = {"id": lease.id, "question": study.question, "instructions": study.instructions}
    sides = {"left": _side(items, lease.question.left), "right": _side(items, lease.question.right)}
    return json.dumps({**asked, **_group(items, lease), **sides}).encode() + b"\n"


def _group(items: Items, lease: Lease) -> dict[str, Any]:
    """The group and its context, where items have groups."""
    if items.groups is None:
        return {}
    k = lease.question.left
    context = None if items.contexts is None else items.contexts[k]
    return {"group": items.groups[k], "context": context}


def _side(items: Items, k: int) -> dict[str, Any]:
    def path(file: str | None) -> str | None:
        return None if file is None else str(items.root / file if items.root else file)

    return {
        "id": items.ids[k],
        "text": items.texts[k],
        "image": path(items.images[k]),
        "audio": path(items.audio[k]),
        "shown": dict((items.shown and items.shown[k]) or {}),
        "features": plain(dict(zip(items.feature_names, items.features[k], strict=True))),
    }


def answer_in(line: bytes, lease: str) -> Answer:
    """Parse an answer line of the program.

    Raises:
        Fault: if it is not an answer, or answers another question.
    """
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise Fault(f'not a line of JSON such as {{"answer": "left"}}: {_quoted(line)}')
    if said.get("id", lease) != lease:
        raise Fault(f"an answer to another pair: {_quoted(line)}")
    answer: Any = said.get("answer")
    if not isinstance(answer, str) or answer not in REPLIES:
        raise Fault(f"its answer is not one of {', '.join(REPLIES)}: {_quoted(line)}")
    return answer


def _quoted(line: bytes) -> str:
    return cut(printable(line.decode("utf-8", "replace")), 83)


class _Worker:
    """One copy of the program, started on demand; any thread may stop it."""

    def __init__(self, command: Sequence[str], seconds: float) -> None:
        self._command, self._seconds = command, seconds
        self._program: Program | None = None
        self._lock, self._over = threading.Lock(), False

    def ask(self, line: bytes, lease: str) -> Answer:
        """The answer; a program that fails is stopped."""
        with self._lock:
            if self._over:
                raise Fault("interrupted")
            self._program = program = self._program or Program(self._command)
        try:
            return answer_in(program.ask(line, self._seconds), lease)
        except BaseException:
            with self._lock:
                self._program = None
                program.end()
            raise

    def stop(self) -> None:
        """Cancel the pending request and stop the worker."""
        with self._lock:
            self._over = True
            if self._program is not None:
                self._program.kill()

    def end(self) -> None:
        """Stop the idle program."""
        if self._program is not None:
            self._program.end(GRACE)


class Judging:
    """Distribute pairs to workers and store answers; one thread calls the service.

    Attributes:
        answered: number of answered pairs.
        votes: those that were not skipped.
        failed: number of pairs at which the program failed.
        why: why it ended.
        fault: the last error, if the program was given up.
    """

    def __init__(self, service: LabellingService, who: str, number: int | None) -> None:
        self.service, self.who, self.number = service, who, number
        self.answered, self.votes, self.failed, self.why, self.fault = 0, 0, 0, "", ""
        self._asked: dict[Future[Answer], tuple[_Worker, Lease]] = {}
        self._failed_at: set[str] = set()
        self._in_a_row = 0

    def run(self, command: Sequence[str], seconds: float = 60.0, n_workers: int = 1) -> None:
        """Let a program answer until the goal is reached, `number` are answered, or it fails.

        A pair at which it fails is released and the program restarted; after three failures in a
        row it is given up. All answers are stored in any case.

        Raises:
            SortNetError: if the program cannot be started.
        """
        workers = [_Worker(command, seconds) for _ in range(n_workers)]
        try:
            self._run(workers)
        except KeyboardInterrupt:
            self.why = self.fault = "interrupted"
        finally:
            for worker in workers:
                worker.end()
            self.service.release(self.who)

    def _run(self, workers: Sequence[_Worker]) -> None:
        idle = list(workers)
        with ThreadPoolExecutor(len(workers)) as threads:
            try:
                while True:
                    for lease in self._leases(len(idle)):
                        line = question_line(self.service.items, lease, self.service.study)
                        worker = idle.pop()
                        self._asked[threads.submit(worker.ask, line, lease.id)] = worker, lease
                    if not self._asked:
                        break
                    for future in wait(self._asked, return_when=FIRST_COMPLETED).done:
                        worker, lease = self._asked.pop(future)
                        idle.append(worker)
                        self._take(future, lease, PATIENCE * len(workers))
                    self.service.keep_up()
            except BaseException:
                for worker in workers:
                    worker.stop()
                raise
        if not self.fault:
            self.service.settle()
        self.why = self.fault or self._why()

    def _leases(self, most: int) -> list[Lease]:
        """Assign pairs to idle workers, except reserved pairs that were given up."""
        if self.fault or self.service.remaining.stop:
            return []
        if self.number is not None:
            most = min(most, self.number - self.answered - len(self._asked))
        if most <= 0:
            return []
        not_these = self._failed_at | {lease.id for _, lease in self._asked.values()}
        leases = self.service.next(self.who, most + len(not_these))
        return [lease for lease in leases if lease.id not in not_these][:most]

    def _take(self, future: Future[Answer], lease: Lease, patience: int) -> None:
        try:
            answer = future.result()
            # Without the time it took: the pace of a program says nothing of its care.
            judgement = lease.question.answered(self.who, answer)
            new = self.service.answer(lease.id, judgement).new
        except (Fault, LeaseError) as error:
            self._failed_at.add(lease.id)
            self.failed += 1
            self._in_a_row += 1
            say(f"--judge: {error}")
            if self._in_a_row >= patience:
                self.fault = f"failed {self._in_a_row} times in a row; the last: {error}"
        else:
            self.answered += new
            self.votes += new and answer in TARGETS
            self._in_a_row = 0
            if not new:
                say(ANSWERED)

    def _why(self) -> str:
        remaining, goal = self.service.remaining, self.service.session.goal
        if self.answered == self.number:
            return remaining.why
        if remaining.stop:
            return f"the goal of {goal:.2g} is reached (--until sets another): {remaining.why}"
        self.service.release(self.who)
        left = nothing_left(self.service, self.who)
        return f"{left}, but for {self.failed} that failed" if self.failed else left
