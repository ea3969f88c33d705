"""Print the demo of `sortnet demo`: its queries, iterations, and what the model has learned."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from cli.console import put
from cli.printing.results import Block, Facts, Result
from cli.printing.runs import shower
from sortnet.core import Progress
from sortnet.learning.iterations import Iteration, State
from sortnet.messages import count
from store.training.digits_demo import DemoWatcher
from store.training.training_run import TrainingRun


class PrintedDemo(DemoWatcher):
    """Prints the queries and iterations of a demo.

    Args:
        progress: shows the current step.
        as_json: whether the result is printed as JSON, and the iterations on stderr.
    """

    def __init__(self, progress: Progress, *, as_json: bool) -> None:
        super().__init__()
        self._progress = progress
        self._as_json = as_json
        self._show_iteration: Callable[[Iteration], None]  # set by `begun`

    def progress(self, text: str) -> None:
        self._progress(text)

    def begun(self, training: TrainingRun) -> None:
        """Print the numbers of queries and iterations, unless the result is printed as JSON."""
        quality = training.config.rank_quality.name
        self._show_iteration = shower(quality, err=self._as_json)
        if self._as_json:
            return
        fold = self.fold
        test = fold.test or fold.vali
        n_iterations = count(training.config.trainings, "iteration")
        put(
            f"Queries of {fold.train.sizes[0]} handwritten digits, to be sorted by the "
            f"number written: {len(fold.train)} to learn from\nin {n_iterations}, "
            f"{len(fold.vali)} to choose the best iteration by, {len(test)} to test the model on.\n"
        )

    def iteration_ended(self, record: Iteration, state: State) -> None:
        super().iteration_ended(record, state)
        self._show_iteration(record)


def demo_result(facts: Mapping[str, Any], store: str | None) -> Result:
    """Make the result of a demo: its facts, and a text with commands to run next.

    Args:
        facts: the result of `run_demo`.
        store: the URL of the store as it was typed; None: the user's default store, which needs no
            option.
    """
    spearman = facts["spearman"]
    places = {name: facts[name] for name in ("picture", "model", "test")}
    places["store"] = f"{facts['store']}, run {facts['run']}"
    store_option = "" if store is None else f" --store {shlex.quote(store)}"
    model = shlex.quote(facts["model"])
    test = shlex.quote(facts["test"])
    commands = {
        f"  sortnet show last{store_option}": "the run's settings and iterations",
        f"  sortnet pairs last{store_option}": "every pair it got wrong",
        f"  sortnet evaluate {model} {test} --metric spearman": "on the images never seen",
    }
    lines: list[Block] = [
        f"\nSpearman correlation with the true order, mean over {facts['test_queries']} queries of "
        f"images never seen:\n  before training {spearman['before']:.3f}\n"
        f"  after training  {spearman['after']:.3f}   (iteration {facts['best_iteration']}, "
        f"the best of 0 to {facts['iterations'] - 1})\n"
    ]
    return Result("demo", facts, text=[*lines, Facts(places), "", "next", Facts(commands)])
