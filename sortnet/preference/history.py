"""The event log of a session and the counts derived from it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.special import ndtri

from sortnet.core import I64, Bool
from sortnet.core.pairs import pair_of, unordered
from sortnet.errors import JudgementError
from sortnet.preference.annotator_log import AnnotatorLog
from sortnet.preference.base import (
    ANSWERS,
    HOLDOUT,
    Judgement,
    Pair,
    Probabilities,
    check_undo,
)
from sortnet.preference.judgement_table import ABOUT_ORDER, TARGET, UNDO, Judgements
from sortnet.preference.likelihood import MOST_PROBIT
from sortnet.preference.shared_votes import SharedVotes
from sortnet.preference.vote_arrays import Votes

_FEW_JOINS = 64  # pairs that join components one by one; more pairs take a pass over all answers
_LAST = 20  # answers of an annotator by which the next one is expected to have a probability
_SKIP = ANSWERS.index("skip")


class History:
    """The events of a session, and counts that are updated with each event.

    A vote is an answer about the order of items: no skip, "can't say" or undo.

    Args:
        n_items: number of items.
        probabilities: what each annotator's probabilities are; shares, if the name is missing.

    Attributes:
        events: all events, including undos.
        seen: (n,) number of votes about each item that are not undone.
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
        self._answered: I64 = np.zeros(0, np.int64)  # each annotator's votes that are not undone
        self._logs: dict[str, AnnotatorLog] = {}  # by name, made when first used
        self._holdout: dict[int, int] | None = None  # {pair: votes}; None: not counted yet
        self._component: I64 | None = np.arange(n_items)  # None after an undo: to be recomputed
        self._unjoined: list[Pair] = []  # answered pairs that `_component` does not join yet

    @property
    def annotators(self) -> dict[str, int]:
        """{name: number}, in order of appearance."""
        return self.events.annotators

    def add(self, new: Judgements) -> None:
        """Add events, all or none; many at once take about 1 us each.

        Raises:
            JudgementError: on an unknown item, or an undo of an unknown judgement.
        """
        self._check_items(new)
        start = len(self.events)
        self.events.extend(new)
        undone_rows = self._undone_rows(start)
        rows = np.arange(start, len(self.events))
        usable = self._count(rows, 1)
        # Once there are more pairs than are joined one by one, their number does not matter.
        n_to_join = max(_FEW_JOINS + 1 - len(self._unjoined), 0)
        self._unjoined += map(pair_of, self._pairs_of(usable[:n_to_join]).pair.tolist())
        if len(undone_rows) and len(self._count(undone_rows, -1)):
            self._component = None
        for name in self._logs.keys() & new.annotators.keys():
            self._update_log(self._logs[name], rows[new.by(name)])
        if self._holdout is not None:
            self._count_holdout(self._holdout, rows)

    def last(self, annotator: str) -> Judgement | None:
        """The annotator's last judgement that is not undone."""
        rows = self._log_of(annotator).rows
        undone = self.events.undone  # not `live`, which would look at all events
        while rows and undone[rows[-1]] <= len(undone):
            rows.pop()
        return self.events[rows[-1]] if rows else None

    def answered(self, annotator: str) -> int:
        """The number of the annotator's votes that are not undone."""
        number = self.annotators.get(annotator)
        return 0 if number is None else int(self._answered[number])

    def gives_measurements(self, annotator: str) -> bool:
        """Whether the annotator's next answer is expected to be a measurement.

        It is if one of the last answers is a measurement, or there are no answers yet.
        """
        if self._probabilities.get(annotator) != "measurement":
            return False
        last_rows = np.array(self._log_of(annotator).rows[-_LAST:], np.int64)
        return not len(last_rows) or not bool(np.isnan(self.events.p[last_rows]).all())

    def undone(self, annotator: str) -> Judgement | None:
        """The last undone judgement whose question the annotator has not answered again."""
        row = next(reversed(self._log_of(annotator).undone_rows.values()), None)
        return None if row is None else self.events[row]

    def draw_once(
        self, annotator: str, rng: np.random.Generator, *, but_last: int
    ) -> tuple[Judgement, int] | None:
        """Draw a judgement whose question the annotator has answered once.

        Hold-out questions are left out, since answers to repeats are used to choose questions.

        Args:
            annotator: their name.
            rng: draws.
            but_last: number of the last such judgements that are not drawn.

        Returns:
            The judgement, and the number of judgements that it was drawn from; None if there are
            none.
        """
        rows_answered_once = self._log_of(annotator).rows_answered_once
        n_choices = len(rows_answered_once) - but_last
        if n_choices <= 0:
            return None
        place = int(rng.integers(n_choices))
        row = next(islice(rows_answered_once.values(), place, None))
        return self.events[row], n_choices

    def skipped(self, annotator: str) -> Iterator[Judgement]:
        """The skips whose question the annotator has not answered since, oldest first."""
        log = self._log_of(annotator)
        rows = np.array(log.rows, np.int64)
        rows = rows[(self.events.answer[rows] == _SKIP) & self.events.live[rows]]
        for row, keys in zip(rows.tolist(), self._pair_lists(rows), strict=True):
            if all(log.pairs[key] == 1 for key in keys):
                yield self.events[row]

    def pairs_of(self, annotator: str) -> dict[int, int]:
        """The number of their answers to each pair, which is packed with the lower number first."""
        return self._log_of(annotator).pairs

    def n_asked(self) -> int:
        """The number of different pairs that each annotator answered, summed over annotators.

        Cost: a sort of the judgements.
        """
        rows = np.flatnonzero(self.events.live & (self.events.answer != UNDO))
        pairs = self._pairs_of(rows, compared=True)
        annotator = self.events.annotator[rows[pairs.place]]
        order = np.lexsort((annotator, pairs.pair))
        is_new_pair = np.diff(pairs.pair[order], prepend=-1) != 0
        is_new_annotator = np.diff(annotator[order], prepend=-1) != 0
        return int((is_new_pair | is_new_annotator).sum())

    def holdout_pairs(self, annotator: str) -> list[Pair]:
        """Pairs of the hold-out that the annotator has not answered, at most a hundred."""
        answered_pairs = self._log_of(annotator).pairs
        new_pairs = (key for key in self._holdout_counts() if key not in answered_pairs)
        return [pair_of(key) for key in islice(new_pairs, 100)]

    def alive(self) -> Iterator[Judgement]:
        """The judgements that are not undone, in order."""
        return iter(self.events.where(self.events.live & (self.events.answer != UNDO)))

    def votes(self, upto: int, *, after: int = 0, holdout: bool = True) -> Votes:
        """The votes among the first `upto` events, oldest first, without votes that these undo.

        Args:
            upto: number of events.
            after: leave out the first `after` events.
            holdout: whether votes of the hold-out are included.
        """
        rows = np.arange(after, upto)
        is_taken = self._is_vote(rows) if holdout else self._is_usable(rows)
        is_live = self.events.undone[after:upto] > upto
        return self._votes(rows[is_taken & is_live])

    def soft_votes(self) -> Votes:
        """All votes that are not undone; measurements are soft targets, as shares of votes are."""
        return self._votes(np.flatnonzero(self.events.is_answer), soft=True)

    def decided(self, *, holdout: bool) -> Votes:
        """The votes about pairs that are neither undone nor ties: of the hold-out, or all."""
        rows = np.flatnonzero(self.events.is_vote)
        rows = rows[TARGET[self.events.answer[rows]] != 0.5]
        if holdout:
            rows = rows[~self._is_usable(rows)]
        return self._votes(rows)

    def not_by(self, annotators: Collection[str], upto: int) -> I64:
        """The rows of the first `upto` events that are by none of the annotators."""
        numbers = [self.annotators.get(name, -1) for name in annotators]
        return np.flatnonzero(~np.isin(self.events.annotator[:upto], numbers))

    def answered_by_few(self, people: int) -> list[tuple[int, ...]]:
        """The items of questions outside the hold-out that some people answered, but too few.

        The oldest question is first; the items of each question ascend.

        Args:
            people: number of people who are enough.

        Cost: a sort of the answers.
        """
        rows = np.flatnonzero(self.events.is_vote)
        votes = SharedVotes.of(self.events, rows[self._is_usable(rows)])
        few = np.flatnonzero(np.bincount(votes.pair[votes.first]) < people)
        oldest_rows = votes.oldest()[few].tolist()
        keys = self._keys(votes.rows[votes.starts[few]]).tolist()
        holdout = self._holdout_counts()
        by_age: list[tuple[int, tuple[int, ...]]] = [
            (row, pair_of(key))
            for row, key in zip(oldest_rows, keys, strict=True)
            if key not in holdout
        ]
        by_age += self._sets_answered_by_few(people)
        return [items for _, items in sorted(by_age)]

    def _sets_answered_by_few(self, people: int) -> list[tuple[int, tuple[int, ...]]]:
        """The row of the first answer to each set that too few people answered, and the items."""
        rows = np.flatnonzero(self.events.is_answer & self.events.is_set)
        if not len(rows):
            return []
        items = np.sort(self.events.items(rows), axis=1)
        sets, first, set_number = np.unique(items, axis=0, return_index=True, return_inverse=True)
        set_and_annotator = np.column_stack((set_number.ravel(), self.events.annotator[rows]))
        n_people = np.bincount(np.unique(set_and_annotator, axis=0)[:, 0])
        few = np.flatnonzero(n_people < people)
        items_of_few = (tuple(item for item in row if item >= 0) for row in sets[few].tolist())
        return [*zip(rows[first[few]].tolist(), items_of_few, strict=True)]

    def components(self) -> I64:
        """(n,) each item's connected component in the graph of answers without the hold-out.

        Cost: a look at n numbers for each answer since the last call; after an undo, or many
        answers, a pass over all answers.
        """
        if self._component is None or len(self._unjoined) > _FEW_JOINS:
            self._component = self._components(self.votes(len(self.events), holdout=False))
        else:
            for pair in self._unjoined:
                self._component = _joined(self._component, *pair)
        self._unjoined = []
        return self._component

    def all_components(self) -> I64:
        """(n,) each item's connected component in the graph of all answers."""
        return self._components(self.votes(len(self.events)))

    def _components(self, votes: Votes) -> I64:
        edges = np.ones(len(votes)), (votes.left, votes.right)
        graph = sparse.coo_array(edges, shape=(self.n_items, self.n_items))
        component: I64 = connected_components(graph, directed=False)[1].astype(np.int64)
        return component

    def _check_items(self, new: Judgements) -> None:
        low, high = new.pairs()
        further = new.further[new.further >= self.n_items]
        for item in (*low[low < 0], *high[high >= self.n_items], *further):
            raise JudgementError(f"there is no item {item} among {self.n_items}")

    def _undone_rows(self, start: int) -> I64:
        """The rows that the events from row `start` on undo.

        Raises:
            JudgementError: if an undo cannot be; then the events from `start` on are removed.
        """
        events = self.events
        undos = start + np.flatnonzero(events.answer[start:] == UNDO)
        if not len(undos):
            return undos
        rows = events.places(events.undoes[undos])
        is_there = (rows >= 0) & (rows < undos) & (events.answer[rows] != UNDO)
        is_there &= events.undone[rows] == undos + 1
        is_sound = is_there & (events.annotator[rows] == events.annotator[undos])
        if not is_sound.all():
            k = int(is_sound.argmin())
            undo = events[int(undos[k])]
            earlier = events[int(rows[k])] if is_there[k] else None
            events.cut(start)
            check_undo(undo, earlier)
        return rows

    def _count(self, rows: I64, by: int) -> I64:
        """Count the votes in these rows, `by` = -1: subtract them; returns the usable rows."""
        if len(self.annotators) > len(self._answered):
            zeros = np.zeros(len(self.annotators), np.int64)
            self._answered = np.append(self._answered, zeros)
        votes = rows[self._is_vote(rows)]
        usable = votes[self._is_usable(votes)]
        self.n_votes += by * len(votes)
        np.add.at(self._answered, self.events.annotator[votes], by)
        for counts, counted_rows in ((self.seen, votes), (self.seen_usable, usable)):
            np.add.at(counts, self.events.left[counted_rows], by)
            np.add.at(counts, self.events.right[counted_rows], by)
            further = self.events.further[counted_rows]
            np.add.at(counts, further[further >= 0], by)
        return usable

    def _is_vote(self, rows: I64) -> Bool:
        """Whether each row is an answer about the order, undone or not."""
        return ABOUT_ORDER[self.events.answer[rows]]

    def _is_usable(self, rows: I64) -> Bool:
        """Whether each row is a vote outside the hold-out, usable to choose questions."""
        holdout = self.events.strategies.get(HOLDOUT, -1)
        is_usable: Bool = self._is_vote(rows) & (self.events.strategy[rows] != holdout)
        return is_usable

    def _keys(self, rows: I64) -> I64:
        """The pair in the first two places of each row, packed with the lower number first."""
        return unordered(self.events.left[rows], self.events.right[rows])

    def _pairs_of(self, rows: I64, *, compared: bool = False) -> _PairsOfRows:
        """All pairs of the items of each row.

        Args:
            rows: the rows of the events.
            compared: leave out pairs of items between the best and the worst item: they belong to
                the question, but the answer does not compare them.
        """
        is_set = self.events.is_set[rows]
        if not is_set.any():
            return _PairsOfRows(np.arange(len(rows)), self._keys(rows))
        items = self.events.items(rows)
        first, second = np.triu_indices(items.shape[1], 1)
        is_pair = items[:, second] >= 0
        if compared:
            best = self.events.best[rows][:, None]
            worst = self.events.worst[rows][:, None]
            is_chosen = (items == best) | (items == worst)
            has_choice = best >= 0
            is_pair &= ~has_choice | is_chosen[:, first] | is_chosen[:, second]
        pair = unordered(items[:, first][is_pair], items[:, second][is_pair])
        return _PairsOfRows(np.nonzero(is_pair)[0], pair)

    def _pair_lists(self, rows: I64, *, compared: bool = False) -> list[list[int]]:
        """A list of pairs for each row; see `_pairs_of`."""
        if not len(rows):
            return []
        pairs = self._pairs_of(rows, compared=compared)
        ends = np.searchsorted(pairs.place, np.arange(1, len(rows)))
        return [pairs_of_row.tolist() for pairs_of_row in np.split(pairs.pair, ends)]

    def _votes(self, rows: I64, *, soft: bool = False) -> Votes:
        """The votes in these rows: first answers about pairs, then answers about sets.

        With `soft`, measurements are taken for shares.
        """
        is_set = self.events.is_set[rows]
        votes = self._votes_of_pairs(rows[~is_set], soft=soft)
        return votes.with_sets(self.events, rows[is_set]) if is_set.any() else votes

    def _votes_of_pairs(self, rows: I64, *, soft: bool) -> Votes:
        """The votes in these rows, which are about pairs; see `_votes`."""
        events = self.events
        annotator = events.annotator[rows]
        share = events.targets(rows)
        if not self._probabilities:
            return Votes(events.left[rows], events.right[rows], share, annotator)
        word = events.words(rows)
        kinds = np.array([self._probabilities.get(name) for name in events.annotators.order])
        is_ignored = np.isin(annotator, np.flatnonzero(kinds == "ignored"))
        is_measured = np.isin(annotator, np.flatnonzero(kinds == "measurement")) & (not soft)
        is_measured &= ~np.isnan(events.p[rows])
        target = np.where(is_ignored | is_measured, word, share)
        is_measured &= word != 0.5
        votes = Votes(events.left[rows], events.right[rows], target, annotator)
        if not is_measured.any():
            return votes
        with np.errstate(divide="ignore"):
            probit = np.clip(ndtri(events.p[rows]), -MOST_PROBIT, MOST_PROBIT)
        return replace(votes, probit=np.where(is_measured, probit, np.nan))

    def _answer_rows(self, rows: I64) -> tuple[I64, Bool]:
        """The row of the answer that each event gives or undoes, and whether it is an undo."""
        is_undo = self.events.answer[rows] == UNDO
        answer_rows = rows.copy()
        answer_rows[is_undo] = self.events.places(self.events.undoes[rows[is_undo]])
        return answer_rows, is_undo

    def _log_of(self, annotator: str) -> AnnotatorLog:
        """The log of an annotator; the first call makes it by a pass over the events."""
        if annotator not in self.annotators:
            return AnnotatorLog()
        if annotator not in self._logs:
            self._logs[annotator] = AnnotatorLog()
            self._update_log(self._logs[annotator], np.flatnonzero(self.events.by(annotator)))
        return self._logs[annotator]

    def _update_log(self, log: AnnotatorLog, rows: I64) -> None:
        """Add events of its annotator to a log."""
        answer_rows, is_undo = self._answer_rows(rows)
        events = zip(
            answer_rows.tolist(),
            is_undo.tolist(),
            self._is_usable(answer_rows).tolist(),
            self._pair_lists(answer_rows),
            self._pair_lists(answer_rows, compared=True),
            strict=True,
        )
        for row, event_is_undo, is_usable, pairs, compared_pairs in events:
            question = tuple(sorted(pairs))
            if event_is_undo:
                log.take_back(row, question, compared_pairs)
            else:
                log.add(row, question, compared_pairs, is_usable)

    def _holdout_counts(self) -> dict[int, int]:
        """{pair: number of votes} of the hold-out's pairs with any votes, oldest first."""
        if self._holdout is None:
            self._holdout = {}
            self._count_holdout(self._holdout, np.arange(len(self.events)))
        return self._holdout

    def _count_holdout(self, counts: dict[int, int], rows: I64) -> None:
        """Update the counts of `_holdout_counts` by the events in these rows."""
        answer_rows, is_undo = self._answer_rows(rows)
        is_holdout = self._is_vote(answer_rows) & ~self._is_usable(answer_rows)
        is_holdout &= ~self.events.is_set[answer_rows]
        changes = np.where(is_undo, -1, 1)[is_holdout].tolist()
        for key, change in zip(self._keys(answer_rows[is_holdout]).tolist(), changes, strict=True):
            counts[key] = counts.get(key, 0) + change
            if not counts[key]:
                del counts[key]


class _PairsOfRows(NamedTuple):
    """Pairs of items of some rows of the events.

    Attributes:
        place: (m,) the place of the pair's row among the rows, ascending.
        pair: (m,) the pair, packed with the lower number first.
    """

    place: I64
    pair: I64


def _joined(component: I64, i: int, j: int) -> I64:
    """The components after an answer about items i and j.

    It is a new array, since a caller may still use the old one.
    """
    a, b = component[i], component[j]
    return component if a == b else np.where(component == b, a, component)
