"""A session that rests on the small model of answers, beside `Session` until it takes its place.

Benchmarks and tests reach it. It asks by one rule, ranks with intervals, and says whether a goal is
reached; it has no undo, gold, repeats or groups yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from sortnet.core import F64, Bool
from sortnet.preference.answers import Answers
from sortnet.preference.askable_pairs import AskablePairs
from sortnet.preference.base import (
    HOLDOUT,
    Judgement,
    Pair,
    Probabilities,
    Question,
    unordered_pair,
)
from sortnet.preference.design import design
from sortnet.preference.goal import SURE, WRONG, Goal, above_edge, wrong_of_top
from sortnet.preference.groups import Groups
from sortnet.preference.hyperparameters import choose
from sortnet.preference.intervals import Ranking, shortest
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.many_items import DENSE, fit_many, sampled
from sortnet.preference.model import Annotators, Columns, Posterior, Prior, fit
from sortnet.preference.rule import Beliefs, openness

_UNFITTED_SHARE = 20  # a fit is due after 1/20 more answers
_FIRST_MILESTONE = 8  # answers after which the hyperparameters are chosen first
_SAMPLE = 300  # items from whose answers the hyperparameters are chosen
_DEFAULT_SCALE = 0.4  # of measurements, before an answer tells the scale


class PlainSession:
    """Asks annotators about items, and ranks the items by the answers.

    Args:
        features: (n, d) the features of the items; NaN is missing. None for items without features.
        n_items: the number of items n, if there are no features.
        seed: the seed of all random choices.
        goal: when to stop; a number is the share of all pairs that may be in the wrong order.
        set_size: the number of items of a question.
        holdout: the share of questions about random pairs, which choose no questions.
        probabilities: what each annotator's p counts as; a share of votes if not given.

    Attributes:
        prior, annotators: the hyperparameters, chosen each time there are a quarter more answers.

    >>> session = PlainSession(None, 4, seed=1)
    >>> for _ in range(6):
    ...     (q,) = session.ask("ana")
    ...     session.tell(q.answered("ana", "left" if q.left > q.right else "right"))
    >>> session.ranking().order.tolist()
    [3, 2, 1, 0]
    """

    def __init__(
        self,
        features: ArrayLike | None,
        n_items: int | None = None,
        *,
        seed: int = 0,
        goal: Goal | float = WRONG,
        set_size: int = 2,
        holdout: float = 0.1,
        probabilities: dict[str, Probabilities] | None = None,
    ) -> None:
        """Start without answers: the posterior is the prior."""
        X = design(features, n_items)
        self.goal = goal if isinstance(goal, Goal) else Goal(goal)
        self.set_size = set_size
        self.table = Judgements()
        self._seed = seed
        self._holdout = holdout
        self._probabilities = probabilities or {}
        self._rng = np.random.default_rng(seed)
        self._groups = Groups(None, len(X))
        self._pairs = AskablePairs(self._groups)
        self._asked: dict[str, set[Pair]] = {}
        self._linear = Columns(X)
        self._squares = with_squares(X) if X.shape[1] else None
        self.prior = Prior(self._linear)
        self.annotators = Annotators.average(0)
        self._n_chosen = 0  # answers from which the hyperparameters were chosen
        self._n_fitted = 0
        self._posterior = self._fitted(self._is_choosing())

    @property
    def events(self) -> int:
        """The number of answers so far."""
        return len(self.table)

    def tell(self, judgement: Judgement) -> None:
        """Add an answer."""
        self.replay([judgement])

    def replay(self, judgements: Iterable[Judgement]) -> None:
        """Add several answers."""
        new = [*judgements]
        self.table.extend(Judgements.of(new))
        for judgement in new:
            self._asked.setdefault(judgement.annotator, set()).update(judgement.pairs)

    def ask(self, annotator: str) -> list[Question]:
        """Choose the next question for an annotator; no question if no pair is left.

        Cost: a few milliseconds, and a fit each time there are 5 % more answers.
        """
        if self.events - self._n_fitted >= max(1, self._n_fitted // _UNFITTED_SHARE):
            self._posterior = self._fitted(self._is_choosing())
            self._n_fitted = self.events
        rng = self._rng
        asked_pairs = self._asked.setdefault(annotator, set())

        def is_free(i: int, j: int) -> bool:
            return i != j and unordered_pair(i, j) not in asked_pairs

        if rng.random() < self._holdout:
            left, right = rng.permutation(len(self._linear))[:2].tolist()
            if is_free(left, right):
                return [Question(left, right, HOLDOUT, 1.0, self._n_fitted)]
        beliefs = self._beliefs(annotator)
        pair = beliefs.best_pair(self._pairs, is_free, rng)
        if pair is None:
            return []
        items = beliefs.grown(pair, self.set_size, is_free, is_free, rng)
        left, right, *further = rng.permutation(items).tolist()
        return [Question(left, right, "informative", 1.0, self._n_fitted, tuple(further))]

    def refit(self) -> None:
        """Fit to all answers that may choose questions."""
        self._posterior = self._fitted(self._is_choosing())
        self._n_fitted = self.events

    @property
    def posterior(self) -> Posterior:
        """The posterior of the last fit."""
        return self._posterior

    def ranking(self) -> Ranking:
        """Rank the items by all answers, with 90 % intervals of their ranks."""
        posterior = self._fitted(np.ones(self.events, np.bool_))
        self._posterior = posterior
        n = posterior.n_items
        order = np.argsort(-posterior.scores, kind="stable")
        rank = np.empty(n, np.int64)
        rank[order] = np.arange(1, n + 1)
        low, high = shortest(np.argsort(np.argsort(-posterior.draws, axis=1), axis=1) + 1)
        answers = self._answers(np.ones(self.events, np.bool_))
        return Ranking(
            order=order,
            rank=rank,
            score=posterior.scores,
            low=np.minimum(low, rank),
            high=np.maximum(high, rank),
            judgements=answers.n_answers_of(n),
        )

    def is_top_sure(self) -> bool:
        """Whether the top of the goal is sure: with 90 %, at most the allowed number is wrong."""
        posterior = self._fitted(np.ones(self.events, np.bool_))
        top = self.goal.top
        chosen = np.argsort(-posterior.scores)[:top]
        n_wrong = wrong_of_top(above_edge(posterior.draws, top)[:, chosen], posterior.tie)
        return bool(np.mean(n_wrong <= self.goal.allowed(top)) >= SURE)

    def _is_choosing(self) -> Bool:
        """Whether each answer may choose questions: those of the hold-out may not."""
        holdout = self.table.strategies.get(HOLDOUT, -1)
        is_choosing: Bool = self.table.strategy != holdout
        return is_choosing

    def _answers(self, is_wanted: Bool) -> Answers:
        """Convert the answers about the order that a mask selects."""
        rows = np.flatnonzero(self.table.is_answer & is_wanted)
        return Answers.of_table(self.table, rows, probabilities=self._probabilities)

    def _fitted(self, is_wanted: Bool) -> Posterior:
        """Fit to the answers that a mask selects; first choose hyperparameters if they are due."""
        answers = self._answers(is_wanted)
        n_annotators = len(self.table.annotators)
        self.annotators = self.annotators.padded(n_annotators)
        is_due = self.events >= max(_FIRST_MILESTONE, self._n_chosen * 5 // 4)
        if is_due and self.events != self._n_chosen and len(answers):
            self._choose(answers, n_annotators)
        counted = answers.in_words(np.flatnonzero(self.annotators.in_words).tolist())
        seed = self._seed + self.events
        if len(self._linear) > DENSE:
            return fit_many(counted, self.prior, self.annotators, seed=seed)
        return fit(counted, self.prior, self.annotators, seed=seed)

    def _choose(self, answers: Answers, n_annotators: int) -> None:
        """Choose the hyperparameters, of many items from the answers about a sample of them."""
        prior = Prior(self._linear)
        squares = self._squares
        if len(self._linear) > _SAMPLE:
            answers, prior, items = sampled(answers, prior, self._seed, most=_SAMPLE)
            squares = None if squares is None else Columns(squares.values[items])
        average = Annotators.average(n_annotators)
        chosen, self.annotators, _ = choose(
            answers, prior, squares, average, seed=self._seed + self.events
        )
        columns = self._linear
        if self._squares is not None and chosen.columns is squares:
            columns = self._squares
        self.prior = replace(chosen, columns=columns)
        self._n_chosen = self.events

    def _beliefs(self, annotator: str) -> Beliefs:
        """Collect what the rule chooses from; answers since the last fit count as expected."""
        posterior = self._posterior
        is_choosing = self._is_choosing()
        answers = self._answers(is_choosing)
        beliefs = Beliefs.of(
            posterior,
            self._groups,
            openness(posterior, self._groups, self.goal.top, self.set_size),
            answers.n_answers_of(posterior.n_items),
            self._scale_of(annotator),
            self._rng,
        )
        rows = np.arange(self._n_fitted, self.events)
        for places in self.table.items(rows[is_choosing[rows]]).tolist():
            beliefs.expect_answer([item for item in places if item >= 0])
        return beliefs

    def _scale_of(self, annotator: str) -> float:
        """Return the scale of an annotator's measurements; 0 if the answers are words."""
        if self._probabilities.get(annotator) != "measurement":
            return 0.0
        annotators = self._posterior.annotators
        number = self.table.annotators.get(annotator, len(annotators))
        if number >= len(annotators):
            return _DEFAULT_SCALE
        return 0.0 if annotators.in_words[number] else float(annotators.scale[number])


def with_squares(X: F64) -> Columns:
    """Add the square of each feature, standardised, so that a preference can be for the middle."""
    squares = X**2
    squares -= squares.mean(axis=0)
    deviation = squares.std(axis=0)
    is_varied = deviation > 1e-9  # the square of a feature of two values may be constant
    return Columns(np.column_stack((X, squares[:, is_varied] / deviation[is_varied])))
