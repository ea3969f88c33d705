"""The events of a session: what annotators have answered, skipped and undone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, islice

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from sortnet.core import I64, Bool
from sortnet.core.pairs import key_of, unordered
from sortnet.errors import JudgementError
from sortnet.preference.answers import Answers
from sortnet.preference.base import Judgement, Probabilities, check_undo
from sortnet.preference.comparisons import Comparisons
from sortnet.preference.judgement_table import SKIP, UNDO, Judgements

_LAST = 20  # the last 20 answers show whether an annotator's next answer is a measurement
_MOST_HOLDOUT = 100  # hold-out questions that are considered for another annotator


class History:
    """The events of a session. Only what is needed at every question is counted as events come.

    A vote is an answer about the order of items: no skip, "can't say" or undo.

    Args:
        n_items: number of items.
        probabilities: what each annotator's probabilities are. An annotator who is missing here
            gives shares of votes.

    Attributes:
        events: all events, including undos.
    """

    def __init__(
        self, n_items: int, probabilities: Mapping[str, Probabilities] | None = None
    ) -> None:
        """Start without events."""
        self.n_items = n_items
        self._probabilities = probabilities or {}
        self.events = Judgements()
        # {(number of the annotator, key of a pair): answers that compare the pair}
        self._n_compared: Counter[tuple[int, int]] = Counter()

    @property
    def annotators(self) -> dict[str, int]:
        """The number of each annotator, in the order of their first events."""
        return self.events.annotators

    def add(self, new: Judgements) -> None:
        """Add events; if one event is invalid, no event is added.

        Cost: about 3 us per event, if there are many.

        Raises:
            JudgementError: on an unknown item, or an undo of an unknown judgement.
        """
        if new.highest_item >= self.n_items:
            raise JudgementError(f"there is no item {new.highest_item} among {self.n_items}")
        start = len(self.events)
        self.events.extend(new)
        try:
            self._check_undos(start)
        except JudgementError:
            before = self.events[:start]
            self.events = Judgements()
            self.events.extend(before)
            raise
        new_rows = np.arange(start, len(self.events))
        is_undo = self.events.answer[new_rows] == UNDO
        undone_rows = self.events.rows_of_numbers(self.events.undoes[new_rows[is_undo]])
        self._n_compared.update(self._compared(new_rows[~is_undo]))
        self._n_compared.subtract(self._compared(undone_rows))

    def _check_undos(self, start: int) -> None:
        """Raise JudgementError if an undo from row `start` on undoes no judgement."""
        undo_rows = start + np.flatnonzero(self.events.answer[start:] == UNDO)
        undone_rows = self.events.rows_of_numbers(self.events.undoes[undo_rows])
        for row, undone_row in zip(undo_rows.tolist(), undone_rows.tolist(), strict=True):
            earlier = self.events[undone_row] if 0 <= undone_row < row else None
            is_undone = bool(self.events.undone_by[undone_row] < row)
            check_undo(self.events[row], earlier, undone=is_undone)

    def _compared(self, rows: I64) -> list[tuple[int, int]]:
        """List (annotator, key of a pair) for each pair that the answers in these rows compare."""
        comparisons = Comparisons.of_table(self.events, rows)
        keys = unordered(comparisons.left, comparisons.right)
        return [*zip(comparisons.annotator.tolist(), keys.tolist(), strict=True)]

    def has_compared(self, annotator: str, i: int, j: int) -> bool:
        """Whether the annotator has answered about two items, or skipped them."""
        key = key_of(min(i, j), max(i, j))
        return self._n_compared[self.annotators.get(annotator, -1), key] > 0

    def has_answered(self, annotator: str, items: Sequence[int]) -> bool:
        """Whether a live answer of the annotator is about exactly these items, in any places."""
        question = self.events.number_of_question(items)
        return question in self.events.question[self._live_rows(annotator)]

    def n_annotators_of_pairs(self) -> Counter[int]:
        """Count the annotators who have answered about each pair or skipped it, by the pair's key.

        Summed up, they are the different pairs that each annotator answered.
        """
        return Counter(key for (_, key), n_answers in self._n_compared.items() if n_answers > 0)

    @property
    def n_votes(self) -> int:
        """The number of votes that are not undone."""
        return int(np.count_nonzero(self.events.is_answer))

    def answered(self, annotator: str) -> int:
        """Count the annotator's votes that are not undone."""
        return int(np.count_nonzero(self.events.is_answer & self.events.by(annotator)))

    def seen(self, *, holdout: bool = True) -> I64:
        """Count the votes about each item that are not undone, (n,).

        Args:
            holdout: whether votes of the hold-out are included.
        """
        is_counted = self.events.is_answer if holdout else self._is_usable
        items = self.events.items[is_counted]
        return np.bincount(items[items >= 0], minlength=self.n_items)

    def questions_after(self, n_events: int) -> list[tuple[int, ...]]:
        """List the items of the usable votes after the first `n_events` events."""
        rows = n_events + np.flatnonzero(self._is_usable[n_events:])
        return [self._items_of(row) for row in rows.tolist()]

    def _items_of(self, row: int) -> tuple[int, ...]:
        """Return the items of the judgement in a row, in their places."""
        (items,) = self.events.values("items", row, row + 1)
        return tuple(items)

    def last(self, annotator: str) -> Judgement | None:
        """Return the annotator's last judgement that is not undone; None without such a judgement.

        An undo is no such judgement.
        """
        rows = self._live_rows(annotator)
        return self.events[int(rows[-1])] if len(rows) else None

    def gives_measurements(self, annotator: str) -> bool:
        """Whether the annotator's next answer is expected to be a measurement.

        A measurement is expected if one of the annotator's last 20 answers is a measurement, or if
        the annotator has not answered yet.
        """
        if self._probabilities.get(annotator) != "measurement":
            return False
        last_rows = self._live_rows(annotator)[-_LAST:]
        has_p = ~np.isnan(self.events.p[last_rows])
        return not len(last_rows) or bool(has_p.any())

    def undone(self, annotator: str) -> Judgement | None:
        """Return the last undone judgement whose question the annotator has not answered again."""
        events = self.events
        is_theirs = events.by(annotator) & (events.answer != UNDO)
        undone_rows = np.flatnonzero(is_theirs & ~events.live)
        newest_undo_first = np.argsort(-events.undone_by[undone_rows])
        for row in undone_rows[newest_undo_first].tolist():
            later = slice(int(events.undone_by[row]), None)
            is_again = is_theirs[later] & (events.question[later] == events.question[row])
            if not is_again.any():
                return self.events[int(row)]
        return None

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
        rows = self._rows_answered_once(annotator)
        rows = rows[self._is_usable[rows]]
        n_choices = len(rows) - but_last
        if n_choices <= 0:
            return None
        return self.events[int(rows[rng.integers(n_choices)])], n_choices

    def skipped(self, annotator: str) -> Iterator[Judgement]:
        """Yield the skips whose question the annotator has not answered since, oldest first."""
        rows = self._rows_answered_once(annotator)
        for row in rows[self.events.answer[rows] == SKIP].tolist():
            yield self.events[row]

    def holdout_questions(self, annotator: str) -> list[tuple[int, ...]]:
        """List the items of hold-out questions, at most a hundred.

        The annotator has answered no pair of these questions.
        """
        rows = np.flatnonzero(self.events.is_answer & self.events.is_holdout)
        new_questions = (
            items
            for items in self._different_questions(rows)
            if not any(self.has_compared(annotator, *pair) for pair in combinations(items, 2))
        )
        return [*islice(new_questions, _MOST_HOLDOUT)]

    def _different_questions(self, rows: I64) -> Iterator[tuple[int, ...]]:
        """Yield the items of each question in some rows once, in ascending order, oldest first."""
        _, first_places = np.unique(self.events.question[rows], return_index=True)
        for row in rows[np.sort(first_places)].tolist():
            yield tuple(sorted(self._items_of(row)))

    def answered_by_few(self, people: int) -> Iterator[tuple[int, ...]]:
        """Yield the questions that at least one person, but fewer people than wanted, answered.

        Questions of the hold-out are left out. A question is given as its items in ascending order;
        the oldest question is first.

        Args:
            people: number of people who should answer each question.

        Cost: a sort of the answers.
        """
        events = self.events
        rows = np.flatnonzero(self._is_usable)
        question = events.question[rows]
        # Each person counts once for a question, even after several answers.
        distinct = np.unique(np.column_stack((question, events.annotator[rows])), axis=0)
        n_people = np.bincount(distinct[:, 0], minlength=events.question.max(initial=-1) + 1)
        of_holdout = events.question[events.is_answer & events.is_holdout]
        is_wanted = (n_people[question] < people) & ~np.isin(question, of_holdout)
        return self._different_questions(rows[is_wanted])

    def answers(self, upto: int, *, holdout: bool | None = None) -> Answers:
        """Return the votes as they were after the first `upto` events.

        Args:
            upto: number of events.
            holdout: whether only answers of the hold-out, or only others, are returned; None for
                all answers.
        """
        events = self.events
        is_wanted = events.is_order & (events.undone_by >= upto)
        if holdout is not None:
            is_wanted &= events.is_holdout == holdout
        rows = np.flatnonzero(is_wanted[:upto])
        return Answers.of_table(events, rows, probabilities=self._probabilities)

    def comparisons(self) -> Comparisons:
        """Return the comparisons of two items that follow from all answers.

        Every probability counts as a share of votes, also a measurement.
        """
        ignored = [
            self.annotators[name]
            for name, kind in self._probabilities.items()
            if kind == "ignored" and name in self.annotators
        ]
        comparisons = Comparisons.of_table(self.events)
        p = self.events.p[comparisons.row]
        is_share = ~np.isnan(p) & ~np.isin(comparisons.annotator, ignored)
        return replace(comparisons, target=np.where(is_share, p, comparisons.target))

    def all_components(self) -> I64:
        """Number the connected components of the graph of all answers.

        Returns:
            (n,) the number of each item's component.
        """
        comparisons = self.comparisons()
        joins = np.ones(len(comparisons)), (comparisons.left, comparisons.right)
        graph = sparse.coo_array(joins, shape=(self.n_items, self.n_items))
        component: I64 = connected_components(graph, directed=False)[1].astype(np.int64)
        return component

    @property
    def _is_usable(self) -> Bool:
        """Mask of the votes that may be used to choose questions: not undone, not of the hold-out.

        The mask has an entry for each event.
        """
        is_usable: Bool = self.events.is_answer & ~self.events.is_holdout
        return is_usable

    def _live_rows(self, annotator: str) -> I64:
        """Return the rows of the annotator's judgements that are neither undone nor undos."""
        events = self.events
        is_theirs: Bool = events.by(annotator) & events.live & (events.answer != UNDO)
        return np.flatnonzero(is_theirs)

    def _rows_answered_once(self, annotator: str) -> I64:
        """Return the rows of the judgements whose question the annotator has answered once."""
        rows = self._live_rows(annotator)
        _, first_places, n_answers = np.unique(
            self.events.question[rows], return_index=True, return_counts=True
        )
        once: I64 = rows[np.sort(first_places[n_answers == 1])]
        return once
