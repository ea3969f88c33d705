"""A session: ask an annotator, add the answer or undo it, rank the items."""

from __future__ import annotations

import operator
import threading
from collections.abc import Collection, Hashable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from sortnet.core import F64, I64
from sortnet.core.pairs import key_of
from sortnet.errors import JudgementError
from sortnet.preference.annotator_reports import AnnotatorReport, annotator_reports
from sortnet.preference.base import HOLDOUT, Judgement, Pair, Question
from sortnet.preference.design import design
from sortnet.preference.fit_process import Call
from sortnet.preference.fits import (
    ENOUGH,
    Fits,
    choose_basis,
    fit_both,
    kept_scales,
    milestone,
    predicted_better_without,
)
from sortnet.preference.forecast import Forecast, forecast
from sortnet.preference.goal import WRONG, Goal, among_top
from sortnet.preference.groups import Groups, GroupStanding, parts_apart
from sortnet.preference.history import History
from sortnet.preference.intervals import Ranking, rank_items
from sortnet.preference.judgement_table import UNDO, Judgements
from sortnet.preference.posterior import Posterior
from sortnet.preference.stopping import (
    ENOUGH_CHECKS,
    NO_HOLDOUT,
    Check,
    Left,
    Remaining,
    about_models,
    group_standings,
    holdout_check,
    progress,
    questions_left,
    whether_to_stop,
)
from sortnet.preference.strategies import (
    FEW,
    STRATEGIES,
    Free,
    MergePass,
    View,
    random_pair,
    top_pair,
)
from sortnet.preference.study import Study
from sortnet.preference.vote_arrays import MODEL, PERSON, Votes
from sortnet.preference.widening import widened_by

_SMALL = 150  # unknowns up to which a fit takes a few milliseconds
_UNFITTED = 4  # events after which there is a new fit, or 5 % if that is more
_AT_A_TIME = 64  # answers observed one by one; more of them wait for the next fit
_SHARED = 0.5  # share of hold-out questions that another annotator has answered
_REPEAT_AFTER = 10  # answers of an annotator before one of them is repeated
_LATER = 1.05  # share of more events after which a forecast that has passed is renewed


