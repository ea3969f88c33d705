"""Values that the loop passes on: a part's sort, an iteration's record, the state of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from sortnet.comparators import TrainableComparator
from sortnet.core import I64, ComparedPairs
from sortnet.learning.training import NONE, OptimiserState, Trained


@dataclass(frozen=True)
class SortResult:
    """Result of sorting a part of the data with C_i, the comparator of iteration i.

    If the part is a shard, counts and measures are those of the whole part.
    """

    comparisons: int  # number of comparisons
    miscompared: int  # number of wrong comparisons
    compared: ComparedPairs  # the judged comparisons that were kept, see `sort_part`
    order: I64  # (n_docs,) the ranking, document numbers query by query
    measures: dict[str, float]  # {metric name: mean over the queries}
    observed: dict[str, Any]  # `Tally.facts` of the sort
    seconds: float  # wall-clock seconds of sorting and judging

    @property
    def wrong(self) -> ComparedPairs:
        """Pairs that the comparator compared wrongly, in order."""
        return self.compared.where(self.compared.wrong).in_order()


@dataclass(frozen=True)
class Iteration:
    """Record of one iteration, which a store keeps as a row.

    Attributes:
        iteration: i, from 0.
        comparisons_train, comparisons_vali: made by sorting with C_i.
        miscompared_train, miscompared_vali: wrong comparisons, |TP_i| and |VP_i|.
        new_train, new_vali: selected pairs that were not in TP, in VP.
        tp, vp: sizes of TP and VP with the new pairs.
        quality: RankQuality of C_i on the validation part.
        best: whether C_i is the best so far; of two with equal RankQuality, the comparator with
            more pairs of V right is better.
        measures: {"train" | "vali" | another part: {metric name: mean over queries}} of C_i.
        epochs, kept_epoch: number of epochs of the training that made C_{i+1}, and its kept epoch.
            Both are 0 without a training, and means over the nets of a committee.
        train_loss, vali_loss: losses of this training, at its last and at its kept epoch.
        seconds_sort, seconds_train: wall-clock seconds.
        observed: {"train" | "vali": `Tally.facts` of the sort}; empty in older histories.
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

    @classmethod
    def of(
        cls,
        state: State,
        quality: str,
        rankings: tuple[SortResult, SortResult],
        extra_measures: Mapping[str, dict[str, float]],
        new: tuple[int, int],
        sizes: tuple[int, int],
        answers: int,
    ) -> Iteration:
        """Make the record of the iteration in which `state` was scored, before its training.

        Args:
            quality: name of RankQuality.
            rankings: the sorts of T and V.
            extra_measures: measures of C_i on further queries.
            new: numbers of pairs that are new in TP and VP.
            sizes: sizes of TP and VP.
            answers: number of answers that the judge has given so far.
        """
        T, V = rankings
        return cls(
            iteration=state.iteration,
            comparisons_train=T.comparisons,
            comparisons_vali=V.comparisons,
            miscompared_train=T.miscompared,
            miscompared_vali=V.miscompared,
            new_train=new[0],
            new_vali=new[1],
            tp=sizes[0],
            vp=sizes[1],
            quality=V.measures[quality],
            best=state.best_iteration == state.iteration,
            measures={"train": T.measures, "vali": V.measures, **extra_measures},
            epochs=NONE.epochs,
            kept_epoch=NONE.kept_epoch,
            train_loss=NONE.train_loss,
            vali_loss=NONE.vali_loss,
            seconds_sort=T.seconds + V.seconds,
            seconds_train=NONE.seconds,
            observed={"train": T.observed | {"answers": answers}, "vali": V.observed},
        )

    def with_training(self, trained: Trained) -> Iteration:
        """Copy of the record, completed with the training that followed the sort."""
        return replace(
            self,
            epochs=trained.epochs,
            kept_epoch=trained.kept_epoch,
            train_loss=trained.train_loss,
            vali_loss=trained.vali_loss,
            seconds_train=trained.seconds,
        )


@dataclass(frozen=True)
class State:
    """State from which a run can continue, together with the pairs in its sink.

    Attributes:
        iteration: i, the next iteration.
        comparator: C_i, with which the next iteration sorts.
        best: C*, the best comparator so far; None before the first iteration.
        best_iteration: the iteration of C*.
        best_quality: RankQuality of C*.
        finished: whether the loop has ended.
        best_right: share of V's comparisons that C* got right, 0 to 1.
        asked: (k,) keys of the training pairs that the judge was asked about, ascending.
        optimiser: where the next training of the budget continues.
        is_trained: whether C0 has the weights of a model instead of random weights.
    """

    iteration: int
    comparator: TrainableComparator
    best: TrainableComparator | None = None
    best_iteration: int = -1
    best_quality: float = -np.inf
    finished: bool = False
    best_right: float = 0.0
    asked: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    optimiser: OptimiserState = field(default_factory=OptimiserState)
    is_trained: bool = False

    def scored(self, quality: float, share_right: float) -> State:
        """State after the comparator is measured on validation queries and may be the best."""
        # A comparison with NaN is false, so a NaN quality never becomes the best.
        if not (quality, share_right) > (self.best_quality, self.best_right):
            return self
        return replace(
            self,
            best=self.comparator,
            best_iteration=self.iteration,
            best_quality=quality,
            best_right=share_right,
        )


Callback: TypeAlias = Callable[[Iteration, State], None]
