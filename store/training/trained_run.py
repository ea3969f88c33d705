"""The result of a training: the run, its iterations and the ranker that was kept."""

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
        training: settings, data, folder and stored run.
        ranker: the model that was kept, which is also in the folder.
        rows: the iterations, each a dict with the columns of `Run.iterations_frame`.
        store: the store's URL, without its password.
    """

    training: TrainingRun
    ranker: Ranker
    rows: Sequence[Mapping[str, Any]]
    store: str

    @property
    def best(self) -> Mapping[str, Any]:
        """The measures and counts of the best iteration, as a dict of `rows`."""
        iteration: int = self.ranker.info["iteration"]
        return self.rows[iteration]

    @property
    def kept(self) -> Mapping[str, Any]:
        """Facts about the ranker that was kept: its kind, the measure, the figures, the reason."""
        facts: Mapping[str, Any] = self.ranker.info["kept"]
        return facts

    @property
    def parts(self) -> dict[str, Queries]:
        """The training and the validation part, with the answers of a judge that was asked."""
        return {split: self.training.judged(split) for split in SPLITS}

    @property
    def measures(self) -> dict[str, dict[str, float]]:
        """The measures of the best iteration: {part: {measure: value}}."""
        names = [metric.name for metric in self.training.job.metrics]
        return {split: {name: self.best[f"{split}_{name}"] for name in names} for split in SPLITS}
