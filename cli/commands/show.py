"""`sortnet show`: one run and its iterations."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from cli.inputs.opened_store import again, open_run, run_ids
from cli.options import Real, store_and_json
from cli.output import count, print_json, progress, put, say
from cli.printing import iterations

if TYPE_CHECKING:
    from sortnet.types import Progress
    from store import Run


@click.command()
@click.argument("run", shell_complete=run_ids)
@click.option(
    "--follow", is_flag=True, help="Show the iterations while the run is running, until it ends."
)
@click.option(
    "--interval", type=Real(0.1, 3600), default=2.0,
    help="Seconds between two reads of the store (with --follow).",
)  # fmt: skip
@store_and_json
def show(run: str, follow: bool, interval: float, store: str | None, as_json: bool) -> None:
    """Show a run and its iterations. RUN is a run id, a prefix of one, or `last`.

    With --follow every iteration is printed as a line when it ends; Ctrl-C does not stop the run.

    \b
    Examples:
      sortnet show last
      sortnet show last --follow
      sortnet show 3f2a --follow --interval 10 | tee progress.txt
      sortnet show 3f2a --json
    """
    from sortnet.config import BY_QUERY

    if follow and as_json:
        raise click.UsageError("--follow and --json cannot be combined")
    with open_run(store, run) as found:
        if follow:
            _follow(found, interval)
            return
        standing = found.status_text
        rows = iterations.rows_of(found.iterations_frame())
        about: dict[str, Any] = {"id": found.id, "status": found.status} | {
            name: getattr(found, name)
            for name in ("command", "out", "seed", "config", "versions", "data")
        }
        if as_json:
            print_json({**about, "created": found.created.isoformat(), "iterations": rows})
            return
        for name in ("id", "status", "command", "out"):
            if about[name] is not None:
                put(f"{name:8} {standing if name == 'status' else about[name]}")
        for split, facts in about["data"].items():
            put(
                f"{split:8} {facts['path']}: {facts['n_queries']} queries, "
                f"{facts['n_docs']} documents, {facts['n_features']} features"
            )
        if spec := about["config"].get("scaling"):
            alone = BY_QUERY.isdisjoint(spec.split("+"))
            on = "the two documents alone" if alone else "the other documents of the query too"
            put(f"scaling  {spec}: a margin depends on {on}")
        quality = iterations.quality_of(about["config"])
        put()
        config = about["config"]
        trials, show_trial = config.get("tuning", []), iterations.trial_shower(quality, put)
        for trial in trials:
            show_trial(trial)
        if line := iterations.chosen({**config, **config.get("training", {})}, trials):
            put(f"{line}\n")
        for text in (*iterations.header(quality), *(iterations.line(row, quality) for row in rows)):
            put(text)
        if not rows:
            say("no iteration has ended yet")
        if about["status"] in ("interrupted", "failed", "killed") and (step := again(found)):
            say(f"next: {step}")


def _follow(run: Run, interval: float) -> None:
    """Print the iterations of a run until it ends, or until Ctrl-C, which does not stop it."""
    try:
        with progress() as status:
            ended, n = _rows_until_it_ends(run, interval, status)
    except KeyboardInterrupt:
        say(f"no longer following run {run.id}")
        return
    step = f"resume with: {again(run)}" if again(run) else f"next: sortnet report {run.id}"
    how = "was killed" if ended == "killed" else f"is {ended}"
    say(f"run {run.id} {how}, {count(n, 'iteration')}; {step}")


def _rows_until_it_ends(run: Run, interval: float, progress: Progress) -> tuple[str, int]:
    """Its last status, and the number of its iterations."""
    quality, shown = iterations.quality_of(run.config), 0
    while True:
        progress(run.status_text)
        status = run.status  # read before the rows: an ended run has all of them
        rows = iterations.rows_of(run.iterations_frame())
        for text in iterations.header(quality) if rows and not shown else ():
            put(text, bold=True)
        for row in rows[shown:]:
            put(iterations.line(row, quality))
        shown = len(rows)
        if status != "running":
            return status, shown
        time.sleep(interval)
