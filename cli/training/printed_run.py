"""Print a training: its settings, trials, iterations and result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cli.console import put, say
from cli.printing.results import Block, Facts, Result, Step, print_result
from cli.printing.runs import interval, measures, shower
from cli.training.printed_data import near_model_lines, say_data, say_origin
from sortnet.config import Config
from sortnet.core import Progress, Queries
from sortnet.learning.iterations import Callback, Iteration
from sortnet.learning.step_budget import Budget
from sortnet.learning.trackers import tracker
from sortnet.messages import count
from sortnet.metrics import can_choose
from store.database.engine import without_passwords
from store.report.conventions import conventions_of
from store.report.iteration_table import MEANING
from store.report.models_of_run import kept_model
from store.training.job import TrainingJob
from store.training.origin import Origin
from store.training.training_run import TrainedRun, TrainingRun, Watcher, vali_pairs_of


class PrintedRun(Watcher):
    """Prints a training as text, or its result as JSON and the text on stderr.

    Args:
        progress: shows the current step.
        logs: the trackers that each iteration is written to, as typed with `--log`.
        raise_if_signalled: called after each trial and iteration; raises an error, which ends the
            run, if a signal has come.
        as_json: whether the result is printed as JSON.
    """

    def __init__(
        self,
        progress: Progress,
        logs: Sequence[str],
        raise_if_signalled: Callable[[], None],
        *,
        as_json: bool,
    ) -> None:
        """Store the arguments, which the class describes, until the training starts."""
        self._progress = progress
        self._raise_if_signalled = raise_if_signalled
        self._logs = logs
        self._as_json = as_json
        self._show_iteration: Callable[[Iteration], None]  # set by `callbacks`

    def progress(self, text: str) -> None:
        self._progress(text)

    def note(self, text: str) -> None:
        say(text)

    def starting(self, job: TrainingJob, origin: Origin | None, *, is_new: bool) -> None:
        """Print the data of a new run."""
        if is_new:
            say_data(job, err=self._as_json)
            if origin is not None:
                say_origin(origin, job.vali, err=self._as_json)
            for line in _lines_about_choice(job):
                self._put(line)

    def begun(self, training: TrainingRun, *, is_new: bool) -> None:
        """Print what is known before the first iteration.

        If the run has finished, a message on stderr says so. Of a new run the inputs are printed,
        and how one training is divided among the iterations.
        """
        if training.finished:
            say(f"the run in {training.folder} has finished already")
        if not is_new:
            return
        lines = [f"inputs: {training.config.scaling}"]
        if training.config.divides_one_training:
            lines.append(_budget_line(training.job, training.config))
        lines.append("")  # an empty line before the iterations
        self._put("\n".join(lines))

    def callbacks(self, training: TrainingRun) -> Sequence[Callback]:
        """Return what is called after each iteration: the check for signals, and the trackers."""
        quality = training.job.metrics[0].name
        self._show_iteration = shower(quality, err=self._as_json)
        settings = {"command": training.run.command, **training.config.flat()}
        return [
            lambda *_: self._raise_if_signalled(),
            *trackers(self._logs, training.run.id, settings),
        ]

    def iteration_ended(self, record: Iteration) -> None:
        self._show_iteration(record)

    def ended(self, trained: TrainedRun) -> None:
        """Print the result of the training."""
        job = trained.training.job
        conventions = conventions_of(trained.parts, job.metrics, job.config.empty)
        print_result(_result(trained, conventions), as_json=self._as_json)
        quality = trained.best["quality"]
        for line in near_model_lines(job.train, trained.parts["vali"], job.config, quality):
            say(line)

    def _put(self, text: str) -> None:
        put(text, err=self._as_json)


def trackers(
    logs: Sequence[str], run: str = "", params: Mapping[str, Any] | None = None
) -> list[Callback]:
    """Make callbacks that write each iteration to the trackers of `--log`.

    Args:
        logs: the trackers, as typed.
        run: id of the run.
        params: settings of the run, which the trackers store.
    """

    def warn(text: str) -> None:
        say(" ".join(map(without_passwords, text.split())))

    return [tracker(log, run, dict(params or {}), warn) for log in logs]


def _result(trained: TrainedRun, conventions: Sequence[str]) -> Result:
    """Make the result of a training, as JSON and as text.

    Args:
        conventions: lines about the conventions of the measures.
    """
    training = trained.training
    value = {
        "run": training.run.id,
        "store": trained.store,
        "out": str(training.folder),
        "config": training.config.to_json(),
        "best_iteration": trained.best["iteration"],
        "quality": {training.job.metrics[0].name: trained.best["quality"]},
        "measures": trained.measures,
        "answers": trained.ranker.info["answers"],
        "judge": None if training.judge is None else training.judge.facts(),
        "kept": trained.kept,
        "from": training.run.config.get("from"),
        "iterations": trained.rows,
    }
    step = Step(training.job.next_command(str(training.folder)))
    if training.judge is None:
        answers = f"{trained.ranker.info['answers']:,} training pairs"
    else:
        answers = training.judge.text()
    facts = {
        "kept": kept_model(trained.kept),
        "judge": f"answered for {answers}",
        "model": str(training.folder),
        "run": f"{training.run.id} in {trained.store}",
    }
    text: list[Block] = [
        *_lines_about_best(trained),
        measures(trained.measures),
        *_interval_lines(trained.parts["vali"], trained.measures["vali"]),
        "",
        Facts(facts),
    ]
    notes = [MEANING, *conventions]
    return Result("training", value, text, notes, step)


def _lines_about_best(trained: TrainedRun) -> list[str]:
    """Write lines that name the best iteration, and tell why its model is kept."""
    best = trained.best
    last_iteration = trained.rows[-1]["iteration"]
    lines = ["", f"best is iteration {best['iteration']} of 0 to {last_iteration} (the last *)"]
    if trained.training.origin is not None and best["iteration"] == 0:
        lines.append("no iteration is better than the model that the run began with")
    qualities = [row["quality"] for row in trained.rows]
    if qualities.count(best["quality"]) > 1:
        lines.append(
            "of those of equal quality it is the first that has the most pairs of VALI right"
        )
    return lines


def _interval_lines(vali: Queries, vali_measures: Mapping[str, float]) -> list[str]:
    """Write a line with the interval of the accuracy, if the validation part has judged pairs."""
    if vali.judged is None:
        return []
    return [f"vali: {interval(vali_measures['accuracy'], len(vali.judged))}"]


def _budget_line(job: TrainingJob, config: Config) -> str:
    """Write how many steps the training has in all, and in how many iterations."""
    budget = Budget.of(job.train, config)
    text = f"one training of {budget.steps:,} steps, in {count(budget.iterations, 'iteration')}"
    if config.max_iter is not None and budget.iterations < config.max_iter:
        text += f", not {config.max_iter}: an iteration has at least one epoch"
    return text


def _line_about_answers(job: TrainingJob) -> str:
    """Write how many of a judge's answers are for validation, and how many for training."""
    n_answers = job.config.judgements or 0
    n_vali = len(vali_pairs_of(job))
    return (
        f"{n_answers:,} answers: {n_vali:,} about validation pairs, where {job.metrics[0].name} "
        f"chooses the iteration, {n_answers - n_vali:,} about training pairs"
    )


def _lines_about_choice(job: TrainingJob) -> Iterator[str]:
    """Yield lines with the measure that chooses the best iteration, and the data it uses."""
    measure = job.metrics[0]
    if job.is_asked:
        yield _line_about_answers(job)
        return
    judged = job.vali.judged
    if judged is None:
        # A query can choose if its measure is not the same for all orders.
        n_choosing = int(can_choose(measure, job.vali).sum())
        basis = f"{n_choosing} of {len(job.vali)} validation queries can choose"
    else:
        basis = f"{len(judged):,} judged pairs with items that are held out"
    yield f"{measure.name} chooses the iteration: {basis}"
    is_same = job.data["train"]["fingerprint"] == job.data["vali"]["fingerprint"]
    if is_same and not job.is_divided:
        yield "VALI is the data of TRAIN: all figures are training figures"
