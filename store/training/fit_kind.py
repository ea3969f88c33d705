"""Fit a ranker of another kind than SortNet, and write its folder, without a run in the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from sortnet.config import Config, Settings, settings_of
from sortnet.core import Queries
from sortnet.metrics import Metric, evaluate
from sortnet.rankers.base import Ranker
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.threads import set_threads
from store.report.conventions import conventions_of, metrics_of
from store.training.job import TrainingJob, read_job
from store.training.run_folder import Folder
from store.training.train_or_resume import RunOptions
from store.training.training_run import store_url


@dataclass(frozen=True, eq=False)
class FittedKind:
    """A fitted ranker, with its data and folder.

    Attributes:
        job: settings and data.
        ranker: the ranker, which is also in the folder.
        folder: the folder of the model.
    """

    job: TrainingJob
    ranker: Ranker
    folder: Folder

    @property
    def metrics(self) -> list[Metric]:
        """The metrics that the settings ask for."""
        return metrics_of(self.ranker.config)

    @property
    def parts(self) -> dict[str, Queries]:
        """The training and the validation part, by their names."""
        return {"train": self.job.train, "vali": self.job.vali}

    @cached_property
    def measures(self) -> dict[str, dict[str, float]]:
        """The measures of the ranker on both parts: {part: {measure: value}}."""
        empty = self.ranker.config.empty
        return {
            name: evaluate(part, self.ranker.order(part), self.metrics, empty=empty)
            for name, part in self.parts.items()
        }

    @property
    def conventions(self) -> dict[str, list[str]]:
        """Lines about the conventions of the measures on each part: {part: lines}."""
        empty = self.ranker.config.empty
        return {
            name: conventions_of(part, self.metrics, empty) for name, part in self.parts.items()
        }


def fit_kind(
    data: Sequence[str],
    out: str,
    settings: Settings,
    *,
    overwrite: bool = False,
    options: RunOptions | None = None,
) -> FittedKind:
    """Fit a ranker on labelled queries or a collection's judgements, and write its folder.

    Args:
        data: the paths, as `train` takes them.
        out: the folder of the model.
        settings: settings of a kind of ranker, see `sortnet.rankers.registry.settings_for`.
        overwrite: whether a model in the folder is replaced.
        options: store, columns, cache, threads and watcher.

    Raises:
        SortNetError: for data or settings that cannot be used, or a folder that has a model.

    Cost: a fit; the data are held in memory.
    """
    options = options or RunOptions()
    folder = Folder(out)
    watcher = options.watcher
    set_threads(options.threads)
    if not overwrite:
        folder.refuse_if_taken()
    values: Mapping[str, Any] = settings.flat()
    # Reading data and measuring a ranker need only the settings that all kinds of rankers share.
    config = Config().changed(**{name: values[name] for name in settings_of(Settings)})
    url, _ = store_url(options.store, None)
    job = read_job(
        data,
        config,
        columns=options.columns,
        cache=options.cache,
        progress=watcher.progress,
        store=url,
    )
    settings = settings.changed(quality=job.config.quality)
    watcher.starting(job, None, is_new=True)
    with folder.held():
        ranker = fit_ranker(job.train, job.vali, settings, progress=watcher.progress)
        folder.clear()
        replace(ranker, info={**ranker.info, "data": job.data}).save(folder.path)
    return FittedKind(job, ranker, folder)
