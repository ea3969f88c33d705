"""Settings and data of a run, read and validated before anything is written."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import URL

from cli.inputs.opened_store import judged_source, open_collection
from cli.inputs.remembered_data import remembered
from cli.output import printable, say
from cli.printing.conventions import metrics_of
from sortnet.comparators import make_comparator
from sortnet.config import Config, choose_quality
from sortnet.data import fingerprint, read_fold, read_queries
from sortnet.errors import SortNetError
from sortnet.learning.judges import check_can_be_learned
from sortnet.metrics import Metric, evaluate
from sortnet.rankers.base import check_same_features
from sortnet.tables.rows import listed
from sortnet.types import Progress, Queries
from store.service.judged import read_judged


@dataclass(frozen=True, eq=False)
class TrainingJob:
    """Settings and data of a run."""

    config: Config  # as requested, with a RankQuality
    train: Queries
    vali: Queries
    data: dict[str, dict[str, str]]  # {split: {"path", "folder", "fingerprint"}}
    test: str | None = None  # the test file of the fold, if it exists

    @property
    def metrics(self) -> list[Metric]:
        return metrics_of(self.config)

    def next_command(self, folder: str) -> str:
        """What to do with the model in that folder."""
        then = ["evaluate", folder, self.test or "TEST"]
        if self.vali.judged is not None:
            then = ["rank", folder, "NEW_ITEMS"]
        return f"sortnet {shlex.join(then)}"


def read_job(
    paths: Sequence[str],
    config: Config,
    *,
    cache: Path | None,
    progress: Progress,
    store: URL | str | None = None,
) -> TrainingJob:
    """Read TRAIN and VALI, or a folder with both, and check everything that could fail later.

    A single name may also be that of a collection in the store.

    Raises:
        SortNetError: for data or settings that cannot be used for training.
    """
    if (source := judged_source(paths, store)) is not None:
        with open_collection(store, source.name) as collection:
            found = read_judged(collection, source.events, seed=config.seed, progress=progress)
        progress("checking the data")
        return _checked(found.train, found.vali, config, found.fingerprint)
    test = None
    if len(paths) == 1:
        progress(f"reading {paths[0]}")
        fold = read_fold(paths[0], cache=cache)
        train, vali = fold.train, fold.vali
        test = fold.test.source if fold.test is not None else None
    elif len(paths) == 2:
        progress(f"reading {paths[0]}")
        train = read_queries(paths[0], cache=cache)
        progress(f"reading {paths[1]}")
        vali = read_queries(paths[1], n_features=train.n_features, cache=cache, like=train)
    else:
        raise SortNetError(f"give TRAIN and VALI, or one folder that has both; got {len(paths)}")
    progress("checking the data")
    return _checked(train, vali, config, lambda part: fingerprint(part.source), test=test)


def _checked(
    train: Queries, vali: Queries, config: Config, mark: Callable[[Queries], str], **more: Any
) -> TrainingJob:
    """The job of data that can be trained on; `mark` gives what recognises a part again."""
    if train.ignored:
        say(f"{train.source}: no features are made of {listed(map(printable, train.ignored))}")
    check_same_features(train, vali)
    check_can_be_learned(train)
    config = choose_quality(train, vali, config)
    for queries in (train, vali):
        evaluate(queries, np.arange(queries.n_docs), metrics_of(config), empty=config.empty)
    make_comparator(config, train.n_features)(config.seed)
    splits = {"train": train, "vali": vali}
    data = {name: {**remembered(q.source), "fingerprint": mark(q)} for name, q in splits.items()}
    return TrainingJob(config, train, vali, data, **more)
