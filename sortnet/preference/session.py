"""A session asks annotators, takes their answers and undos, and ranks the items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from sortnet.core.pairs import unordered
from sortnet.errors import JudgementError
from sortnet.preference.annotator_reports import AnnotatorReport, annotator_reports
from sortnet.preference.base import MOST_ITEMS, Judgement, Pair, Question
from sortnet.preference.choose_question import SessionAsking
from sortnet.preference.fitting import FittedEvents, design
from sortnet.preference.groups import Groups, count_apart
from sortnet.preference.intervals import Ranking, rank_items
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.model import Posterior
from sortnet.preference.stopping import (
    WRONG,
    Goal,
    OpenRanks,
    Remaining,
    Standing,
    group_standings,
    near_ties,
    overall,
)
from sortnet.preference.study import Study

STRATEGIES = ("default", "random")
_ITEMS_PER_ANSWER = 4  # near-ties are told from an answer for so many items on


class Session(FittedEvents):
    """Questions to annotators about n items, and the ranking learned from the answers.

    The state depends only on the events and their order, so replaying the stored events gives the
    same session. Several threads may use a session.

    Args:
        features: (n, d) the features of the items; NaN is missing. None for items without features.
        n_items: the number of items n, if there are no features.
        seed: the seed of all random choices.
        strategy: `default`, or `random` for random questions.
        holdout: share of questions about random pairs. Their answers, the hold-out, never choose
            questions, but the ranking uses them.
        repeats: share of questions that an annotator has answered before and is asked again, with
            the items in other places.
        goal: when to stop; a number is the share of all pairs that may be in the wrong order.
        among: (m, 2) item numbers of the only pairs that may be asked. If None, any two items of
            the same group may be asked.
        groups: (n,) name or number of each item's group; only items of the same group are
            compared. If None, all items are compared with each other.
        set_size: number of items of a question, 2 to 6, unless `ask` names another size. A question
            has fewer items if its group has fewer, or too few may be asked about.
        study: excluded annotators, retired items, gold pairs and overlap.

    Raises:
        JudgementError: on an unknown strategy, a set size that is not from 2 to 6, a pair in
            `among` with an unknown item or with items of two groups, or if every group has only
            one item.

    >>> session = Session(None, 4, seed=1)
    >>> while questions := session.ask("ana"):
    ...     q = questions[0]
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
        strategy: str = "default",
        holdout: float = 0.1,
        repeats: float = 0.05,
        goal: Goal | float = WRONG,
        among: ArrayLike | None = None,
        groups: Iterable[Hashable] | None = None,
        set_size: int = 2,
        study: Study | None = None,
    ) -> None:
        """Start without events."""
        X = design(features, n_items)
        self.goal = goal if isinstance(goal, Goal) else Goal(goal)
        super().__init__(X, study or Study(), wants_top=self.goal.top > 0, seed=seed)
        if strategy not in STRATEGIES:
            raise JudgementError(f"unknown strategy {strategy!r}; known are default and random")
        self.n_items = len(X)
        self.set_size = checked_set_size(set_size)
        self.groups = Groups(groups, self.n_items, without=self.study.retired, among=among)
        self._asking = SessionAsking(self, self.groups, self.goal, strategy, holdout, repeats)

    @property
    def events(self) -> int:
        """The number of events so far: answers and undos."""
        return len(self.history.events)

    @property
    def n_votes(self) -> int:
        """The number of answers that compare items and are not undone."""
        return self.history.n_votes

    def tell(self, judgement: Judgement) -> None:
        """Add an event: an answer or an undo. Events of excluded annotators are ignored.

        Raises:
            JudgementError: on an unknown item, or an undo of an unknown judgement.
        """
        self.replay([judgement])

    def replay(self, judgements: Iterable[Judgement]) -> None:
        """Add several events as `tell` does; if one event is invalid, no event is added.

        Cost: about 1 us per event if the events are a `Judgements` table.
        """
        new_events = Judgements.of(judgements).without(self.study.excluded)
        with self.lock:
            self.history.add(new_events)

    def undo(self, annotator: str) -> Judgement | None:
        """Undo the annotator's last answer; return the undo, or None if there is no answer."""
        with self.lock:
            last_answer = self.last(annotator)
            if last_answer is None:
                return None
            self.tell(last_answer.undo())
            return self.history.events[-1]

    def last(self, annotator: str) -> Judgement | None:
        """Return the annotator's last answer that is not undone; None without such an answer."""
        with self.lock:
            return self.history.last(annotator)

    def ask(
        self,
        annotator: str,
        k: int = 1,
        *,
        busy: Collection[Pair] = (),
        wait: bool = True,
        set_size: int | None = None,
    ) -> list[Question]:
        """Choose the next k questions for an annotator; fewer, or none, if nothing is left to ask.

        A question whose answer was undone is asked first, unchanged. Except for repeats, no
        annotator compares a pair twice. An answer about a set compares its best and its worst item
        with all items of the set.

        Args:
            annotator: the name of the annotator.
            k: number of questions.
            busy: pairs of items that must not be asked now, each with the lower number first.
            set_size: number of items of a question. If None, it is the session's set size.
            wait: whether to wait for a fit that is due; if not, another thread must call `refit`
                from time to time.

        Cost: a few milliseconds. Each time there are 5 % more events, a fit is added; in between,
        answers count as if they had been as expected.
        """
        n_items_of_question = self.set_size if set_size is None else checked_set_size(set_size)
        if wait:
            # The session's lock is not held yet, because a fit in another thread needs it.
            self.fit_if_due()
        with self.lock:
            taken_pairs = set(busy)
            questions: list[Question] = []
            for _ in range(k):
                question = self._asking.next_question(annotator, taken_pairs, n_items_of_question)
                if question is None:
                    break
                questions.append(question)
                taken_pairs.update(question.pairs)
            return questions

    def ranking(self, *, fresh: bool = True, top: int | None = None) -> Ranking:
        """Rank all items, with an interval for each rank.

        Args:
            fresh: whether to fit all events first; if not, the ranking is from the last fit.
            top: k, to add each item's probability to be in the top k of its group. If 0, no
                probabilities are added. If None, k is the number of top items in the goal.
        """
        if fresh:
            self.refit()
        with self.lock:
            posterior = self.fits.all
            n_answers = self.history.seen()
        # The lock is not held from here on, so that no question waits for the ranking.
        k = self.goal.top if top is None else top
        return rank_items(posterior, n_answers, self.groups, top=k)

    def remaining(self, *, fresh: bool = True) -> Remaining:
        """Measure the distance from the goal, and decide whether the session may stop.

        The session may stop if the goal is reached by the model's estimate, and the model predicts
        unseen answers as well as it expects. The unseen answers are the hold-out. Imported votes
        have no hold-out, so each vote is predicted from all other votes instead.

        Args:
            fresh: whether to fit all events first. If not, the last fit is used.
        """
        if fresh:
            self.refit()
        check = self.check()  # before the lock: it may need a fit
        history = self.history
        groups = self.groups
        with self.lock:
            posterior = self.fits.all
            n_votes = history.n_votes
            n_answers = history.seen()
            component = history.all_components()
            n_models = len(self.models())
            n_annotators = len(history.annotators)
            n_annotators_of_pairs = history.n_annotators_of_pairs()
        # The lock is not held from here on, so that no question waits for the computations.
        # Each annotator can be asked each pair once. A question has one free pair at least.
        n_pairs_left = groups.n_askable * max(n_annotators, 1) - n_annotators_of_pairs.total()
        standings = group_standings(
            posterior, groups, self.goal, seed=self.seed, n_answers=n_answers
        )
        wrong, sure, is_reached = overall(standings, self.goal)
        groups_to_stop = [
            standing._replace(stop=standing.stop and check.passed) for standing in standings
        ]
        remaining = Remaining(
            goal=self.goal,
            standing=Standing.ASKING,
            wrong=wrong,
            sure=sure,
            check=check,
            n_free=max(n_pairs_left, 0),
            n_annotators=n_annotators,
            only_models=bool(n_models) and n_models == n_annotators and not self.study.gold,
            features=self.has_features,
            groups=tuple(groups_to_stop) if len(groups) > 1 else (),
            apart=count_apart(component, n_answers > 0, groups),
        )
        if self.goal.top >= max(map(len, groups.members)):
            return replace(remaining, standing=Standing.ALL_TOP, questions=0, fewest=0, most=0)
        if is_reached:
            return remaining.with_check()
        if not n_votes:
            return remaining
        # If nearly all questions are used up, more annotators help, whether or not there are
        # near-ties. A few answers do not show how much the items differ.
        may_be_told = _ITEMS_PER_ANSWER * n_votes >= self.n_items
        if 2 * remaining.n_free > n_votes and may_be_told:
            ties = self._near_ties(posterior, n_annotators, n_annotators_of_pairs)
            if ties is not None:
                return replace(remaining, standing=Standing.NEAR_TIES, near_ties=ties)
        # Each item takes part once, but for those that features predict.
        n_unseen = int(np.count_nonzero(n_answers[np.concatenate(groups.members)] == 0))
        n_for_unseen = int((1 - posterior.prior.share) * n_unseen) // self.set_size
        return remaining.with_questions(n_votes, n_for_unseen)

    def _near_ties(
        self, posterior: Posterior, n_annotators: int, n_annotators_of_pairs: Counter[int]
    ) -> OpenRanks | None:
        """Find near-ties that keep the goal out of reach; None if there are too many pairs."""
        pairs = self.groups.askable
        if pairs is None or posterior.covariance is None:
            return None
        keys = unordered(*pairs).tolist()
        times_left = np.array([n_annotators - n_annotators_of_pairs[key] for key in keys])
        return near_ties(posterior, self.groups, self.goal, (*pairs, times_left), seed=self.seed)

    def allows(self, pair: Pair) -> bool:
        """Whether a pair of items, the lower number first, may be asked at all.

        Both items must be in the same group, and neither may be retired. If the session was created
        with a list of pairs, `among`, the pair must be in the list.
        """
        return self.groups.may_ask(pair)

    def reports(
        self,
        annotators: Sequence[str],
        judgements: Sequence[Judgement] | None = None,
        study: Study | None = None,
    ) -> list[AnnotatorReport]:
        """Report on each annotator, from the last fit.

        Args:
            annotators: the names of the annotators.
            judgements: the judgements to report on. If None, they are the judgements of the
                session, without the excluded annotators.
            study: the present study, if it has changed since the session began.
        """
        with self.lock:
            posterior = self.fits.all
            number_of_annotator = dict(self.history.annotators)
        # The posterior lacks annotators who gave their first answer after the last fit.
        n_fitted = len(posterior.annotators)
        fitted_numbers = {
            name: number for name, number in number_of_annotator.items() if number < n_fitted
        }
        if judgements is None:
            judgements = self.judgements()
        return annotator_reports(
            {name: fitted_numbers.get(name) for name in annotators},
            judgements,
            posterior,
            study or self.study,
            features=self.has_features,
        )

    def answered(self, annotator: str) -> int:
        """Count an annotator's answers that compare items and are not undone."""
        with self.lock:
            return self.history.answered(annotator)

    def judgements(self) -> Judgements:
        """Return a table of all events, including undos."""
        with self.lock:
            return self.history.events[:]


def checked_set_size(set_size: int) -> int:
    """Check and return the number of items of a question.

    Raises:
        JudgementError: if the number is not from 2 to 6.
    """
    if not 2 <= set_size <= MOST_ITEMS:
        raise JudgementError(f"a question about {set_size} items: it takes 2 to {MOST_ITEMS}")
    return set_size
