"""The event log of a session and the counts derived from it."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import islice

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.special import ndtri

from sortnet.core import I64, Bool
from sortnet.core.pairs import pair_of, unordered
from sortnet.errors import JudgementError
from sortnet.preference.base import (
    ANSWERS,
    HOLDOUT,
    Judgement,
    Pair,
    Probabilities,
    check_undo,
)
from sortnet.preference.judgement_table import (
    ABOUT_ORDER,
    TARGET,
    UNDO,
    Judgements,
    SharedVotes,
)
from sortnet.preference.likelihood import MOST_PROBIT
from sortnet.preference.vote_arrays import Votes

_FEW_JOINS = 64  # of components, one by one; more of them take one pass over the answers
_LAST = 20  # answers of an annotator that say whether probabilities are given
_SKIP = ANSWERS.index("skip")


class History:
    """The events of a session, and counts that are updated with each event.

    Args:
        n_items: number of items.
        probabilities: what the probabilities of an annotator are; of whom is not in it, shares.

    Attributes:
        events: all of them, including undos.
        seen: (n,) number of answers about each item that are not undone.
        seen_usable: (n,) as `seen`, without the hold-out.
        n_votes: number of votes that are not undone.
    """

    def __init__(
        self, n_items: int, probabilities: Mapping[str, Probabilities] | None = None
    ) -> None:
        self.n_items = n_items
        self._probabilities = probabilities or {}
        self.events = Judgements()
        self.seen: I64 = np.zeros(n_items, np.int64)
        self.seen_usable: I64 = np.zeros(n_items, np.int64)
        self.n_votes = 0
        self._answered: I64 = np.zeros(0, np.int64)  # votes by annotator, without those undone
        self._logs: dict[str, _AnnotatorLog] = {}  # of those that were asked for
        self._holdout: dict[int, int] | None = None  # answers to each pair; None: not counted yet
        self._part: I64 | None = np.arange(n_items)  # None after an undo: to be recomputed
        self._late: list[Pair] = []  # pairs that are not joined in it yet

    @property
    def annotators(self) -> dict[str, int]:
        """{name: number}, in order of appearance."""
        return self.events.annotators

    def add(self, new: Judgements) -> None:
        """Add events, all or none; about 1 us each of many.

        Raises:
            JudgementError: on an unknown item, or an undo of an unknown judgement.
        """
        self._check_items(new)
        start = len(self.events)
        self.events.extend(new)
        undone = self._checked_undos(start)
        rows = np.arange(start, len(self.events))
        late = self._count(rows, 1)[: max(_FEW_JOINS + 1 - len(self._late), 0)]
        self._late += map(pair_of, self._pairs_of(late)[1].tolist())
        if len(undone) and len(self._count(undone, -1)):
            self._part = None
        for name in self._logs.keys() & new.annotators.keys():
            self._follow(self._logs[name], rows[new.by(name)])
        if self._holdout is not None:
            self._count_holdout(self._holdout, rows)

    def last(self, annotator: str) -> Judgement | None:
        """The annotator's last judgement that is not undone."""
        rows, undone = self._log_of(annotator).rows, self.events.undone
        while rows and undone[rows[-1]] <= len(undone):
            rows.pop()
        return self.events[rows[-1]] if rows else None

    def answered(self, annotator: str) -> int:
        """The number of their votes that are not undone: a skip or "can't say" is none."""
        number = self.annotators.get(annotator)
        return 0 if number is None else int(self._answered[number])

    def gives_measurements(self, annotator: str) -> bool:
        """Whether the next answer is expected to be a measurement, as one of their last ones is."""
        if self._probabilities.get(annotator) != "measurement":
            return False
        rows = np.array(self._log_of(annotator).rows[-_LAST:], np.int64)
        return not len(rows) or not bool(np.isnan(self.events.p[rows]).all())

    def undone(self, annotator: str) -> Judgement | None:
        """The last undone judgement that they have not answered again."""
        row = next(reversed(self._log_of(annotator).again.values()), None)
        return None if row is None else self.events[row]

    def draw_once(
        self, annotator: str, rng: np.random.Generator, *, but_last: int
    ) -> tuple[Judgement, int] | None:
        """Draw one of the questions they answered once but the `but_last` last; and their number.

        Questions of the hold-out are left out, as repeats are used to choose.
        """
        once = self._log_of(annotator).once
        many = len(once) - but_last
        if many <= 0:
            return None
        row = next(islice(once.values(), int(rng.integers(many)), None))
        return self.events[row], many

    def skipped(self, annotator: str) -> Iterator[Judgement]:
        """The questions they skipped and have not answered since, oldest first."""
        log = self._log_of(annotator)
        rows = np.array(log.rows, np.int64)
        rows = rows[(self.events.answer[rows] == _SKIP) & self.events.live[rows]]
        for row, keys in zip(rows.tolist(), self._pair_lists(rows), strict=True):
            if all(log.pairs[key] == 1 for key in keys):
                yield self.events[row]

    def pairs_of(self, annotator: str) -> dict[int, int]:
        """How often they answered each pair, which is packed with the lower number first."""
        return self._log_of(annotator).pairs

    def n_asked(self) -> int:
        """The number of pairs answered, summed over annotators, by a sort of the judgements."""
        rows = np.flatnonzero(self.events.live & (self.events.answer != UNDO))
        at, keys = self._pairs_of(rows, compared=True)
        annotator = self.events.annotator[rows[at]]
        order = np.lexsort((annotator, keys))
        is_first = (np.diff(keys[order], prepend=-1) != 0) | (
            np.diff(annotator[order], prepend=-1) != 0
        )
        return int(is_first.sum())

    def holdout_pairs(self, annotator: str) -> list[Pair]:
        """Pairs of the hold-out that they have not answered, at most a hundred."""
        pairs = self._log_of(annotator).pairs
        free = (key for key in self._holdout_counted() if key not in pairs)
        return [pair_of(key) for key in islice(free, 100)]

    def alive(self) -> Iterator[Judgement]:
        """The judgements that are not undone, in order."""
        return iter(self.events.where(self.events.live & (self.events.answer != UNDO)))

    def votes(self, upto: int, *, after: int = 0, holdout: bool = True) -> Votes:
        """The votes not undone of the first `upto` events but the first `after`, oldest first."""
        rows = np.arange(after, upto)
        votes = self._is_vote(rows) if holdout else self._usable(rows)
        return self._votes(rows[votes & (self.events.undone[after:upto] > upto)])

    def soft_votes(self) -> Votes:
        """All votes not undone; a measurement is a soft target, as a share of votes is."""
        return self._votes(np.flatnonzero(self.events.is_answer), soft=True)

    def decided(self, *, holdout: bool) -> Votes:
        """The votes of the hold-out, or all, that are not undone, without ties."""
        rows = np.flatnonzero(self.events.is_vote)
        rows = rows[TARGET[self.events.answer[rows]] != 0.5]
        return self._votes(rows[~self._usable(rows)] if holdout else rows)

    def not_by(self, annotators: Collection[str], upto: int) -> I64:
        """The rows of others' events among the first `upto`."""
        numbers = [self.annotators.get(name, -1) for name in annotators]
        return np.flatnonzero(~np.isin(self.events.annotator[:upto], numbers))

    def answered_by_few(self, people: int) -> list[tuple[int, ...]]:
        """The items of questions outside the hold-out that at least one but fewer people answered.

        The oldest first; the items of each ascend. Cost: a sort of the answers.
        """
        rows = np.flatnonzero(self.events.is_vote)
        votes = SharedVotes.of(self.events, rows[self._usable(rows)])
        few = np.flatnonzero(np.bincount(votes.pair[votes.first]) < people)
        oldest = votes.oldest()[few]
        keys, holdout = self._keys(votes.rows[votes.starts[few]]).tolist(), self._holdout_counted()
        by_age: list[tuple[int, tuple[int, ...]]] = [
            (row, pair_of(key))
            for row, key in zip(oldest.tolist(), keys, strict=True)
            if key not in holdout
        ]
        by_age += self._sets_answered_by_few(people)
        return [items for _, items in sorted(by_age)]

    def _sets_answered_by_few(self, people: int) -> list[tuple[int, tuple[int, ...]]]:
        """The row of the first answer to each such set, and its items."""
        rows = np.flatnonzero(self.events.is_answer & self.events.is_set)
        if not len(rows):
            return []
        items = np.sort(self.events.items(rows), axis=1)
        sets, first, of_set = np.unique(items, axis=0, return_index=True, return_inverse=True)
        annotated = np.column_stack((of_set.ravel(), self.events.annotator[rows]))
        n_people = np.bincount(np.unique(annotated, axis=0)[:, 0])
        few = np.flatnonzero(n_people < people)
        asked = (tuple(item for item in row if item >= 0) for row in sets[few].tolist())
        return [*zip(rows[first[few]].tolist(), asked, strict=True)]

    def components(self) -> I64:
        """(n,) each item's connected component in the graph of answers without the hold-out.

        Cost: a look at n numbers for each answer since the last call; after an undo, or many
        answers, a pass over all.
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

    def _check_items(self, new: Judgements) -> None:
        low, high = new.pairs()
        further = new.further[new.further >= self.n_items]
        for item in (*low[low < 0], *high[high >= self.n_items], *further):
            raise JudgementError(f"there is no item {item} among {self.n_items}")

    def _checked_undos(self, start: int) -> I64:
        """The rows that the events from that one on undo; none of these is kept on an error."""
        events = self.events
        undos = start + np.flatnonzero(events.answer[start:] == UNDO)
        if not len(undos):
            return undos
        rows = events.places(events.undoes[undos])
        there = (rows >= 0) & (rows < undos) & (events.answer[rows] != UNDO)
        there &= events.undone[rows] == undos + 1
        sound = there & (events.annotator[rows] == events.annotator[undos])
        if not sound.all():
            k = int(sound.argmin())
            undo, earlier = events[int(undos[k])], events[int(rows[k])] if there[k] else None
            events.cut(start)
            check_undo(undo, earlier)
        return rows

    def _count(self, rows: I64, by: int) -> I64:
        """Count votes, or take them back; returns those outside the hold-out."""
        if len(self.annotators) > len(self._answered):
            more = np.zeros(len(self.annotators), np.int64)
            self._answered = np.append(self._answered, more)
        votes = rows[self._is_vote(rows)]
        usable = votes[self._usable(votes)]
        self.n_votes += by * len(votes)
        np.add.at(self._answered, self.events.annotator[votes], by)
        for side in (self.events.left, self.events.right):
            np.add.at(self.seen, side[votes], by)
            np.add.at(self.seen_usable, side[usable], by)
        for seen, counted in ((self.seen, votes), (self.seen_usable, usable)):
            further = self.events.further[counted]
            np.add.at(seen, further[further >= 0], by)
        return usable

    def _is_vote(self, rows: I64) -> Bool:
        """Whether these are answers about the order, undone or not."""
        return ABOUT_ORDER[self.events.answer[rows]]

    def _usable(self, rows: I64) -> Bool:
        """Whether these are votes outside the hold-out."""
        holdout = self.events.strategies.get(HOLDOUT, -1)
        usable: Bool = self._is_vote(rows) & (self.events.strategy[rows] != holdout)
        return usable

    def _keys(self, rows: I64) -> I64:
        """The pairs, packed with the lower number first."""
        left, right = self.events.left[rows], self.events.right[rows]
        return unordered(left, right)

    def _pairs_of(self, rows: I64, *, compared: bool = False) -> tuple[I64, I64]:
        """The pairs of the items of each row: the place of the row among these rows, and the pair.

        Args:
            compared: leave out pairs of items between the best and the worst, which are in question
                together, but which the answer does not compare.
        """
        is_set = self.events.is_set[rows]
        if not is_set.any():
            return np.arange(len(rows)), self._keys(rows)
        items = self.events.items(rows)
        first, second = np.triu_indices(items.shape[1], 1)
        is_pair = items[:, second] >= 0
        if compared:
            best, worst = self.events.best[rows][:, None], self.events.worst[rows][:, None]
            is_chosen = (items == best) | (items == worst)
            has_choice = best >= 0
            is_pair &= ~has_choice | is_chosen[:, first] | is_chosen[:, second]
        at = np.nonzero(is_pair)[0]
        return at, unordered(items[:, first][is_pair], items[:, second][is_pair])

    def _pair_lists(self, rows: I64, *, compared: bool = False) -> list[list[int]]:
        """The pairs of the items of each row, row by row; see `_pairs_of`."""
        at, keys = self._pairs_of(rows, compared=compared)
        ends = np.searchsorted(at, np.arange(1, len(rows)))
        return [part.tolist() for part in np.split(keys, ends)] if len(rows) else []

    def _votes(self, rows: I64, *, soft: bool = False) -> Votes:
        """The votes in these rows: of answers about pairs, then of those about sets.

        With `soft`, measurements are taken for shares.
        """
        is_set = self.events.is_set[rows]
        votes = self._votes_of_pairs(rows[~is_set], soft=soft)
        return votes.with_sets(self.events, rows[is_set]) if is_set.any() else votes

    def _votes_of_pairs(self, rows: I64, *, soft: bool) -> Votes:
        events = self.events
        annotator, share = events.annotator[rows], events.targets(rows)
        if not self._probabilities:
            return Votes(events.left[rows], events.right[rows], share, annotator)
        word = events.words(rows)
        kinds = np.array([self._probabilities.get(name) for name in events.annotators.order])
        by_word = np.isin(annotator, np.flatnonzero(kinds == "ignored"))
        measured = np.isin(annotator, np.flatnonzero(kinds == "measurement")) & (not soft)
        measured &= ~np.isnan(events.p[rows])
        target = np.where(by_word | measured, word, share)
        measured &= word != 0.5
        votes = Votes(events.left[rows], events.right[rows], target, annotator)
        if not measured.any():
            return votes
        with np.errstate(divide="ignore"):
            probit = np.clip(ndtri(events.p[rows]), -MOST_PROBIT, MOST_PROBIT)
        return replace(votes, probit=np.where(measured, probit, np.nan))

    def _about(self, rows: I64) -> tuple[I64, Bool]:
        """The rows themselves, or of undos those that they undo; and whether they are undos."""
        undo = self.events.answer[rows] == UNDO
        about = rows.copy()
        about[undo] = self.events.places(self.events.undoes[rows[undo]])
        return about, undo

    def _log_of(self, annotator: str) -> _AnnotatorLog:
        """What an annotator said so far; made by a pass over the events when it is asked for."""
        if annotator not in self.annotators:
            return _AnnotatorLog()
        if annotator not in self._logs:
            self._logs[annotator] = _AnnotatorLog()
            self._follow(self._logs[annotator], np.flatnonzero(self.events.by(annotator)))
        return self._logs[annotator]

    def _follow(self, log: _AnnotatorLog, rows: I64) -> None:
        """Tell a log its annotator's events."""
        about, undo = self._about(rows)
        columns = (about, undo, self._usable(about))
        questions = [tuple(sorted(pairs)) for pairs in self._pair_lists(about)]
        compared = self._pair_lists(about, compared=True)
        facts = zip(*(column.tolist() for column in columns), questions, compared, strict=True)
        for row, is_undone, is_usable, question, pairs in facts:
            if is_undone:
                log.take_back(row, question, pairs)
            else:
                log.add(row, question, pairs, is_usable)

    def _holdout_counted(self) -> dict[int, int]:
        """The number of answers to each pair of the hold-out that has any, oldest first."""
        if self._holdout is None:
            self._holdout = {}
            self._count_holdout(self._holdout, np.arange(len(self.events)))
        return self._holdout

    def _count_holdout(self, counts: dict[int, int], rows: I64) -> None:
        about, undo = self._about(rows)
        holdout = self._is_vote(about) & ~self._usable(about) & ~self.events.is_set[about]
        keys, undone = self._keys(about[holdout]).tolist(), undo[holdout].tolist()
        for key, taken_back in zip(keys, undone, strict=True):
            counts[key] = counts.get(key, 0) + (-1 if taken_back else 1)
            if not counts[key]:
                del counts[key]


