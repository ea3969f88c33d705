"""The questions of a session: the choice of the kind of question, and of its items."""

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


class _Request(NamedTuple):
    """A request for one question: who asks, which pairs are free, and the random generator.

    Attributes:
        annotator: who gets the question.
        taken: pairs that are being asked now.
        free: whether a pair may be asked of this annotator now.
        rng: draws all random choices for this question.
        set_size: number of items that the question should have.
    """

    annotator: str
    taken: set[Pair]
    free: Free
    rng: np.random.Generator
    set_size: int


_Chooser: TypeAlias = Callable[[_Request], Question | None]


class _Share(NamedTuple):
    """A chooser, and the range of a number drawn from 0 to 1 in which the chooser is tried."""

    start: float
    end: float
    chooser: _Chooser


class SessionAsking:
    """Chooses the questions of a session. The session's lock must be held by the caller.

    Args:
        history, fitting: the events of the session, and the model fitted to them.
        groups: the groups of the items.
        pairs: the pairs that may be asked.
        study: gold pairs and their share, overlap.
        strategies: the first strategy that returns a pair is used.
        seed: seed of all random choices.
        holdout, repeats: shares of hold-out questions and of repeated questions.
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
        self._history = history
        self._fitting = fitting
        self._groups = groups
        self._pairs = pairs
        self._study = study
        self._strategies = strategies
        self._seed = seed
        self._n_asked = 0
        self._merge: MergePass | None = None
        self._shares = self._table_of_shares(holdout, repeats, study.gold_rate)

    def _table_of_shares(
        self, holdout: float, repeats: float, gold_rate: float
    ) -> tuple[_Share, ...]:
        """The choosers in the order in which they are tried: the first question is used.

        A chooser is tried if the drawn number is in its range. Repeats have the range just above
        the hold-out, gold questions the range below 1. Where the two ranges meet, repeats go first.
        """
        repeats_end = holdout + repeats
        gold_start = 1 - gold_rate
        return (
            _Share(holdout, repeats_end, self._choose_repeat),
            _Share(gold_start, holdout, self._choose_gold),
            _Share(max(gold_start, repeats_end), 1, self._choose_gold),
            _Share(holdout, 1, self._choose_overlap),
            _Share(0, holdout, self._choose_holdout),
            _Share(holdout, 1, self._choose_informative),
            _Share(0, 1, self._choose_holdout),
            _Share(0, 1, self._choose_skipped),
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
        rng = np.random.default_rng(
            (self._seed, crc32(annotator.encode()), n_events, self._n_asked)
        )
        request = _Request(annotator, taken, self.free(annotator, taken), rng, set_size)
        number = rng.random()
        for share in self._shares:
            if share.start <= number < share.end:
                question = share.chooser(request)
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
        answered_pairs = self._history.pairs_of(annotator)

        def is_free(i: int, j: int) -> bool:
            pair = (i, j) if i < j else (j, i)
            return key_of(*pair) not in answered_pairs and pair not in taken and pair in self._pairs

        return is_free

    def _may_be_asked(self, judgement: Judgement, taken: Collection[Pair]) -> bool:
        """Whether a judgement's question may be asked again while the taken pairs are asked."""
        return all(pair not in taken and pair in self._pairs for pair in judgement.pairs)

    def view(self, annotator: str, free: Free, taken: Collection[Pair] = ()) -> View:
        """The input of a strategy, given which pairs are free and which are being asked now."""
        taken_items = np.array(sorted(taken), np.int64).ravel()
        pending = np.bincount(taken_items, minlength=self._history.n_items)
        order, among_top = self._fitting.order
        return View(
            posterior=self._fitting.fits.choosing.posterior,
            order=order,
            among_top=among_top,
            seen=self._history.seen_usable + pending,
            pending=pending,
            component=self._history.components(),
            merge=self._merge_pass,
            free=free,
            groups=self._groups,
            every=self._pairs.every,
            listed=self._pairs.listed,
            measuring=self._fitting.measuring(annotator),
        )

    def _choose_informative(self, request: _Request) -> Question | None:
        """A question about a pair chosen by the strategies, and further items up to the set size.

        The strategy `random` says `uniform` in its questions, because they belong to no hold-out.
        """
        view = self.view(request.annotator, request.free, request.taken)
        for strategy in self._strategies:
            pair = strategy(view, request.rng)
            if pair is None:
                continue
            items = grown_set(view, pair, request.set_size, request.rng)
            if strategy is random_pair:
                return self._question(request, items, "uniform", 1 / self._pairs.count)
            name = strategy.__name__.removesuffix("_pass").removesuffix("_pair")
            return self._question(request, items, name)
        return None

    def _choose_holdout(self, request: _Request) -> Question | None:
        """A hold-out question: half of the time a pair that another annotator has answered."""
        annotator, rng = request.annotator, request.rng
        shared = [pair for pair in self._history.holdout_pairs(annotator) if request.free(*pair)]
        share = _SHARED if shared else 0.0
        if rng.random() < share:
            pair = shared[rng.integers(len(shared))]
            return self._question(request, pair, HOLDOUT, share / len(shared))
        new_pair = random_pair(self.view(annotator, request.free), rng)
        if new_pair is None:
            return None
        return self._question(request, new_pair, HOLDOUT, (1 - share) / self._pairs.count)

    def _choose_repeat(self, request: _Request) -> Question | None:
        """A question that this annotator answered some time ago, each item in another place."""
        drawn = self._history.draw_once(request.annotator, request.rng, but_last=_REPEAT_AFTER)
        if drawn is None:
            return None
        earlier, n_choices = drawn
        if not self._may_be_asked(earlier, request.taken):
            return None
        first, *later = earlier.items
        return self._question_in_places([*later, first], "repeat", 1 / n_choices)

    def _choose_skipped(self, request: _Request) -> Question | None:
        """The oldest question that the annotator skipped; asked when nothing else is left."""
        for judgement in self._history.skipped(request.annotator):
            if self._may_be_asked(judgement, request.taken):
                return self._question(request, judgement.items, "skipped")
        return None

    def _choose_gold(self, request: _Request) -> Question | None:
        """A question with a gold pair that this annotator has not answered."""
        pairs = [pair for pair in self._study.gold if request.free(*pair)]
        if not pairs:
            return None
        pair = pairs[request.rng.integers(len(pairs))]
        items: tuple[int, ...] = pair
        if request.set_size > 2:
            view = self.view(request.annotator, request.free, request.taken)
            items = grown_set(view, pair, request.set_size, request.rng)
        return self._question(request, items, "gold", 1 / len(pairs))

    def _choose_overlap(self, request: _Request) -> Question | None:
        """The oldest question that has fewer answers of different people than the overlap."""
        if self._study.overlap <= 1:
            return None
        for items in self._history.answered_by_few(self._study.overlap):
            if are_free(items, request.free):
                return self._question(request, items, "overlap")
        return None

    def _question(
        self, request: _Request, items: Sequence[int], strategy: str, probability: float = 1.0
    ) -> Question:
        """A question about the items; their places depend on the annotator."""
        places = self._in_places(request.annotator, sorted(items))
        return self._question_in_places(places, strategy, probability)

    def _question_in_places(
        self, items: Sequence[int], strategy: str, probability: float
    ) -> Question:
        """A question about the items in this order of places, chosen by the present fit."""
        left, right, *further = items
        model = self._fitting.fitted_at
        return Question(left, right, strategy, float(probability), model, tuple(further))

    def _in_places(self, annotator: str, items: list[int]) -> list[int]:
        """The items in the order in which this annotator always sees them."""
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
    """Answer the comparisons of a judgement that a merge sort waits for.

    After a tie, a skip or "can't say" the lower number goes first: any order will do.
    """
    if judgement.strategy == HOLDOUT or judgement.answer == "undo":
        return
    better_of = {unordered_pair(better, worse): better for better, worse in judgement.comparisons()}
    for pair in judgement.pairs:
        merge.answer(*pair, better_of.get(pair, min(pair)))
