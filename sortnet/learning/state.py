"""What a run is made of: the sort of a part, the record of an iteration, the state between two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sortnet.comparators import Learner
from sortnet.learning.training import Trained
from sortnet.sorting.observe import share_right
from sortnet.types import I32, I64, Pairs


@dataclass(frozen=True)
class Sorted:
    """What sorting one part with C_i showed; of a shard, the counts and measures are of the whole.

    Attributes:
        comparisons: how many were made.
        miscompared: how many of them were wrong.
        i, j: (m,) documents of the comparisons; none where they were not kept.
        answered: the compared pairs, as the judge orders them; none where they were not kept.
        wrong: the pairs that were mis-compared.
        measures: {metric name: mean over the queries}.
        observed: what `Tally` says of the sort.
        seconds: of sorting and judging, by the clock.
    """

    comparisons: int
    miscompared: int
    i: I32
    j: I32
    answered: Pairs
    wrong: Pairs
    measures: dict[str, float]
    observed: dict[str, Any]
    seconds: float

    @property
    def right(self) -> float:
        """The share of the judged comparisons that were right, 0 to 1."""
        return share_right(self.observed)


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
        parts: tuple[Sorted, Sorted],
        others: Mapping[str, dict[str, float]],
        new: tuple[int, int],
        kept: tuple[int, int],
        answers: int,
        trained: Trained,
    ) -> Iteration:
        """The record of the iteration that `state` was scored in; pairs are of (T, V).

        `others` are measures of further queries by name.

        `answers` is how many training comparisons the judge has been asked about so far.
        """
        T, V = parts
        return cls(
            state.iteration, T.comparisons, V.comparisons, T.miscompared, V.miscompared,
            *new, *kept,
            V.measures[quality], state.best_iteration == state.iteration,
            {"train": T.measures, "vali": V.measures, **others},
            trained.epochs, trained.kept_epoch, trained.train_loss, trained.vali_loss,
            T.seconds + V.seconds, trained.seconds,
            {"train": T.observed | {"answers": answers}, "vali": V.observed},
        )  # fmt: skip


@dataclass(frozen=True)
class State:
    """All a run needs to go on, besides the pairs in its sink.

    Attributes:
        iteration: the iteration to do next.
        comparator: C_i, to sort with in it.
        best: C*, the best comparator so far; None before the first iteration.
        best_iteration, best_quality: when it was found and its RankQuality.
        best_right: the share of the comparisons it got right on V, 0 to 1.
        finished: whether the loop has ended.
        asked: (k,) the training comparisons that the judge was asked about, see
            `sortnet.learning.selection.keys`, ascending.
    """

    iteration: int
    comparator: Learner
    best: Learner | None = None
    best_iteration: int = -1
    best_quality: float = -np.inf
    finished: bool = False
    best_right: float = 0.0
    asked: I64 = field(default_factory=lambda: np.empty(0, np.int64))

    def scored(self, quality: float, right: float) -> State:
        """C_i has been scored on V: it is C* if that is the best so far."""
        if not (quality, right) > (self.best_quality, self.best_right):  # NaN is never better
            return self
        return replace(
            self,
            best=self.comparator,
            best_iteration=self.iteration,
            best_quality=quality,
            best_right=right,
        )

    def then(self, comparator: Learner, finished: bool, asked: I64) -> State:
        """The iteration is over: C_{i+1} is next."""
        return replace(
            self,
            iteration=self.iteration + 1,
            comparator=comparator,
            finished=finished,
            asked=asked,
        )
