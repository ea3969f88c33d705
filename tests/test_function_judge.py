"""Functions as judges: what their values mean, and how a function of `*items` is recognised."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest

import sortnet
from sortnet.judges.function import verdict_of_value
from sortnet.judges.verdicts import Refused


def wrapped(function: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(function)
    def wrapper(*items: str) -> object:
        return function(*items)

    return wrapper


class OfItems:
    def __call__(self, *items: str) -> int:
        return 1

    def of_two(self, left: str, right: str, memory: tuple[str, ...] = ()) -> float:
        return 0.9


@pytest.mark.parametrize(
    ("function", "answer"),
    [
        (lambda left, right, cache=None, *, sure=1.0: sure, "left"),
        (functools.partial(lambda p, left, right: p, 0.9), "left"),
        (wrapped(lambda left, right: 0.9), "left"),
        (OfItems().of_two, "left"),
        (lambda *items: 1, "right"),
        (lambda first, *rest: 1, "right"),
        (functools.partial(lambda place, *items: place, 1), "right"),
        (OfItems(), "right"),
    ],
)
def test_the_signature_tells_whether_a_function_is_of_two_or_of_items(function, answer):
    connection = sortnet.Function(function).connect(originals={"a": "a", "b": "b"})
    (worker,) = connection.make_workers()
    (verdict,) = worker.ask([{"left": {"id": "a"}, "right": {"id": "b"}}])
    assert verdict.answer == answer
    assert bool(connection.why_not_about(4)) == (answer == "left")


@pytest.mark.parametrize("function", [lambda a, b, c=None, d=None: 1, max])
def test_only_items_with_a_star_make_a_number_about_two_items_a_place(function):
    connection = sortnet.Function(function).connect(originals={"a": 0, "b": 1, "c": 0, "d": 0})
    (worker,) = connection.make_workers()
    items = [{"id": id} for id in "abcd"]
    (verdict,) = worker.ask([{"items": items, "worst": False}])
    assert verdict.best == 1 and not connection.why_not_about(4)
    with pytest.raises(Refused, match="a function of two items returns"):
        list(worker.ask([{"left": items[0], "right": items[1]}]))


NAN = float("nan")


# {a function of two items, or items of a function of *items: (what it returns, what that means)}
RETURNED = {
    "two": [
        *((word, word.strip().lower()) for word in ("left", " Right\n", "TIE", "skip")),
        *((value, "skip") for value in (None, NAN, np.float32("nan"))),
        *((0.25, "right 0.25"), (np.float64(0.75), "left 0.75"), (1.0, "left 1.0")),
        *((np.array(0.75), "left 0.75"), (np.array("tie"), "tie"), (0.5, "tie 0.5")),
        *((value, None) for value in (True, np.False_, np.array(True), 1, 0, np.int64(1))),
        *((value, None) for value in ("up", "undo", "", 1.01, -0.1, 1j, b"left", [], (0, 1))),
    ],
    2: [
        *((0, "left"), (1, "right"), ((0, 1), "left"), ((1, 0), "right"), ((0,), "left")),
        *(
            ("left", "left"),
            ("tie", "tie"),
            ("same", "tie"),
            (None, "skip"),
            (np.array(1), "right"),
        ),
        *((value, None) for value in (True, np.True_, 2, -1, (0, 0), 0.9, 1.0, "up", [0, 1])),
    ],
    4: [
        *((np.int64(3), "best 3 None"), ((3, 0), "best 3 0"), ((2,), "best 2 None")),
        *(("same", "same"), ("skip", "skip"), (None, "skip")),
        *((value, None) for value in (True, 4, -1, (0, 0), (0, 4), (0, 1, 2), (), [0, 1], "left")),
    ],
}


@pytest.mark.parametrize(
    ("kind", "value", "meaning"),
    [(kind, *case) for kind, cases in RETURNED.items() for case in cases],
)
def test_what_a_function_returns_is_an_answer_or_is_refused(kind, value, meaning):
    def verdict():
        if kind == "two":
            return verdict_of_value(value)
        return verdict_of_value(value, kind, by_place=True)

    if meaning is None:
        with pytest.raises(Refused, match=r"^the judge returned .* about \d items: a function of"):
            verdict()
        return
    found = verdict()
    facts = [found.answer] if found.p is None else [found.answer, found.p]
    if found.best is not None:
        facts += [found.best, found.worst]
    assert " ".join(map(str, facts)) == meaning
