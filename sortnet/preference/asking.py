"""Choose the next question of a session: first the kind of question, then the items."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple, TypeAlias
from zlib import crc32

import numpy as np

from sortnet.preference.base import HOLDOUT, Judgement, Pair, Question
from sortnet.preference.fitting import SessionFitting
from sortnet.preference.model import Posterior
from sortnet.preference.plan import Plan
from sortnet.preference.rule import Beliefs, Free, openness

_SHARED = 0.5  # share of hold-out questions about pairs that another annotator has answered
_REPEAT_AFTER = 10  # an annotator's last 10 answered questions are not repeated yet


class _Request(NamedTuple):
    """A request for one question: who is asked, which pairs are free, and the random generator.

    Attributes:
        annotator: the name of the annotator who gets the question.
        taken: pairs that are being asked now, each with the lower item number first.
        free: tells whether a pair may be asked of this annotator now.
        rng: draws all random choices for this question.
        set_size: number of items that the question should have.
    """

    annotator: str
    taken: set[Pair]
    free: Free
    rng: np.random.Generator
    set_size: int


_Chooser: TypeAlias = Callable[[_Request], Question | None]


@dataclass
class _KeptBeliefs:
    """The beliefs after a fit, with the answers since then as if they had been as expected.

    Attributes:
        posterior: the posterior of the fit.
        set_size: number of items of the questions that the beliefs are for.
        beliefs: the beliefs.
        expected: the pairs of items of the answers and open questions that the beliefs include.
    """

    posterior: Posterior
    set_size: int
    beliefs: Beliefs
    expected: set[Pair] = field(default_factory=set)

    def expect_answers(self, questions: Sequence[tuple[int, ...]]) -> None:
        """Include answers and open questions, each the numbers of its items.

        A question whose pairs are all included already is not included again: it was open before.
        """
        for items in questions:
            pairs = set(combinations(sorted(items), 2))
            if not pairs <= self.expected:
                self.expected |= pairs
                self.beliefs.expect_answer(items)


class SessionAsking:
    """Chooses the questions of a session. The session's lock must be held by the caller.

    Args:
        plan: what the session is asked to do.
        fitting: the events, and the model fitted to the events.
    """

    def __init__(self, plan: Plan, fitting: SessionFitting) -> None:
        """Start without a question."""
        self._plan = plan
        self._fitting = fitting
        self._history = fitting.history
        self._n_asked = 0
        self._kept: _KeptBeliefs | None = None

    def _choosers(self, drawn_number: float) -> Iterator[_Chooser]:
        """Yield the functions that choose a question, in the order in which they are tried.

        A number from 0 to 1 that is drawn for the question decides its kind:

            0 ... holdout ... holdout + repeats ... 1 - gold rate ... 1
              hold-out     repeats           informative         gold

        Where ranges overlap, repeats are asked instead of gold, and gold instead of the hold-out.
        Questions that too few annotators have answered come before informative questions.
        """
        is_holdout = drawn_number < self._plan.holdout
        if not is_holdout and drawn_number < self._plan.holdout + self._plan.repeats:
            yield self._choose_repeat
        elif drawn_number >= 1 - self._plan.study.gold_rate:
            yield self._choose_gold
        if not is_holdout:
            yield self._choose_overlap
            yield self._choose_informative
        # If nothing else is left, hold-out questions and skipped questions are asked.
        yield self._choose_holdout
        yield self._choose_skipped

    def next_question(self, annotator: str, taken: set[Pair], set_size: int = 2) -> Question | None:
        """Choose the next question for an annotator; None if no question is left.

        A question whose answer was undone is asked first, unchanged.

        Args:
            annotator: the name of the annotator.
            taken: pairs that are being asked now; the question contains none of them.
            set_size: number of items that the question should have.
        """
        undone = self._history.undone(annotator)
        if undone is not None and self._may_be_asked(undone, taken):
            return undone.question
        self._n_asked += 1
        rng = self._generator(annotator, len(self._history.events), self._n_asked)
        request = _Request(annotator, taken, self.free(annotator, taken), rng, set_size)
        for chooser in self._choosers(rng.random()):
            question = chooser(request)
            if question is not None:
                return question
        return None

    def free(self, annotator: str, taken: Collection[Pair]) -> Free:
        """Return a function that tells whether two items may be asked of this annotator now."""

        def is_free(i: int, j: int) -> bool:
            pair = (i, j) if i < j else (j, i)
            if pair in taken or self._history.has_compared(annotator, i, j):
                return False
            return pair in self._plan.pairs

        return is_free

    def _askable(self, request: _Request) -> Free:
        """Return a function that tells whether two items may be shown together in a question.

        The annotator may have compared them before. They are not in a question that is being asked.
        """

        def is_askable(i: int, j: int) -> bool:
            pair = (i, j) if i < j else (j, i)
            return pair not in request.taken and pair in self._plan.pairs

        return is_askable

    def _has_size(self, items: Sequence[int], request: _Request) -> bool:
        """Whether an earlier question has the size of the request, or of its group if smaller.

        Keys that are typed by habit would answer a question of another size wrongly.
        """
        n_members = len(self._plan.groups.members[self._plan.groups.of[items[0]]])
        return len(items) == min(request.set_size, n_members)

    def _may_be_asked(self, judgement: Judgement, taken: Collection[Pair]) -> bool:
        """Whether a judgement's question may be asked again now.

        Every pair of its items must be allowed, and no pair may be taken: asked at this moment.
        """
        return all(pair not in taken and pair in self._plan.pairs for pair in judgement.pairs)

    def _beliefs(self, request: _Request) -> Beliefs:
        """Collect what the rule chooses from; open questions count as if they were answered.

        The beliefs after the last fit are kept until the next fit, with the answers since then.
        """
        posterior = self._fitting.fits.choosing
        scale = self._fitting.scale_of(request.annotator)
        kept = self._kept
        if kept is None or kept.posterior is not posterior or kept.set_size != request.set_size:
            openness_of_items = openness(
                posterior, self._plan.groups, self._plan.goal.top, request.set_size
            )
            n_seen = self._history.seen(holdout=False)
            beliefs = Beliefs.of(
                posterior, self._plan.groups, openness_of_items, n_seen, scale, request.rng
            )
            self._kept = kept = _KeptBeliefs(posterior, request.set_size, beliefs)
        kept.expect_answers([*self._fitting.unfitted(), *sorted(request.taken)])
        kept.beliefs.scale = scale
        return kept.beliefs

    def _choose_informative(self, request: _Request) -> Question | None:
        """Choose the pair whose answer does most for the goal, and add items for a larger set."""
        if self._plan.strategy == "random":
            return self._choose_uniform(request)
        beliefs = self._beliefs(request)
        pair = beliefs.best_pair(self._plan.pairs, request.free, request.rng)
        if pair is None:
            return None
        askable = self._askable(request)
        items = beliefs.grown(pair, request.set_size, request.free, askable, request.rng)
        if len(items) > 2 and self._history.has_answered(request.annotator, items):
            # Of a small group only the pair is left that was named neither best nor worst.
            items = pair
        return self._shuffled_question(request.annotator, items, "informative")

    def _choose_uniform(self, request: _Request) -> Question | None:
        """Choose a random question, for comparison; random questions are called `uniform`."""
        items = self._random_items(request)
        if items is None:
            return None
        p_of_pair = 1 / self._plan.pairs.count
        return self._shuffled_question(request.annotator, items, "uniform", probability=p_of_pair)

    def _random_items(self, request: _Request) -> tuple[int, ...] | None:
        """Draw a free pair, and further items if the question is about more than two.

        Items that the annotator has compared before fill up the set if no free items are left.
        """
        pair = self._plan.pairs.drawn(request.free, request.rng)
        if pair is None or request.set_size == 2:
            return pair
        items: tuple[int, ...] = pair
        members = self._plan.groups.members[self._plan.groups.of[pair[0]]]
        shuffled = request.rng.permutation(members).tolist()
        for may_be_together in (request.free, self._askable(request)):
            for item in shuffled:
                is_new = len(items) < request.set_size and item not in items
                if is_new and all(may_be_together(item, other) for other in items):
                    items = (*items, item)
        return items

    def _choose_holdout(self, request: _Request) -> Question | None:
        """Choose random items for the hold-out.

        Half of the questions are hold-out questions that another annotator has answered, if such a
        question is free. The other questions are about any free pair, and random further items if
        the question is about a set.
        """
        rng = request.rng
        annotator = request.annotator
        shared = [
            items
            for items in self._history.holdout_questions(annotator)
            if self._has_size(items, request) and are_free(items, request.free)
        ]
        p_shared = _SHARED if shared else 0.0
        if rng.random() < p_shared:
            items = shared[rng.integers(len(shared))]
            p_of_items = p_shared / len(shared)
            return self._shuffled_question(annotator, items, HOLDOUT, probability=p_of_items)
        any_items = self._random_items(request)
        if any_items is None:
            return None
        p_of_pair = (1 - p_shared) / self._plan.pairs.count
        return self._shuffled_question(annotator, any_items, HOLDOUT, probability=p_of_pair)

    def _choose_repeat(self, request: _Request) -> Question | None:
        """Repeat a question that this annotator answered before, each item in another place.

        The last 10 questions that the annotator answered once are not repeated yet.
        """
        drawn = self._history.draw_once(request.annotator, request.rng, but_last=_REPEAT_AFTER)
        if drawn is None:
            return None
        earlier, n_choices = drawn
        has_size = self._has_size(earlier.items, request)
        if not has_size or not self._may_be_asked(earlier, request.taken):
            return None
        first, *later = earlier.items  # the first item moves to the last place
        return self._ordered_question([*later, first], "repeat", probability=1 / n_choices)

    def _choose_skipped(self, request: _Request) -> Question | None:
        """Repeat the oldest question that the annotator skipped, when nothing else is left."""
        for judgement in self._history.skipped(request.annotator):
            has_size = self._has_size(judgement.items, request)
            if has_size and self._may_be_asked(judgement, request.taken):
                return self._shuffled_question(request.annotator, judgement.items, "skipped")
        return None

    def _choose_gold(self, request: _Request) -> Question | None:
        """Choose a question with a gold pair that this annotator has not answered."""
        gold_pairs = [pair for pair in self._plan.study.gold if request.free(*pair)]
        if not gold_pairs:
            return None
        gold_pair = gold_pairs[request.rng.integers(len(gold_pairs))]
        items: tuple[int, ...] = gold_pair
        if request.set_size > 2:
            askable = self._askable(request)
            beliefs = self._beliefs(request)
            items = beliefs.grown(gold_pair, request.set_size, request.free, askable, request.rng)
        p_of_pair = 1 / len(gold_pairs)
        return self._shuffled_question(request.annotator, items, "gold", probability=p_of_pair)

    def _choose_overlap(self, request: _Request) -> Question | None:
        """Choose the oldest question that fewer annotators have answered than the study wants."""
        if self._plan.study.overlap <= 1:
            return None
        for items in self._history.answered_by_few(self._plan.study.overlap):
            if self._has_size(items, request) and are_free(items, request.free):
                return self._shuffled_question(request.annotator, items, "overlap")
        return None

    def _shuffled_question(
        self, annotator: str, items: Sequence[int], strategy: str, *, probability: float = 1.0
    ) -> Question:
        """Make a question for an annotator that shows the items in a random order.

        The order is random, so that no item profits from annotators who prefer one side.

        Args:
            annotator: the name of the annotator.
            items: the items in any order.
            strategy: the name of the strategy that chose the items.
            probability: the probability with which the strategy chose the items; 1 if the choice
                was not random.
        """
        shuffled_items = self._shuffled(annotator, items)
        return self._ordered_question(shuffled_items, strategy, probability=probability)

    def _ordered_question(
        self, items: Sequence[int], strategy: str, *, probability: float
    ) -> Question:
        """Make a question that shows the items in the given order.

        The question records how many events were fitted when it was chosen.
        """
        n_fitted = self._fitting.fits.at
        return Question(tuple(items), strategy, float(probability), n_fitted)

    def _shuffled(self, annotator: str, items: Sequence[int]) -> list[int]:
        """Shuffle items, always in the same way for the same annotator and the same items."""
        ascending = sorted(items)
        rng = self._generator(annotator, *ascending)
        if len(ascending) > 2:
            return [*map(int, rng.permutation(ascending))]
        lower_number_first = rng.random() < 0.5
        return ascending if lower_number_first else ascending[::-1]

    def _generator(self, annotator: str, *numbers: int) -> np.random.Generator:
        """Make a random generator, seeded by the session's seed, the annotator and the numbers."""
        number_of_name = crc32(annotator.encode())
        return np.random.default_rng((self._plan.seed, number_of_name, *numbers))


def are_free(items: Sequence[int], free: Free) -> bool:
    """Whether every pair of the items may be asked."""
    return all(free(i, j) for i, j in combinations(items, 2))
