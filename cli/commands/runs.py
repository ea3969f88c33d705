"""`sortnet runs`: list the training runs of a store."""

from __future__ import annotations

from typing import Any

import click

from cli.options import store_and_json
from cli.output import print_json, print_table, say, width
from sortnet.files import rows_of
from store.report.kept_models import kept_figure
from store.report.origins import from_which
from store.runs.unfinished import resume, with_phase
from store.service.existing_store import open_existing

_PATH = 8  # least number of characters of a path


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
        if as_json:
            print_json(rows)
        elif not rows:
            say("no runs yet: sortnet train makes one")
        else:
            header = ["run", "started UTC", "status", "best", "quality", "pairs", "model"]
            print_table(header, _fitted([_run_line(row) for row in rows], header), left=3)
            if killed := [row for row in rows if row["status"] == "killed" and row["out"]]:
                others = f" (and {len(killed) - 1} more)" if len(killed) > 1 else ""
                run = f"run {killed[0]['id']}{others}"
                say(f"{run} was killed; resume with: {resume(killed[0]['out'])}")


def _fitted(rows: list[list[str]], header: list[str]) -> list[list[str]]:
    """Shorten rows to the width there is: the start of long paths is cut."""
    if (columns := width()) is None:
        return rows
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    space = max(columns - sum(widths[:-1]) - 2 * (len(widths) - 1), _PATH)
    return [
        [*row, path if len(path) <= space else f"...{path[3 - space :]}"] for *row, path in rows
    ]


def _run_line(row: dict[str, Any]) -> list[str]:
    from store.database.process import in_words

    place = row["out"] or row["config"].get("collection") or "-"
    if origin := row["config"].get("from"):
        place += f", from {from_which(origin)}"
    best, quality = row["best_iteration"], row["best_quality"]
    name = row["config"].get("quality", "")
    best_text = "-" if best is None else f"{best}/{row['iterations']}"
    if (model := row["kept"]) is not None:
        name, quality = model["measure"], kept_figure(model)
        if model["kind"] != "sortnet":  # no iteration made it
            best_text = model["kind"]
    return [
        row["id"],
        row["created"][:16].replace("T", " "),
        with_phase(in_words(row["status"], row["host"]), row["phase"]),
        best_text,
        "-" if quality is None else f"{name} {quality:.4f}",
        str((row["tp"] or 0) + (row["vp"] or 0)),
        place,
    ]
