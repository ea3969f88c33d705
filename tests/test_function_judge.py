"""Functions as judges: what their values mean, and how a function of `*items` is recognised."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest

import sortnet
from sortnet.judges.function import verdict_on_set
from sortnet.judges.verdicts import Refused


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        *((0, "left"), (1, "right"), ((0, 1), "left"), ((1, 0), "right"), ((0,), "left")),
        *(("left", "left"), ("right", "right"), ("tie", "tie"), ("same", "tie"), (None, "skip")),
        (np.array(1), "right"),
    ],
)
def test_answers_by_place_about_two_items(value, answer):
    verdict = verdict_on_set(value, 2)
    assert (verdict.answer, verdict.p, verdict.best) == (answer, None, None)


@pytest.mark.parametrize("value", [True, np.True_, 2, -1, (0, 0), 0.9, 1.0, "up", [0, 1]])
def test_what_is_no_place_of_two_items_is_refused(value):
    with pytest.raises(Refused, match="of 2 items it may return the number of the best, 0 to 1"):
        verdict_on_set(value, 2)


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
        worker.ask([{"left": items[0], "right": items[1]}])
