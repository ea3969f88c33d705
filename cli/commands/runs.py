"""`sortnet runs`: list the training runs of a store."""

from __future__ import annotations

from typing import Any

import click

from cli.options import store_and_json
from cli.printing.results import Column, Result, Step, Table, print_result
from sortnet.files import rows_of
from store.report.kept_models import kept_figure
from store.report.origins import from_which
from store.runs.unfinished import resume, with_phase
from store.service.existing_store import open_existing


@click.command()
@store_and_json
def runs(store: str | None, as_json: bool) -> None:
    """List the training runs, newest first.

    \b
    Examples:
      sortnet runs
      sortnet runs --store postgresql://me@db/sortnet --json
    """
    with open_existing(store) as opened:
        rows = rows_of(opened.runs_frame())
        result = _runs_result(rows)
    print_result(result, as_json=as_json)


def _runs_result(rows: list[dict[str, Any]]) -> Result:
    if not rows:
        first = Step("sortnet train", "no runs yet: sortnet train makes one")
        return Result("runs", rows, next=first)
    step: Step | None = None
    if killed := [row for row in rows if row["status"] == "killed" and row["out"]]:
        others = f" (and {len(killed) - 1} more)" if len(killed) > 1 else ""
        command = resume(killed[0]["out"])
        step = Step(command, f"run {killed[0]['id']}{others} was killed; resume with: {command}")
    return Result("runs", rows, text=[Table(_COLUMNS, rows, left=3)], next=step)


def _status(row: dict[str, Any]) -> str:
    from store.database.process import in_words

    return with_phase(in_words(row["status"], row["host"]), row["phase"])


def _best(row: dict[str, Any]) -> str:
    model, best = row["kept"], row["best_iteration"]
    if model is not None and model["kind"] != "sortnet":  # no iteration made it
        return str(model["kind"])
    return "-" if best is None else f"{best}/{row['iterations']}"


def _quality(row: dict[str, Any]) -> str:
    name, quality = row["config"].get("quality", ""), row["best_quality"]
    if (model := row["kept"]) is not None:
        name, quality = model["measure"], kept_figure(model)
    return "-" if quality is None else f"{name} {quality:.4f}"


def _place(row: dict[str, Any]) -> str:
    place: str = row["out"] or row["config"].get("collection") or "-"
    if origin := row["config"].get("from"):
        place += f", from {from_which(origin)}"
    return place


_COLUMNS = [
    Column("run", lambda row: str(row["id"])),
    Column("started UTC", lambda row: str(row["created"][:16].replace("T", " "))),
    Column("status", _status),
    Column("best", _best),
    Column("quality", _quality),
    Column("pairs", lambda row: str((row["tp"] or 0) + (row["vp"] or 0))),
    Column("model", _place, cut="start"),
]
