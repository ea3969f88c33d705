"""The demo: learn to sort handwritten digits by the number written, and draw how it goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from sortnet.comparators import TrainableComparator
from sortnet.core import F64, I64, Queries
from sortnet.data import Fold
from sortnet.data.read import SIDE, digits_fold
from sortnet.errors import SortNetError
from sortnet.files import make_folder, refuse_folder, write_atomically
from sortnet.learning.iterations import Iteration, State
from sortnet.metrics import parse_metric, per_query
from sortnet.rankers.model import Model
from sortnet.tables.letor_writer import write_letor
from store.training.run_folder import Folder
from store.training.train_or_resume import RunOptions, train
from store.training.training_run import TrainedRun, Watcher

PICTURE = "sorted.png"
TEST = "test.txt"
TIMES = 3  # number of queries that each image is in
DATA = "digits"  # the folder of the training and the validation queries


class DemoWatcher(Watcher):
    """A watcher of a demo's training, which keeps the comparator of each iteration.

    Attributes:
        fold: the images, from the beginning of the demo.
        comparators: the comparators of iterations 1, 2 and so on.
    """

    fold: Fold

    def __init__(self) -> None:
        self.comparators: list[TrainableComparator] = []

    def iteration_ended(self, record: Iteration, state: State) -> None:
        """Keep the comparator with which the next iteration sorts."""
        self.comparators.append(state.comparator)


def run_demo(
    out: str,
    *,
    seed: int = 0,
    max_iter: int = 10,
    store: str | None = None,
    watcher: DemoWatcher | None = None,
    command: str = "store.training.digits_demo.run_demo",
) -> dict[str, Any]:
    """Train on handwritten digits; write the queries, the model and a picture.

    Args:
        out: the folder to write; an earlier demo in the folder is replaced.
        seed: seed of the data and the training.
        max_iter: the maximum number of iterations.
        store: the store's URL or file. If None, the default store of the user.
        watcher: called at each step.
        command: the command that is recorded.

    Returns:
        The results and the paths of the written files, as JSON values. The Spearman correlations
        with the true order are means over test queries of images that are in no training query.

    Raises:
        SortNetError: if the folder has a model that is not a demo's.

    Cost: ten iterations take well under a minute.
    """
    watcher = watcher or DemoWatcher()
    refuse_folder(out)
    _refuse_other_model(Folder(out))
    watcher.progress("starting")
    watcher.fold = digits_fold(seed, times=TIMES)
    data = Path(out, DATA)
    make_folder(Path(out))
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
    test = watcher.fold.test
    assert test is not None  # `digits_fold` always makes three parts
    watcher.progress("drawing")
    write_letor(test, Path(out, TEST))
    # The last iteration only sorts and trains no further comparator.
    model = cast("Model", trained.ranker)
    comparators = (model.untrained().comparator, *watcher.comparators[:-1])
    orders = [replace(model, comparator=comparator).order(test) for comparator in comparators]
    spearman = parse_metric("spearman")
    correlations = [per_query(spearman, test.grades[order], test.offsets) for order in orders]
    _draw(trained, test, orders, correlations)
    means = [float(of_order.mean()) for of_order in correlations]
    training = trained.training
    best = trained.best["iteration"]
    return {
        "run": training.run.id,
        "store": trained.store,
        "model": str(training.folder),
        "picture": str(training.folder.path / PICTURE),
        "test": str(training.folder.path / TEST),
        "seed": seed,
        "iterations": len(trained.rows),
        "best_iteration": best,
        "pairs_train": trained.rows[-1]["tp"],
        "pairs_vali": trained.rows[-1]["vp"],
        "test_queries": len(test),
        "spearman": {"before": means[0], "after": means[best], "iterations": means},
    }


def _refuse_other_model(folder: Folder) -> None:
    """Refuse a folder with a model that no demo has written."""
    if not folder.has_model:
        return
    record = folder.run()
    data_path = "" if record is None else record["data"]["train"]["path"]
    if Path(data_path).parts[-2:] != (DATA, "train.txt"):
        raise SortNetError(f"{folder} has a model that is not the demo's: choose another --out")


def _draw(
    trained: TrainedRun, test: Queries, orders: Sequence[I64], correlations: Sequence[F64]
) -> None:
    """Draw the images of a typical test query, in the order of each iteration's comparator.

    Args:
        trained: the finished run.
        test: the test queries.
        orders: the order of the test documents before training and after each iteration.
        correlations: the Spearman correlation of each query with the true order, in each order.
    """
    # Matplotlib takes a second to import.
    from store.plots.sorted_images import draw

    best = trained.best["iteration"]
    # Each comparator learned from the pairs that all iterations before it had collected. No
    # comparator learned from the pairs that the last iteration added.
    n_pairs_learned = [0, *(row["tp"] for row in trained.rows)]
    by_correlation = np.argsort(correlations[best], kind="stable")
    query = by_correlation[len(by_correlation) // 2]  # its correlation is the median
    documents = slice(test.offsets[query], test.offsets[query + 1])

    order_of_text: dict[str, I64] = {}
    for iteration, order in enumerate(orders):
        caption = f"iteration {iteration}: {n_pairs_learned[iteration]:,} pairs"
        if iteration == 0:
            caption = "before training"
        text = f"{caption}  Spearman {correlations[iteration][query]:.2f}"
        order_of_text[text] = order[documents] - documents.start  # numbers from 0
    images = test.features[documents].reshape(-1, SIDE, SIDE)
    numbers = test.grades[documents]
    title = f"{len(numbers)} handwritten digits that SortNet has never seen, sorted by SortNet"
    write_atomically(
        trained.training.folder.path / PICTURE,
        lambda path: draw(path, images, numbers, order_of_text, title=title),
    )