class _Asked(NamedTuple):
    """Who is asked a question, and what is free for them."""

    annotator: str
    taken: set[Pair]  # pairs that are being asked now
    free: Free
    rng: np.random.Generator


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
        repeats: share of questions the annotator has answered before, sides swapped.
        goal: when to stop; a number is the share of all pairs that may be in the wrong order.
        among: (m, 2) the only pairs that may be asked; None for all within groups.
        groups: (n,) name or number of each item's group; pairs are asked, ranked and counted
            within groups only. None: all items are compared with each other.
        study: whose judgements do not count, which items are retired, gold pairs, overlap.
        keep: folder in which fits to many answers are kept, see `kept`; results are the same.
        call: calls the functions of a fit that takes more than a few milliseconds; a `FitProcess`
            does so in another process.

    Raises:
        JudgementError: on an unknown strategy, a pair in `among` of unknown items or across groups,
            or groups of one item only.

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
        study: Study | None = None,
        keep: Path | None = None,
        call: Call = operator.call,
    ) -> None:
        self.study = study or Study()
        self._call = call
        self._keep = keep
        self._X = design(features, n_items)
        self.n_items = len(self._X)
        self.seed, self.holdout, self.repeats = seed, holdout, repeats
        self.goal = goal if isinstance(goal, Goal) else Goal(goal)
        top = self.goal.top and strategy == "default"
        if strategy not in STRATEGIES:
            known = ", ".join(STRATEGIES)
            raise JudgementError(f"unknown strategy {strategy!r}; known are {known}")
        self._strategies = (top_pair,) if top else STRATEGIES[strategy]
        self._groups = Groups(groups, self.n_items, without=self.study.retired)
        self._among = None if among is None else _checked_pairs(among, self._groups)
        self._allowed = None if self._among is None else {(i, j) for i, j in self._among.tolist()}
        # Tried one by one: the given pairs, or all of them if they are few.
        few = self._groups.every() if self._groups.n_pairs <= FEW else None
        self._every = few if self._among is None else tuple(self._among.T)
        self._history = History(self.n_items)
        self._lock = threading.RLock()
        self._fitting = threading.Lock()
        self._asked = 0
        self._fits = self._fit(0, None)
        self._fitted_at = self._observed = 0
        self._merge: MergePass | None = None
        self._best = self._best_by(self._fits)
        self._forecasting = threading.Lock()
        self._forecast: Forecast | None = None
        self._forecast_at = -1  # number of events that were fitted for the forecast

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
        return self.events - self._fitted_at

    @property
    def stale(self) -> bool:
        """Whether there are events or a basis to be fitted: see `refit`."""
        late = self._fits.basis.milestone != self._milestone(self.events)
        return late or self.behind > 0

    @property
    def quick(self) -> bool:
        """Whether `refit` takes a few milliseconds only: few unknowns, no net to train."""
        no_net = self._history.n_votes < ENOUGH
        known = self._fits.basis.milestone
        return self._small and (no_net or known == self._milestone(self.events))

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
            if (new.answer == UNDO).any():
                self._merge = None
            elif self._merge is not None:
                for judgement in new:
                    _answer_merge(self._merge, judgement)

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
        self, annotator: str, k: int = 1, *, busy: Collection[Pair] = (), wait: bool = True
    ) -> list[Question]:
        """The next k questions for an annotator; fewer, or none, if nothing is left to ask.

        A question whose answer was undone comes first, unchanged. Nobody is asked about a pair
        twice, except for repeats.

        Args:
            annotator: their name.
            k: number of questions.
            busy: pairs, each the lower number first, that must not be asked now.
            wait: whether a fit that is due may take longer than a few milliseconds; without it
                someone else must call `refit` from time to time.

        Cost: a few ms up to 10,000 items, then a copy of a few numbers an item, see `bald`; and a
        fit each time there are 5 % more events. Above a thousand unknowns, events since the last
        fit do not count yet.
        """
        if wait or self._small:
            self._fit_if_due()  # before the lock, which a fit in another thread needs
        with self._lock:
            self._catch_up()
            taken = set(busy)
            questions: list[Question] = []
            for _ in range(k):
                question = self._question(annotator, taken)
                if question is None:
                    break
                questions.append(question)
                taken.add(question.pair)
            return questions

    def refit(self, *, keep_net: bool = False) -> None:
        """Fit the model to all events so far; other threads may ask and tell meanwhile.

        Args:
            keep_net: train no net now, if there are less than twice the events of the last one;
                a later fit without it does.

        Cost: see `fit`; about a second at 10,000 items and 100,000 answers, 15 if the scales are
        chosen again, which happens each time there are a quarter more answers.
        """
        with self._fitting:
            milestone_of_net = self._fits.basis.milestone
            keep_net = keep_net and self.events < 2 * milestone_of_net
            is_net_old = not keep_net and milestone_of_net != self._milestone(self.events)
            if self.stale or is_net_old:
                self._refit(keep_net=keep_net)

    def ranking(self, *, fresh: bool = True, top: int | None = None) -> Ranking:
        """All items in order, with intervals; `fresh=False` takes the last fit.

        With `top`, by default that of the goal, also how probably each is of its group's top.
        """
        if fresh:
            self.refit()
        with self._lock:
            posterior, seen = self._fits.all.posterior, self._history.seen.copy()
        # Outside the lock, so that `ask` does not wait.
        wanted = self.goal.top if top is None else top
        return rank_items(posterior, seen, self._groups, top=wanted)

    @property
    def posterior(self) -> Posterior:
        """Of the scores, by the last fit to all answers."""
        with self._lock:
            return self._fits.all.posterior

    def remaining(self, *, fresh: bool = True) -> Remaining:
        """How close it is to its goal; `fresh=False` takes the last fit and the last forecast.

        It is done if the goal is reached, and the hold-out does not show that the model is
        overconfident. Imported votes have no hold-out: then each is predicted from all others.
        """
        if fresh:
            self.refit()
            self.renew_forecast()
        with self._lock:
            posterior = self._fits.all.posterior
            answered = self._history.n_votes
            check = self._check_holdout()
            n_annotators = max(len(self._history.annotators), 1)
            free = max(self._n_pairs * n_annotators - self._history.n_asked(), 0)
            parts, seen = self._history.all_components(), self._history.seen.copy()
            n_models = len(self._models())
            others = bool(self.study.gold) or n_models < len(self._history.annotators)
            last_forecast = self._forecast
        found = progress(posterior, self._groups, self.goal, seed=self.seed)
        number_left = questions_left(last_forecast, answered, free)
        stop, why = whether_to_stop(found, self.goal, free, check, number_left)
        if stop:
            number_left = Left(0, 0, 0)
        elif found.reached and check.n >= ENOUGH_CHECKS:  # nobody knows what will settle it
            number_left = Left(None, None, None)
        details = [found.details]
        groups: tuple[GroupStanding, ...] = ()
        if len(self._groups) > 1:
            of = self._groups, seen, self.goal
            groups = group_standings(posterior, *of, passed=check.passed, seed=self.seed)
            reached = sum(group.stop for group in groups)
            done = "all groups have reached the goal"
            some = f"{reached} of {len(groups)} groups have reached the goal"
            details.append(done if reached == len(groups) else some)
        features = self._X.shape[1] > 0
        apart = parts_apart(parts, seen > 0, self._groups, features=features)
        details.append(about_models(n_models, others))
        return Remaining(
            number_left.questions,
            found.wrong,
            found.reached,
            check.n,
            check.right,
            check.expected,
            stop,
            why,
            groups,
            check.left_out,
            number_left.fewest,
            number_left.most,
            tuple(filter(None, details)),
            apart,
        )

    @property
    def forecast_due(self) -> bool:
        """Whether the forecast of the last fit is to be renewed: see `renew_forecast`."""
        with self._lock:
            fitted, before = self._fitted_at, self._forecast_at
            if before < 0 or milestone(fitted) != milestone(before):
                return True
            middle = None if self._forecast is None else self._forecast.middle
            passed = middle is not None and self._history.n_votes >= middle
        return passed and fitted > _LATER * before

    def renew_forecast(self) -> None:
        """Forecast how many questions are left, by the last fit, each time there are a quarter
        more events; between these moments the number falls by one an answer.

        Cost: see `forecast`; other threads may ask and tell meanwhile.
        """
        with self._forecasting:
            if not self.forecast_due:
                return
            with self._lock:
                posterior, fitted = self._fits.all.posterior, self._fitted_at
                answered, check = self._history.n_votes, self._check_holdout()
            checks_left = 0 if check.left_out else max(ENOUGH_CHECKS - check.n, 0)
            new = forecast(
                posterior,
                self._groups,
                self.goal,
                answered=answered,
                checks_left=checks_left,
                holdout=self.holdout,
                seed=self.seed,
            )
            with self._lock:
                self._forecast, self._forecast_at = new, fitted

    def allows(self, pair: Pair) -> bool:
        """Whether a pair, the lower number first, may be asked: of a group, kept, in `among`."""
        group = self._groups.of
        of_one = bool(group[pair[0]] == group[pair[1]])
        kept = self.study.retired.keys().isdisjoint(pair)
        return of_one and kept and (self._allowed is None or pair in self._allowed)

    def weighted(self) -> tuple[Votes, dict[str, float]]:
        """All answers about the order that are not undone, and each annotator's weight in training.

        That is their reliability, 1 for the average one and below 0 for who prefers the worse item,
        times the share of their answers that are not given blindly; none without answers.

        Cost: see `choose_scales`, unless they are kept; no other fit is needed.
        """
        with self._lock:
            votes, names = self._history.votes(self.events), [*self._history.annotators]
            known = self._with_known(votes)
        if not len(votes):
            return votes, {}
        keep = self._keep if len(votes) >= ENOUGH else None
        people = kept_scales(self._X, known, len(names), seed=self.seed, keep=keep).annotators
        weight: F64 = people.reliability * (1 - people.blind)
        return votes, dict(zip(names, weight.tolist(), strict=True))

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
            posterior, numbers = self._fits.all.posterior, self._history.annotators
            fitted = {name: k for name, k in numbers.items() if k < len(posterior.reliability)}
        events = self.judgements() if judgements is None else judgements
        named = {name: fitted.get(name) for name in annotators}
        features, study = self._X.shape[1] > 0, study or self.study
        return annotator_reports(named, events, posterior, study, features=features)

    def better_without(self, annotator: str) -> bool:
        """See `predicted_better_without`: two fits."""
        with self._lock:
            number, basis = self._history.annotators.get(annotator), self._fits.basis
            votes = self._history.votes(self.events)
        return number is not None and predicted_better_without(number, basis, votes, seed=self.seed)

    def widened_by(self) -> str | None:
        """The annotator whose answers made the intervals wider, by the last fit; see there."""
        with self._lock:
            fits, at = self._fits, self._fitted_at
            votes, names = self._with_known(self._history.votes(at)), [*self._history.annotators]
        about = fits.basis.features, votes, self._groups, self.goal
        number = widened_by(fits.all.posterior, *about, seed=self.seed)
        return None if number is None else names[number]

    def answered(self, annotator: str) -> int:
        """The number of an annotator's answers that are not undone, skips and can't-says aside."""
        with self._lock:
            return self._history.answered(annotator)

    def judgements(self) -> Judgements:
        """All events, including undos."""
        with self._lock:
            return self._history.events.so_far()

    @property
    def _n_pairs(self) -> int:
        """The number of pairs that one annotator may be asked about."""
        return self._groups.n_pairs if self._among is None else len(self._among)

    @property
    def _small(self) -> bool:
        return sum(self._X.shape) + len(self._history.annotators) <= _SMALL

    @property
    def due(self) -> bool:
        """Whether enough events are not fitted yet to call `refit`."""
        return self.behind > max(_UNFITTED, self._fitted_at // 20)

    def _fit_if_due(self) -> None:
        """Fit from time to time, unless a fit is in progress: `ask` must not wait for that."""
        if not (self.due and self._fitting.acquire(blocking=False)):
            return
        try:
            self._refit(keep_net=self._history.n_votes >= ENOUGH)  # no net is trained here
        finally:
            self._fitting.release()

    def _refit(self, *, keep_net: bool = False) -> None:
        upto = self.events
        fits = self._fit(upto, self._fits, keep_net=keep_net)
        best = self._best_by(fits)  # before the lock, so that `ask` does not wait
        with self._lock:
            self._fits, self._fitted_at, self._observed, self._best = fits, upto, upto, best

    def _catch_up(self) -> None:
        """Update the posterior by the events since the last fit."""
        posterior = self._fits.choosing.posterior
        if posterior.covariance is None or not 0 < self.events - self._observed <= _AT_A_TIME:
            return
        late = self._history.votes(self.events, after=self._observed, holdout=False)
        models = self._models()
        for left, right, target, annotator in late.rows():
            if annotator < len(posterior.reliability):
                kind = MODEL if annotator in models else PERSON
                posterior.observe(left, right, target, annotator, kind)
        self._observed, self._best = self.events, self._best_by(self._fits)

    def _question(self, annotator: str, taken: set[Pair]) -> Question | None:
        again = self._history.undone(annotator)
        if again is not None and again.pair not in taken and self.allows(again.pair):
            return again.question
        self._asked += 1
        seed = self.seed, crc32(annotator.encode()), self.events, self._asked
        to = _Asked(annotator, taken, self._free(annotator, taken), np.random.default_rng(seed))
        drawn = to.rng.random()
        ways = [self._random if drawn < self.holdout else self._chosen, self._random, self._skipped]
        if self.holdout <= drawn:
            ways.insert(0, self._overlap)
        if self.holdout <= drawn < self.holdout + self.repeats:
            ways.insert(0, self._repeat)
        elif drawn >= 1 - self.study.gold_rate:
            ways.insert(0, self._gold)
        return next(filter(None, (way(to) for way in ways)), None)

    def _chosen(self, to: _Asked) -> Question | None:
        view = self._view(to.free, to.taken)
        for strategy in self._strategies:
            pair = strategy(view, to.rng)
            if pair is not None and strategy is random_pair:  # not part of the hold-out
                return self._to_question(to, pair, "uniform", 1 / self._n_pairs)
            if pair is not None:
                name = strategy.__name__.removesuffix("_pass").removesuffix("_pair")
                return self._to_question(to, pair, name)
        return None

    def _random(self, to: _Asked) -> Question | None:
        """A question of the hold-out; half of them are ones that another annotator has answered."""
        shared = [pair for pair in self._history.holdout_pairs(to.annotator) if to.free(*pair)]
        share = _SHARED if shared else 0.0
        if to.rng.random() < share:
            pair = shared[to.rng.integers(len(shared))]
            return self._to_question(to, pair, HOLDOUT, share / len(shared))
        drawn = random_pair(self._view(to.free), to.rng)
        return drawn and self._to_question(to, drawn, HOLDOUT, (1 - share) / self._n_pairs)

    def _repeat(self, to: _Asked) -> Question | None:
        """A pair that this annotator answered some time ago, sides swapped."""
        drawn = self._history.draw_once(to.annotator, to.rng, but_last=_REPEAT_AFTER)
        if drawn is None or drawn[0].pair in to.taken or not self.allows(drawn[0].pair):
            return None
        was, many = drawn
        return Question(was.right, was.left, "repeat", 1 / many, self._fitted_at)

    def _skipped(self, to: _Asked) -> Question | None:
        """When nothing else is left: a pair that the annotator skipped."""
        for judgement in self._history.skipped(to.annotator):
            if judgement.pair not in to.taken and self.allows(judgement.pair):
                return self._to_question(to, judgement.pair, "skipped")
        return None

    def _gold(self, to: _Asked) -> Question | None:
        """One of the pairs whose answer is known, which this annotator has not answered."""
        pairs = [pair for pair in self.study.gold if to.free(*pair)]
        if not pairs:
            return None
        return self._to_question(to, pairs[to.rng.integers(len(pairs))], "gold", 1 / len(pairs))

    def _overlap(self, to: _Asked) -> Question | None:
        """The oldest pair that others have answered, but fewer people than the overlap."""
        overlap = self.study.overlap
        pairs = self._history.answered_by_few(overlap) if overlap > 1 else []
        found = next((pair for pair in pairs if to.free(*pair)), None)
        return found and self._to_question(to, found, "overlap")

    def _to_question(
        self, to: _Asked, pair: Pair, strategy: str, probability: float = 1.0
    ) -> Question:
        """A pair as a question; its sides depend on the annotator."""
        low, high = min(pair), max(pair)
        seed = self.seed, crc32(to.annotator.encode()), low, high
        side = np.random.default_rng(seed).random()
        left, right = (low, high) if side < 0.5 else (high, low)
        return Question(left, right, strategy, float(probability), self._fitted_at)

    def _free(self, annotator: str, taken: set[Pair]) -> Free:
        answered = self._history.pairs_of(annotator)

        def free(i: int, j: int) -> bool:
            pair = (i, j) if i < j else (j, i)
            return key_of(*pair) not in answered and pair not in taken and self.allows(pair)

        return free

    def _view(self, free: Free, taken: Collection[Pair] = ()) -> View:
        asked = np.array(sorted(taken), np.int64).ravel()
        pending = np.bincount(asked, minlength=self.n_items)
        return View(
            self._fits.choosing.posterior,
            *self._best,
            self._history.seen_usable + pending,
            pending,
            self._history.components(),
            self._merge_pass,
            free,
            self._groups,
            self._every,
            self._among is not None,
        )

    def _best_by(self, fits: Fits) -> tuple[I64, F64 | None]:
        """The items, best first; how probably each is of the top, None without such a goal."""
        posterior, groups, top = fits.choosing.posterior, self._groups, self.goal.top
        order = np.lexsort((-posterior.scores, groups.of))
        return order, among_top(posterior, groups, top) if top else None

    def _merge_pass(self) -> MergePass:
        """The current merge sort, rebuilt from the answers after an undo."""
        if self._merge is None:
            order = np.random.default_rng(self.seed).permutation(self.n_items)
            of = self._groups.of[order]
            by_group = (order[of == k].tolist() for k in range(len(self._groups)))
            self._merge = MergePass(*by_group)
            for judgement in self._history.alive():
                _answer_merge(self._merge, judgement)
        return self._merge

    def _check_holdout(self) -> Check:
        votes, posterior = self._history.decided(holdout=True), self._fits.choosing.posterior
        left_out = not len(votes) and self._history.n_votes >= NO_HOLDOUT
        if left_out:
            votes, posterior = self._history.decided(holdout=False), self._fits.all.posterior
        p = posterior.predicted(votes.marked(self._models()), left_out=left_out)
        right = (p > 0.5) == (votes.target > 0.5)
        return holdout_check(np.maximum(p, 1 - p), right, left_out=left_out)

    def _models(self) -> list[int]:
        """The numbers of the annotators that are models."""
        numbers = self._history.annotators
        return [numbers[name] for name in self.study.models if name in numbers]

    def _with_known(self, votes: Votes) -> Votes:
        """Votes with what the study says of them: whose are models', and the gold pairs."""
        return votes.with_known(self._models(), self.study.gold_pairs())

    def _milestone(self, upto: int) -> int:
        """See `milestone`; beside models, people's events count by themselves, too: a few of them
        measure many answers of models.
        """
        at = milestone(upto)
        if not self.study.models:
            return at
        with self._lock:
            people = self._history.not_by(self.study.models, upto)
        few = milestone(len(people))
        return max(at, int(people[few - 1]) + 1) if few else at

    def _fit(self, upto: int, before: Fits | None, *, keep_net: bool = False) -> Fits:
        with self._lock:
            n_annotators, at = len(self._history.annotators), self._milestone(upto)
            everything = self._with_known(self._history.votes(upto))
            usable = self._with_known(self._history.votes(upto, holdout=False))
        call = self._call if upto and not self._small else operator.call
        # Kept is what a session that starts with these events would find.
        keep = self._keep if len(everything) >= ENOUGH and not keep_net else None
        basis, start = (None, None) if before is None else (before.basis, before.choosing.theta)
        if basis is None or basis.scaled != at or (basis.milestone != at and not keep_net):
            net = basis if keep_net else None
            with self._lock:
                early = self._with_known(self._history.votes(at, holdout=False))
            basis = call(choose_basis, self._X, early, at, net=net, seed=self.seed, keep=keep)
            del early  # ten million take 320 MB
            start = start if keep_net else None
        keep = keep if start is None else None
        votes = usable, everything
        return call(fit_both, basis, *votes, n_annotators, start=start, seed=self.seed, keep=keep)


def _checked_pairs(among: ArrayLike, groups: Groups) -> I64:
    """(m, 2) each pair once, the lower number first."""
    n_items = len(groups.of)
    pairs: I64 = np.unique(np.sort(np.array(among, np.int64).reshape(-1, 2), axis=1), axis=0)
    for low, high in pairs.tolist():
        if low < 0 or high >= n_items or low == high:
            raise JudgementError(f"({low}, {high}) is no pair of {n_items} items")
        if groups.of[low] != groups.of[high]:
            raise JudgementError(f"({low}, {high}) is a pair across groups")
    return pairs


def _answer_merge(merge: MergePass, judgement: Judgement) -> None:
    """After a tie, a skip or "can't say" the lower number goes first: any order will do."""
    if judgement.strategy == HOLDOUT or judgement.answer == "undo":
        return
    first = {"left": judgement.left, "right": judgement.right}
    merge.answer(*judgement.pair, first.get(judgement.answer, min(judgement.pair)))
