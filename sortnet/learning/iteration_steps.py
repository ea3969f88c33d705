"""Functions that `loop.py` calls in an iteration: ask, sort, select pairs, check the end, train."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from sortnet.comparators import Make, Trainable, TrainableComparator
from sortnet.config import Config
from sortnet.core import F32, I64, ComparedPairs, PairSink, Progress, Queries, Split
from sortnet.core.shard import ALONE, Group
from sortnet.learning.iterations import SortResult, State
from sortnet.learning.judges import (
    check_can_be_learned,
    judged_by_data,
    order_by_all,
    sorted_to_check,
)
from sortnet.learning.pair_weights import weights_by_quality
from sortnet.learning.pairs_to_ask import (
    SortedPart,
    answered_pairs,
    answers_about_vali,
    ask_judge,
    is_kept,
    kept_share,
    n_answers_to_ask,
    select_pairs,
    sort_and_ask,
    uses_sorted_pairs,
)
from sortnet.learning.step_budget import Budget
from sortnet.learning.training import Trained, train_on_pairs
from sortnet.metrics import Metric, check_can_choose, evaluate

Rows: TypeAlias = Literal["all", "answered", "wrong"]  # which comparisons of a sort are kept


@dataclass(frozen=True)
class IterationSteps:
    """Steps of an iteration of Algorithm 3.1, by the settings and the budget of the run.

    In this class T and V are the training and the validation queries, TP and VP the pairs of T and
    V that were selected so far, and C_i is the comparator of iteration i.

    Attributes:
        make: a function that makes a comparator with random weights from a seed.
        config: the settings, with defaults in place of None.
        budget: the number of trainings, and the number of steps of all trainings together.
        metrics: the measures of each sort, RankQuality first.
        group: the processes that share the work.
    """

    make: Make
    config: Config
    budget: Budget
    metrics: Sequence[Metric]
    group: Group

    def ask(self, train: Queries, state: State) -> tuple[Queries, State]:
        """Ask the judge of the training queries about the pairs selected in this iteration.

        The last iteration asks nothing, because it only sorts and no training follows.

        Returns:
            The training queries with the answers; and the state, whose `asked` lists all pairs that
            were asked about so far. Without a judge both are unchanged.

        Raises:
            DataError: if nothing can be learned, because no answer prefers a document to another.
        """
        is_last_sort = state.iteration == self.budget.iterations
        if train.judge is None or is_last_sort:
            return train, state
        strategy_input = self._strategy_input(train, state)
        answered, asked_keys = sort_and_ask(self.config.strategy, strategy_input)
        check_can_be_learned(answered)
        return answered, replace(state, asked=asked_keys)

    def sort_train(self, comparator: TrainableComparator, train: Queries) -> SortResult:
        """Sort the training queries, and judge the comparisons by the data.

        All comparisons are kept if the strategy selects training pairs from them. Otherwise only
        the wrong comparisons are kept, which the sink counts.
        """
        needs_comparisons = uses_sorted_pairs(self.config.strategy, train)
        return self._sort(comparator, train, "all" if needs_comparisons else "wrong")

    def sort_vali(self, comparator: TrainableComparator, vali: Queries) -> SortResult:
        """Sort the validation queries, and judge the comparisons by the data.

        The comparisons that are kept become validation pairs: with the strategy `wrong` only the
        wrong comparisons, with any other strategy all comparisons that have an answer.
        """
        rows: Rows = "wrong" if self.config.strategy == "wrong" else "answered"
        return self._sort(comparator, vali, rows)

    def _sort(self, comparator: TrainableComparator, part: Queries, rows: Rows) -> SortResult:
        """Sort a part of the data and judge its comparisons, some queries at a time.

        Args:
            comparator: the comparator.
            part: the queries.
            rows: the comparisons to keep in the result: all, the answered, or the wrong ones. Of
                large data a share of them is kept, see `kept_share`. Counts and measures include
                all comparisons.
        """
        started = time.perf_counter()
        n_sorts = self.budget.iterations + 1  # one before each training, and a last sort
        share = kept_share(self.config.strategy, part, n_sorts)
        # Every process compares all judged pairs; the sorts of graded queries are divided.
        group = self.group if part.judged is None else ALONE
        orders = [np.empty(0, np.int64)]
        counts = [np.zeros(3, np.int64)]  # comparisons, wrong ones, and those with a preference
        kept = [ComparedPairs.empty()]
        for _, sorting in sorted_to_check(comparator, part, group):
            compared = judged_by_data(part, sorting.compared)
            orders.append(sorting.order)
            counts.append(np.array([len(compared), compared.wrong.sum(), compared.decided.sum()]))
            if rows != "all":
                compared = compared.where(compared.wrong if rows == "wrong" else compared.answered)
            if share < 1:
                compared = compared.where(is_kept(compared, share))
            kept.append(compared)
        order = group.gather(np.concatenate(orders))
        compared = ComparedPairs.joined(kept).gathered(group)
        seconds = time.perf_counter() - started
        n_compared, n_wrong, n_decided = group.sum(np.sum(counts, axis=0))
        return SortResult(
            comparisons=int(n_compared),
            miscompared=int(n_wrong),
            right=float((n_decided - n_wrong) / np.maximum(n_decided, 1)),
            compared=compared,
            order=order,
            measures=evaluate(part, order, self.metrics, empty=self.config.empty),
            seconds=seconds,
        )

    def quality(self, ranking: SortResult) -> float:
        """Return RankQuality of a sort."""
        return ranking.measures[self.config.rank_quality.name]

    def measure(self, comparator: TrainableComparator, queries: Queries) -> dict[str, float]:
        """Rank queries by the comparator, and compute the measures by name."""
        order = order_by_all(comparator, queries, self.group)
        return evaluate(queries, order, self.metrics, empty=self.config.empty)

    def pairs_of_train(
        self, train: Queries, ranking: SortResult, state: State
    ) -> tuple[ComparedPairs, I64]:
        """Select the pairs to learn from, by the strategy of the settings.

        Args:
            train: the training queries T.
            ranking: the sort of T.
            state: the state of this iteration.

        Returns:
            The pairs TP_i, sorted by `ComparedPairs.in_order`, and the keys of all pairs that were
            asked about so far.
        """
        part = replace(
            self._strategy_input(train, state),
            order=ranking.order,
            compared=ranking.compared,
            comparisons=ranking.comparisons,
        )
        key, asked_keys = select_pairs(self.config.strategy, part)
        pairs = answered_pairs(train, key)
        if self.config.strategy == "wrong":  # the strategy selects all compared pairs
            pairs = pairs.where(pairs.is_in(ranking.wrong))
        return pairs, asked_keys

    def is_last(self, state: State, n_new: int) -> bool:
        """Whether the run ends with this iteration.

        With `start="warm"` a run ends when its budget is spent. Otherwise it may end earlier.

        Args:
            state: the state after the comparator was measured.
            n_new: the number of pairs that are new in TP or VP.
        """
        if state.iteration == self.budget.iterations:
            return True
        if self.config.start == "warm":
            return False
        n_stale = state.iteration - state.best_iteration
        return n_new == 0 or n_stale == self.config.max_stale

    def train(
        self,
        state: State,
        T: Queries,
        TP: ComparedPairs,
        order: I64,
        V: Queries,
        VP: ComparedPairs,
        progress: Progress,
    ) -> tuple[TrainableComparator, Trained]:
        """Train the next comparator on the training pairs.

        If the run divides one training among its iterations, the training makes this iteration's
        share of the steps. Otherwise it is a whole training.

        Args:
            state: the state, with C_i.
            T: the training queries.
            TP: the training pairs.
            order: the ranking of the training queries by C_i.
            V: the validation queries.
            VP: the validation pairs.
            progress: a function that is called with progress messages.

        Returns:
            C_{i+1}, and the result of the training.
        """
        seed = self._seed(state)
        if self.config.start == "fresh":
            comparator = self.make(seed)
        else:  # C_i is copied, since it may be the best comparator, and training changes it
            comparator = copy.deepcopy(state.comparator)
        divides = self.config.divides_one_training and self.budget.iterations > 1

        def quality_on_vali(net: Trainable) -> float:
            """Compute RankQuality of the net on the validation queries."""
            return self.config.quality_of(V, order_by_all(net, V, self.group))

        trained = train_on_pairs(
            comparator, T, TP, V, VP, self.config.training,
            share=self.budget.share(state.iteration) if divides else None,
            moments=state.moments, score=quality_on_vali,
            gain=self._weights_by_quality(state, T, TP, order),
            seed=seed, group=self.group, progress=progress,
        )  # fmt: skip
        return comparator, trained

    def _weights_by_quality(
        self, state: State, T: Queries, TP: ComparedPairs, order: I64
    ) -> F32 | None:
        """Compute the weights of training pairs, (m,), by their effects on RankQuality.

        The result is None if the settings do not weight pairs in this way, or if the comparator has
        random weights, so that its ranking does not tell which pairs matter. A run with a single
        training uses such a ranking nevertheless, because the training has no other ranking.

        Args:
            state: the state, with the comparator of this iteration.
            T: the training queries.
            TP: the training pairs.
            order: the ranking of the training queries by the comparator.
        """
        if self.config.training.pair_weight != "quality":
            return None
        ranks_at_random = state.iteration == 0 and not state.is_trained
        if ranks_at_random and self.budget.iterations > 1:
            return None
        return weights_by_quality(self.config.rank_quality, T, order, TP)

    def _strategy_input(self, train: Queries, state: State) -> SortedPart:
        """Make the input of a strategy for this iteration, without the result of a sort.

        The input tells how many answers may be asked for, which pairs were asked about before, and
        how far the run is, as a share from 0 to 1.
        """
        config = self.config
        n_trainings = self.budget.iterations
        n_answers = n_answers_to_ask(
            config.strategy, config.judgements, len(state.asked), state.iteration, n_trainings
        )
        return SortedPart(
            train,
            state.comparator,
            n_answers,
            np.random.default_rng(self._seed(state)),
            asked=state.asked,
            done=min(1.0, state.iteration / max(n_trainings - 1, 1)),
        )

    def _seed(self, state: State) -> int:
        """Compute the seed of the iteration, so that a resumed run draws the same numbers."""
        sequence = np.random.SeedSequence([self.config.seed, state.iteration + 1])
        return int(sequence.generate_state(1)[0])


def answered_parts(
    train: Queries, vali: Queries, config: Config, state: State, *, are_checked: bool
) -> tuple[Queries, Queries, Config]:
    """Add the answers of judges to the queries of a run that starts or resumes.

    The judge of the training queries answers again about the pairs asked about so far. The judge of
    the validation queries answers about all pairs that the run needs, up to their share of the
    run's answers.

    Args:
        train, vali: the training and the validation queries.
        config: the settings.
        state: the state from which the run continues.
        are_checked: whether the caller has made the checks that need no answer of a judge.

    Returns:
        The training and the validation queries with the answers, and the settings, whose number of
        judgements is what remains for the training queries.

    Raises:
        DataError: if there is nothing to learn from, or RankQuality is the same for every ranking
            of the validation queries.
    """
    # With a judge, `IterationSteps.ask` checks the training queries after the answers.
    if train.judge is None and not are_checked:
        check_can_be_learned(train)
    train = ask_judge(train, state.asked)
    if vali.judge is not None:
        n_answers = answers_about_vali(config.judgements)
        rng = np.random.default_rng(config.seed)
        vali, _ = sort_and_ask("random", SortedPart(vali, state.comparator, n_answers, rng))
        if config.judgements is not None and n_answers is not None:
            config = replace(config, judgements=config.judgements - n_answers)
        are_checked = False
    if not are_checked:
        check_can_choose(config.rank_quality, vali)
    return train, vali, config


def stored_pairs(sink: PairSink, split: Split, part: Queries, state: State) -> ComparedPairs:
    """Return the pairs of the iterations before the state's, with the answers of the data."""
    pairs = sink.pairs(split, state.iteration)
    return pairs if part.judged is None else judged_by_data(part, pairs)
