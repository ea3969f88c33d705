"""The questions of a session: which kind of question comes next, and about which pair."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, TypeAlias
from zlib import crc32

import numpy as np

from sortnet.core.pairs import key_of
from sortnet.preference.askable_pairs import AskablePairs
from sortnet.preference.base import HOLDOUT, Judgement, Pair, Question, unordered_pair
from sortnet.preference.fitting import SessionFitting
from sortnet.preference.groups import Groups
from sortnet.preference.history import History
from sortnet.preference.judgement_table import UNDO, Judgements
from sortnet.preference.set_choice import are_free, grown_set
from sortnet.preference.strategies import Free, MergePass, Strategy, View, random_pair
from sortnet.preference.study import Study

_SHARED = 0.5  # share of hold-out questions that another annotator has answered
_REPEAT_AFTER = 10  # answers of an annotator before one of them is repeated


class _Asked(NamedTuple):
    """Who is asked a question, and what is free for them."""

    annotator: str
    taken: set[Pair]  # pairs that are being asked now
    free: Free
    rng: np.random.Generator
    set_size: int


_Chooser: TypeAlias = Callable[[_Asked], Question | None]


class _Share(NamedTuple):
    """A range of a number drawn from 0 to 1, in which a chooser is tried."""

    start: float
    end: float
    chooser: _Chooser


class SessionAsking:
    """Chooses the questions of a session. The session's lock must be held by the caller.

    Args:
        history, fitting: of the session.
        groups: of the items.
        pairs: that may be asked.
        study: gold pairs and their share, overlap.
        strategies: the first that returns a pair is used.
        seed: of all random choices.
        holdout, repeats: shares of questions of the hold-out, and of repeated ones.
    """

    def __init__(
        self,
        history: History,
        fitting: SessionFitting,
        groups: Groups,
        pairs: AskablePairs,
        study: Study,
        strategies: tuple[Strategy, ...],
        *,
        seed: int,
        holdout: float,
        repeats: float,
    ) -> None:
        self._history, self._fitting, self._groups, self._pairs = history, fitting, groups, pairs
        self._study, self._strategies, self._seed = study, strategies, seed
        self._n_asked = 0
        self._merge: MergePass | None = None
        self._shares = self._table_of_shares(holdout, repeats, study.gold_rate)

    def _table_of_shares(
        self, holdout: float, repeats: float, gold_rate: float
    ) -> tuple[_Share, ...]:
        """Choosers, each with the range of the drawn number in which it is tried; the first that
        returns a question is used.

        Where gold questions are so many that they meet the repeats, repeats go first.
        """
        repeats_end = holdout + repeats
        gold_start = 1 - gold_rate
        return (
            _Share(holdout, repeats_end, self._repeat),
            _Share(gold_start, holdout, self._gold),
            _Share(max(gold_start, repeats_end), 1, self._gold),
            _Share(holdout, 1, self._overlap),
            _Share(0, holdout, self._random),
            _Share(holdout, 1, self._chosen),
            _Share(0, 1, self._random),
            _Share(0, 1, self._skipped),
        )

    def next_question(self, annotator: str, taken: set[Pair], set_size: int = 2) -> Question | None:
        """The next question for an annotator, about none of the taken pairs; None: none is left.

        A question whose answer was undone comes first, unchanged.
        """
        undone = self._history.undone(annotator)
        if undone is not None and self._may_be_asked(undone, taken):
            return undone.question
        self._n_asked += 1
        n_events = len(self._history.events)
        seed = self._seed, crc32(annotator.encode()), n_events, self._n_asked
        rng = np.random.default_rng(seed)
        to = _Asked(annotator, taken, self.free(annotator, taken), rng, set_size)
        drawn = rng.random()
        for share in self._shares:
            if share.start <= drawn < share.end:
                question = share.chooser(to)
                if question is not None:
                    return question
        return None

    def record(self, new: Judgements) -> None:
        """Let the merge sort continue with new events, which are in the history already."""
        if (new.answer == UNDO).any():
            self._merge = None
        elif self._merge is not None:
            for judgement in new:
                _answer_merge(self._merge, judgement)

    def free(self, annotator: str, taken: Collection[Pair]) -> Free:
        """A function of two items: whether they may be asked of this annotator now."""
        answered = self._history.pairs_of(annotator)

        def is_free(i: int, j: int) -> bool:
            pair = (i, j) if i < j else (j, i)
            return key_of(*pair) not in answered and pair not in taken and pair in self._pairs

        return is_free

    def _may_be_asked(self, judgement: Judgement, taken: Collection[Pair]) -> bool:
        """Whether the question of a judgement may be asked again, given the taken pairs."""
        return all(pair not in taken and pair in self._pairs for pair in judgement.pairs)

    def view(self, annotator: str, free: Free, taken: Collection[Pair] = ()) -> View:
        """The input of a strategy, given what is free and the pairs that are being asked now."""
        taken_items = np.array(sorted(taken), np.int64).ravel()
        pending = np.bincount(taken_items, minlength=self._history.n_items)
        return View(
            self._fitting.fits.choosing.posterior,
            *self._fitting.order,
            self._history.seen_usable + pending,
            pending,
            self._history.components(),
            self._merge_pass,
            free,
            self._groups,
            self._pairs.every,
            self._pairs.listed,
            self._fitting.measuring(annotator),
        )

    def _chosen(self, to: _Asked) -> Question | None:
        """A pair chosen by the strategies, and further items if a set is wanted."""
        view = self.view(to.annotator, to.free, to.taken)
        for strategy in self._strategies:
            pair = strategy(view, to.rng)
            if pair is None:
                continue
            items = grown_set(view, pair, to.set_size, to.rng)
            if strategy is random_pair:  # not part of the hold-out
                return self._question(to, items, "uniform", 1 / self._pairs.count)
            name = strategy.__name__.removesuffix("_pass").removesuffix("_pair")
            return self._question(to, items, name)
        return None

    def _random(self, to: _Asked) -> Question | None:
        """A question of the hold-out; half of them are ones that another annotator has answered."""
        shared = [pair for pair in self._history.holdout_pairs(to.annotator) if to.free(*pair)]
        share = _SHARED if shared else 0.0
        if to.rng.random() < share:
            pair = shared[to.rng.integers(len(shared))]
            return self._question(to, pair, HOLDOUT, share / len(shared))
        drawn = random_pair(self.view(to.annotator, to.free), to.rng)
        if drawn is None:
            return None
        return self._question(to, drawn, HOLDOUT, (1 - share) / self._pairs.count)

    def _repeat(self, to: _Asked) -> Question | None:
        """A question that this annotator answered some time ago, each item in another place."""
        drawn = self._history.draw_once(to.annotator, to.rng, but_last=_REPEAT_AFTER)
        if drawn is None:
            return None
        earlier, n_choices = drawn
        if not self._may_be_asked(earlier, to.taken):
            return None
        first, *others = earlier.items
        left, right, *further = (*others, first)
        model = self._fitting.fitted_at
        return Question(left, right, "repeat", 1 / n_choices, model, tuple(further))

    def _skipped(self, to: _Asked) -> Question | None:
        """When nothing else is left: a question that the annotator skipped."""
        for judgement in self._history.skipped(to.annotator):
            if self._may_be_asked(judgement, to.taken):
                return self._question(to, judgement.items, "skipped")
        return None

    def _gold(self, to: _Asked) -> Question | None:
        """A question with a pair whose answer is known, which this annotator has not answered."""
        pairs = [pair for pair in self._study.gold if to.free(*pair)]
        if not pairs:
            return None
        pair = pairs[to.rng.integers(len(pairs))]
        items = pair
        if to.set_size > 2:
            items = grown_set(self.view(to.annotator, to.free, to.taken), pair, to.set_size, to.rng)
        return self._question(to, items, "gold", 1 / len(pairs))

    def _overlap(self, to: _Asked) -> Question | None:
        """The oldest question that others have answered, but fewer people than the overlap."""
        overlap = self._study.overlap
        asked = self._history.answered_by_few(overlap) if overlap > 1 else []
        oldest = next((items for items in asked if are_free(items, to.free)), None)
        return None if oldest is None else self._question(to, oldest, "overlap")

    def _question(
        self, to: _Asked, items: Sequence[int], strategy: str, probability: float = 1.0
    ) -> Question:
        """A question about the items; their places depend on the annotator."""
        left, right, *further = self._in_places(to.annotator, sorted(items))
        model = self._fitting.fitted_at
        return Question(left, right, strategy, float(probability), model, tuple(further))

    def _in_places(self, annotator: str, items: list[int]) -> list[int]:
        """The items in the order in which the annotator sees them, whenever they are asked."""
        rng = np.random.default_rng((self._seed, crc32(annotator.encode()), *items))
        if len(items) > 2:
            return [*map(int, rng.permutation(items))]
        is_as_numbered = rng.random() < 0.5
        return items if is_as_numbered else items[::-1]

    def _merge_pass(self) -> MergePass:
        """The current merge sort, rebuilt from the answers after an undo."""
        if self._merge is None:
            order = np.random.default_rng(self._seed).permutation(self._history.n_items)
            group = self._groups.of[order]
            by_group = (order[group == k].tolist() for k in range(len(self._groups)))
            self._merge = MergePass(*by_group)
            for judgement in self._history.alive():
                _answer_merge(self._merge, judgement)
        return self._merge


def _answer_merge(merge: MergePass, judgement: Judgement) -> None:
    """Answer a comparison that a merge sort waits for.

    After a tie, a skip or "can't say" the lower number goes first: any order will do.
    """
    if judgement.strategy == HOLDOUT or judgement.answer == "undo":
        return
    if judgement.further:
        decided = {unordered_pair(*pair): pair[0] for pair in judgement.comparisons()}
        for pair in judgement.pairs:
            merge.answer(*pair, decided.get(pair, min(pair)))
        return
    first = {"left": judgement.left, "right": judgement.right}
    merge.answer(*judgement.pair, first.get(judgement.answer, min(judgement.pair)))
