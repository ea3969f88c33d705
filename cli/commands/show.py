"""`sortnet show`: one run and its iterations, or the model in a folder."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from cli.inputs.run_ids import run_ids
from cli.options import Real, store_and_json
from cli.output import print_json, progress, put, say
from cli.printing import iterations
from sortnet.errors import StoreError
from sortnet.files import rows_of
from sortnet.messages import count, printable
from store.report import iteration_table
from store.report.iteration_table import quality_of
from store.report.kept_models import kept_model
from store.report.origins import from_which
from store.runs.unfinished import again, is_before_the_end_of_training, with_phase
from store.service.existing_store import open_run
from store.training.model_folders import is_model_folder, run_of_folder
from store.training.watch_run import watch

if TYPE_CHECKING:
    from sortnet.core import Progress
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
            say(f"the run is not shown: {error}")
            _show_model(run, as_json=as_json)
            return
    with open_run(store, name) as found:
        if follow:
            _follow(found, interval)
        elif as_json:
            iterations_of_run = rows_of(found.iterations_frame())
            created = found.created.isoformat()
            print_json({**_facts(found), "created": created, "iterations": iterations_of_run})
        else:
            _show_run(found)


def _facts(run: Run) -> dict[str, Any]:
    """Everything that the store has of a run, besides its iterations."""
    facts: dict[str, Any] = {"id": run.id, "status": run.status, "phase": run.phase}
    for name in ("command", "out", "kept", "seed", "config", "versions", "data"):
        facts[name] = getattr(run, name)
    return facts


def _show_run(run: Run) -> None:
    facts = _facts(run)
    rows = rows_of(run.iterations_frame())
    put(f"id       {run.id}")
    put(f"status   {with_phase(run.status_text, run.phase)}")
    put(f"command  {run.command}")
    if run.out is not None:
        put(f"out      {run.out}")
    if origin := run.config.get("from"):
        put(f"from     {from_which(origin)}")
    if facts["kept"] is not None:
        put(f"kept     {kept_model(facts['kept'])}")
    for split, part in run.data.items():
        put(
            f"{split:8} {part['path']}: {part['n_queries']} queries, "
            f"{part['n_docs']} documents, {part['n_features']} features"
        )
    _show_scaling(run.config)
    put()
    quality = quality_of(run.config)
    _show_trials(run.config, quality)
    for text in (
        *iteration_table.header(quality),
        *(iteration_table.line(row, quality) for row in rows),
    ):
        put(text)
    if not rows:
        say("no iteration has ended yet")
    if facts["status"] in ("interrupted", "failed", "killed") and (step := again(run)):
        if rows and is_before_the_end_of_training(run):
            say("the learning rate has not come down: a finished run has a better model")
        say(f"next: {step}")


def _show_scaling(config: Mapping[str, Any]) -> None:
    from sortnet.config import BY_QUERY

    if scaling := config.get("scaling"):
        alone = BY_QUERY.isdisjoint(scaling.split("+"))
        on = "the two documents alone" if alone else "the other documents of the query too"
        put(f"scaling  {scaling}: a margin depends on {on}")


def _show_trials(config: Mapping[str, Any], quality: str) -> None:
    """Print the trials that chose settings, and the settings."""
    show_trial = iterations.trial_shower(quality, put)
    for trial in config.get("tuning", []):
        show_trial(trial)
    _show_chosen(config)


def _show_chosen(config: Mapping[str, Any]) -> None:
    """Print the settings that trials have chosen, if the run has such settings."""
    settings = {**config, **config.get("training", {})}
    if line := iterations.chosen(settings, config.get("tuning", [])):
        put(f"{line}\n")


def _show_model(folder: str, *, as_json: bool) -> None:
    """Print what a model folder says of the model, without a run."""
    from sortnet.rankers.base import load_ranker, name_of
    from sortnet.tables.rows import listed

    ranker = load_ranker(folder)
    config, info = ranker.config.to_json(), dict(ranker.info)
    kind = name_of(ranker.config)
    if as_json:
        names = ranker.feature_names
        print_json(
            {
                "model": folder,
                "kind": kind,
                "n_features": ranker.n_features,
                "feature_names": None if names is None else list(names),
                "config": config,
                "info": info,
            }
        )
        return
    put(f"model    {folder}, a ranker of kind {kind}")
    if "run" in info:
        put(f"run      {info['run']}")
    if origin := info.get("from"):
        put(f"from     {from_which(origin)}")
    if "kept" in info:
        put(f"kept     {kept_model(info['kept'])}")
    elif "quality" in info:
        put(f"quality  {config['quality']} {float(info['quality']):.4f} on validation")
    described = ranker.describer
    names = ranker.feature_names if described is None else described.readable_names()
    put(f"features {ranker.n_features}: {listed(map(printable, names or ()))}")
    _show_scaling(config)
    put(f"next     {shlex.join(['sortnet', 'evaluate', folder, 'TEST'])}")


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
    quality, n_rows, n_trials = quality_of(run.config), 0, 0
    show_trial = iterations.trial_shower(quality, put)
    for change in watch(run, interval):
        progress(with_phase(run.status_text, run.phase))
        for trial in change.trials:
            show_trial(trial)
        n_trials += len(change.trials)
        if change.rows and not n_rows:
            if n_trials:
                _show_chosen(run.config)
            for text in iteration_table.header(quality):
                put(text, bold=True)
        for row in change.rows:
            put(iteration_table.line(row, quality))
        n_rows += len(change.rows)
    return with_phase(change.status, run.phase), n_rows
