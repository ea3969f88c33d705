"""`sortnet show`: one run and its iterations, or the model in a folder."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from cli.inputs.run_ids import run_ids
from cli.options import Real, store_and_json
from cli.output import progress, put, say
from cli.printing import iterations
from cli.printing.results import Result, Step, print_result
from sortnet.errors import StoreError
from sortnet.files import rows_of
from sortnet.messages import count, printable
from store.report import iteration_table
from store.report.iteration_table import quality_of
from store.report.kept_models import kept_model
from store.report.origins import from_which
from store.runs.unfinished import again, is_before_the_end_of_training, with_phase
from store.service.existing_store import open_run
from store.training.run_named_by_folder import is_model_folder, run_of_folder

if TYPE_CHECKING:
    from sortnet.core import Progress
    from sortnet.rankers.base import Ranker
    from store import Run


@click.command()
@click.argument("run", metavar="RUN|FOLDER", shell_complete=run_ids)
@click.option(
    "--follow", is_flag=True, help="Show the iterations while the run is running, until it ends."
)
@click.option(
    "--interval", type=Real(0.1, 3600), default=2.0,
    help="Seconds between two reads of the store (with --follow).",
)  # fmt: skip
@store_and_json
@click.pass_context
def show(
    ctx: click.Context, run: str, follow: bool, interval: float, store: str | None, as_json: bool
) -> None:
    """Show a run and its iterations. RUN is a run id, a prefix of one, or `last`.

    FOLDER is a model folder: its run is shown if the store that it names still has the run, else
    what the folder itself says of the model.

    With --follow every trial that chooses settings, and every iteration, is printed as a line when
    it ends; Ctrl-C does not stop the run.

    \b
    Examples:
      sortnet show last
      sortnet show last --follow
      sortnet show 3f2a --follow --interval 10 | tee progress.txt
      sortnet show 3f2a --json
      sortnet show model
    """
    if follow and as_json:
        raise click.UsageError("--follow and --json cannot be combined")
    name = run
    if run != "last" and is_model_folder(run):
        typed = ctx.get_parameter_source("store") == click.core.ParameterSource.COMMANDLINE
        try:
            name, store = run_of_folder(run, store if typed else None)
        except StoreError as error:
            if follow:
                raise
            note = f"the run is not shown: {error}"
            print_result(replace(_model_result(run), notes=[note]), as_json=as_json)
            return
    with open_run(store, name) as found:
        if follow:
            _follow(found, interval)
        else:
            print_result(_run_result(found), as_json=as_json)


def _facts(run: Run) -> dict[str, Any]:
    """Everything that the store has of a run, besides its iterations."""
    facts: dict[str, Any] = {"id": run.id, "status": run.status, "phase": run.phase}
    for name in ("command", "out", "kept", "seed", "config", "versions", "data"):
        facts[name] = getattr(run, name)
    return facts


def _run_result(run: Run) -> Result:
    """A run with its iterations; the next step where it has not come to its end."""
    facts = _facts(run)
    rows = rows_of(run.iterations_frame())
    notes = [] if rows else ["no iteration has ended yet"]
    step = None
    if facts["status"] in ("interrupted", "failed", "killed") and (command := again(run)):
        if rows and is_before_the_end_of_training(run):
            notes.append("the learning rate has not come down: a finished run has a better model")
        step = Step(command)
    value = {**facts, "created": run.created.isoformat(), "iterations": rows}
    return Result("run", value, text=_run_text(run, rows), notes=notes, next=step)


def _run_text(run: Run, rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        f"id       {run.id}",
        f"status   {with_phase(run.status_text, run.phase)}",
        f"command  {run.command}",
    ]
    if run.out is not None:
        lines.append(f"out      {run.out}")
    if origin := run.config.get("from"):
        lines.append(f"from     {from_which(origin)}")
    if run.kept is not None:
        lines.append(f"kept     {kept_model(run.kept)}")
    for split, part in run.data.items():
        lines.append(
            f"{split:8} {part['path']}: {part['n_queries']} queries, "
            f"{part['n_docs']} documents, {part['n_features']} features"
        )
    lines += [*_scaling_lines(run.config), ""]
    quality = quality_of(run.config)
    add_trial = iterations.trial_shower(quality, lines.append)
    for trial in run.config.get("tuning", []):
        add_trial(trial)
    lines += _chosen_lines(run.config)
    lines += iteration_table.header(quality)
    return [*lines, *(iteration_table.line(row, quality) for row in rows)]


def _scaling_lines(config: Mapping[str, Any]) -> list[str]:
    from sortnet.config import BY_QUERY

    scaling = config.get("scaling")
    if not scaling:
        return []
    alone = BY_QUERY.isdisjoint(scaling.split("+"))
    on = "the two documents alone" if alone else "the other documents of the query too"
    return [f"scaling  {scaling}: a margin depends on {on}"]


def _chosen_lines(config: Mapping[str, Any]) -> list[str]:
    """The settings that trials have chosen, if the run has such settings."""
    settings = {**config, **config.get("training", {})}
    line = iterations.chosen(settings, config.get("tuning", []))
    return [line, ""] if line else []


def _model_result(folder: str) -> Result:
    """Describe the model in a folder by its files, without a run."""
    from sortnet.rankers.base import load_ranker, name_of

    ranker = load_ranker(folder)
    config, info = ranker.config.to_json(), dict(ranker.info)
    kind, names = name_of(ranker.config), ranker.feature_names
    value = {
        "model": folder,
        "kind": kind,
        "n_features": ranker.n_features,
        "feature_names": None if names is None else list(names),
        "config": config,
        "info": info,
    }
    step = Step(shlex.join(["sortnet", "evaluate", folder, "TEST"]), is_in_text=True)
    lines = [f"model    {folder}, a ranker of kind {kind}"]
    if "run" in info:
        lines.append(f"run      {info['run']}")
    if origin := info.get("from"):
        lines.append(f"from     {from_which(origin)}")
    if "kept" in info:
        lines.append(f"kept     {kept_model(info['kept'])}")
    elif "quality" in info:
        quality = f"{config['quality']} {float(info['quality']):.4f}"
        lines.append(f"quality  {quality} on validation")
    lines += [_features_line(ranker), *_scaling_lines(config), f"next     {step.command}"]
    return Result("model", value, text=lines, next=step)


def _features_line(ranker: Ranker) -> str:
    from sortnet.tables.rows import listed

    described = ranker.describer
    names = ranker.feature_names if described is None else described.readable_names()
    return f"features {ranker.n_features}: {listed(map(printable, names or ()))}"


def _follow(run: Run, interval: float) -> None:
    """Print the iterations of a run until it ends, or until Ctrl-C, which does not stop it."""
    try:
        with progress() as status:
            ended, n = _rows_until_it_ends(run, interval, status)
    except KeyboardInterrupt:
        say(f"no longer following run {run.id}")
        return
    step = f"resume with: {again(run)}" if again(run) else f"next: sortnet report {run.id}"
    how = f"was {ended}" if ended.startswith("killed") else f"is {ended}"
    say(f"run {run.id} {how}, {count(n, 'iteration')}; {step}")


def _rows_until_it_ends(run: Run, interval: float, progress: Progress) -> tuple[str, int]:
    """Its last status with its phase, and the number of its iterations."""
    from store.training.watch_run import watch  # with sqlalchemy, which takes a while

    quality, n_rows, n_trials = quality_of(run.config), 0, 0
    show_trial = iterations.trial_shower(quality, put)
    for change in watch(run, interval):
        progress(with_phase(run.status_text, run.phase))
        for trial in change.trials:
            show_trial(trial)
        n_trials += len(change.trials)
        if change.rows and not n_rows:
            if n_trials:
                for text in _chosen_lines(run.config):
                    put(text)
            for text in iteration_table.header(quality):
                put(text, bold=True)
        for row in change.rows:
            put(iteration_table.line(row, quality))
        n_rows += len(change.rows)
    return with_phase(change.status, run.phase), n_rows