class _AnnotatorLog:
    """The judgements of one annotator, by their rows; pairs are packed, the lower number first.

    A question is known by all pairs of its items. An answer counts for the pairs that it compares:
    two items between the best and the worst may still be asked about.
    """

    def __init__(self) -> None:
        self.rows = array("q")  # oldest first; some of them may be undone
        self.pairs: dict[int, int] = {}  # how often they answered each
        self.once: dict[tuple[int, ...], int] = {}  # the rows of questions answered once
        self.again: dict[tuple[int, ...], int] = {}  # of answers undone, not answered again

    def add(self, row: int, question: tuple[int, ...], pairs: list[int], usable: bool) -> None:
        self.rows.append(row)
        is_new = not any(pair in self.pairs for pair in pairs)
        for pair in pairs:
            self.pairs[pair] = self.pairs.get(pair, 0) + 1
        self.again.pop(question, None)
        if usable and is_new:
            self.once[question] = row
        elif usable:
            self.once.pop(question, None)

    def take_back(self, row: int, question: tuple[int, ...], pairs: list[int]) -> None:
        for pair in pairs:
            self.pairs[pair] -= 1
            if not self.pairs[pair]:
                del self.pairs[pair]
        self.once.pop(question, None)
        self.again[question] = row


def _joined(part: I64, i: int, j: int) -> I64:
    """The components after an answer; a new array: a caller may still use the old one."""
    a, b = part[i], part[j]
    return part if a == b else np.where(part == b, a, part)
