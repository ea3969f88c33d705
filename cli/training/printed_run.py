"""Print a training: its data, settings, trials, iterations and result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cli.console import put, say
from cli.printing.results import Block, Facts, Result, print_result
from cli.printing.runs import interval, measures, shower
from sortnet.config import Config
from sortnet.core import Progress, Queries
from sortnet.core.named_columns import MOST_BINS
from sortnet.data.grades import features_near_grades, features_near_model
from sortnet.data.read import PARTS
from sortnet.learning.iterations import Callback, Iteration, State
from sortnet.learning.step_budget import Budget
from sortnet.learning.trackers import tracker
from sortnet.messages import count, note, printable
from sortnet.metrics import can_choose, evaluate
from sortnet.rankers.base import Ranker
from sortnet.rankers.registry import name_of
from sortnet.tables.roles import column_of, feature_groups, listed_names
from store.database.engine import without_passwords
from store.report.run_texts import MEANING, conventions_of, from_which, kept_model, metrics_of
from store.training.job import TrainingJob
from store.training.run_folder import Origin
from store.training.training_run import TrainedRun, TrainingRun, Watcher, vali_pairs_of


def _training_facts(train: Queries) -> dict[str, str]:
    """Tell the columns of each role in a table of training queries.

    Returns:
        {role: names of its columns}; empty for LETOR text and collections.
    """
    roles = train.roles
    if roles is None:
        return {}
    n_queries = "one query" if len(train) == 1 else f"{len(train):,} queries"
    query = f"{roles.group}, {n_queries}" if roles.group else "all rows are one"
    computed = [name for name in train.feature_names or () if name not in roles.features]
    facts = {"query": printable(query), "id": printable(roles.id or "row number")}
    if train.judge is None:  # a judge is asked in place of reading grades
        facts["grade"] = printable(_grades(train))
    facts |= feature_groups(roles, computed)
    if roles.ignored:
        facts["ignored"] = listed_names(roles.ignored)
    return facts


def _readable_names(train: Queries) -> tuple[str, ...]:
    """Name the features as people understand them: words by their column."""
    if train.describer is None:
        return train.feature_names or ()
    names: tuple[str, ...] = train.describer.readable_names()
    return names


def near_model_lines(
    train: Queries, vali: Queries, config: Config, quality: float
) -> Iterator[str]:
    """Yield a warning about each column that alone orders VALI nearly as well as the model does.

    Columns that are nearly the grade, which `say_data` has named, are left out.

    Args:
        train, vali: the training and the validation part.
        config: the settings, whose RankQuality is the measure.
        quality: the model's RankQuality on the validation part.
    """
    if train.roles is None or vali.judged is not None:
        return
    readable = _readable_names(train)
    near_grade = features_near_grades(train)
    near_model = features_near_model(vali, quality, config.rank_quality, config.empty)
    # Several levels of a column may be near; the column is named once.
    quality_of_column = {
        column_of(readable[feature], train.roles.features): alone
        for feature, alone in near_model.items()
        if feature not in near_grade
    }
    for column, alone in quality_of_column.items():
        yield (
            f"warning: {printable(column)} alone orders VALI nearly as well as the model "
            f"({config.rank_quality.name} {alone:.3f} of {quality:.3f}): if it is made of the "
            "grade, leave it out with --ignore"
        )


def _grades(train: Queries) -> str:
    """Describe the grades: the name of their column, and the bins or the range of the grades."""
    name = train.roles.grade
    edges = train.columns.edges
    if edges:
        below = ", ".join(f"{edge:.6g}" for edge in edges)
        return f"{name} in {len(edges) + 1} bins, divided at {below}"
    grades = np.unique(train.grades)
    return f"{name}, {count(len(grades), 'grade')} from {grades[0]} to {grades[-1]}"


def say_data(job: TrainingJob, *, err: bool) -> None:
    """Print how the data are divided, and the roles of columns; print warnings on stderr.

    Args:
        err: whether everything is printed on stderr, because stdout has JSON.
    """
    facts = _training_facts(job.train)
    if job.is_divided:
        unit, plural = ("row", "rows") if "rows" in job.data["train"] else ("query", "queries")
        n_train, n_vali, n_test = (len(job.data[part][plural]) for part in PARTS)
        put(
            f"{job.test} is divided by {unit}, seed {job.config.seed}: {n_train:,} to train on, "
            f"{n_vali:,} to choose by, {n_test:,} to test with",
            err=err,
        )
    for line in Facts(facts).lines() if facts else ():
        put(line, err=err)
    if job.is_divided or facts:
        put(err=err)
    bins = job.train.columns.bins
    n_grades = len(job.train.columns.edges) + 1
    if bins not in (None, n_grades):
        note(
            f"note: --bins {bins} makes {count(n_grades, 'grade')}: the numbers of column "
            f"{printable(job.train.roles.grade)} repeat, and equal numbers have the same grade"
        )
    if job.train.roles is not None:
        largest = int(job.train.grades.max(initial=0))
        if bins is None and largest >= MOST_BINS:
            note(
                f"note: the gain of a grade r is 2^r-1, and r is up to {largest:,}: --bins 5 "
                f"divides {printable(job.train.roles.grade)} into 5 grades of equally many rows"
            )
        readable = _readable_names(job.train)
        for feature, correlation in features_near_grades(job.train).items():
            column = printable(column_of(readable[feature], job.train.roles.features))
            note(
                f"warning: {column} is nearly the grade (rank correlation {correlation:.3f}): "
                f"if it is made of the grade, leave it out with --ignore"
            )
    if job.note is not None:
        note(f"note: {job.note}")


def say_origin(origin: Origin, vali: Queries, *, err: bool) -> None:
    """Print the model that the run begins with; warn if it was trained on validation queries.

    Args:
        origin: the model that the run begins with.
        vali: the validation queries of the run.
        err: whether the model is printed on stderr, because stdout has JSON.
    """
    put(f"from   {from_which(origin.facts)}: its comparator, scaling and features", err=err)
    train_facts = origin.model.info.get("data", {}).get("train", {})
    trained_qids = {*train_facts.get("queries", ())}
    n_shared = sum(qid in trained_qids for qid in vali.qids.tolist())
    if n_shared:
        seed = origin.model.config.seed
        note(
            f"{n_shared} of {len(vali)} validation queries have names that the model was "
            f"trained on: it may look better than it is; --seed {seed} divides as its run did"
        )


class PrintedRun(Watcher):
    """Prints a training as text, or its result as JSON and the text on stderr.

    Args:
        progress: shows the current step.
        logs: the trackers that each iteration is written to, as typed with `--log`.
        as_json: whether the result is printed as JSON.
    """

    def __init__(self, progress: Progress, logs: Sequence[str], *, as_json: bool) -> None:
        """Store the arguments, which the class describes, until the training starts."""
        self._progress = progress
        self._logs = logs
        self._as_json = as_json
        self._is_new = False
        self._show_iteration: Callable[[Iteration], None]  # set by `begun`
        self._trackers: Sequence[Callback] = ()

    def progress(self, text: str) -> None:
        self._progress(text)

    def starting(self, job: TrainingJob, origin: Origin | None) -> None:
        """Print the data of a new run."""
        self._is_new = True
        say_data(job, err=self._as_json)
        if origin is not None:
            say_origin(origin, job.vali, err=self._as_json)

    def begun(self, training: TrainingRun) -> None:
        """Print how a new run chooses its best iteration, and divides one training."""
        self._show_iteration = shower(training.job.metrics[0].name, err=self._as_json)
        settings = {"command": training.run.command, **training.config.flat()}
        self._trackers = trackers(self._logs, training.run.id, settings)
        if training.finished:
            say(f"the run in {training.folder} has finished already")
        if not self._is_new:
            return
        config = training.config
        lines = [*_lines_about_choice(training.job), f"inputs: {config.scaling}"]
        if config.divides_one_training:
            budget = Budget.of(training.job.train, config)
            n_iterations = count(budget.iterations, "iteration")
            line = f"one training of {budget.steps:,} steps, in {n_iterations}"
            if budget.iterations < (config.max_iter or 0):
                line += f", not {config.max_iter}: an iteration has at least one epoch"
            lines.append(line)
        lines.append("")  # an empty line before the iterations
        put("\n".join(lines), err=self._as_json)

    def iteration_ended(self, record: Iteration, state: State) -> None:
        """Print an iteration, and write it to the trackers."""
        self._show_iteration(record)
        for write in self._trackers:
            write(record, state)

    def ended(self, trained: TrainedRun) -> None:
        """Print the result of the training."""
        job = trained.training.job
        quality = trained.best["quality"]
        notes = [
            MEANING,
            *conventions_of(trained.parts, job.metrics, job.config.empty),
            *near_model_lines(job.train, trained.parts["vali"], job.config, quality),
        ]
        print_result(_result(trained, notes), as_json=self._as_json)


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


def _result(trained: TrainedRun, notes: Sequence[str]) -> Result:
    """Make the result of a training, as JSON and as text.

    Args:
        notes: lines about the conventions of the measures, and warnings.
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
    next_command = training.job.next_command(str(training.folder))
    if training.judge is None:
        answers = f"{trained.ranker.info['answers']:,} training pairs, with ties"
    else:
        answers = training.judge.text()
    vali = trained.parts["vali"]
    intervals = []
    if vali.judged is not None:
        accuracy = trained.measures["vali"]["accuracy"]
        intervals.append(f"vali: {interval(accuracy, len(vali.judged))}")
    facts = {
        "kept": kept_model(trained.kept),
        "judge": f"answered for {answers}",
        "model": str(training.folder),
        "run": f"{training.run.id} in {trained.store}",
    }
    text: list[Block] = [
        *_lines_about_best(trained),
        measures(trained.measures),
        *intervals,
        "",
        Facts(facts),
    ]
    return Result("training", value, text, notes, next_command)


