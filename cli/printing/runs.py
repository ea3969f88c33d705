"""Results about runs: the runs of a store, or one run with its iterations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cli.printing.results import Column, Result, Step, Table
from store.report import iteration_table
from store.report.iteration_table import quality_of
from store.report.kept_models import kept_figure, kept_model
from store.report.origins import from_which
from store.report.run_facts import run_facts
from store.runs.unfinished import again, is_before_the_end_of_training, resume_command

if TYPE_CHECKING:
    from store import Run


def runs_result(rows: list[dict[str, Any]]) -> Result:
    """Make the result with a row for each run; the next step resumes the newest killed run.

    Args:
        rows: facts about each run, the newest run first.
    """
    if not rows:
        first = Step("sortnet train", "no runs yet: sortnet train makes one")
        return Result("runs", rows, next=first)
    step: Step | None = None
    killed_runs = [row for row in rows if row["status"] == "killed" and row["out"]]
    if killed_runs:
        newest = killed_runs[0]
        n_more = len(killed_runs) - 1
        more = f" (and {n_more} more)" if n_more else ""
        command = resume_command(newest["out"])
        step = Step(command, f"run {newest['id']}{more} was killed; resume with: {command}")
    return Result("runs", rows, text=[Table(_COLUMNS, rows, left=3)], next=step)


def run_result(run: Run) -> Result:
    """Make the result with a run and its iterations.

    If the run was cut off, the next step resumes it.
    """
    facts = run_facts(run)
    rows = facts["iterations"]
    notes = [] if rows else ["no iteration has ended yet"]
    step = None
    is_cut_off = facts["status"] in ("interrupted", "failed", "killed")
    command = again(run) if is_cut_off else None
    if command:
        step = Step(command)
        if rows and is_before_the_end_of_training(run):
            notes.append("the learning rate has not come down: a finished run has a better model")
    return Result("run", facts, text=_run_text(run, rows), notes=notes, next=step)


def scaling_lines(config: Mapping[str, Any]) -> list[str]:
    """Tell the scaling of features, and which documents a margin depends on with this scaling.

    Without a scaling there is no line.
    """
    from sortnet.config import BY_QUERY

    scaling = config.get("scaling")
    if not scaling:
        return []
    dependence = "the other documents of the query too"
    if BY_QUERY.isdisjoint(scaling.split("+")):
        dependence = "the two documents alone"
    return [f"scaling  {scaling}: a margin depends on {dependence}"]


def _run_text(run: Run, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Write the facts, the data and the iterations of a run as lines.

    Args:
        run: the run.
        rows: the facts about each iteration.
    """
    lines = [
        f"id       {run.id}",
        f"status   {run.status}",
        f"command  {run.command}",
    ]
    if run.out is not None:
        lines.append(f"out      {run.out}")
    if run.judge is not None:
        lines.append(f"answers  {run.collection}")
    if run.config.get("from"):
        lines.append(f"from     {from_which(run.config['from'])}")
    if run.kept is not None:
        lines.append(f"kept     {kept_model(run.kept)}")
    for split, part in run.data.items():
        lines.append(
            f"{split:8} {part['path']}: {part['n_queries']} queries, "
            f"{part['n_docs']} documents, {part['n_features']} features"
        )
    lines += [*scaling_lines(run.config), ""]
    quality = quality_of(run.config)
    lines += iteration_table.header(quality)
    lines += [iteration_table.line(row, quality) for row in rows]
    return lines


def _best(row: dict[str, Any]) -> str:
    """Write the best iteration of a run and the number of iterations, such as 7/10.

    If the run kept a model of another kind than sortnet, the kind is written.
    """
    model = row["kept"]
    best = row["best_iteration"]
    if model is not None and model["kind"] != "sortnet":  # no iteration made such a model
        return str(model["kind"])
    return "-" if best is None else f"{best}/{row['iterations']}"


def _quality(row: dict[str, Any]) -> str:
    """Write the measure and the quality of a run's model; a hyphen without a model."""
    model = row["kept"]
    if model is None:
        measure = row["config"].get("quality", "")
        quality = row["best_quality"]
    else:
        measure = model["measure"]
        quality = kept_figure(model)
    return "-" if quality is None else f"{measure} {quality:.4f}"


def _place(row: dict[str, Any]) -> str:
    """Write the folder of a run's model, and the model that the run began with.

    Without a folder, the name of the collection that the run learned from is written.
    """
    config = row["config"]
    place: str = row["out"] or config.get("collection") or "-"
    if config.get("from"):
        place += f", from {from_which(config['from'])}"
    return place


_COLUMNS = [
    Column("run", lambda row: str(row["id"])),
    Column("started UTC", lambda row: str(row["created"][:16].replace("T", " "))),
    Column("status", lambda row: str(row["status"])),
    Column("best", _best),
    Column("quality", _quality),
    Column("pairs", lambda row: str((row["tp"] or 0) + (row["vp"] or 0))),
    Column("model", _place, cut="start"),
]
