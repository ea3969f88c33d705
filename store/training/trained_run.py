"""The result of a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sortnet.core import SPLITS, Queries
from sortnet.rankers.base import Ranker
from store.training.training_run import TrainingRun


@dataclass(frozen=True, eq=False)
class TrainedRun:
    """A finished run.

    Attributes:
        training: its settings, data, folder and run.
        ranker: the model that was kept, which is also in the folder.
        rows: one dict per iteration, as `Run.iterations_frame` has them.
        store: the store's URL, without its password.
    """

    training: TrainingRun
    ranker: Ranker
    rows: Sequence[Mapping[str, Any]]
    store: str

    @property
    def best(self) -> Mapping[str, Any]:
        """The row of the best iteration."""
        iteration: int = self.ranker.info["iteration"]
        return self.rows[iteration]

    @property
    def kept(self) -> Mapping[str, Any]:
        """Which ranker was kept: kind, measure, figures and reason."""
        facts: Mapping[str, Any] = self.ranker.info["kept"]
        return facts

    @property
    def parts(self) -> dict[str, Queries]:
        """The training and validation part, with the judge's answers if a judge was asked."""
        return {split: self.training.judged(split) for split in SPLITS}

    @property
    def measures(self) -> dict[str, dict[str, float]]:
        """{part: {measure: value}} of the best iteration."""
        names = [metric.name for metric in self.training.job.metrics]
        return {split: {name: self.best[f"{split}_{name}"] for name in names} for split in SPLITS}
