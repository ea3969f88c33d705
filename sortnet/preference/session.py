"""A session: ask an annotator, add the answer or undo it, rank the items."""

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
        seed: of all random choices.
        strategy: a name of `sortnet.preference.strategies.STRATEGIES`.
        holdout: share of questions about random pairs, the hold-out: their answers are not used to
            choose, but the ranking uses them.
        repeats: share of questions the annotator has answered before, items in other places.
        goal: when to stop; a number is the share of all pairs that may be in the wrong order.
        among: (m, 2) the only pairs that may be asked; None for all within groups.
        groups: (n,) name or number of each item's group; pairs are asked, ranked and counted
            within groups only. None: all items are compared with each other.
        set_size: number of items of a question, 2 to 6, unless `ask` names another one; a question
            of the hold-out is always about two, and one about fewer where fewer are free.
        study: whose judgements do not count, which items are retired, gold pairs, overlap.
        keep: folder in which fits to many answers are kept, see `kept`; results are the same.
        call: calls the functions of a fit that takes more than a few milliseconds; a `FitProcess`
            does so in another process.

    Raises:
        JudgementError: on an unknown strategy, another set size, a pair in `among` of unknown items
            or across groups, or groups of one item only.

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
        self.seed, self.holdout, self.repeats = seed, holdout, repeats
        self.goal = goal if isinstance(goal, Goal) else Goal(goal)
        strategies = _strategies(strategy, self.goal)
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
        """Whether there are events or a basis to be fitted: see `refit`."""
        return self._fitting.stale

    @property
    def due(self) -> bool:
        """Whether enough events are not fitted yet to call `refit`."""
        return self._fitting.due

    @property
    def quick(self) -> bool:
        """Whether `refit` takes a few milliseconds only: few unknowns, no net to train."""
        return self._fitting.quick

    def tell(self, judgement: Judgement) -> None:
        """Add an event: an answer, or the undo of one; those of excluded annotators are ignored.

        Raises:
            JudgementError: on an unknown item, or an undo of an unknown judgement.
        """
        self.replay([judgement])

    def replay(self, judgements: Iterable[Judgement]) -> None:
        """Add events as `tell`, all or none; about 1 us each of a table."""
        new = Judgements.of(judgements).without(self.study.excluded)
        with self._lock:
            self._history.add(new)
            self._asking.record(new)

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
            set_size: number of items of a question; None: that of the session.
            wait: whether a fit that is due may take longer than a few milliseconds; without it
                someone else must call `refit` from time to time.

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
            keep_net: train no net now, if there are less than twice the events of the last one;
                a later fit without it does.

        Cost: see `fit`; about a second at 10,000 items and 100,000 answers, 15 if the scales are
        chosen again, which happens each time there are a quarter more answers.
        """
        self._fitting.refit(keep_net=keep_net)

    def ranking(self, *, fresh: bool = True, top: int | None = None) -> Ranking:
        """All items in order, with intervals; `fresh=False` takes the last fit.

        With `top`, by default the goal's, also how probably each is of its group's top.
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
        """How close it is to its goal; `fresh=False` takes the last fit and the last forecast.

        It is done if the goal is reached, and the hold-out does not show that the model is
        overconfident. Imported votes have no hold-out: then each is predicted from all others.
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
        """Forecast how many questions are left, by the last fit, each time there are a quarter
        more events; between these moments the number falls by one an answer.

        Cost: see `forecast`; other threads may ask and tell meanwhile.
        """
        self._ranking.renew_forecast()

    def allows(self, pair: Pair) -> bool:
        """Whether a pair, the lower number first, may be asked: of a group, kept, in `among`."""
        return pair in self._pairs

    def weighted(self) -> tuple[Votes, dict[str, float]]:
        """All answers about the order that are not undone, and each annotator's weight in training.

        That is their reliability, 1 for the average one and below 0 for who prefers the worse item,
        times the share of their answers that are not given blindly; none without answers.

        Cost: see `choose_scales`, unless they are kept; no other fit is needed.
        """
        return self._fitting.weights()

    def reports(
        self,
        annotators: Sequence[str],
        judgements: Sequence[Judgement] | None = None,
        study: Study | None = None,
    ) -> list[AnnotatorReport]:
        """What is known of each annotator by the last fit.

        By other judgements than the session's own, as with those of excluded annotators, or another
        study, its state by now.
        """
        with self._lock:
            posterior, numbers = self._fitting.fits.all.posterior, self._history.annotators
            fitted = {name: k for name, k in numbers.items() if k < len(posterior.reliability)}
        events = self.judgements() if judgements is None else judgements
        named = {name: fitted.get(name) for name in annotators}
        features, study = self._fitting.has_features, study or self.study
        return annotator_reports(named, events, posterior, study, features=features)

    def better_without(self, annotator: str) -> bool:
        """See `predicted_better_without`: two fits."""
        return self._fitting.better_without(annotator)

    def widened_by(self) -> str | None:
        """The annotator whose answers made the intervals wider, by the last fit; see there."""
        return self._fitting.widened_by()

    def answered(self, annotator: str) -> int:
        """The number of an annotator's answers that are not undone, skips and can't-says aside."""
        with self._lock:
            return self._history.answered(annotator)

    def judgements(self) -> Judgements:
        """All events, including undos."""
        with self._lock:
            return self._history.events.so_far()


def _strategies(name: str, goal: Goal) -> tuple[Strategy, ...]:
    """The functions of a strategy; by default they serve the goal."""
    if name not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        raise JudgementError(f"unknown strategy {name!r}; known are {known}")
    return (top_pair,) if goal.top and name == "default" else STRATEGIES[name]
