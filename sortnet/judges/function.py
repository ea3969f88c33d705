"""Python functions as judges: they are called with the items as the caller has passed them."""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sortnet.errors import SortNetError
from sortnet.files import one_line, shown
from sortnet.judges.asked_question import AskedQuestion, asked_items
from sortnet.judges.connection import JudgeConnection
from sortnet.judges.faults import Reason
from sortnet.judges.judge_fields import check_fields
from sortnet.judges.verdicts import (
    REPLIES,
    SET_REPLIES,
    Fault,
    Refused,
    Verdict,
    answer_at,
    unanswered,
)
from sortnet.preference.base import Word

# What a function may return, for messages.
_MAY_RETURN = (
    "a function of two items returns left, right, tie, skip, None, or a float, the probability "
    'that the left item is better, as in: return "left" if p > 0.5 else "right"; a function of '
    "*items returns the number of the best, from 0, or a tuple (best, worst), same, skip or None"
)


@dataclass(frozen=True)
class Function:
    """A judge that is a Python function, called with the items of a question.

    Args:
        function: a function of two items, or of `*items`, as its signature tells. A function of two
            items is called as `function(left, right)`. It returns `left`, `right`, `tie` or `skip`,
            or a float, the probability that the left item is better; None and NaN skip the
            question. A function of `*items` is called with all items of a question, sometimes two.
            It returns the number of the best item, from 0, or a tuple of the numbers of the best
            and of the worst item, or `same`, `skip` or None.
        name: name under which the answers are stored; None: the qualified name of the function.
        workers: number of threads that call the function; 1: the function is called in the
            caller's thread.

    Raises:
        SortNetError: on something that cannot be called.

    >>> Function(lambda left, right: "left", name="first").annotator
    'first'
    """

    function: Callable[..., object]
    name: str | None = None
    workers: int = 1

    def __post_init__(self) -> None:
        """Check the function and the number of workers."""
        if not callable(self.function):
            raise SortNetError(f"the judge is {shown(self.function)}: give a function of two items")
        check_fields(self)

    @property
    def annotator(self) -> str:
        """Name under which the answers are stored."""
        if self.name is not None:
            return self.name
        function = self.function
        # A partial function has no name; the function that it wraps has one.
        while isinstance(function, functools.partial):
            function = function.func
        name: str = getattr(function, "__qualname__", type(function).__qualname__)
        return name.replace("<locals>.", "").replace("<lambda>", "function")

    def connect(
        self, name: str = "", originals: Mapping[str, Any] | None = None
    ) -> JudgeConnection:
        """Make a connection with workers that call the function.

        Args:
            name: name of the judge in messages; empty: the function's own name.
            originals: {id: item}, the items with which the function is called.
        """
        items = {} if originals is None else originals
        by_place = _is_of_items(self.function)

        def make_workers() -> list[FunctionWorker]:
            return [
                FunctionWorker(self.function, items, by_place=by_place) for _ in range(self.workers)
            ]

        return JudgeConnection(
            name or f"judge {self.annotator}",
            make_workers,
            in_caller_thread=self.workers == 1,
            why_not_about=self._why_not_about,
        )

    def _why_not_about(self, n_items: int) -> str:
        """Explain why questions about `n_items` cannot be asked; empty if they can.

        Some questions of a set are about two items.
        """
        if not _takes(self.function, 2):
            return "has a function that two items cannot be passed to: give one of *items"
        if not _takes(self.function, n_items):
            return (
                f"answers about two items, not about {n_items}: set the size to 2, or give a "
                "function of *items"
            )
        return ""


def _takes(function: Callable[..., object], n_arguments: int) -> bool:
    """Whether a function can be called with `n_arguments`, as far as its signature tells."""
    try:
        inspect.signature(function).bind(*range(n_arguments))  # any values will do
    except TypeError:
        return False
    except ValueError:  # some functions in C have no signature
        return True
    return True


