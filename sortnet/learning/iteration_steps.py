"""Steps of an iteration of Algorithm 3.1: ask, sort, select pairs, decide on the end, train."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from sortnet.comparators import Make, TrainableComparator
from sortnet.config import Config
from sortnet.core import I64, ComparedPairs, Progress, Queries
from sortnet.core.shard import gathered, summed
from sortnet.learning.iterations import Iteration, SortResult, State
from sortnet.learning.judges import check_can_be_learned, judged_by_data, sorted_to_check
from sortnet.learning.pair_sinks import keys_of_all, own_keys
from sortnet.learning.pair_weights import weights_by_quality
from sortnet.learning.pairs_to_ask import (
    SortedPart,
    answered,
    answered_pairs,
    answers_about_vali,
    ask,
    compares,
    is_kept,
    kept_share,
    pairs_to_learn,
    selected,
    wanted,
)
from sortnet.learning.step_budget import Budget
from sortnet.learning.training import OptimiserState, Trained, train_on_pairs, train_share
from sortnet.metrics import Empty, Metric, check_can_choose, evaluate
from sortnet.sorting.diagnostics import Tally, share_right
from sortnet.sorting.sort import arrangement, order_of

Rows: TypeAlias = Literal["all", "answered", "wrong"]  # rows of a table of comparisons to keep


@dataclass(frozen=True)
class IterationSteps:
    """The steps of an iteration, by the settings and the budget of the run.

    Attributes:
        make: makes a comparator with random weights from a seed.
        config: settings, nothing open.
        budget: steps of all trainings, and their number.
        metrics: measures of each sort, including RankQuality.
        kept_train, kept_vali: shares of the compared pairs to keep, see `kept_share`.
        start_train, start_vali: the arrangements in which T and V are sorted, see `arrangement`.
    """

    make: Make
    config: Config
    budget: Budget
    metrics: tuple[Metric, ...]
    kept_train: float
    kept_vali: float
    start_train: I64
    start_vali: I64

    @classmethod
    def of(
        cls, train: Queries, vali: Queries, make: Make, config: Config, metrics: Sequence[Metric]
    ) -> IterationSteps:
        """The steps of a run on T and V; `metrics` are taken besides RankQuality."""
        budget = Budget.of(train, config)
        n_sorts = budget.iterations + 1
        return cls(
            make,
            config,
            budget,
            tuple(dict.fromkeys((config.rank_quality, *metrics))),
            kept_share(config.strategy, train, n_sorts),
            kept_share(config.strategy, vali, n_sorts),
            arrangement(train),
            arrangement(vali),
        )

    @property
    def n_sorts(self) -> int:
        """Number of sorts of a run at most: one before each training, and a last one."""
        return self.budget.iterations + 1

    def ask(self, train: Queries, state: State) -> tuple[Queries, State]:
        """The training queries after their judge has answered the pairs selected in this iteration.

        Without a judge they are returned as they are. The last sort, which no training follows,
        asks nothing.
        """
        if train.judge is None or state.iteration == self.budget.iterations:
            return train, state
        train, asked_keys = ask(self.config.strategy, self._sorted_part(train, state))
        check_can_be_learned(train)
        return train, replace(state, asked=gathered(train, keys_of_all(train, asked_keys)))

    def sort_train(self, comparator: TrainableComparator, train: Queries) -> SortResult:
        """Sort T, and judge the comparisons."""
        needs_comparisons = compares(self.config.strategy, train)
        return sort_part(
            comparator,
            train,
            self.metrics,
            self.config.empty,
            start=self.start_train,
            rows="all" if needs_comparisons else "wrong",
            share=self.kept_train,
        )

    def sort_vali(self, comparator: TrainableComparator, vali: Queries) -> SortResult:
        """Sort V, and judge the comparisons."""
        return sort_part(
            comparator,
            vali,
            self.metrics,
            self.config.empty,
            start=self.start_vali,
            rows="wrong" if self.config.strategy == "wrong" else "answered",
            share=self.kept_vali,
        )

    def scored(self, state: State, ranking: SortResult) -> State:
        """The state after C_i is measured on V: C_i becomes C* if its RankQuality is the best."""
        quality = ranking.measures[self.config.rank_quality.name]
        return state.scored(quality, share_right(ranking.observed))

    def record(
        self,
        state: State,
        rankings: tuple[SortResult, SortResult],
        new: tuple[int, int],
        train: tuple[Queries, ComparedPairs],
        vali: tuple[Queries, ComparedPairs],
        answers: int,
        extra_parts: Mapping[str, Queries],
    ) -> Iteration:
        """Make the record of an iteration, after its sorts and before its training.

        Args:
            rankings: the sorts of T and V.
            new: numbers of pairs that are new in TP and VP.
            train: T and TP.
            vali: V and VP.
            answers: number of answers that the judge has given so far.
            extra_parts: queries that C_i is measured on, too.
        """
        tp_size, vp_size = (int(summed(queries, len(pairs))) for queries, pairs in (train, vali))
        extra_measures = {
            name: self.measure(state.comparator, part) for name, part in extra_parts.items()
        }
        quality = self.config.rank_quality.name
        return Iteration.of(
            state, quality, rankings, extra_measures, new, (tp_size, vp_size), answers
        )

    def measure(self, comparator: TrainableComparator, queries: Queries) -> dict[str, float]:
        """Measure the comparator on queries that decide nothing."""
        order = order_of(comparator, queries)
        return evaluate(queries, order, self.metrics, empty=self.config.empty)

    def pairs_of_train(
        self, train: Queries, ranking: SortResult, state: State
    ) -> tuple[ComparedPairs, I64]:
        """TP_i, the pairs that the strategy selects to learn from, and the keys asked about."""
        part = replace(
            self._sorted_part(train, state),
            order=ranking.order,
            compared=ranking.compared,
            comparisons=ranking.comparisons,
        )
        key, asked_keys = selected(self.config.strategy, part)
        if compares(self.config.strategy, train):
            pairs = pairs_to_learn(train, key, ranking.compared)
        else:
            pairs = answered_pairs(train, key)
        if self.config.strategy == "wrong":
            pairs = pairs.where(pairs.wrong)
        return pairs, gathered(train, keys_of_all(train, asked_keys))

    def pairs_of_vali(self, ranking: SortResult) -> ComparedPairs:
        """VP_i, the pairs of V by which a training may choose its epoch."""
        return ranking.compared.in_order()

    def is_last(self, state: State, new: tuple[int, int]) -> bool:
        """Whether the run ends with this iteration, which added `new` pairs of T and V.

        A run that divides one training ends when its budget is spent, whether pairs are new or not.
        """
        if state.iteration == self.budget.iterations:
            return True
        if self.config.start == "warm":
            return False
        return new == (0, 0) or state.iteration - state.best_iteration == self.config.max_stale

    def train(
        self,
        state: State,
        train: tuple[Queries, ComparedPairs, I64],
        vali: tuple[Queries, ComparedPairs],
        progress: Progress,
    ) -> tuple[TrainableComparator, OptimiserState, Trained]:
        """Train C_{i+1} on TP: by its share of the budget, or by a training of its own.

        Args:
            train: T, TP and the ranking of T by C_i.
            vali: V and VP.
        """
        T, TP, order = train
        V, VP = vali
        config = self.config
        training = config.training
        is_divided = config.divides_one_training and self.budget.iterations > 1
        # A ranking by random weights does not tell which pairs matter.
        is_random = state.iteration == 0 and self.budget.iterations > 1 and not state.is_trained
        gain = None
        if training.pair_weight == "quality" and not is_random:
            gain = weights_by_quality(config.rank_quality, T, order, TP)
        seed = self._seed(state)
        comparator = self.make(seed) if config.start == "fresh" else copy.deepcopy(state.comparator)
        if is_divided:
            share = self.budget.share(state.iteration)
            trained, optimiser = train_share(
                comparator, T, TP, V, VP, training, share,
                before=state.optimiser, gain=gain, seed=seed, progress=progress,
            )  # fmt: skip
            return comparator, optimiser, trained
        trained = train_on_pairs(
            comparator, T, TP, V, VP, training,
            score=lambda net: config.quality_of(V, order_of(net, V)),
            gain=gain, seed=seed, progress=progress,
        )  # fmt: skip
        return comparator, state.optimiser, trained

    def _sorted_part(self, train: Queries, state: State) -> SortedPart:
        """The training queries as a strategy sees them before they are sorted in this iteration."""
        config = self.config
        n_trainings = self.budget.iterations
        n_answers = wanted(
            config.strategy, config.judgements, len(state.asked), state.iteration, n_trainings
        )
        return SortedPart(
            train,
            state.comparator,
            n_answers,
            np.random.default_rng(self._seed(state)),
            asked=own_keys(train, state.asked),
            done=min(1.0, state.iteration / max(n_trainings - 1, 1)),
        )

    def _seed(self, state: State) -> int:
        """The seed of the iteration, so that a resumed run draws the same numbers."""
        sequence = np.random.SeedSequence([self.config.seed, state.iteration + 1])
        return int(sequence.generate_state(1)[0])


def answered_parts(
    train: Queries, vali: Queries, config: Config, state: State, *, are_checked: bool
) -> tuple[Queries, Queries, Config]:
    """T and V with the answers of their judges so far, and the settings for the rest of the run.

    Args:
        are_checked: whether the caller has made the checks that need no answer of a judge.

    Raises:
        DataError: if there is nothing to learn from, or RankQuality scores every ranking of V
            alike.
    """
    # With a judge, the check follows its answers.
    if train.judge is None and not are_checked:
        check_can_be_learned(train)
    T = answered(train, own_keys(train, state.asked))
    V, config = answered_vali(vali, config, state.comparator)
    if vali.judge is not None or not are_checked:
        check_can_choose(config.rank_quality, V)
    return T, V, config


def answered_vali(
    vali: Queries, config: Config, comparator: TrainableComparator
) -> tuple[Queries, Config]:
    """V with its judge's answers, and the settings with the number of answers left for T."""
    if vali.judge is None:
        return vali, config
    n_answers = answers_about_vali(config.judgements)
    rng = np.random.default_rng(config.seed)
    vali, _ = ask("even", SortedPart(vali, comparator, n_answers, rng))
    if config.judgements is None or n_answers is None:
        return vali, config
    return vali, replace(config, judgements=config.judgements - n_answers)