def kind_result(job: TrainingJob, ranker: Ranker, folder: Path) -> Result:
    """Make the result of a fit: the measures of the ranker, its settings, and its folder."""
    metrics = metrics_of(ranker.config)
    empty = ranker.config.empty
    queries_of_part = {"train": job.train, "vali": job.vali}
    measures_of_parts = {
        name: evaluate(part, ranker.order(part), metrics, empty=empty)
        for name, part in queries_of_part.items()
    }
    value = {
        "out": str(folder),
        "kind": ranker.config.kind,
        "config": ranker.config.to_json(),
        "info": dict(ranker.info),
        "measures": measures_of_parts,
    }
    next_command = job.next_command(str(folder))
    model = f"{folder}, a ranker of kind {name_of(ranker.config)}; no run is stored"
    text: list[Block] = [measures(measures_of_parts), "", Facts({"model": model})]
    conventions = conventions_of(queries_of_part, metrics, empty)
    return Result("training", value, text, conventions, next_command)


def _lines_about_best(trained: TrainedRun) -> list[str]:
    """Write lines that name the best iteration."""
    best = trained.best["iteration"]
    last_iteration = trained.rows[-1]["iteration"]
    lines = ["", f"best is iteration {best} of 0 to {last_iteration} (the last *)"]
    if trained.training.job.origin is not None and best == 0:
        lines.append("no iteration is better than the model that the run began with")
    return lines


def _lines_about_choice(job: TrainingJob) -> Iterator[str]:
    """Yield lines with the measure that chooses the best iteration, and the data it uses."""
    measure = job.metrics[0]
    if job.is_asked:
        n_answers = job.config.judgements or 0
        n_vali = len(vali_pairs_of(job))
        yield (
            f"{n_answers:,} answers: {n_vali:,} about validation pairs, where {measure.name} "
            f"chooses the iteration, {n_answers - n_vali:,} about training pairs"
        )
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
