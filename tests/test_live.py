from __future__ import annotations

from math import ceil, log2

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sortnet.errors import ComparatorError, DataError
from sortnet.sorting import live
from sortnet.sorting.live import LiveRanking


def minus(a: float, b: float) -> float:
    return a - b


def stone_scissors_paper(a: float, b: float) -> float:
    return ((a - b + 1) % 3) - 1


def place_by_hand(prefer, documents: list[float], new: float) -> int:
    """Bisection in a plain list: the place of `new` and nothing else."""
    low, high = 0, len(documents)
    while low < high:
        middle = (low + high) // 2
        if prefer(new, documents[middle]) > 0:
            high = middle
        else:
            low = middle + 1
    return low


class AgainstAPlainList(RuleBasedStateMachine):
    @initialize(
        prefer=st.sampled_from([minus, stone_scissors_paper, lambda a, b: 0.0]),
        first=st.lists(st.integers(0, 9), max_size=5),
    )
    def begin(self, prefer, first):
        self.prefer = prefer
        self.plain = [(-k - 1, float(value)) for k, value in enumerate(first)]
        self.ranking = LiveRanking(prefer, self.plain)
        self.next = 0

    @rule(value=st.integers(0, 9))
    def insert(self, value):
        documents = [document for _, document in self.plain]
        place = place_by_hand(self.prefer, documents, float(value))
        before, n = self.ranking.comparisons, len(self.plain)
        assert self.ranking.insert(self.next, float(value)) == place + 1
        assert self.ranking.comparisons - before <= ceil(log2(n + 1))
        self.plain.insert(place, (self.next, float(value)))
        self.next += 1

    @precondition(lambda self: self.plain)
    @rule(data=st.data())
    def remove(self, data):
        place = data.draw(st.integers(0, len(self.plain) - 1))
        name, document = self.plain.pop(place)
        assert self.ranking.remove(name) == document
        assert name not in self.ranking

    @rule(a=st.integers(-12, 12), b=st.integers(-12, 12), step=st.sampled_from([1, 2, -1]))
    def take_a_slice(self, a, b, step):
        assert self.ranking[a:b:step] == [name for name, _ in self.plain[a:b:step]]

    @invariant()
    def the_same_documents_in_the_same_places(self):
        names = [name for name, _ in self.plain]
        assert list(self.ranking) == names and len(self.ranking) == len(names)
        assert [self.ranking.rank(name) for name in names] == list(range(1, len(names) + 1))
        assert all(name in self.ranking for name in names)


class WithLittleRoom(AgainstAPlainList):
    """The same with labels that run out at every other insertion."""

    def __init__(self):
        super().__init__()
        self._gap, live._GAP = live._GAP, 2

    def teardown(self):
        live._GAP = self._gap


TestAgainstAPlainList = AgainstAPlainList.TestCase
TestWithLittleRoom = WithLittleRoom.TestCase
TestAgainstAPlainList.settings = TestWithLittleRoom.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None
)


def test_a_failing_comparator_leaves_the_ranking_as_it_was():
    def moody(a: float, b: float) -> float:
        if a == 13:
            raise RuntimeError("no")
        return a - b

    ranking = LiveRanking(moody, [("a", 2.0), ("b", 1.0)])
    with pytest.raises(ComparatorError, match="over document 'b' is not a number"):
        ranking.insert("c", float("nan"))
    with pytest.raises(RuntimeError):
        ranking.insert("c", 13.0)
    assert list(ranking) == ["a", "b"] and ranking.insert("c", 1.5) == 2


def test_names_that_are_there_twice_or_not_at_all_are_refused():
    ranking = LiveRanking(minus, [("a", 2.0)])
    with pytest.raises(DataError, match="'a' is ranked already"):
        ranking.insert("a", 1.0)
    with pytest.raises(DataError, match="'z' is not ranked"):
        ranking.rank("z")
    with pytest.raises(DataError, match="'z' is not ranked"):
        ranking.remove("z")
    with pytest.raises(DataError, match="'a' is ranked already"):
        LiveRanking(minus, [("a", 2.0), ("a", 1.0)])
    assert ranking.comparisons == 0 and repr(ranking) == "LiveRanking(1 documents, 0 comparisons)"
