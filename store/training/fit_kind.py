"""Fit a ranker of another kind than SortNet, and write its folder, without a run in the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sortnet.config import Config, Settings, settings_of
from sortnet.files import refuse_folder
from sortnet.metrics import evaluate
from sortnet.rankers.base import Ranker
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.threads import set_threads
from store.report.run_texts import conventions_of, metrics_of
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
        measures: {part: {measure: value}} of the ranker on the training and the validation part.
        conventions: lines about the conventions of the measures.
    """

    job: TrainingJob
    ranker: Ranker
    folder: Folder
    measures: Mapping[str, Mapping[str, float]]
    conventions: Sequence[str]


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
        options: store, columns, threads and watcher.

    Raises:
        SortNetError: for data or settings that cannot be used, or a folder that has a model.

    Cost: a fit; the data are held in memory.
    """
    options = options or RunOptions()
    folder = Folder(out)
    watcher = options.watcher
    set_threads(options.threads)
    refuse_folder(out)
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
        progress=watcher.progress,
        store=url,
    )
    settings = settings.changed(quality=job.config.quality)
    watcher.starting(job, None)
    with folder.held():
        ranker = fit_ranker(job.train, job.vali, settings, progress=watcher.progress)
        folder.clear()
        replace(ranker, info={**ranker.info, "data": job.data}).save(folder.path)
    metrics = metrics_of(ranker.config)
    empty = ranker.config.empty
    queries_of_part = {"train": job.train, "vali": job.vali}
    measures = {
        name: evaluate(part, ranker.order(part), metrics, empty=empty)
        for name, part in queries_of_part.items()
    }
    conventions = conventions_of(queries_of_part, metrics, empty)
    return FittedKind(job, ranker, folder, measures, conventions)
