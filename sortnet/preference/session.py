"""A session asks annotators, takes their answers and undos, and ranks the items."""

from __future__ import annotations

import operator
import threading
from collections.abc import Collection, Hashable, Iterable, Sequence
from pathlib import Path

from numpy.typing import ArrayLike

from sortnet.errors import JudgementError
from sortnet.preference.annotator_reports import AnnotatorReport, annotator_reports
from sortnet.preference.askable_pairs import AskablePairs
from sortnet.preference.asking import SessionAsking
from sortnet.preference.base import Judgement, Pair, Question
from sortnet.preference.design import design
from sortnet.preference.fit_process import Call
from sortnet.preference.fitting import SessionFitting
from sortnet.preference.goal import WRONG, Goal
from sortnet.preference.groups import Groups
from sortnet.preference.history import History
from sortnet.preference.intervals import Ranking
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.posterior import Posterior
from sortnet.preference.ranking import SessionRanking
from sortnet.preference.set_choice import checked_set_size
from sortnet.preference.stopping import Remaining
from sortnet.preference.strategies import STRATEGIES, Strategy, top_pair
from sortnet.preference.study import Study
from sortnet.preference.vote_arrays import Votes


class Session:
    """Questions to annotators about n items, and the ranking learned from the answers.

    The state depends only on the events, in their order: replaying the stored events gives the
    same session. It may be used by several threads.

    Args:
        features: (n, d) the features of the items; NaN is missing. None for items without features.
        n_items: n, if there are no features.
        seed: the seed of all random choices.
        strategy: a name of `sortnet.preference.strategies.STRATEGIES`.
        holdout: share of questions about random pairs, the hold-out: their answers are not used to
            choose questions, but the ranking uses them.
        repeats: share of questions that repeat one of the annotator's answered questions, with the
            items in other places.
        goal: when to stop; a number is the share of all pairs that may be in the wrong order.
        among: (m, 2) the only pairs that may be asked; None: all pairs within groups.
        groups: (n,) name or number of each item's group; pairs are asked, ranked and counted
            within groups only. None: all items are compared with each other.
        set_size: number of items of a question, 2 to 6, unless `ask` names another size. A hold-out
            question is always about two items, and a question is smaller where fewer are free.
        study: excluded annotators, retired items, gold pairs and overlap.
        keep: folder in which slow fits are cached, see `cached`; results do not depend on it.
        call: calls the functions of a fit that takes more than a few milliseconds; a `FitProcess`
            calls them in another process.

    Raises:
        JudgementError: on an unknown strategy, a set size that is not from 2 to 6, a pair in
            `among` of unknown items or across groups, or groups of one item only.

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
        keep: Path | None = None,
        call: Call = operator.call,
    ) -> None:
        X = design(features, n_items)
        self.study = study or Study()
        self.n_items = len(X)
        self.seed = seed
        self.holdout = holdout
        self.repeats = repeats
        self.goal = goal if isinstance(goal, Goal) else Goal(goal)
        strategies = _strategies_named(strategy, self.goal)
        self.set_size = checked_set_size(set_size)
        groups_of_items = Groups(groups, self.n_items, without=self.study.retired)
        self._pairs = AskablePairs(groups_of_items, retired=self.study.retired, among=among)
        self._history = History(self.n_items, self.study.probabilities)
        self._lock = threading.RLock()
        self._fitting = SessionFitting(
            X,
            self._history,
            groups_of_items,
            self.study,
            self.goal,
            self._lock,
            seed=seed,
            keep=keep,
            call=call,
        )
        self._asking = SessionAsking(
            self._history,
            self._fitting,
            groups_of_items,
            self._pairs,
            self.study,
            strategies,
            seed=seed,
            holdout=holdout,
            repeats=repeats,
        )
        self._ranking = SessionRanking(
            self._history,
            self._fitting,
            groups_of_items,
            self._pairs,
            self.study,
            self.goal,
            self._lock,
            holdout=holdout,
            set_size=self.set_size,
            seed=seed,
        )

    @property
    def events(self) -> int:
        """The number of events so far: answers and undos."""
        return len(self._history.events)

    @property
    def n_votes(self) -> int:
        """The number of answers that compare items and are not undone."""
        return self._history.n_votes

    @property
    def behind(self) -> int:
        """The number of events since the last fit."""
        return self._fitting.behind

    @property
    def stale(self) -> bool:
        """Whether `refit` would change the fit: there are new events, or a net is to be trained."""
        return self._fitting.stale

    @property
    def due(self) -> bool:
        """Whether enough events came since the last fit for a call of `refit`."""
        return self._fitting.due

    @property
    def quick(self) -> bool:
        """Whether `refit` takes only a few milliseconds: few unknowns, no net to train."""
        return self._fitting.quick

    def tell(self, judgement: Judgement) -> None:
        """Add an event: an answer or an undo. Events of excluded annotators are ignored.

        Raises:
            JudgementError: on an unknown item, or an undo of an unknown judgement.
        """
        self.replay([judgement])

    def replay(self, judgements: Iterable[Judgement]) -> None:
        """Add several events as `tell` does; if one of them is invalid, none is added.

        Cost: about 1 us an event if `judgements` is a table, `Judgements`.
        """
        new_events = Judgements.of(judgements).without(self.study.excluded)
        with self._lock:
            self._history.add(new_events)
            self._asking.record(new_events)

    def undo(self, annotator: str) -> Judgement | None:
        """Undo the annotator's last answer; return the undo, or None if there is no answer."""
        with self._lock:
            last = self.last(annotator)
            if last is None:
                return None
            self.tell(last.undo())
            return self._history.events[-1]

    def last(self, annotator: str) -> Judgement | None:
        """The annotator's last answer, which `undo` would undo; None if there is no answer."""
        with self._lock:
            return self._history.last(annotator)

    def ask(
        self,
        annotator: str,
        k: int = 1,
        *,
        busy: Collection[Pair] = (),
        wait: bool = True,
        set_size: int | None = None,
    ) -> list[Question]:
        """The next k questions for an annotator; fewer, or none, if nothing is left to ask.

        A question whose answer was undone comes first, unchanged. Except for repeats, no annotator
        compares a pair twice. An answer about a set compares the best and the worst item with each
        item.

        Args:
            annotator: the name of the annotator.
            k: number of questions.
            busy: pairs, each the lower number first, that must not be asked now.
            set_size: number of items of a question; None: the session's set size.
            wait: whether to wait for a fit that is due and takes more than a few milliseconds; if
                not, another thread must call `refit` from time to time.

        Cost: a few ms up to 10,000 items; more items cost a copy of a few numbers an item, see
        `bald`. Each time there are 5 % more events, also a fit. Above a thousand unknowns, events
        since the last fit do not influence the questions yet.
        """
        set_size = self.set_size if set_size is None else checked_set_size(set_size)
        if wait or self._fitting.small:
            self._fitting.fit_if_due()  # before the lock, which a fit in another thread needs
        with self._lock:
            self._fitting.catch_up()
            taken = set(busy)
            questions: list[Question] = []
            for _ in range(k):
                question = self._asking.next_question(annotator, taken, set_size)
                if question is None:
                    break
                questions.append(question)
                taken.update(question.pairs)
            return questions

    def refit(self, *, keep_net: bool = False) -> None:
        """Fit the model to all events so far; other threads may ask and tell meanwhile.

        Args:
            keep_net: keep the present net, unless the events have doubled since it was trained; a
                later fit without this option trains a net.

        Cost: see `fit`; about a second at 10,000 items and 100,000 answers, 15 if the scales are
        chosen again, which happens each time there are a quarter more answers.
        """
        self._fitting.refit(keep_net=keep_net)

    def ranking(self, *, fresh: bool = True, top: int | None = None) -> Ranking:
        """The ranking of all items, with an interval for each rank.

        Args:
            fresh: whether to fit all events first; if not, the ranking is from the last fit.
            top: k, if the ranking shall have each item's probability to be in the top k of its
                group; 0: no probabilities; None: as in the goal.
        """
        if fresh:
            self.refit()
        return self._ranking.items_in_order(top)

    @property
    def posterior(self) -> Posterior:
        """The posterior of the scores from the last fit to all answers."""
        with self._lock:
            return self._fitting.fits.all.posterior

    def remaining(self, *, fresh: bool = True) -> Remaining:
        """The distance from the goal, and whether the session may stop.

        The session may stop if the goal is reached, and the hold-out does not show that the model
        is overconfident. Imported votes have no hold-out: each vote is predicted from all other
        votes.

        Args:
            fresh: whether to fit all events and renew the forecast first; if not, the last fit and
                the last forecast are used.
        """
        if fresh:
            self.refit()
            self.renew_forecast()
        return self._ranking.remaining()

    @property
    def forecast_due(self) -> bool:
        """Whether `renew_forecast` would make a new forecast."""
        return self._ranking.forecast_due

    def renew_forecast(self) -> None:
        """Forecast from the last fit how many questions are left, if a new forecast is due.

        A forecast is due each time there are a quarter more events. Until then the forecast number
        of questions falls by one with each answer.

        Cost: see `forecast`; other threads may ask and tell meanwhile.
        """
        self._ranking.renew_forecast()

    def allows(self, pair: Pair) -> bool:
        """Whether a pair may be asked at all; the item with the lower number comes first in it.

        Both items must be in one group and not retired. If `among` is given, the pair must be in
        it.
        """
        return pair in self._pairs

    def weighted(self) -> tuple[Votes, dict[str, float]]:
        """All answers that compare items and are not undone, and each annotator's training weight.

        A weight is the annotator's reliability times the share of their answers that are not given
        blindly. Reliability is 1 for the average annotator, and below 0 for an annotator who
        prefers the worse item. Without answers there are no weights.

        Cost: see `choose_scales`, unless the scales are kept in a folder; no other fit is needed.
        """
        return self._fitting.weights()

    def reports(
        self,
        annotators: Sequence[str],
        judgements: Sequence[Judgement] | None = None,
        study: Study | None = None,
    ) -> list[AnnotatorReport]:
        """One report on each annotator, from the last fit.

        Args:
            annotators: the names of the annotators.
            judgements: the judgements to report on; None: the judgements of the session, in which
                excluded annotators are missing.
            study: the present study, if it has changed since the session began.
        """
        with self._lock:
            posterior = self._fitting.fits.all.posterior
            numbers = dict(self._history.annotators)
        n_fitted = len(posterior.reliability)
        fitted_numbers = {name: number for name, number in numbers.items() if number < n_fitted}
        return annotator_reports(
            {name: fitted_numbers.get(name) for name in annotators},
            self.judgements() if judgements is None else judgements,
            posterior,
            study or self.study,
            features=self._fitting.has_features,
        )

    def better_without(self, annotator: str) -> bool:
        """Whether other annotators' answers are predicted better without this annotator's answers.

        Cost: two fits; see `predicted_better_without`.
        """
        return self._fitting.better_without(annotator)

    def widened_by(self) -> str | None:
        """The annotator whose answers made the intervals wider in the last fit; see `widening`."""
        return self._fitting.widened_by()

    def answered(self, annotator: str) -> int:
        """The number of an annotator's answers that compare items and are not undone."""
        with self._lock:
            return self._history.answered(annotator)

    def judgements(self) -> Judgements:
        """All events, including undos."""
        with self._lock:
            return self._history.events.so_far()


def _strategies_named(name: str, goal: Goal) -> tuple[Strategy, ...]:
    """The strategies with the given name; `default` depends on whether the goal is a top k."""
    if name not in STRATEGIES:
        known_names = ", ".join(STRATEGIES)
        raise JudgementError(f"unknown strategy {name!r}; known are {known_names}")
    if name == "default" and goal.top:
        return (top_pair,)
    return STRATEGIES[name]
