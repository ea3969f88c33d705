"""The event log of a session and the counts derived from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from sortnet.core import I64, Bool
from sortnet.core.pairs import key_of, unordered
from sortnet.errors import JudgementError
from sortnet.preference.annotator_log import AnnotatorLog
from sortnet.preference.answers import Answers
from sortnet.preference.base import (
    ANSWERS,
    HOLDOUT,
    Judgement,
    Probabilities,
    pairs_among,
    undo_by_another_annotator,
    undo_of_unknown_judgement,
)
from sortnet.preference.comparisons import ByPair, Comparisons
from sortnet.preference.judgement_table import ABOUT_ORDER, UNDO, Judgements

_LAST = 20  # the last 20 answers show whether an annotator's next answer is a measurement
_SKIP = ANSWERS.index("skip")


class History:
    """The events of a session, and counts that are updated with each event.

    A vote is an answer about the order of items: no skip, "can't say" or undo.

    Args:
        n_items: number of items.
        probabilities: what each annotator's probabilities are. An annotator who is missing here
            gives shares of votes.

    Attributes:
        events: all events, including undos.
        seen: (n,) number of votes about each item that are not undone.
        seen_usable: (n,) number of votes about each item that are neither undone nor of the
            hold-out.
        n_votes: number of votes that are not undone.
    """

    def __init__(
        self, n_items: int, probabilities: Mapping[str, Probabilities] | None = None
    ) -> None:
        """Start without events."""
        self.n_items = n_items
        self._probabilities = probabilities or {}
        self.events = Judgements()
        self.seen: I64 = np.zeros(n_items, np.int64)
        self.seen_usable: I64 = np.zeros(n_items, np.int64)
        self.n_votes = 0
        self._answered: I64 = np.zeros(0, np.int64)  # each annotator's votes that are not undone
        self._logs: dict[str, AnnotatorLog] = {}  # by name, made when first used
        # {items of a question: votes}; None: not counted yet
        self._holdout: dict[tuple[int, ...], int] | None = None

    @property
    def annotators(self) -> dict[str, int]:
        """The number of each annotator, in the order of their first events."""
        return self.events.annotators

    def add(self, new: Judgements) -> None:
        """Add events; if one event is invalid, no event is added.

        Cost: about 1 us per event, if there are many.

        Raises:
            JudgementError: on an unknown item, or an undo of an unknown judgement.
        """
        self._check_items(new)
        start = len(self.events)
        self.events.extend(new)
        try:
            undone_rows = self._undone_rows(start)
        except JudgementError:
            self.events.cut(start)
            raise
        new_rows = np.arange(start, len(self.events))
        self._update_counts(new_rows, by=1)
        self._update_counts(undone_rows, by=-1)
        # Logs and hold-out counts exist only if they have been needed before.
        for name in self._logs.keys() & new.annotators.keys():
            self._update_log(self._logs[name], new_rows[new.by(name)])
        if self._holdout is not None:
            self._count_holdout(self._holdout, new_rows)

    def last(self, annotator: str) -> Judgement | None:
        """Return the annotator's last judgement that is not undone; None without such a judgement.

        Undone judgements at the end of the annotator's log are dropped from it.
        """
        rows = self._log_of(annotator).rows
        while rows and self.events.is_undone(rows[-1]):
            rows.pop()
        return self.events[rows[-1]] if rows else None

    def answered(self, annotator: str) -> int:
        """Count the annotator's votes that are not undone."""
        number = self.annotators.get(annotator)
        return 0 if number is None else int(self._answered[number])

    def gives_measurements(self, annotator: str) -> bool:
        """Whether the annotator's next answer is expected to be a measurement.

        A measurement is expected if one of the annotator's last 20 answers is a measurement, or if
        the annotator has not answered yet.
        """
        if self._probabilities.get(annotator) != "measurement":
            return False
        last_rows = np.array(self._log_of(annotator).rows[-_LAST:], np.int64)
        if not len(last_rows):
            return True
        has_p = ~np.isnan(self.events.p[last_rows])
        return bool(has_p.any())

    def undone(self, annotator: str) -> Judgement | None:
        """Return the last undone judgement whose question the annotator has not answered again."""
        rows_newest_first = reversed(self._log_of(annotator).undone_rows.values())
        row = next(rows_newest_first, None)
        return None if row is None else self.events[row]

    def draw_once(
        self, annotator: str, rng: np.random.Generator, *, but_last: int
    ) -> tuple[Judgement, int] | None:
        """Draw a judgement whose question the annotator has answered once.

        Hold-out questions are left out, since answers to repeats are used to choose questions.

        Args:
            annotator: name of the annotator.
            rng: draws the judgement.
            but_last: number of the newest such judgements that are not drawn.

        Returns:
            The judgement, and the number of judgements that it was drawn from; None if there is no
            judgement to draw.
        """
        rows_answered_once = self._log_of(annotator).rows_answered_once
        n_choices = len(rows_answered_once) - but_last
        if n_choices <= 0:
            return None
        place = int(rng.integers(n_choices))
        row = next(islice(rows_answered_once.values(), place, None))
        return self.events[row], n_choices

    def skipped(self, annotator: str) -> Iterator[Judgement]:
        """Yield the skips whose question the annotator has not answered since, oldest first."""
        log = self._log_of(annotator)
        rows = np.array(log.rows, np.int64)
        is_skip = (self.events.answer[rows] == _SKIP) & self.events.live[rows]
        skip_rows = rows[is_skip]
        for row, pairs in zip(skip_rows.tolist(), self._pair_lists(skip_rows), strict=True):
            # The skip itself counts once for each pair. After a later answer, the count is 2.
            if all(log.n_answers_of_pair[pair] == 1 for pair in pairs):
                yield self.events[row]

    def pairs_of(self, annotator: str) -> dict[int, int]:
        """Count the annotator's answers to each pair.

        The keys are pairs, packed into one number with the lower item number first.
        """
        return self._log_of(annotator).n_answers_of_pair

    def n_asked(self) -> int:
        """Count the different pairs that each annotator answered, summed over annotators.

        Cost: a sort of the judgements.
        """
        rows = np.flatnonzero(self.events.live & (self.events.answer != UNDO))
        pairs = self._pairs_of(rows, compared=True)
        annotator = self.events.annotator[rows[pairs.place]]
        # After this sort, repeated answers of an annotator to a pair follow each other. Only an
        # answer that differs from the answer before, in the pair or the annotator, is counted.
        by_pair_and_annotator = np.lexsort((annotator, pairs.pair))
        is_new_pair = np.diff(pairs.pair[by_pair_and_annotator], prepend=-1) != 0
        is_new_annotator = np.diff(annotator[by_pair_and_annotator], prepend=-1) != 0
        return int((is_new_pair | is_new_annotator).sum())

    def holdout_questions(self, annotator: str) -> list[tuple[int, ...]]:
        """List the items of hold-out questions, at most a hundred.

        The annotator has answered no pair of these questions.
        """
        answered_pairs = self.pairs_of(annotator)
        new_questions = (
            items
            for items in self._holdout_counts()
            if answered_pairs.keys().isdisjoint(key_of(*pair) for pair in pairs_among(items))
        )
        return [*islice(new_questions, 100)]

    def answers(self, upto: int, *, holdout: bool = True) -> Answers:
        """Return the answers about the order as they were after the first `upto` events.

        Args:
            upto: number of events.
            holdout: whether answers of the hold-out are included.
        """
        rows = np.arange(upto)
        is_wanted = self._is_vote(rows) if holdout else self._is_usable(rows)
        is_live = self.events.are_live_after(upto, rows)
        return self._answers(rows[is_wanted & is_live])

    def checking_answers(self, *, holdout: bool) -> Answers:
        """Return the choices of a best item, without ties and undone answers.

        Args:
            holdout: whether only answers of the hold-out are returned.
        """
        rows = np.flatnonzero(self.events.is_answer)
        if holdout:
            rows = rows[~self._is_usable(rows)]
        answers = self._answers(rows)
        is_decided = (answers.direction > 0) & (answers.share.max(axis=1, initial=0.0) > 0.5)
        return answers.where(is_decided)

    def comparisons(self) -> Comparisons:
        """Return the comparisons of two items that follow from all answers.

        Every probability counts as a share of votes, also a measurement.
        """
        comparisons = Comparisons.of_table(self.events)
        rows = comparisons.row
        p = self.events.p[rows]
        is_share = ~np.isnan(p) & ~self.events.is_set[rows]
        is_share &= ~self._is_by_annotators_with("ignored", rows)
        return replace(comparisons, target=np.where(is_share, p, comparisons.target))

    def usable(self, rows: I64) -> I64:
        """Select the rows of answers that are not undone and may choose questions."""
        return rows[self._is_usable(rows) & self.events.live[rows]]

    def answered_by_few(self, people: int) -> list[tuple[int, ...]]:
        """List the questions that at least one person, but fewer people than wanted, answered.

        Questions of the hold-out are left out. A question is given as its items in ascending order;
        the oldest question is first.

        Args:
            people: number of people who should answer each question.

        Cost: a sort of the answers.
        """
        questions = self._pairs_answered_by_few(people) + self._sets_answered_by_few(people)
        return [items for _, items in sorted(questions)]

    def _pairs_answered_by_few(self, people: int) -> list[tuple[int, tuple[int, ...]]]:
        """List the pairs outside the hold-out that fewer people than wanted have answered.

        Returns:
            For each pair, the row of its first answer, and its items in ascending order.
        """
        rows = np.flatnonzero(self.events.is_vote)
        votes = ByPair(Comparisons.of_table(self.events, rows[self._is_usable(rows)]))
        n_people_of_pair = np.bincount(votes.pair_of_group)
        _, first = np.unique(votes.pair, return_index=True)
        wanted = np.flatnonzero(n_people_of_pair < people)
        pairs = zip(votes.low[wanted].tolist(), votes.high[wanted].tolist(), strict=True)
        rows_of_pairs = zip(votes.comparisons.row[first[wanted]].tolist(), pairs, strict=True)
        holdout_questions = self._holdout_counts()
        return [(row, pair) for row, pair in rows_of_pairs if pair not in holdout_questions]

    def _sets_answered_by_few(self, people: int) -> list[tuple[int, tuple[int, ...]]]:
        """List the sets of items that fewer people than wanted have answered.

        Returns:
            For each set, the row of its first answer, and its items in ascending order.
        """
        rows = np.flatnonzero(self.events.is_answer & self.events.is_set)
        if not len(rows):
            return []
        items = np.sort(self.events.items(rows), axis=1)  # -1 for an empty place
        sets, first_answer, set_number = np.unique(
            items, axis=0, return_index=True, return_inverse=True
        )
        # Each person counts once for a set, even after several answers about the set.
        set_and_person = np.column_stack((set_number.ravel(), self.events.annotator[rows]))
        distinct = np.unique(set_and_person, axis=0)
        n_people_of_set = np.bincount(distinct[:, 0])
        wanted_sets = np.flatnonzero(n_people_of_set < people)
        first_rows = rows[first_answer[wanted_sets]].tolist()
        items_of_sets = [
            tuple(item for item in places if item >= 0) for places in sets[wanted_sets].tolist()
        ]
        holdout_questions = self._holdout_counts()
        return [
            (row, items)
            for row, items in zip(first_rows, items_of_sets, strict=True)
            if items not in holdout_questions
        ]

    def all_components(self) -> I64:
        """Number the connected components of the graph of all answers.

        Returns:
            (n,) the number of each item's component.
        """
        edges = self.answers(len(self.events)).edges
        joins = np.ones(len(edges.i)), (edges.i, edges.j)
        graph = sparse.coo_array(joins, shape=(self.n_items, self.n_items))
        component: I64 = connected_components(graph, directed=False)[1].astype(np.int64)
        return component

    def _check_items(self, new: Judgements) -> None:
        """Raise JudgementError if an event is about an unknown item."""
        low, high = new.pairs()
        too_low = low[low < 0]
        too_high = high[high >= self.n_items]
        further_too_high = new.further[new.further >= self.n_items]
        unknown_items = np.concatenate((too_low, too_high, further_too_high))
        if len(unknown_items):
            raise JudgementError(f"there is no item {unknown_items[0]} among {self.n_items}")

    def _undone_rows(self, start: int) -> I64:
        """Return the rows of the judgements that the events from row `start` on undo.

        Raises:
            JudgementError: if one of these undos is invalid.
        """
        events = self.events
        undo_rows = start + np.flatnonzero(events.answer[start:] == UNDO)
        if not len(undo_rows):
            return undo_rows
        undone_rows = events.rows_of_numbers(events.undoes[undo_rows])
        self._check_undos(undo_rows, undone_rows)
        return undone_rows

    def _check_undos(self, undo_rows: I64, undone_rows: I64) -> None:
        """Raise JudgementError if an undo is invalid, about the first such undo.

        An undo is valid if it is the first undo of an earlier answer of the same annotator.

        Args:
            undo_rows: (u,) the rows of the undos.
            undone_rows: (u,) the row of the judgement that each undo takes back; -1 for an unknown
                judgement.
        """
        undos = _Undos(undo_rows, undone_rows)
        undos_of_known = undos.where(undone_rows >= 0)
        first_undos = undos_of_known.where(self._are_first_undos_of_answers(undos_of_known))
        valid_undos = first_undos.where(self._are_by_same_annotator(first_undos))
        invalid_rows = np.setdiff1d(undo_rows, valid_undos.undo_rows)  # ascending
        if not len(invalid_rows):
            return
        first_invalid_row = int(invalid_rows[0])
        undo = self.events[first_invalid_row]
        if first_invalid_row in first_undos.undo_rows:
            raise undo_by_another_annotator(undo)
        raise undo_of_unknown_judgement(undo)  # also if the judgement is undone already

    def _are_first_undos_of_answers(self, undos: _Undos) -> Bool:
        """Tell for each undo whether it is the first undo of an earlier answer."""
        is_earlier = undos.undone_rows < undos.undo_rows
        is_answer = self.events.answer[undos.undone_rows] != UNDO
        is_first_undo = self.events.rows_of_first_undos(undos.undone_rows) == undos.undo_rows
        is_first_undo_of_answer: Bool = is_earlier & is_answer & is_first_undo
        return is_first_undo_of_answer

    def _are_by_same_annotator(self, undos: _Undos) -> Bool:
        """Tell for each undo whether its annotator gave the undone judgement."""
        annotator = self.events.annotator
        is_by_same: Bool = annotator[undos.undo_rows] == annotator[undos.undone_rows]
        return is_by_same

    def _update_counts(self, rows: I64, *, by: int) -> None:
        """Add the votes in the given rows to the counts, or subtract them.

        Args:
            rows: rows of the events.
            by: 1 to add, -1 to subtract.
        """
        if len(self.annotators) > len(self._answered):
            # New annotators get a count of 0. The spare counts make this step seldom necessary.
            zeros = np.zeros(len(self.annotators), np.int64)
            self._answered = np.append(self._answered, zeros)
        vote_rows = rows[self._is_vote(rows)]
        usable_rows = vote_rows[self._is_usable(vote_rows)]
        self.n_votes += by * len(vote_rows)
        np.add.at(self._answered, self.events.annotator[vote_rows], by)
        self._update_counts_of_items(self.seen, vote_rows, by)
        self._update_counts_of_items(self.seen_usable, usable_rows, by)

    def _update_counts_of_items(self, counts: I64, rows: I64, by: int) -> None:
        """Add a number, `by`, to the count of each item that the given rows are about."""
        np.add.at(counts, self.events.left[rows], by)
        np.add.at(counts, self.events.right[rows], by)
        further = self.events.further[rows]  # -1 for an empty place
        np.add.at(counts, further[further >= 0], by)

    def _is_vote(self, rows: I64) -> Bool:
        """Whether each of the rows is an answer about the order of items, undone or not."""
        return ABOUT_ORDER[self.events.answer[rows]]

    def _is_usable(self, rows: I64) -> Bool:
        """Whether each row is a vote that may be used to choose questions: not of the hold-out."""
        holdout = self.events.strategies.get(HOLDOUT, -1)
        is_usable: Bool = self._is_vote(rows) & (self.events.strategy[rows] != holdout)
        return is_usable

    def _packed_pairs(self, rows: I64) -> I64:
        """Pack the items in the first two places of each row into one number.

        The item with the lower number is packed first.
        """
        return unordered(self.events.left[rows], self.events.right[rows])

    def _pairs_of(self, rows: I64, *, compared: bool = False) -> _PairsOfRows:
        """List the pairs of items in the questions that some events are about.

        A question about a set of items has every pair of the set.

        Args:
            rows: the rows of the events in the table of events.
            compared: whether to leave out the pairs that an answer about a set does not compare,
                which have neither its best nor its worst item.
        """
        is_set = self.events.is_set[rows]
        if not is_set.any():
            return _PairsOfRows(np.arange(len(rows)), self._packed_pairs(rows))
        items = self.events.items(rows)
        first, second = np.triu_indices(items.shape[1], 1)  # the two places of each pair
        # Items fill the places from the left, so a pair exists if its second place has an item.
        is_listed = items[:, second] >= 0
        if compared:
            is_listed &= self._is_compared(rows, items[:, first], items[:, second])
        pair = unordered(items[:, first][is_listed], items[:, second][is_listed])
        place, _ = np.nonzero(is_listed)
        return _PairsOfRows(place, pair)

    def _is_compared(self, rows: I64, i: I64, j: I64) -> Bool:
        """Tell which pairs of a question's items are compared by its answer.

        An answer that names the best item compares the pairs that contain the best item, or the
        worst item if it is named. Any other answer compares all pairs of its items.

        Args:
            rows: (q,) the rows of the events.
            i, j: (q, p) the two items of each pair in the question.

        Returns:
            (q, p) whether each pair is compared.
        """
        best = self.events.best[rows][:, None]
        worst = self.events.worst[rows][:, None]
        names_no_best = best < 0
        has_best = (i == best) | (j == best)
        has_worst = (i == worst) | (j == worst)
        is_compared: Bool = names_no_best | has_best | has_worst
        return is_compared

    def _pair_lists(self, rows: I64, *, compared: bool = False) -> list[list[int]]:
        """List the pairs that `_pairs_of` finds as one list of packed pairs for each event."""
        if not len(rows):
            return []
        pairs = self._pairs_of(rows, compared=compared)
        # The pairs of row k begin at the first pair whose place is k.
        starts_of_later_rows = np.searchsorted(pairs.place, np.arange(1, len(rows)))
        return [
            pairs_of_row.tolist() for pairs_of_row in np.split(pairs.pair, starts_of_later_rows)
        ]

    def _answers(self, rows: I64) -> Answers:
        """Convert the answers in the given rows."""
        return Answers.of_table(self.events, rows, probabilities=self._probabilities)

    def _is_by_annotators_with(self, kind: Probabilities, rows: I64) -> Bool:
        """Whether each row is by an annotator whose probabilities are of the given kind."""
        numbers = [
            self.annotators.get(name, -1)
            for name, kind_of_annotator in self._probabilities.items()
            if kind_of_annotator == kind
        ]
        return np.isin(self.events.annotator[rows], numbers)

    def _answer_rows(self, rows: I64) -> tuple[I64, Bool]:
        """Find the answer that each event is about.

        Returns:
            The row of the event itself, or for an undo the row of the undone answer; and whether
            each event is an undo.
        """
        is_undo = self.events.answer[rows] == UNDO
        answer_rows = rows.copy()
        numbers_of_undone = self.events.undoes[rows[is_undo]]
        answer_rows[is_undo] = self.events.rows_of_numbers(numbers_of_undone)
        return answer_rows, is_undo

    def _log_of(self, annotator: str) -> AnnotatorLog:
        """Return the log of an annotator; the first call makes it by a pass over the events."""
        if annotator not in self.annotators:
            return AnnotatorLog()
        if annotator not in self._logs:
            self._logs[annotator] = AnnotatorLog()
            self._update_log(self._logs[annotator], np.flatnonzero(self.events.by(annotator)))
        return self._logs[annotator]

    def _update_log(self, log: AnnotatorLog, rows: I64) -> None:
        """Add events of an annotator to the annotator's log, in their order.

        Args:
            log: the log of the annotator.
            rows: the rows of the events. An answer is added to the log. An undo takes an earlier
                answer out of the log.
        """
        answer_rows, is_undo = self._answer_rows(rows)
        is_usable = self._is_usable(answer_rows)
        pairs_of_questions = self._pair_lists(answer_rows)
        compared_pairs_of_answers = self._pair_lists(answer_rows, compared=True)
        answers = zip(
            answer_rows.tolist(),
            is_undo.tolist(),
            is_usable.tolist(),
            pairs_of_questions,
            compared_pairs_of_answers,
            strict=True,
        )
        for answer_row, is_undone, answer_is_usable, pairs, compared_pairs in answers:
            question = tuple(sorted(pairs))
            if is_undone:
                log.take_back(answer_row, question, compared_pairs)
            else:
                log.add(answer_row, question, compared_pairs, answer_is_usable)

    def _holdout_counts(self) -> dict[tuple[int, ...], int]:
        """Count the votes of the hold-out about each question that has any.

        A question is given as its items in ascending order. The question with the oldest vote is
        first.
        """
        if self._holdout is None:
            self._holdout = {}
            self._count_holdout(self._holdout, np.arange(len(self.events)))
        return self._holdout

    def _count_holdout(self, counts: dict[tuple[int, ...], int], rows: I64) -> None:
        """Update the number of hold-out votes about each question by events in the given rows."""
        answer_rows, is_undo = self._answer_rows(rows)
        # A vote is of the hold-out if it may not be used to choose questions.
        is_holdout = self._is_vote(answer_rows) & ~self._is_usable(answer_rows)
        changes = np.where(is_undo[is_holdout], -1, 1).tolist()
        places = np.sort(self.events.items(answer_rows[is_holdout]), axis=1).tolist()
        for items_of_row, change in zip(places, changes, strict=True):
            items = tuple(item for item in items_of_row if item >= 0)  # -1 for an empty place
            counts[items] = counts.get(items, 0) + change
            if not counts[items]:
                del counts[items]


class _Undos(NamedTuple):
    """Undos, as rows in the table of events.

    Attributes:
        undo_rows: (u,) the rows of the undos.
        undone_rows: (u,) the row of the judgement that each undo takes back; -1 for an unknown
            judgement.
    """

    undo_rows: I64
    undone_rows: I64

    def where(self, mask: Bool) -> _Undos:
        """Select undos by a mask."""
        return _Undos(self.undo_rows[mask], self.undone_rows[mask])


class _PairsOfRows(NamedTuple):
    """All pairs of items in the questions of some rows, row after row.

    Attributes:
        place: (m,) the index of the pair's row in the array of rows, ascending.
        pair: (m,) the pair, packed into one number with the lower item number first.
    """

    place: I64
    pair: I64
