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
        features: (n, d) numbers; NaN is missing. None for items known by name only.
        n_items: n, if there are no features.
        seed: seed of all random choices.
        strategy: a name of `sortnet.preference.strategies.STRATEGIES`.
        holdout: share of questions about random pairs, the hold-out: their answers are not used to
            choose questions, but the ranking uses them.
        repeats: share of questions the annotator has answered before, items in other places.
        goal: when to stop; a number is the share of all pairs that may be in the wrong order.
        among: (m, 2) the only pairs that may be asked; None for all within groups.
        groups: (n,) name or number of each item's group; pairs are asked, ranked and counted
            within groups only. None: all items are compared with each other.
        set_size: number of items of a question, 2 to 6, unless `ask` names another size. A hold-out
            question is always about two items, and a question is smaller where fewer are free.
        study: whose judgements do not count, which items are retired, gold pairs, overlap.
        keep: folder in which fits to many answers are kept, see `cached`; results are the same.
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
        """The number of events."""
        return len(self._history.events)

    @property
    def n_votes(self) -> int:
        """The number of answers about the order that are not undone."""
        return self._history.n_votes

    @property
    def behind(self) -> int:
        """The number of events since the last fit."""
        return self._fitting.behind

    @property
    def stale(self) -> bool:
        """Whether there are events that are not fitted, or the net is old: see `refit`."""
        return self._fitting.stale

    @property
    def due(self) -> bool:
        """Whether so many events are not fitted yet that `refit` should be called."""
        return self._fitting.due

    @property
    def quick(self) -> bool:
        """Whether `refit` takes a few milliseconds only: few unknowns, no net to train."""
        return self._fitting.quick

    def tell(self, judgement: Judgement) -> None:
        """Add an event: an answer or an undo. Events of excluded annotators are ignored.

        Raises:
            JudgementError: on an unknown item, or an undo of an unknown judgement.
        """
        self.replay([judgement])

    def replay(self, judgements: Iterable[Judgement]) -> None:
        """Add events as `tell` does, all or none; from a table about 1 us each."""
        new_events = Judgements.of(judgements).without(self.study.excluded)
        with self._lock:
            self._history.add(new_events)
            self._asking.record(new_events)

    def undo(self, annotator: str) -> Judgement | None:
        """Undo the annotator's last answer; returns the event, or None if there is no answer."""
        with self._lock:
            last = self.last(annotator)
            if last is None:
                return None
            self.tell(last.undo())
            return self._history.events[-1]

    def last(self, annotator: str) -> Judgement | None:
        """The judgement that `undo` would undo."""
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

        A question whose answer was undone comes first, unchanged. Nobody compares a pair twice,
        except for repeats: an answer about a set compares the best and the worst with each item.

        Args:
            annotator: their name.
            k: number of questions.
            busy: pairs, each the lower number first, that must not be asked now.
            set_size: number of items of a question; None: the session's.
            wait: whether a fit that is due may take longer than a few milliseconds; if not,
                another thread must call `refit` from time to time.

        Cost: a few ms up to 10,000 items, then a copy of a few numbers an item, see `bald`; and a
        fit each time there are 5 % more events. Above a thousand unknowns, events since the last
        fit do not count yet.
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
            keep_net: train no net now, unless the events have doubled since the last net; a later
                fit without this option trains it.

        Cost: see `fit`; about a second at 10,000 items and 100,000 answers, 15 if the scales are
        chosen again, which happens each time there are a quarter more answers.
        """
        self._fitting.refit(keep_net=keep_net)

    def ranking(self, *, fresh: bool = True, top: int | None = None) -> Ranking:
        """All items in order, with intervals; `fresh=False` takes the last fit.

        With `top`, by default the goal's, the ranking also says how probably each item is among the
        top of its group.
        """
        if fresh:
            self.refit()
        return self._ranking.items_in_order(top)

    @property
    def posterior(self) -> Posterior:
        """Posterior of the scores, by the last fit to all answers."""
        with self._lock:
            return self._fitting.fits.all.posterior

    def remaining(self, *, fresh: bool = True) -> Remaining:
        """The distance from the goal; `fresh=False` takes the last fit and the last forecast.

        The session may stop if the goal is reached, and the hold-out does not show that the model
        is overconfident. Imported votes have no hold-out: each is predicted from all other votes.
        """
        if fresh:
            self.refit()
            self.renew_forecast()
        return self._ranking.remaining()

    @property
    def forecast_due(self) -> bool:
        """Whether the forecast of the last fit is to be renewed: see `renew_forecast`."""
        return self._ranking.forecast_due

    def renew_forecast(self) -> None:
        """Forecast how many questions are left, by the last fit, if the forecast is due.

        It is due each time there are a quarter more events. Meanwhile the number of questions falls
        by one with each answer.

        Cost: see `forecast`; other threads may ask and tell meanwhile.
        """
        self._ranking.renew_forecast()

    def allows(self, pair: Pair) -> bool:
        """Whether a pair, the lower number first, may be asked at all.

        Both items must be in one group and not retired, and the pair in `among` if that is given.
        """
        return pair in self._pairs

    def weighted(self) -> tuple[Votes, dict[str, float]]:
        """All answers about the order that are not undone, and each annotator's weight in training.

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
        """One report on each annotator, by the last fit.

        Args:
            annotators: their names.
            judgements: counted instead of the session's own, which lack excluded annotators.
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
        """Whether others' answers are predicted better without this annotator's answers.

        Cost: two fits; see `predicted_better_without`.
        """
        return self._fitting.better_without(annotator)

    def widened_by(self) -> str | None:
        """The annotator whose answers made the intervals wider, by the last fit; see `widening`."""
        return self._fitting.widened_by()

    def answered(self, annotator: str) -> int:
        """The number of an annotator's answers about the order that are not undone."""
        with self._lock:
            return self._history.answered(annotator)

    def judgements(self) -> Judgements:
        """All events, including undos."""
        with self._lock:
            return self._history.events.so_far()


def _strategies_named(name: str, goal: Goal) -> tuple[Strategy, ...]:
    """The strategies called by a name; `default` depends on whether the goal is a top."""
    if name not in STRATEGIES:
        known_names = ", ".join(STRATEGIES)
        raise JudgementError(f"unknown strategy {name!r}; known are {known_names}")
    if name == "default" and goal.top:
        return (top_pair,)
    return STRATEGIES[name]
