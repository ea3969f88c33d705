"""The demo: learn to sort handwritten digits by the number written, and draw how it goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from sortnet.comparators import TrainableComparator
from sortnet.core import F64, I64, Queries
from sortnet.data import Fold
from sortnet.data.digits import SIDE, digits_fold
from sortnet.errors import SortNetError
from sortnet.files import make_folder, refuse_folder, write_atomically
from sortnet.learning.iterations import Callback
from sortnet.metrics import parse_metric, per_query
from sortnet.rankers.sortnet import Model
from sortnet.tables.letor_writer import write_letor
from store.training.run_folder import Folder
from store.training.train_or_resume import RunOptions, train
from store.training.training_run import TrainedRun, TrainingRun, Watcher

PICTURE = "sorted.png"
TEST = "test.txt"
TIMES = 3  # number of queries that each image is in
DATA = "digits"  # the folder of the training and the validation queries


@dataclass(frozen=True, eq=False)
class DigitsDemo:
    """A finished demo.

    Attributes:
        trained: the finished run of the demo, with its model and folder.
        test: queries of images that are in no training query.
        means: Spearman correlations with the true order, each the mean over the test queries. The
            first value is from before training, then one value follows for each iteration.
    """

    trained: TrainedRun
    test: Queries
    means: Sequence[float]

    @property
    def best(self) -> int:
        """The number of the best iteration, whose comparator the model has."""
        iteration: int = self.trained.best["iteration"]
        return iteration

    @property
    def folder(self) -> Path:
        """The folder of the model."""
        return self.trained.training.folder.path

    @property
    def picture_file(self) -> Path:
        """The path of the picture of sorted images."""
        return self.folder / PICTURE

    @property
    def test_file(self) -> Path:
        """The path of the test queries as LETOR text."""
        return self.folder / TEST

    def facts(self) -> dict[str, Any]:
        """Return the results and the paths of the written files, as JSON values."""
        last = self.trained.rows[-1]
        return {
            "run": self.trained.training.run.id,
            "store": self.trained.store,
            "model": str(self.folder),
            "picture": str(self.picture_file),
            "test": str(self.test_file),
            "seed": self.trained.training.config.seed,
            "iterations": len(self.trained.rows),
            "best_iteration": self.best,
            "pairs_train": last["tp"],
            "pairs_vali": last["vp"],
            "test_queries": len(self.test),
            "spearman": {
                "before": self.means[0],
                "after": self.means[self.best],
                "iterations": [*self.means],
            },
        }


class DemoWatcher(Watcher):
    """A watcher of a demo's training, which keeps the comparator of each iteration.

    Attributes:
        fold: the images, from the beginning of the demo.
        comparators: the comparators of iterations 1, 2 and so on.
    """

    fold: Fold

    def __init__(self) -> None:
        self.comparators: list[TrainableComparator] = []

    def callbacks(self, training: TrainingRun) -> Sequence[Callback]:
        """Return a function that keeps the comparator with which the next iteration sorts."""
        return [lambda record, state: self.comparators.append(state.comparator)]


def run_demo(
    out: str,
    *,
    seed: int = 0,
    max_iter: int = 10,
    store: str | None = None,
    watcher: DemoWatcher | None = None,
    command: str = "store.training.digits_demo.run_demo",
) -> DigitsDemo:
    """Train on handwritten digits; write the queries, the model and a picture.

    Args:
        out: the folder to write; an earlier demo in the folder is replaced.
        seed: seed of the data and the training.
        max_iter: the maximum number of iterations.
        store: the store's URL or file. If None, the default store of the user.
        watcher: called at each step.
        command: the command that is recorded.

    Raises:
        SortNetError: if the folder has a model that is not a demo's.

    Cost: ten iterations take well under a minute.
    """
    watcher = watcher or DemoWatcher()
    refuse_folder(out)
    folder = Folder(out)
    _refuse_other_model(folder)
    watcher.progress("starting")
    watcher.fold = digits_fold(seed, times=TIMES)
    data = folder.path / DATA
    make_folder(folder.path)
    make_folder(data)
    write_letor(watcher.fold.train, data / "train.txt")
    write_letor(watcher.fold.vali, data / "vali.txt")
    # All pixels have one scale, so quantiles over all documents are enough. Spearman's
    # correlation measures the whole order, while other measures depend on its top alone.
    trained = train(
        str(data),
        out,
        overwrite=True,
        options=RunOptions(store=store, watcher=watcher, command=command),
        quality="spearman",
        scaling="normal",
        seed=seed,
        max_iter=max_iter,
    )
    assert trained is not None  # one process trains
    watcher.progress("drawing")
    # The last iteration only sorts and trains no further comparator.
    return _test_demo(trained, watcher.comparators[:-1], watcher.fold)


def _refuse_other_model(folder: Folder) -> None:
    """Refuse a folder with a model that no demo has written."""
    if not folder.has_model:
        return
    record = folder.run()
    data_path = "" if record is None else record["data"]["train"]["path"]
    if Path(data_path).parts[-2:] != (DATA, "train.txt"):
        raise SortNetError(f"{folder} has a model that is not the demo's: choose another --out")


def _test_demo(
    trained: TrainedRun, comparators: Sequence[TrainableComparator], fold: Fold
) -> DigitsDemo:
    """Evaluate the model, draw images that it sorted, and write the test queries.

    Args:
        trained: the finished run.
        comparators: the comparators of iterations 1, 2 and so on.
        fold: the images of all parts.
    """
    test = fold.test or fold.vali  # only other folds may lack a test part
    sortings = _sort_by_each(trained, comparators, test)
    means = [float(sorting.correlations.mean()) for sorting in sortings]
    demo = DigitsDemo(trained, test, means)
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
    trained: TrainedRun, comparators: Sequence[TrainableComparator], test: Queries
) -> list[_Sorting]:
    """Sort the test documents before training (iteration 0), and by each iteration's comparator."""
    model = cast("Model", trained.ranker)
    orders = [model.order_before(test)]
    orders += [replace(model, comparator=comparator).order(test) for comparator in comparators]
    metric = parse_metric("spearman")
    # Each comparator learned from the pairs that all iterations before it had collected. No
    # comparator learned from the pairs that the last iteration added.
    n_pairs_learned = [0, *(row["tp"] for row in trained.rows)]
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

    panels = [
        panel("before training", sortings[0]),
        *(
            panel(f"iteration {iteration}: {sorting.n_pairs_learned:,} pairs", sorting)
            for iteration, sorting in enumerate(sortings[1:], 1)
        ),
    ]
    images = test.features[documents].reshape(-1, SIDE, SIDE)
    numbers = test.grades[documents]
    title = f"{len(numbers)} handwritten digits that SortNet has never seen, sorted by SortNet"
    write_atomically(
        demo.picture_file,
        lambda path: draw(path, images, numbers, panels, title=title),
    )


def _median_query(correlations: F64) -> int:
    """Return the number of the query whose correlation with the true order is the median."""
    queries_by_correlation = np.argsort(correlations, kind="stable")
    return int(queries_by_correlation[len(correlations) // 2])