def _is_of_items(function: Callable[..., object]) -> bool:
    """Whether a function has a parameter such as `*items`.

    A third parameter with a default may be no item, so it makes no function of `*items`.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return False
    return any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)


_COROUTINE = (
    "the judge is a coroutine function, which nobody awaits: give a function that returns the "
    "answer, such as lambda left, right: asyncio.run(judge(left, right))"
)


class FunctionWorker:
    """Worker that calls a function with the items of each question.

    Args:
        function: function that judges.
        items: {id: item} with the items as the function takes them.
        by_place: whether the function is of `*items`, so that it answers by the items' places about
            two items, too.
    """

    def __init__(
        self, function: Callable[..., object], items: Mapping[str, Any], *, by_place: bool
    ) -> None:
        self._function = function
        self._items = items
        self._by_place = by_place
        self._stopped = threading.Event()

    def ask(self, questions: Sequence[AskedQuestion]) -> Iterator[Verdict]:
        """Call the function for each question; yield the verdicts.

        An exception of the function is the verdict that its question got no answer.

        Raises:
            Fault: at an interrupt.
            Refused: if the function returns a value that is no answer.
        """
        for question in questions:
            if self._stopped.is_set():
                raise Fault("interrupted")
            items = [self._items[item["id"]] for item in asked_items(question)]
            try:
                answer = self._function(*items)
            except Exception as error:
                text = f"{type(error).__name__}: {one_line(error)}"
                yield unanswered(Reason.ERROR, text, error=error)
                continue
            by_place = self._by_place or len(items) > 2
            worst = question.get("worst", True)
            yield verdict_of_value(answer, len(items), by_place=by_place, worst=worst)

    def stop(self) -> None:
        """End `ask` before the next call of the function."""
        self._stopped.set()

    def end(self) -> None:
        """Do nothing: a function holds no resources."""


def verdict_of_value(
    answer: object, n_items: int = 2, *, by_place: bool = False, worst: bool = True
) -> Verdict:
    """Convert the value that a function returned to a verdict.

    An array without dimensions counts as the number or text in it.

    Args:
        answer: the value.
        n_items: number of items with which the function was called.
        by_place: whether numbers are the places of items, as from a function of `*items`, in place
            of the probability that the left of two items is better.
        worst: whether the worst item is asked for; if not, a worst item in the value is ignored.

    Raises:
        Refused: if the value is no answer. An int or a bool from a function of two items is
            refused, because it may mean a place or a probability. A coroutine is closed, so that
            Python does not warn.

    >>> verdict_of_value("left").answer, verdict_of_value(0.2).answer, verdict_of_value(None).answer
    ('left', 'right', 'skip')
    >>> verdict = verdict_of_value((2, 0), 4, by_place=True)
    >>> verdict.best, verdict.worst, verdict_of_value(1, by_place=True).answer
    (2, 0, 'right')
    """
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise Refused(_COROUTINE)
    value = _python_value(answer)
    if value is None:
        return Verdict("skip", comment="the function returned None")
    if isinstance(value, str):
        value = value.strip().lower()
        value = "tie" if value == "same" and n_items == 2 else value
    words: Sequence[Word] = REPLIES if n_items == 2 else SET_REPLIES
    if isinstance(value, str) and value in words:
        return Verdict(words[words.index(value)])
    verdict = _verdict_by_place(value, n_items, worst) if by_place else _verdict_by_p(value)
    if verdict is None:
        raise Refused(f"the judge returned {shown(value)} about {n_items} items: {_MAY_RETURN}")
    return verdict


def _verdict_by_p(value: Any) -> Verdict | None:
    """Make the verdict of the probability that the left item is better; None if it is none."""
    if not isinstance(value, numbers.Real) or isinstance(value, numbers.Integral):
        return None
    p = float(value)
    if math.isnan(p):
        return Verdict("skip", comment="the function returned NaN")
    return Verdict(answer_at(p), p) if 0.0 <= p <= 1.0 else None


def _verdict_by_place(value: Any, n_items: int, worst: bool) -> Verdict | None:
    """Make the verdict of the place of the best item, or of a tuple of the best and the worst.

    The result is None if the value has no such places.
    """
    chosen = value if isinstance(value, tuple) else (value,)
    places = [_place(_python_value(number), n_items) for number in chosen]
    if len(places) not in (1, 2) or None in places or len({*places}) < len(places):
        return None
    best, *others = places
    return Verdict.by_place(n_items, best, others[0] if others and worst else None)


def _python_value(value: object) -> Any:
    """Return the number or text in an array or tensor without dimensions; else the value."""
    is_scalar = getattr(value, "shape", None) == () and hasattr(value, "item")
    return value.item() if is_scalar else value  # type: ignore[attr-defined]


def _place(value: object, n_items: int) -> Any:
    """Return a value as an int if it is the number of a place, from 0; otherwise None."""
    is_number = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return int(value) if is_number and 0 <= value < n_items else None  # type: ignore
