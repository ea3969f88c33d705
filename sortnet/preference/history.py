"""The event log of a session and the counts derived from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from sortnet.errors import JudgementError
from sortnet.preference.base import HOLDOUT, TARGETS, Judgement, Pair, check_undo
from sortnet.preference.posterior import Votes
from sortnet.types import I64, Bool

Rows: TypeAlias = NDArray[np.void]
_NEVER = 1 << 62


# An answer that says something of the order; `told` and `undone` count events.
_VOTE = np.dtype(
    [
        *(("left", "i8"), ("right", "i8"), ("target", "f8"), ("person", "i8")),
        *(("holdout", "?"), ("told", "i8"), ("undone", "i8")),
    ]
)


class History:
    """The events of a session; everything in it is a fold over them.

    Attributes:
        events: all of them, undos too.
        people: annotators, numbered as they came.
        seen: (n,) answers each item has had that were not undone.
        seen_usable: (n,) the same without the hold-out.
        n_votes: how many answers stand.
    """

    def __init__(self, n_items: int) -> None:
        self.n_items = n_items
        self.events: list[Judgement] = []
        self.people: dict[str, int] = {}
        self.seen: I64 = np.zeros(n_items, np.int64)
        self.seen_usable: I64 = np.zeros(n_items, np.int64)
        self.n_votes = 0
        self._votes = np.empty(256, _VOTE)  # rows are added in place; the first `_rows` are in use
        self._rows = 0
        self._row_of: dict[int, int] = {}  # by the number of the judgement
        self._live: dict[int, Judgement] = {}  # not undone, by number
        self._of: dict[str, _Person] = {}
        self._holdout: dict[Pair, int] = {}  # how many answers the hold-out's pairs have
        self._part: I64 | None = np.arange(n_items)  # None after an undo: to be found again

    def tell(self, event: Judgement) -> None:
        """Take an event in.

        Raises:
            JudgementError: on an item that is not there, an undo of what is not there.
        """
        self._check(event)
        if not event.number:
            event = replace(event, number=self._next_number())
        self.events.append(event)
        if event.answer == "undo":
            assert event.undoes is not None
            self._take_back(event.undoes)
        else:
            self._add(event)

    def last(self, annotator: str) -> Judgement | None:
        """The annotator's last judgement that was not undone."""
        numbers = self._person(annotator).numbers
        return self._live[next(reversed(numbers))] if numbers else None

    def answered(self, annotator: str) -> int:
        """How many of their judgements stand, skips too."""
        return len(self._person(annotator).numbers)

    def undone(self, annotator: str) -> Judgement | None:
        """The judgement undone last that was not made again."""
        return next(reversed(self._person(annotator).again.values()), None)

    def draw_once(
        self, annotator: str, rng: np.random.Generator, *, but_last: int
    ) -> tuple[Judgement, int] | None:
        """One of the answers they gave once, all but the last ones alike; of how many.

        Those of the hold-out are left out: a repeat is used to choose.
        """
        once = self._person(annotator).once
        many = len(once) - but_last
        if many <= 0:
            return None
        number = next(islice(once.values(), int(rng.integers(many)), None))
        return self._live[number], many

    def skipped(self, annotator: str) -> Iterator[Judgement]:
        """What they skipped and have not answered since, oldest first."""
        person = self._person(annotator)
        for number in person.numbers:
            judgement = self._live[number]
            if judgement.answer == "skip" and person.pairs[judgement.pair] == 1:
                yield judgement

    def pairs_of(self, annotator: str) -> dict[Pair, int]:
        """How often they were asked about each pair."""
        return self._person(annotator).pairs

    def n_asked(self) -> int:
        """How many pairs everybody was asked about, added up."""
        return sum(len(person.pairs) for person in self._of.values())

    def holdout_pairs(self, annotator: str) -> list[Pair]:
        """Pairs of the hold-out that they were not asked about, at most a hundred."""
        pairs = self._person(annotator).pairs
        return list(islice((pair for pair in self._holdout if pair not in pairs), 100))

    def alive(self) -> Iterator[Judgement]:
        """What was not undone, in its order."""
        return iter(self._live.values())

    def votes_after(self, upto: int, *, holdout: bool = True) -> Votes:
        """The votes of the events after the first `upto` that still stand, oldest first."""
        votes = self._votes[: self._rows]
        votes = votes[np.searchsorted(votes["told"], upto, side="right") :]
        return _as_votes(votes[_standing(votes, len(self.events), holdout)])

    def votes(self, upto: int, *, holdout: bool = True) -> Votes:
        """The votes that stood after the first `upto` events, with the hold-out or without.

        Cost: a copy of them.
        """
        votes = self._votes[: self._rows]
        votes = votes[: np.searchsorted(votes["told"], upto, side="right")]
        return _as_votes(votes[_standing(votes, upto, holdout)])

    def holdout_votes(self) -> Votes:
        """The hold-out's votes that stand, ties left out."""
        votes = self._votes[: self._rows]
        decided = votes["holdout"] & (votes["target"] != 0.5)
        return _as_votes(votes[decided & _standing(votes, len(self.events), holdout=True)])

    def components(self) -> I64:
        """(n,) the part of the graph of answers, hold-out left out, that an item is in."""
        if self._part is None:
            votes = self.votes(len(self.events), holdout=False)
            edges = np.ones(len(votes)), (votes.left, votes.right)
            graph = sparse.coo_array(edges, shape=(self.n_items, self.n_items))
            self._part = connected_components(graph, directed=False)[1].astype(np.int64)
        return self._part

    def _check(self, event: Judgement) -> None:
        for item in event.pair:
            if not 0 <= item < self.n_items:
                raise JudgementError(f"there is no item {item} among {self.n_items}")
        if event.answer == "undo":
            check_undo(event, self._live.get(event.undoes or 0))

    def _next_number(self) -> int:
        return self.events[-1].number + 1 if self.events else 1

    def _person(self, annotator: str) -> _Person:
        return self._of.get(annotator) or _Person()

    def _add(self, event: Judgement) -> None:
        person = self._of.setdefault(event.annotator, _Person())
        self.people.setdefault(event.annotator, len(self.people))
        self._live[event.number] = event
        person.numbers[event.number] = None
        person.pairs[event.pair] = person.pairs.get(event.pair, 0) + 1
        person.again.pop(event.pair, None)
        target = TARGETS.get(event.answer)
        if target is None:
            return
        holdout = event.strategy == HOLDOUT
        who = self.people[event.annotator]
        row = event.left, event.right, target, who, holdout, len(self.events), _NEVER
        self._row_of[event.number] = self._add_row(row)
        self._count(event, 1)
        if holdout:
            self._holdout[event.pair] = self._holdout.get(event.pair, 0) + 1
            return
        self._join(*event.pair)
        if person.pairs[event.pair] == 1:
            person.once[event.pair] = event.number
        else:
            person.once.pop(event.pair, None)

    def _take_back(self, number: int) -> None:
        judgement = self._live.pop(number)
        person = self._of[judgement.annotator]
        del person.numbers[number]
        person.pairs[judgement.pair] -= 1
        if not person.pairs[judgement.pair]:
            del person.pairs[judgement.pair]
        person.once.pop(judgement.pair, None)
        person.again[judgement.pair] = judgement
        row = self._row_of.pop(number, None)
        if row is None:
            return
        self._votes["undone"][row] = len(self.events)
        self._count(judgement, -1)
        if self._votes["holdout"][row]:
            self._holdout[judgement.pair] -= 1
            if not self._holdout[judgement.pair]:
                del self._holdout[judgement.pair]
        else:
            self._part = None

    def _count(self, judgement: Judgement, by: int) -> None:
        items = list(judgement.pair)
        self.seen[items] += by
        if judgement.strategy != HOLDOUT:
            self.seen_usable[items] += by
        self.n_votes += by

    def _add_row(self, row: tuple[float, ...]) -> int:
        if self._rows == len(self._votes):
            self._votes = np.concatenate((self._votes, np.empty_like(self._votes)))
        self._votes[self._rows] = row
        self._rows += 1
        return self._rows - 1

    def _join(self, i: int, j: int) -> None:
        if self._part is None:
            return
        a, b = self._part[i], self._part[j]
        if a != b:
            # A new array: who was given the old one may still be looking at it.
            self._part = np.where(self._part == b, a, self._part)


class _Person:
    """What one annotator has said."""

    def __init__(self) -> None:
        self.numbers: dict[int, None] = {}  # of their judgements, oldest first
        self.pairs: dict[Pair, int] = {}  # how often they were asked about each
        self.once: dict[Pair, int] = {}  # pairs answered once that may be asked again: the number
        self.again: dict[Pair, Judgement] = {}  # undone, not made again


def _standing(votes: Rows, upto: int, holdout: bool) -> Bool:
    standing: Bool = votes["undone"] > upto
    return standing if holdout else standing & ~votes["holdout"]


def _as_votes(rows: Rows) -> Votes:
    columns = (rows[name].copy() for name in ("left", "right", "target", "person"))
    return Votes(*columns)
