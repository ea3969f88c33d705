"""Python functions as judges: they are called with the items as the caller has passed them."""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sortnet.errors import SortNetError
from sortnet.files import one_line, shown
from sortnet.judges.asked_question import AskedQuestion, asked_items
from sortnet.judges.connection import JudgeConnection
from sortnet.judges.faults import Reason
from sortnet.judges.limits import check_fields
from sortnet.judges.verdicts import REPLIES, Fault, Refused, Verdict, answer_at, unanswered
from sortnet.messages import note
from sortnet.preference.base import Word

# What a function of two items may return, and an example, for messages.
_OF_TWO = (
    f"a function of two items returns {', '.join(REPLIES)}, None, or a float, the probability that "
    'the left item is better, as in: return "left" if p > 0.5 else "right", or: return float(p)'
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
        SortNetError: on a coroutine function, or something that cannot be called.

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
        if inspect.iscoroutinefunction(self.function):
            raise SortNetError(_COROUTINE)
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


# {what a function may return: what it means}, from a function of two items and of `*items`
_TWO_WORDS: dict[str, Word] = {word: word for word in REPLIES}
_PAIR_WORDS: dict[str, Word] = {**_TWO_WORDS, "same": "tie"}
_SET_WORDS: dict[str, Word] = {"same": "same", "skip": "skip"}


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
        self._is_noted = False
        self._stopped = threading.Event()

    def ask(self, questions: Sequence[AskedQuestion]) -> list[Verdict]:
        """Call the function for each question; return the verdicts.

        An exception of the function is the verdict that its question got no answer.

        Raises:
            Fault: at an interrupt.
            Refused: if the function returns a value that is no answer.
        """
        verdicts: list[Verdict] = []
        for question in questions:
            if self._stopped.is_set():
                raise Fault("interrupted", verdicts)
            items = [self._items[item["id"]] for item in asked_items(question)]
            try:
                answer = self._function(*items)
            except Exception as error:
                text = f"{type(error).__name__}: {one_line(error)}"
                verdicts.append(unanswered(Reason.ERROR, text, error=error))
                continue
            if self._by_place or len(items) > 2:
                self._note_places(answer, len(items))
                worst = question.get("worst", True)
                verdicts.append(verdict_on_set(answer, len(items), worst=worst))
            else:
                verdicts.append(verdict_of_value(answer))
        return verdicts

    def _note_places(self, answer: object, n_items: int) -> None:
        """Note once what a number about two items means, unless there were sets before.

        Version 0.4 read the number as the probability that the left item is better.
        """
        if n_items == 2 and not self._is_noted and _place(answer, 2) is not None:
            note(
                f"the function takes *items, so that {shown(_python_value(answer))} is the place "
                "of the better item: 0 is the left one, 1 the right one"
            )
        self._is_noted = True

    def stop(self) -> None:
        """End `ask` before the next call of the function."""
        self._stopped.set()

    def end(self) -> None:
        """Do nothing: a function holds no resources."""


def verdict_of_value(answer: object) -> Verdict:
    """Convert the value that a function of two items returned to a verdict.

    An array without dimensions counts as the number or text in it.

    Raises:
        Refused: if the value is neither an answer nor a float from 0 to 1 nor None nor NaN. An int
            or a bool is refused, because it may mean a place or a probability.

    >>> verdict_of_value("left").answer, verdict_of_value(0.2).answer, verdict_of_value(None).answer
    ('left', 'right', 'skip')
    """
    value, verdict = _value_or_verdict(answer, _TWO_WORDS)
    if verdict is not None:
        return verdict
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral):
        p = float(value)
        if math.isnan(p):
            return Verdict("skip", comment="the function returned NaN")
        if 0.0 <= p <= 1.0:
            return Verdict(answer_at(p), p)
    raise Refused(f"the judge returned {shown(value)}: {_OF_TWO}")


def verdict_on_set(answer: object, n_items: int, *, worst: bool = True) -> Verdict:
    """Convert the value that a function of `*items` returned to a verdict.

    Of two items, `left`, `right` and `tie` mean the same as from a function of two items.

    Args:
        answer: the value.
        n_items: number of items with which the function was called.
        worst: whether the worst item is asked for; if not, a worst item in the value is ignored.

    Raises:
        Refused: if the value is neither the number of an item nor a tuple of two such numbers nor
            an answer in words nor None.

    >>> verdict_on_set((2, 0), 4).best, verdict_on_set(3, 4).best, verdict_on_set(1, 2).answer
    (2, 3, 'right')
    """
    words = _PAIR_WORDS if n_items == 2 else _SET_WORDS
    value, verdict = _value_or_verdict(answer, words)
    if verdict is not None:
        return verdict
    chosen = value if isinstance(value, tuple) else (value,)
    places = [_place(number, n_items) for number in chosen]
    are_different = len({*places}) == len(places)
    is_choice = len(places) in (1, 2) and None not in places and are_different
    if not is_choice:
        raise Refused(
            f"the judge returned {shown(value)}: of {n_items} items it may return the number of "
            f"the best, 0 to {n_items - 1}, or two different ones in a tuple (best, worst), "
            f"{', '.join(words)}, or None"
        )
    if n_items == 2:
        return Verdict("left" if places[0] == 0 else "right")
    has_worst = worst and len(places) == 2
    return Verdict("best", best=places[0], worst=places[1] if has_worst else None)


def _python_value(value: object) -> Any:
    """Return the number or text in an array or tensor without dimensions; else the value."""
    is_scalar = getattr(value, "shape", None) == () and hasattr(value, "item")
    return value.item() if is_scalar else value  # type: ignore[attr-defined]


def _place(number: object, n_items: int) -> int | None:
    """Return a number if it is the number of a place, from 0; otherwise None."""
    value = _python_value(number)
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        return None
    place = int(value)
    return place if 0 <= place < n_items else None


def _value_or_verdict(answer: object, words: Mapping[str, Word]) -> tuple[Any, Verdict | None]:
    """Return the value that a function returned, and its verdict if it is None or a word.

    Raises:
        Refused: if the value is awaitable. A coroutine is closed, so that Python does not warn.
    """
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise Refused(_COROUTINE)
    value = _python_value(answer)
    if value is None:
        return value, Verdict("skip", comment="the function returned None")
    if isinstance(value, str) and value in words:
        return value, Verdict(words[value])
    return value, None
