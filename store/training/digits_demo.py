"""The demo: learn to sort handwritten digits by the number written, and draw how it goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from sortnet.comparators import TrainableComparator
from sortnet.config import Config
from sortnet.core import F64, I64, SPLITS, Queries, Split
from sortnet.data import Fold
from sortnet.data.digits import SIDE, digits_fold
from sortnet.errors import SortNetError
from sortnet.files import refuse_folder, write_atomically
from sortnet.learning.iterations import Iteration, State
from sortnet.messages import count
from sortnet.metrics import parse_metric, per_query
from sortnet.rankers.sortnet import Model
from sortnet.tables.letor_writer import write_letor
from store import open_store
from store.training.job import TrainingJob, checked_job
from store.training.run_folder import Folder
from store.training.training_run import PreparedRun, TrainingRun, Watcher, begin, store_url

PICTURE = "sorted.png"
TEST = "test.txt"
TIMES = 3  # number of queries that each image is in
_TRAINING_PATH = "digits/train"  # path of the training data in the record of a demo's run


@dataclass(frozen=True, eq=False)
class DigitsDemo:
    """A finished demo.

    Attributes:
        training: the run of the demo, with its settings and folder.
        model: the learned model.
        test: queries of images that are in no training query.
        means: Spearman correlations with the true order, each the mean over the test queries. The
            first value is from before training, then one value follows for each iteration.
        n_pairs: the number of stored pairs of each part.
        store: the store's URL, without its password.
    """

    training: TrainingRun
    model: Model
    test: Queries
    means: Sequence[float]
    n_pairs: dict[Split, int]
    store: str

    @property
    def best(self) -> int:
        """The number of the best iteration, whose comparator the model has."""
        iteration: int = self.model.info["iteration"]
        return iteration

    @property
    def picture_file(self) -> Path:
        """The path of the picture of sorted images."""
        return self.training.folder.path / PICTURE

    @property
    def test_file(self) -> Path:
        """The path of the test queries as LETOR text."""
        return self.training.folder.path / TEST

    def facts(self) -> dict[str, Any]:
        """Return the results and the paths of the written files, as JSON values."""
        return {
            "run": self.training.run.id,
            "store": self.store,
            "model": str(self.training.folder),
            "picture": str(self.picture_file),
            "test": str(self.test_file),
            "seed": self.training.config.seed,
            "iterations": self.model.info["iterations"],
            "best_iteration": self.best,
            **{f"pairs_{split}": n for split, n in self.n_pairs.items()},
            "test_queries": len(self.test),
            "spearman": {
                "before": self.means[0],
                "after": self.means[self.best],
                "iterations": [*self.means],
            },
        }


class DemoWatcher(Watcher):
    """A watcher of a demo's training, which also receives the images to sort."""

    def demo_begun(self, training: TrainingRun, fold: Fold) -> None:
        """Receive the run and the images, before the training begins."""


def run_demo(
    out: str,
    *,
    seed: int = 0,
    max_iter: int = 10,
    store: str | None = None,
    watcher: DemoWatcher | None = None,
    command: str = "store.training.digits_demo.run_demo",
) -> DigitsDemo:
    """Train on handwritten digits; write the model, a picture, and the test queries.

    Args:
        out: the folder to write; an earlier demo in the folder is replaced.
        seed: seed of the data and the training.
        max_iter: the maximum number of iterations.
        store: the store's URL or file. If None, the default store of the user.
        watcher: called at each step.
        command: the command that is recorded, and that repeats the demo.

    Raises:
        SortNetError: if the folder has a model that is not a demo's.

    Cost: ten iterations take well under a minute.
    """
    watcher = watcher or DemoWatcher()
    refuse_folder(out)
    folder = Folder(out)
    _refuse_other_model(folder)
    watcher.progress("starting")
    url, recorded_url = store_url(store, None)
    with open_store(url) as opened, folder.held():
        fold = digits_fold(seed, times=TIMES)
        job = _demo_job(fold, seed, max_iter)
        # An interrupted demo is not resumed but run again, so `again` is the demo's own command.
        prepared = PreparedRun(job, folder, url, recorded_url)
        training = begin(prepared, opened, command, again=command)
        watcher.demo_begun(training, fold)
        comparators: list[TrainableComparator] = []

        def keep_comparator(record: Iteration, state: State) -> None:
            comparators.append(state.comparator)

        model = training.learn(watcher.iteration_ended, watcher.progress, [keep_comparator])
        watcher.progress("drawing")
        # The last iteration only sorts and trains no further comparator.
        return _test_demo(training, cast("Model", model), comparators[:-1], fold, recorded_url)


