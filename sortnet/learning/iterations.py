"""Data classes of the results of an iteration: the sort of a part, the record, the run's state.

The loop that fills them is in `loop.py`, the functions of its steps are in `iteration_steps.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from sortnet.comparators import TrainableComparator
from sortnet.core import I64, ComparedPairs
from sortnet.learning.training import Moments


@dataclass(frozen=True)
class SortResult:
    """Result of sorting a part of the data, such as the training queries, with a comparator.

    Attributes:
        comparisons: the number of comparisons.
        miscompared: the number of wrong comparisons.
        right: the share of right comparisons among those for which the judge prefers a document, 0
            to 1.
        compared: the judged comparisons that were kept, see `sort_part`.
        order: (n_docs,) the ranking: document numbers query by query, best first.
        measures: the mean over the queries of each metric, by its name.
        seconds: the wall-clock seconds of sorting and judging.
    """

    comparisons: int
    miscompared: int
    right: float
    compared: ComparedPairs
    order: I64
    measures: dict[str, float]
    seconds: float

    @property
    def wrong(self) -> ComparedPairs:
        """The pairs that the comparator compared wrongly, the better document first, sorted."""
        return self.compared.where(self.compared.wrong).in_order()


@dataclass(frozen=True)
class Iteration:
    """Record of one iteration, which a store keeps as a row.

    TP and VP are the pairs of the training and of the validation queries that were selected so far.

    Attributes:
        iteration: the number i of the iteration, from 0.
        comparisons_train, comparisons_vali: the number of comparisons of the sorts by the
            comparator C_i.
        miscompared_train, miscompared_vali: the number of wrong comparisons.
        new_train, new_vali: the number of selected pairs that were not in TP and VP before.
        tp, vp: the sizes of TP and VP with the new pairs.
        quality: RankQuality of C_i on the validation queries.
        best: whether C_i is the best comparator so far. Of two comparators with equal RankQuality,
            the comparator with more right comparisons of validation pairs is better.
        measures: the measures of C_i: {"train" | "vali" | another part: {metric name: mean over
            queries}}.
        epochs: the number of epochs of the training that made C_{i+1}; 0 without a training, the
            mean over the nets of a committee.
        kept_epoch: the epoch of this training whose weights were kept, with 0 and mean as `epochs`.
        train_loss, vali_loss: the losses of this training, in its last and in its kept epoch.
        seconds_sort, seconds_train: the wall-clock seconds of the sorts and of the training.
        observed: {"train": {"answers": the number of answers that the judge has given so far}}.
    """

    iteration: int
    comparisons_train: int
    comparisons_vali: int
    miscompared_train: int
    miscompared_vali: int
    new_train: int
    new_vali: int
    tp: int
    vp: int
    quality: float
    best: bool
    measures: dict[str, dict[str, float]]
    epochs: float
    kept_epoch: float
    train_loss: float
    vali_loss: float
    seconds_sort: float
    seconds_train: float
    observed: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """State from which a run can continue, together with the pairs in its sink.

    Attributes:
        iteration: the number of the next iteration.
        comparator: the comparator with which the next iteration sorts.
        best: the best comparator so far; None before the first iteration.
        best_iteration: the iteration whose comparator is the best; -1 before the first iteration.
        best_quality: RankQuality of the best comparator.
        finished: whether the loop has ended.
        best_right: the share of the comparisons of validation pairs that the best comparator got
            right, 0 to 1.
        asked: (k,) keys of the training pairs that the judge was asked about, ascending.
        moments: `Trained.moments`, with which the next training continues.
        is_trained: whether the first comparator has the weights of a model, not random weights.
    """

    iteration: int
    comparator: TrainableComparator
    best: TrainableComparator | None = None
    best_iteration: int = -1
    best_quality: float = -np.inf
    finished: bool = False
    best_right: float = 0.0
    asked: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    moments: tuple[Moments, ...] = ()
    is_trained: bool = False

    def scored(self, quality: float, share_right: float, *, keep_last: bool = False) -> State:
        """Keep the comparator as the best if it is better than the best so far.

        Args:
            quality: RankQuality of the comparator on the validation queries.
            share_right: `SortResult.right` of the validation queries, which decides between
                comparators of equal RankQuality.
            keep_last: whether the comparator is kept in any case.
        """
        # A comparison with NaN is false, so a comparator with the quality NaN is never the best.
        is_better = (quality, share_right) > (self.best_quality, self.best_right)
        if not is_better and not keep_last:
            return self
        return replace(
            self,
            best=self.comparator,
            best_iteration=self.iteration,
            best_quality=quality,
            best_right=share_right,
        )


Callback: TypeAlias = Callable[[Iteration, State], None]