def sort_part(
    comparator: TrainableComparator,
    part: Queries,
    metrics: Sequence[Metric],
    empty: Empty,
    *,
    start: I64,
    rows: Rows,
    share: float = 1.0,
) -> SortResult:
    """Sort a part and judge its comparisons, some queries at a time, which bounds memory.

    Args:
        start: (n_docs,) the arrangement that is sorted.
        rows: which of the comparisons to keep.
        share: share of these pairs to keep, see `is_kept`; counts and measures include all
            comparisons.
    """
    started = time.perf_counter()
    order = np.empty(part.n_docs, np.int64)
    tally = Tally(part)
    n_compared = n_wrong = 0
    tables = [ComparedPairs.empty()]
    for docs, sorting in sorted_to_check(comparator, part, start=start):
        compared = judged_by_data(part, sorting.compared)
        order[docs] = sorting.order
        tally.see(docs, sorting.order, compared)
        n_compared += len(compared)
        n_wrong += int(np.count_nonzero(compared.wrong))
        tables.append(_rows_to_keep(part, compared, rows, share))
    seconds = time.perf_counter() - started
    totals = summed(part, np.array([n_compared, n_wrong]))
    return SortResult(
        comparisons=int(totals[0]),
        miscompared=int(totals[1]),
        compared=ComparedPairs.joined(tables),
        order=order,
        measures=evaluate(part, order, metrics, empty=empty),
        observed=tally.facts(comparator),
        seconds=seconds,
    )


def _rows_to_keep(
    part: Queries, compared: ComparedPairs, rows: Rows, share: float
) -> ComparedPairs:
    """The rows of a table of comparisons to keep, see `sort_part`."""
    if rows == "wrong":
        compared = compared.where(compared.wrong)
    elif rows == "answered":
        compared = compared.where(compared.answered)
    if share < 1:
        compared = compared.where(is_kept(part, compared, share))
    return compared
