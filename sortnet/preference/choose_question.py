"""Choose the next question of a session: first the kind of question, then the items."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import NamedTuple, TypeAlias
from zlib import crc32

import numpy as np

from sortnet.preference.base import HOLDOUT, Pair, Question, unordered_pair
from sortnet.preference.fitting import FittedEvents
from sortnet.preference.groups import Groups
from sortnet.preference.model import Posterior
from sortnet.preference.rule import Beliefs, Free, openness
from sortnet.preference.stopping import Goal

_SHARED = 0.5  # share of hold-out questions about pairs that another annotator has answered
_REPEAT_AFTER = 10  # an annotator's last 10 answered questions are not repeated yet


class _Request(NamedTuple):
    """A request for one question: who is asked, which pairs are free, and the random generator.

    Attributes:
        annotator: the name of the annotator who gets the question.
        taken: pairs that are being asked now, each with the lower item number first.
        free: tells whether a pair may be asked of this annotator now.
        askable: tells whether two items may be shown together in a question. The annotator may have
            compared them before. They are not in a question that is being asked.
        rng: draws all random choices for this question.
        set_size: number of items that the question should have.
    """

    annotator: str
    taken: set[Pair]
    free: Free
    askable: Free
    rng: np.random.Generator
    set_size: int


class _Choice(NamedTuple):
    """Chosen items, the strategy that chose them, and its probability to choose them.

    The probability is 1 if the choice was not random.
    """

    items: Sequence[int]
    strategy: str
    probability: float = 1.0


_Chooser: TypeAlias = Callable[[_Request], _Choice | None]


@dataclass(eq=False)
class SessionAsking:
    """Chooses the questions of a session. The session's lock must be held by the caller.

    Attributes:
        fitting: the events, the model fitted to the events, gold pairs and overlap.
        groups: the groups of the items, and the pairs that may be asked.
        goal: the goal.
        strategy: `default`, or `random` for random pairs.
        holdout: share of hold-out questions.
        repeats: share of repeated questions.
    """

    fitting: FittedEvents
    groups: Groups
    goal: Goal
    strategy: str
    holdout: float
    repeats: float

    def __post_init__(self) -> None:
        self._history = self.fitting.history
        self._n_asked = 0
        self._kept: tuple[Posterior, int, Beliefs] | None = None
        self._n_expected = 0  # events whose answers the kept beliefs include

    def _choosers(self, drawn_number: float) -> Iterator[_Chooser]:
        """Yield the functions that choose a question, in the order in which they are tried.

        A number from 0 to 1 that is drawn for the question decides its kind:

            0 ... holdout ... holdout + repeats ... 1 - gold rate ... 1
              hold-out     repeats           informative         gold

        Where ranges overlap, repeats are asked instead of gold, and gold instead of the hold-out.
        Questions that too few annotators have answered come before informative questions.
        """
        is_holdout = drawn_number < self.holdout
        if not is_holdout and drawn_number < self.holdout + self.repeats:
            yield self._choose_repeat
        elif drawn_number >= 1 - self.fitting.study.gold_rate:
            yield self._choose_gold
        if not is_holdout:
            yield self._choose_overlap
            yield self._choose_informative
        # If nothing else is left, hold-out questions and skipped questions are asked.
        yield self._choose_holdout
        yield self._choose_skipped

    def next_question(self, annotator: str, taken: set[Pair], set_size: int) -> Question | None:
        """Choose the next question for an annotator; None if no question is left.

        A question whose answer was undone is asked first, unchanged.

        Args:
            annotator: the name of the annotator.
            taken: pairs that are being asked now; the question contains none of them.
            set_size: number of items that the question should have.
        """
        askable = partial(self._is_askable, taken)
        undone = self._history.undone(annotator)
        if undone is not None and are_free(undone.items, askable):
            return undone.question
        self._n_asked += 1
        rng = self._generator(annotator, len(self._history.events), self._n_asked)
        is_free = partial(self._is_free, annotator, taken)
        request = _Request(annotator, taken, is_free, askable, rng, set_size)
        for choose in self._choosers(rng.random()):
            choice = choose(request)
            if choice is not None:
                return self._question(annotator, choice)
        return None

    def _is_askable(self, taken: Collection[Pair], i: int, j: int) -> bool:
        """Whether two items may be shown together: nobody is asked about them now."""
        pair = unordered_pair(i, j)
        return pair not in taken and self.groups.may_ask(pair)

    def _is_free(self, annotator: str, taken: Collection[Pair], i: int, j: int) -> bool:
        """Whether two items may be asked of this annotator now."""
        has_compared = self._history.has_compared(annotator, i, j)
        return not has_compared and self._is_askable(taken, i, j)

    def _may_ask_again(self, items: Sequence[int], request: _Request, free: Free) -> bool:
        """Whether an earlier question may be asked: each pair of its items is free.

        It must have the size of the request, or of its group if smaller, because keys that are
        typed by habit would answer a question of another size wrongly.
        """
        n_members = len(self.groups.members_beside(items[0]))
        return len(items) == min(request.set_size, n_members) and are_free(items, free)

    def _beliefs(self, request: _Request) -> Beliefs:
        """Collect what the rule chooses from; open questions count as if they were answered.

        The beliefs after the last fit are kept until the next fit, with the answers since then.
        """
        fits = self.fitting.fits
        posterior, set_size = fits.choosing, request.set_size
        if self._kept is None or self._kept[:2] != (posterior, set_size):
            is_open = openness(posterior, self.groups, self.goal.top, set_size)
            n_seen = self._history.seen(holdout=False)
            beliefs = Beliefs(posterior, self.groups, is_open, n_seen, request.rng)
            self._kept = posterior, set_size, beliefs
            self._n_expected = fits.at
        *_, beliefs = self._kept
        new_answers = self._history.questions_after(self._n_expected)
        self._n_expected = len(self._history.events)
        beliefs.expect_answers([*new_answers, *sorted(request.taken)])
        beliefs.scale = self.fitting.scale_of(request.annotator)
        return beliefs

    def _choose_informative(self, request: _Request) -> _Choice | None:
        """Choose the pair whose answer does most for the goal, and add items for a larger set.

        The strategy `random`, for comparison, chooses at random.
        """
        if self.strategy == "random":
            return self._choose_random(request, "uniform")
        pair = self._beliefs(request).best_pair(request.free, request.rng)
        if pair is None:
            return None
        items = self._grown(pair, request, request.askable)
        if len(items) > 2 and self._history.has_answered(request.annotator, items):
            # Other items join the two that were named neither best nor worst, if there are others.
            answered = {*items} - {*pair}

            def is_other(i: int, j: int) -> bool:
                return request.askable(i, j) and not answered & {i, j}

            items = self._grown(pair, request, is_other)
            if len(items) < request.set_size:
                items = pair
        return _Choice(items, "informative")

    def _grown(self, pair: Pair, request: _Request, may_join: Free) -> tuple[int, ...]:
        """Add the most informative items that may join to a pair, unless a pair is wanted."""
        if request.set_size == 2:
            return pair

        def free(i: int, j: int) -> bool:
            return request.free(i, j) and may_join(i, j)

        beliefs = self._beliefs(request)
        return beliefs.grown(pair, request.set_size, free, may_join, request.rng)

    def _choose_random(
        self, request: _Request, strategy: str, probability: float = 1.0
    ) -> _Choice | None:
        """Draw a free pair, and further items if the question is about more than two.

        Items that the annotator has compared before fill up the set if no free items are left.

        Args:
            request: the request.
            strategy: the name of the strategy.
            probability: the probability that the strategy chooses at random.
        """
        pair = self.groups.draw_free(request.free, request.rng)
        if pair is None:
            return None
        items: tuple[int, ...] = pair
        if request.set_size > 2:
            shuffled = request.rng.permutation(self.groups.members_beside(pair[0])).tolist()
            for may_be_together in (request.free, request.askable):
                for item in shuffled:
                    is_new = len(items) < request.set_size and item not in items
                    if is_new and all(may_be_together(item, other) for other in items):
                        items = (*items, item)
        return _Choice(items, strategy, probability / self.groups.n_askable)

    def _choose_holdout(self, request: _Request) -> _Choice | None:
        """Choose random items for the hold-out.

        Half of the questions are hold-out questions that another annotator has answered, if such a
        question is free. The other questions are about any free pair, and random further items if
        the question is about a set.
        """
        shared = [
            items
            for items in self._history.holdout_questions(request.annotator)
            if self._may_ask_again(items, request, request.free)
        ]
        p_shared = _SHARED if shared else 0.0
        if request.rng.random() < p_shared:
            items = shared[request.rng.integers(len(shared))]
            return _Choice(items, HOLDOUT, p_shared / len(shared))
        return self._choose_random(request, HOLDOUT, 1 - p_shared)

    def _choose_repeat(self, request: _Request) -> _Choice | None:
        """Repeat a question that this annotator answered before, each item in another place.

        The last 10 questions that the annotator answered once are not repeated yet.
        """
        judgement_and_n = self._history.draw_once(
            request.annotator, request.rng, but_last=_REPEAT_AFTER
        )
        if judgement_and_n is None:
            return None
        earlier, n_choices = judgement_and_n
        if not self._may_ask_again(earlier.items, request, request.askable):
            return None
        first, *later = earlier.items  # the first item moves to the last place
        return _Choice((*later, first), "repeat", 1 / n_choices)

    def _choose_skipped(self, request: _Request) -> _Choice | None:
        """Repeat the oldest question that the annotator skipped, when nothing else is left."""
        for judgement in self._history.skipped(request.annotator):
            if self._may_ask_again(judgement.items, request, request.askable):
                return _Choice(judgement.items, "skipped")
        return None

    def _choose_gold(self, request: _Request) -> _Choice | None:
        """Choose a question with a gold pair that this annotator has not answered."""
        gold_pairs = [pair for pair in self.fitting.study.gold if request.free(*pair)]
        if not gold_pairs:
            return None
        gold_pair = gold_pairs[request.rng.integers(len(gold_pairs))]
        items = self._grown(gold_pair, request, request.askable)
        return _Choice(items, "gold", 1 / len(gold_pairs))

    def _choose_overlap(self, request: _Request) -> _Choice | None:
        """Choose the oldest question that fewer annotators have answered than the study wants."""
        if self.fitting.study.overlap <= 1:
            return None
        for items in self._history.answered_by_few(self.fitting.study.overlap):
            if self._may_ask_again(items, request, request.free):
                return _Choice(items, "overlap")
        return None

    def _question(self, annotator: str, choice: _Choice) -> Question:
        """Make a question; its items are in a random order, except those of a repeat.

        So no item profits from annotators who prefer one side. The order is always the same for the
        same annotator and the same items.
        """
        items = [*choice.items]
        if choice.strategy != "repeat":
            items.sort()
            rng = self._generator(annotator, *items)
            if len(items) > 2:
                items = rng.permutation(items).tolist()
            elif rng.random() >= 0.5:
                items.reverse()
        n_fitted = self.fitting.fits.at
        return Question(tuple(items), choice.strategy, choice.probability, n_fitted)

    def _generator(self, annotator: str, *numbers: int) -> np.random.Generator:
        """Make a random generator, seeded by the session's seed, the annotator and the numbers."""
        number_of_name = crc32(annotator.encode())
        return np.random.default_rng((self.fitting.seed, number_of_name, *numbers))


def are_free(items: Sequence[int], free: Free) -> bool:
    """Whether every pair of the items may be asked."""
    return all(free(i, j) for i, j in combinations(items, 2))
