"""Functions as judges: called with two items, as the caller has them."""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sortnet.errors import SortNetError
from sortnet.files import one_line, shown
from sortnet.judges.asked_pairs import Pair
from sortnet.judges.connection import JudgeConnection
from sortnet.judges.limits import MOST_WORKERS, check_whole_number
from sortnet.judges.verdicts import REPLIES, Fault, Refused, Verdict, word_of

_MAY_RETURN = f"{', '.join(REPLIES)}, a probability that the left item is better, or None"


@dataclass(frozen=True)
class Function:
    """A Python function of two items as a judge.

    Args:
        function: called as `function(left, right)`. It returns `left`, `right`, `tie` or `skip`,
            or the probability that the left item is better; None and NaN skip the pair.
        name: under which its answers are stored; None: its qualified name.
        workers: threads that call it; 1: it is called in the caller's thread, one pair at a time.

    Raises:
        SortNetError: on a coroutine function, or something that cannot be called.

    >>> Function(lambda left, right: "left", name="first").annotator
    'first'
    """

    function: Callable[[Any, Any], object]
    name: str | None = None
    workers: int = 1

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise SortNetError(f"the judge is {shown(self.function)}: give a function of two items")
        if inspect.iscoroutinefunction(self.function):
            raise SortNetError(_COROUTINE)
        check_whole_number("workers", self.workers, most=MOST_WORKERS)

    @property
    def annotator(self) -> str:
        """Name under which the answers are stored."""
        if self.name is not None:
            return self.name
        function = self.function
        while isinstance(function, functools.partial):
            function = function.func
        name: str = getattr(function, "__qualname__", type(function).__qualname__)
        return name.replace("<locals>.", "").replace("<lambda>", "function")

    def connect(
        self, name: str = "", originals: Mapping[str, Any] | None = None
    ) -> JudgeConnection:
        """Prepare to call the function with the items in `originals`, {id: item}."""
        items = {} if originals is None else originals

        def make_workers() -> list[FunctionWorker]:
            return [FunctionWorker(self.function, items) for _ in range(self.workers)]

        return JudgeConnection(
            name or f"judge {self.annotator}", make_workers, in_caller_thread=self.workers == 1
        )


_COROUTINE = (
    "the judge is a coroutine function, which nobody awaits: give a function that returns the "
    "answer, such as lambda left, right: asyncio.run(judge(left, right))"
)


class FunctionWorker:
    """Calls a function with the items of each pair."""

    def __init__(self, function: Callable[[Any, Any], object], items: Mapping[str, Any]) -> None:
        self._function, self._items = function, items
        self._stopped = threading.Event()

    def ask(self, pairs: Sequence[Pair]) -> list[Verdict]:
        """A verdict for each pair.

        Raises:
            Fault: if the function raises an exception, which is the cause of the fault.
            Refused: if it returns what is no answer.
        """
        verdicts: list[Verdict] = []
        for pair in pairs:
            if self._stopped.is_set():
                raise Fault("interrupted", verdicts)
            left, right = (self._items[pair[side]["id"]] for side in ("left", "right"))
            try:
                answer = self._function(left, right)
            except Exception as error:
                raise Fault(f"{type(error).__name__}: {one_line(error)}", verdicts) from error
            verdicts.append(verdict_of_value(answer))
        return verdicts

    def stop(self) -> None:
        """Call the function no more."""
        self._stopped.set()

    def end(self) -> None:
        """Do nothing: no resources are held."""


def verdict_of_value(answer: object) -> Verdict:
    """Verdict of a value that a function returned.

    Raises:
        Refused: on any other value than an answer, a probability, None or NaN.

    >>> verdict_of_value("left").answer, verdict_of_value(0.2).answer, verdict_of_value(None).answer
    ('left', 'right', 'skip')
    """
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise Refused(_COROUTINE)
    if answer is None:
        return Verdict("skip", comment="the function returned None")
    if isinstance(answer, str) and answer in REPLIES:
        return Verdict(answer)
    if isinstance(answer, numbers.Real) and not isinstance(answer, bool | np.bool_):
        p = float(answer)
        if math.isnan(p):
            return Verdict("skip", comment="the function returned NaN")
        if 0.0 <= p <= 1.0:
            return Verdict(word_of(p), p)
    raise Refused(f"the judge returned {shown(answer)}, which is none of {_MAY_RETURN}")
