"""`sortnet demo`: learn to sort handwritten digits by the number written."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
import numpy as np

from cli.options import SEED, Whole, command_line, store_and_json
from cli.output import progress, put, table
from cli.printing import iterations
from cli.printing.results import Result, print_result
from cli.terminal.signals import signals_as_ctrl_c
from sortnet.config import Config
from sortnet.core import F64, I64, SPLITS, Queries
from sortnet.data import Fold
from sortnet.data.digits import SIDE, digits_fold
from sortnet.errors import SortNetError
from sortnet.files import refuse_folder, write_atomically
from sortnet.messages import count
from sortnet.metrics import parse_metric, per_query
from sortnet.tables.letor_writer import write_letor
from store.service.existing_store import open_to_write

if TYPE_CHECKING:
    from sortnet.comparators import TrainableComparator
    from sortnet.rankers.sortnet import Model
    from store import Store
    from store.training.run_folder import Folder
    from store.training.training_run import TrainingRun

PICTURE, TEST = "sorted.png", "test.txt"
TIMES = 3  # queries that each image is in


@click.command()
@click.option(
    *("--out", "-o"), default="demo", metavar="DIR",
    help="Output folder; a previous demo in it is replaced.",
)  # fmt: skip
@click.option("--seed", type=SEED, default=0, help="Random seed.")
@click.option("--max-iter", type=Whole(1), default=10, help="Maximum number of iterations.")
@store_and_json
@click.pass_context
@signals_as_ctrl_c()
def demo(
    ctx: click.Context, /, out: str, seed: int, max_iter: int, store: str | None, as_json: bool
) -> None:  # fmt: skip
    """Train on handwritten digits, in ten iterations and well under a minute.

    The images are the digits that scikit-learn ships, in queries of 36. The comparator gets the
    pixels and learns from the pairs that its sorts compared; in each iteration more of them are
    in the right order. It is evaluated on images that no training query holds. Writes a model, a
    picture of a query before training, after each iteration and after training, and all pairs.

    \b
    Examples:
      sortnet demo
      sortnet demo --seed 7 --out demo7 --json
    """
    from store.training.run_folder import Folder

    refuse_folder(out)
    folder = Folder(out)
    known = folder.run()
    ours = known is not None and known["data"].get("train", {}).get("path") == "digits/train"
    if folder.has_model and not ours:
        raise SortNetError(f"{folder} has a model that is not the demo's: choose another --out")
    with progress() as status:
        status("starting")
        from store.database.engine import without_passwords
        from store.training.training_run import store_url

        url, shown = store_url(store, None)
        with open_to_write(url) as opened, folder.held():
            fold, training = _begin(seed, max_iter, folder, opened, command_line(ctx), shown)
            if not as_json:
                n = [len(part) for part in (fold.train, fold.vali, fold.test or fold.vali)]
                steps = count(training.config.trainings, "iteration")
                put(
                    f"Queries of {fold.train.sizes[0]} handwritten digits, to be sorted by the "
                    f"number written: {n[0]} to learn from\nin {steps}, {n[1]} to choose the "
                    f"best iteration by, {n[2]} to test the model on.\n"
                )
            show = iterations.shower(training.config.rank_quality.name, err=as_json)
            trained: list[TrainableComparator] = []
            model = training.learn(
                show, status, [lambda record, state: trained.append(state.comparator)]
            )
            status("drawing")
            # The last iteration trains no further comparator.
            found = _tested(training, cast("Model", model), trained[:-1], fold, shown)
    typed = ctx.get_parameter_source("store") is click.core.ParameterSource.COMMANDLINE
    text = _conclusion(found, without_passwords(store) if typed and store else None)
    print_result(Result("demo", found, text=text), as_json=as_json)


def _begin(
    seed: int, max_iter: int, folder: Folder, store: Store, command: str, shown: str
) -> tuple[Fold, TrainingRun]:
    from store.training.job import checked_job
    from store.training.training_run import begin

    # All pixels have one scale, so that no trials are needed to choose it. Every place of the order
    # counts, not its top alone.
    config = Config(quality="spearman", scaling="normal", seed=seed, max_iter=max_iter)
    fold = digits_fold(seed, times=TIMES)
    made = f"scikit-learn's digits, seed {seed}"
    job = checked_job(
        fold.train, fold.vali, config, lambda part: {"path": part.source, "fingerprint": made}
    )
    # A demo is not resumed: it is run again.
    training = begin(job, folder, store, None, command, shown, lambda text: None, again=command)
    return fold, training


def _tested(
    training: TrainingRun,
    model: Model,
    trained: Sequence[TrainableComparator],
    fold: Fold,
    store: str,
) -> dict[str, Any]:
    """Evaluate the model, draw what it sorts and write the queries; the facts to print.

    `trained` are the comparators of iterations 1, 2 and so on.
    """
    test = fold.test or fold.vali
    folder, n_pairs = training.folder, {s: len(training.run.pairs(s)) for s in SPLITS}
    orders = [model.order_before(test)]
    orders += [replace(model, comparator=comparator).order(test) for comparator in trained]
    metric, best = parse_metric("spearman"), model.info["iteration"]
    figures = [per_query(metric, test.grades[order], test.offsets) for order in orders]
    learned_from = [0, *training.run.iterations_frame()["tp"].tolist()]
    _draw(folder.path / PICTURE, test, orders, figures, learned_from, best)
    write_letor(test, folder.path / TEST)
    means = [float(values.mean()) for values in figures]
    return {
        "run": training.run.id,
        "store": store,
        "model": str(folder),
        "picture": str(folder.path / PICTURE),
        "test": str(folder.path / TEST),
        "seed": training.config.seed,
        "iterations": model.info["iterations"],
        "best_iteration": best,
        **{f"pairs_{split}": n for split, n in n_pairs.items()},
        "test_queries": len(test),
        "spearman": {"before": means[0], "after": means[best], "iterations": means},
    }


def _draw(
    file: Path,
    test: Queries,
    orders: Sequence[I64],
    figures: Sequence[F64],
    learned_from: Sequence[int],
    best: int,
) -> None:
    """Draw the query of median quality before training, after each iteration, and after training.

    `learned_from` has the number of pairs that the comparator of each iteration learned from.
    """
    from cli.training.picture import Panel, draw

    query = int(np.argsort(figures[best], kind="stable")[len(test) // 2])
    own = slice(*test.offsets[query : query + 2])

    def panel(iteration: int, caption: str) -> Panel:
        remark = f"Spearman {figures[iteration][query]:.2f}"
        return Panel(caption, remark, orders[iteration][own] - own.start)

    after = f"After learning from {learned_from[best]:,} pairs: iteration {best}, the best of {{}}"
    panels = [
        panel(0, "Before training: iteration 0, random weights"),
        panel(best, after.format(count(len(orders) - 1, "iteration"))),
    ]
    strips = [panel(k, f"iteration {k}: {learned_from[k]:,} pairs") for k in range(1, len(orders))]
    images, numbers = test.features[own].reshape(-1, SIDE, SIDE), test.grades[own]
    title = f"{len(numbers)} handwritten digits that SortNet has never seen, sorted by SortNet"
    write_atomically(
        file, lambda path: draw(path, images, numbers, panels, title=title, strips=strips)
    )


def _conclusion(found: dict[str, Any], store: str | None) -> list[str]:
    """Lines on the model before and after training, its files, and commands to run next."""
    said = found["spearman"]
    lines = [
        f"\nSpearman correlation with the true order, mean over {found['test_queries']} queries of "
        f"images never seen:\n  before training {said['before']:.3f}\n"
        f"  after training  {said['after']:.3f}   (iteration {found['best_iteration']}, "
        f"the best of 0 to {found['iterations'] - 1})\n"
    ]
    lines += [f"{name:8} {found[name]}" for name in ("picture", "model", "test")]
    lines.append(f"{'store':8} {found['store']}, run {found['run']}\n\nnext")
    in_store = "" if store is None else f" --store {shlex.quote(store)}"
    model, test = shlex.quote(found["model"]), shlex.quote(found["test"])
    commands = [
        [f"  sortnet show last{in_store}", " the run's settings and iterations"],
        [f"  sortnet pairs last{in_store}", " every pair it got wrong"],
        [f"  sortnet evaluate {model} {test} --metric spearman", " on the images never seen"],
    ]
    return [*lines, *table(["", ""], commands, left=2)[1:]]