def _demo_job(fold: Fold, seed: int, max_iter: int) -> TrainingJob:
    """Make the settings and data of the demo's training."""
    # All pixels have one scale, so quantiles over all documents are enough. Spearman's
    # correlation measures the whole order, while other measures depend on its top alone.
    config = Config(quality="spearman", scaling="normal", seed=seed, max_iter=max_iter)
    fingerprint = f"scikit-learn's digits, seed {seed}"

    def facts(part: Queries) -> dict[str, Any]:
        return {"path": part.source, "fingerprint": fingerprint}

    return checked_job(fold.train, fold.vali, config, facts)


def _refuse_other_model(folder: Folder) -> None:
    """Refuse a folder with a model that no demo has written."""
    if not folder.has_model:
        return
    record = folder.run()
    data_path = None if record is None else record["data"]["train"]["path"]
    if data_path != _TRAINING_PATH:
        raise SortNetError(f"{folder} has a model that is not the demo's: choose another --out")


def _test_demo(
    training: TrainingRun,
    model: Model,
    comparators: Sequence[TrainableComparator],
    fold: Fold,
    store: str,
) -> DigitsDemo:
    """Evaluate the model, draw images that it sorted, and write the test queries.

    Args:
        training: the run.
        model: the learned model.
        comparators: the comparators of iterations 1, 2 and so on.
        fold: the images of all parts.
        store: the store's URL, without its password.
    """
    test = fold.test or fold.vali  # only other folds may lack a test part
    n_pairs = {split: len(training.run.pairs(split)) for split in SPLITS}
    sortings = _sort_by_each(model, comparators, test, training)
    means = [float(sorting.correlations.mean()) for sorting in sortings]
    demo = DigitsDemo(training, model, test, means, n_pairs, store)
    _draw(demo, sortings)
    write_letor(test, demo.test_file)
    return demo


@dataclass(frozen=True, eq=False)
class _Sorting:
    """The test documents, sorted by the comparator of one iteration.

    Attributes:
        order: the indices of the documents, query after query, the best document first.
        correlations: the Spearman correlation of each query with the true order.
        n_pairs_learned: the number of pairs that the comparator learned from.
    """

    order: I64
    correlations: F64
    n_pairs_learned: int


def _sort_by_each(
    model: Model,
    comparators: Sequence[TrainableComparator],
    test: Queries,
    training: TrainingRun,
) -> list[_Sorting]:
    """Sort the test documents before training (iteration 0), and by each iteration's comparator."""
    orders = [model.order_before(test)]
    orders += [replace(model, comparator=comparator).order(test) for comparator in comparators]
    metric = parse_metric("spearman")
    # Each comparator learned from the pairs that all iterations before it had collected. No
    # comparator learned from the pairs that the last iteration added.
    n_pairs_learned = [0, *training.run.iterations_frame()["tp"].tolist()]
    return [
        _Sorting(order, per_query(metric, test.grades[order], test.offsets), n_pairs)
        for order, n_pairs in zip(orders, n_pairs_learned, strict=False)
    ]


def _draw(demo: DigitsDemo, sortings: Sequence[_Sorting]) -> None:
    """Draw the images of a typical test query, in the order of each iteration's comparator.

    Args:
        demo: the finished demo.
        sortings: the test documents as sorted before training and after each iteration.
    """
    # Matplotlib takes a second to import.
    from store.plots.sorted_images import Panel, draw

    test = demo.test
    best = sortings[demo.best]
    query = _median_query(best.correlations)
    documents = slice(test.offsets[query], test.offsets[query + 1])

    def panel(caption: str, sorting: _Sorting) -> Panel:
        """Make the panel of an iteration, with the order of the query's images.

        A sorting numbers the images of all queries, a panel the images of its query from 0.
        """
        order = sorting.order[documents] - documents.start
        remark = f"Spearman {sorting.correlations[query]:.2f}"
        return Panel(caption, remark, order)

    n_iterations = count(len(sortings) - 1, "iteration")
    after = (
        f"After learning from {best.n_pairs_learned:,} pairs: iteration {demo.best}, the best of "
        f"{n_iterations}"
    )
    panels = [
        panel("Before training: iteration 0, random weights", sortings[0]),
        panel(after, best),
    ]
    strips = [
        panel(f"iteration {iteration}: {sorting.n_pairs_learned:,} pairs", sorting)
        for iteration, sorting in enumerate(sortings[1:], 1)
    ]
    images = test.features[documents].reshape(-1, SIDE, SIDE)
    numbers = test.grades[documents]
    title = f"{len(numbers)} handwritten digits that SortNet has never seen, sorted by SortNet"
    write_atomically(
        demo.picture_file,
        lambda path: draw(path, images, numbers, panels, title=title, strips=strips),
    )


def _median_query(correlations: F64) -> int:
    """Return the number of the query whose correlation with the true order is the median."""
    queries_by_correlation = np.argsort(correlations, kind="stable")
    return int(queries_by_correlation[len(correlations) // 2])
