"""What the loop passes on: the sort of a part, the record of an iteration, the state of a run."""

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
    """What sorting one part with C_i showed; of a shard, counts and measures are of the whole."""

    comparisons: int  # how many were made
    miscompared: int  # how many of them were wrong
    compared: ComparedPairs  # the judged comparisons that were kept, see `sort_part`
    order: I64  # (n_docs,) the ranking, document numbers query by query
    measures: dict[str, float]  # {metric name: mean over the queries}
    observed: dict[str, Any]  # what `Tally` says of the sort
    seconds: float  # of sorting and judging, by the clock

    @property
    def wrong(self) -> ComparedPairs:
        """The pairs that were mis-compared, in order."""
        return self.compared.where(self.compared.wrong).in_order()


@dataclass(frozen=True)
class Iteration:
    """What one iteration did; the row of it that a store keeps.

    Attributes:
        iteration: i, from 0.
        comparisons_train, comparisons_vali: made by sorting with C_i.
        miscompared_train, miscompared_vali: those that were wrong, |TP_i| and |VP_i|.
        new_train, new_vali: pairs taken that were not in TP, in VP.
        tp, vp: sizes of TP and VP with the new pairs.
        quality: RankQuality of C_i on the validation part.
        best: whether C_i is the best so far; of equal RankQuality is the one that got more pairs
            of V right.
        measures: {"train" | "vali" | another part: {metric name: mean over queries}} of C_i.
        epochs, kept_epoch: of the training that made C_{i+1} (0 where there was none; means
            over the nets of a committee).
        train_loss, vali_loss: of that training, at its last and at its kept epoch.
        seconds_sort, seconds_train: wall-clock seconds.
        observed: {"train" | "vali": what `Tally` says of the sort}; empty in older histories.
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
        parts: tuple[SortResult, SortResult],
        others: Mapping[str, dict[str, float]],
        new: tuple[int, int],
        kept: tuple[int, int],
        answers: int,
    ) -> Iteration:
        """The record of the iteration that `state` was scored in, before its training.

        Parts, new and kept pairs are of (T, V), `others` measures of further queries, `answers`
        what the judge gave so far.
        """
        T, V = parts
        return cls(
            state.iteration, T.comparisons, V.comparisons, T.miscompared, V.miscompared,
            *new, *kept,
            V.measures[quality], state.best_iteration == state.iteration,
            {"train": T.measures, "vali": V.measures, **others},
            NONE.epochs, NONE.kept_epoch, NONE.train_loss, NONE.vali_loss,
            T.seconds + V.seconds, NONE.seconds,
            {"train": T.observed | {"answers": answers}, "vali": V.observed},
        )  # fmt: skip

    def with_training(self, trained: Trained) -> Iteration:
        """The record with the training that made C_{i+1}."""
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
    """All a run needs to go on, besides the pairs in its sink."""

    iteration: int  # the iteration to do next
    comparator: TrainableComparator  # C_i, to sort with in it
    best: TrainableComparator | None = (
        None  # C*, the best comparator so far; None before the first iteration
    )
    best_iteration: int = -1  # when it was found
    best_quality: float = -np.inf  # its RankQuality
    finished: bool = False  # whether the loop has ended
    best_right: float = 0.0  # the share of the comparisons it got right on V, 0 to 1
    # (k,) the training comparisons that the judge was asked about, packed, ascending
    asked: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    # where the next training of the budget continues
    optimiser: OptimiserState = field(default_factory=OptimiserState)
    is_trained: bool = False  # whether C0 has the weights of a model, not random ones

    def scored(self, quality: float, right: float) -> State:
        """C_i has been scored on V: it is C* if that is the best so far."""
        if not (quality, right) > (self.best_quality, self.best_right):  # NaN is never better
            return self
        return replace(
            self, best=self.comparator, best_iteration=self.iteration,
            best_quality=quality, best_right=right,
        )  # fmt: skip


Callback: TypeAlias = Callable[[Iteration, State], None]
