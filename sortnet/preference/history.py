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
from sortnet.preference.vote_arrays import Votes
from sortnet.types import I64

Rows: TypeAlias = NDArray[np.void]
_NEVER = 1 << 62
_FEW_JOINS = 64  # of components, one by one; more of them take one pass over the answers


# A vote; `added` and `undone` are numbers of events.
_VOTE = np.dtype(
    [
        *(("left", "i8"), ("right", "i8"), ("target", "f8"), ("annotator", "i8")),
        *(("holdout", "?"), ("added", "i8"), ("undone", "i8")),
    ]
)


class History:
    """The events of a session, and counts that are updated with each event.

    Attributes:
        events: all of them, including undos.
        annotators: {name: number}, in order of appearance.
        seen: (n,) number of answers about each item that are not undone.
        seen_usable: (n,) as `seen`, without the hold-out.
        n_votes: number of votes that are not undone.
    """

    def __init__(self, n_items: int) -> None:
        self.n_items = n_items
        self.events: list[Judgement] = []
        self.annotators: dict[str, int] = {}
        self.seen: I64 = np.zeros(n_items, np.int64)
        self.seen_usable: I64 = np.zeros(n_items, np.int64)
        self.n_votes = 0
        self._votes = np.empty(256, _VOTE)  # rows are added in place; the first `_rows` are in use
        self._rows = 0
        self._row_of: dict[int, int] = {}  # by the number of the judgement
        self._live: dict[int, Judgement] = {}  # not undone, by number
        self._logs: dict[str, _AnnotatorLog] = {}
        self._holdout: dict[Pair, int] = {}  # number of answers to each pair of the hold-out
        self._part: I64 | None = np.arange(n_items)  # None after an undo: to be recomputed
        self._late: list[Pair] = []  # pairs that are not joined in it yet

    def add(self, event: Judgement) -> None:
        """Add an event.

        Raises:
            JudgementError: on an unknown item, or an undo of an unknown judgement.
        """
        self._check(event)
        if not event.number:
            event = replace(event, number=self.events[-1].number + 1 if self.events else 1)
        self.events.append(event)
        if event.answer == "undo":
            assert event.undoes is not None
            self._take_back(event.undoes)
        else:
            self._add(event)

    def last(self, annotator: str) -> Judgement | None:
        """The annotator's last judgement that is not undone."""
        numbers = self._log_of(annotator).numbers
        return self._live[next(reversed(numbers))] if numbers else None

    def answered(self, annotator: str) -> int:
        """The number of their votes that are not undone: a skip or "can't say" is none."""
        return self._log_of(annotator).votes

    def undone(self, annotator: str) -> Judgement | None:
        """The last undone judgement that they have not answered again."""
        return next(reversed(self._log_of(annotator).again.values()), None)

    def draw_once(
        self, annotator: str, rng: np.random.Generator, *, but_last: int
    ) -> tuple[Judgement, int] | None:
        """Draw one of the pairs they answered once, except the `but_last` last; and their number.

        Pairs of the hold-out are left out, as repeats are used to choose.
        """
        once = self._log_of(annotator).once
        many = len(once) - but_last
        if many <= 0:
            return None
        number = next(islice(once.values(), int(rng.integers(many)), None))
        return self._live[number], many

    def skipped(self, annotator: str) -> Iterator[Judgement]:
        """The pairs they skipped and have not answered since, oldest first."""
        log = self._log_of(annotator)
        for number in log.numbers:
            judgement = self._live[number]
            if judgement.answer == "skip" and log.pairs[judgement.pair] == 1:
                yield judgement

    def pairs_of(self, annotator: str) -> dict[Pair, int]:
        """How often they answered each pair."""
        return self._log_of(annotator).pairs

    def n_asked(self) -> int:
        """The number of pairs answered, summed over annotators."""
        return sum(len(log.pairs) for log in self._logs.values())

    def holdout_pairs(self, annotator: str) -> list[Pair]:
        """Pairs of the hold-out that they have not answered, at most a hundred."""
        pairs = self._log_of(annotator).pairs
        return list(islice((pair for pair in self._holdout if pair not in pairs), 100))

    def alive(self) -> Iterator[Judgement]:
        """The judgements that are not undone, in order."""
        return iter(self._live.values())

    def votes(self, upto: int, *, after: int = 0, holdout: bool = True) -> Votes:
        """The votes not undone after the first `upto` events, oldest first.

        Without the hold-out or with it, and without those of the first `after` events.

        Cost: a copy of the votes.
        """
        added = self._votes["added"][: self._rows]
        votes = self._votes[slice(*np.searchsorted(added, (after, upto), side="right"))]
        return _as_votes(votes[(votes["undone"] > upto) & (holdout | ~votes["holdout"])])

    def decided(self, *, holdout: bool) -> Votes:
        """The votes of the hold-out, or all, that are not undone, without ties."""
        votes = self._votes[: self._rows]
        decided = (votes["holdout"] | (not holdout)) & (votes["target"] != 0.5)
        return _as_votes(votes[decided & (votes["undone"] > len(self.events))])

    def answered_by_few(self, people: int) -> list[Pair]:
        """The pairs that at least one but fewer people answered, oldest first.

        Without pairs of the hold-out.

        Cost: a sort of the votes.
        """
        votes = self._votes[: self._rows]
        votes = votes[(votes["undone"] > len(self.events)) & ~votes["holdout"]]
        low, high = (pick(votes["left"], votes["right"]) for pick in (np.minimum, np.maximum))
        pair = low * self.n_items + high
        each = np.unique(np.stack((pair, votes["annotator"])), axis=1)[0]
        few = [p for p, n in zip(*np.unique(each, return_counts=True), strict=True) if n < people]
        oldest = pair[np.sort(np.unique(pair, return_index=True)[1])]
        found = (divmod(p, self.n_items) for p in oldest[np.isin(oldest, few)].tolist())
        return [pair for pair in found if pair not in self._holdout]

    def components(self) -> I64:
        """(n,) each item's connected component in the graph of answers without the hold-out.

        Cost: a look at n numbers for each answer since the last call, or, after an undo or more
        answers than a few, a pass over all answers.
        """
        if self._part is None or len(self._late) > _FEW_JOINS:
            self._part = self._components(self.votes(len(self.events), holdout=False))
        else:
            for pair in self._late:
                self._part = _joined(self._part, *pair)
        self._late = []
        return self._part

    def all_components(self) -> I64:
        """(n,) each item's connected component in the graph of all answers."""
        return self._components(self.votes(len(self.events)))

    def _components(self, votes: Votes) -> I64:
        edges = np.ones(len(votes)), (votes.left, votes.right)
        graph = sparse.coo_array(edges, shape=(self.n_items, self.n_items))
        parts: I64 = connected_components(graph, directed=False)[1].astype(np.int64)
        return parts

    def _check(self, event: Judgement) -> None:
        for item in event.pair:
            if not 0 <= item < self.n_items:
                raise JudgementError(f"there is no item {item} among {self.n_items}")
        if event.answer == "undo":
            check_undo(event, self._live.get(event.undoes or 0))

    def _log_of(self, annotator: str) -> _AnnotatorLog:
        return self._logs.get(annotator) or _AnnotatorLog()

    def _add(self, event: Judgement) -> None:
        log = self._logs.setdefault(event.annotator, _AnnotatorLog())
        self.annotators.setdefault(event.annotator, len(self.annotators))
        self._live[event.number] = event
        log.numbers[event.number] = None
        log.pairs[event.pair] = log.pairs.get(event.pair, 0) + 1
        log.again.pop(event.pair, None)
        target = TARGETS.get(event.answer)
        if target is None:
            return
        holdout = event.strategy == HOLDOUT
        annotator = self.annotators[event.annotator]
        row = event.left, event.right, target, annotator, holdout, len(self.events), _NEVER
        self._row_of[event.number] = self._add_row(row)
        self._count(event, 1)
        log.votes += 1
        if holdout:
            self._holdout[event.pair] = self._holdout.get(event.pair, 0) + 1
            return
        if len(self._late) <= _FEW_JOINS:
            self._late.append(event.pair)
        if log.pairs[event.pair] == 1:
            log.once[event.pair] = event.number
        else:
            log.once.pop(event.pair, None)

    def _take_back(self, number: int) -> None:
        judgement = self._live.pop(number)
        log = self._logs[judgement.annotator]
        del log.numbers[number]
        log.pairs[judgement.pair] -= 1
        if not log.pairs[judgement.pair]:
            del log.pairs[judgement.pair]
        log.once.pop(judgement.pair, None)
        log.again[judgement.pair] = judgement
        row = self._row_of.pop(number, None)
        if row is None:
            return
        self._votes["undone"][row] = len(self.events)
        self._count(judgement, -1)
        log.votes -= 1
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


class _AnnotatorLog:
    """The judgements of one annotator."""

    def __init__(self) -> None:
        self.votes = 0
        self.numbers: dict[int, None] = {}  # of their judgements, oldest first
        self.pairs: dict[Pair, int] = {}  # how often they answered each
        self.once: dict[Pair, int] = {}  # number of the judgement, of pairs answered once
        self.again: dict[Pair, Judgement] = {}  # undone, not answered again


def _joined(part: I64, i: int, j: int) -> I64:
    """The components after an answer; a new array: a caller may still use the old one."""
    a, b = part[i], part[j]
    return part if a == b else np.where(part == b, a, part)


def _as_votes(rows: Rows) -> Votes:
    columns = (rows[name].copy() for name in ("left", "right", "target", "annotator"))
    return Votes(*columns)
