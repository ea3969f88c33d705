"""Results about runs: the runs of a store, a run with its iterations, its measures."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING

import click

from cli.console import progress, put, say, write_output
from cli.printing.results import Block, Bold, Facts, Result, Table, table_of, table_of_cells
from sortnet.errors import SortNetError
from sortnet.files import Record, write_file
from sortnet.messages import count
from store.csv_file import rows_of_frame, write_csv
from store.report.run_texts import (
    MEANING,
    from_which,
    iteration_header,
    iteration_line,
    iteration_row,
    kept_figure,
    kept_model,
    quality_of,
)
from store.runs.resuming import again, resume_command

if TYPE_CHECKING:
    import pandas as pd

    from sortnet.learning.iterations import Iteration
    from store import Run

_FACTS = ("command", "out", "kept", "seed", "config", "versions", "data")
_RUNS = ("run", "created", "status", "best", "quality", "pairs", "model")


def runs_result(rows: list[Record]) -> Result:
    """Make the result with a row for each run; the next step resumes the newest killed run.

    Args:
        rows: facts about each run, the newest run first.
    """
    if not rows:
        proposal = "no runs yet: sortnet train makes one"
        return Result("runs", rows, next="sortnet train", proposal=proposal)
    command: str | None = None
    proposal = ""
    killed_runs = [row for row in rows if row["status"] == "killed" and row["out"]]
    if killed_runs:
        newest = killed_runs[0]
        n_more = len(killed_runs) - 1
        more = f" (and {n_more} more)" if n_more else ""
        command = resume_command(newest["out"])
        proposal = f"run {newest['id']}{more} was killed; resume with: {command}"
    table = table_of(map(_run_row, rows), _RUNS)
    return Result("runs", rows, text=[table], next=command, proposal=proposal)


def _run_row(row: Record) -> Record:
    """Make the row of a run in the table of runs."""
    config = row["config"]
    place = row["out"]
    if config.get("from"):
        place = f"{place or '-'}, from {from_which(config['from'])}"
    best = row["best_iteration"]
    named_row = {
        **row,
        "run": row["id"],
        "best": None if best is None else f"{best}/{row['iterations']}",
        "pairs": (row["tp"] or 0) + (row["vp"] or 0),
        "model": place,
    }
    model = row["kept"]
    if model is not None:
        named_row["quality"] = f"{model['measure']} {kept_figure(model):.4f}"
        if model["kind"] != "sortnet":  # no iteration made such a model
            named_row["best"] = model["kind"]
    elif row["best_quality"] is not None:
        named_row["quality"] = f"{config.get('quality', '')} {row['best_quality']:.4f}"
    return named_row


def run_result(run: Run) -> Result:
    """Make the result with a run and its iterations.

    If the run was cut off, the next step resumes it.
    """
    with run.database.one_state():  # the run may be training
        facts = {name: getattr(run, name) for name in ("id", "status", *_FACTS)}
        facts["collection"] = (
            None if run.judge is None else run.collection
        )  # of its judge's answers
        facts["created"] = run.created.isoformat()
        facts["iterations"] = run.iteration_rows()
        words = _facts_in_words(run)
    rows = facts["iterations"]
    quality = quality_of(run.config)
    notes = [MEANING] if rows else ["no iteration has ended yet"]
    is_cut_off = facts["status"] in ("interrupted", "failed", "killed")
    command = again(run) if is_cut_off else None
    text: list[Block] = [
        Facts(words),
        "",
        *map(Bold, iteration_header(quality)),
        *(iteration_line(row, quality) for row in rows),
    ]
    return Result("run", facts, text, notes, command)


def _facts_in_words(run: Run) -> dict[str, str]:
    """Describe a run and its data, {label: text}."""
    facts = {
        "id": run.id,
        "status": run.status,
        "command": run.command,
        "out": run.out or "",
        "answers": "" if run.judge is None else str(run.collection),
        "from": from_which(run.config["from"]) if run.config.get("from") else "",
        "kept": "" if run.kept is None else kept_model(run.kept),
    }
    for split, part in run.data.items():
        facts[split] = (
            f"{part['path']}: {part['n_queries']} queries, "
            f"{part['n_docs']} documents, {part['n_features']} features"
        )
    return {**facts, "scaling": scaling_in_words(run.config)}


def scaling_in_words(config: Record) -> str:
    """Name the scaling of features, and what a margin depends on with this scaling."""
    from sortnet.config import BY_QUERY

    scaling: str = config.get("scaling") or ""
    if not scaling:
        return ""
    dependence = "the other documents of the query too"
    if BY_QUERY.isdisjoint(scaling.split("+")):
        dependence = "the two documents alone"
    return f"{scaling}: a margin depends on {dependence}"


def shower(quality: str, *, err: bool = False) -> Callable[[Iteration | Record], None]:
    """Return a function that prints an iteration as a line, below the header if it is the first.

    Args:
        quality: name of the RankQuality measure, the title of its columns.
        err: whether to print on stderr.
    """
    header_lines = iteration_header(quality)

    def show(iteration: Iteration | Record) -> None:
        """Print an iteration of a training, or a row of a stored iteration."""
        while header_lines:
            put(header_lines.pop(0), err=err, bold=True)
        row = iteration if isinstance(iteration, dict) else iteration_row(iteration)
        put(iteration_line(row, quality), err=err, bold=bool(row["best"]))

    return show


def print_until_it_ends(run: Run, interval: float) -> None:
    """Print the iterations of a run until it ends, or until Ctrl-C, which does not stop it.

    Args:
        run: the run.
        interval: seconds between two reads of the store.
    """
    from store.runs.run import watch  # it imports sqlalchemy, which takes a while

    show = shower(quality_of(run.config))
    n_iterations = 0
    try:
        with progress() as status:
            for change in watch(run, interval):
                status(run.status)
                for row in change.rows:
                    show(dict(row))
                n_iterations += len(change.rows)
    except KeyboardInterrupt:
        say(f"no longer following run {run.id}")
        return
    command = again(run)
    step = f"resume with: {command}" if command else f"next: sortnet report {run.id}"
    verb = "was" if change.status.startswith("killed") else "is"
    say(f"run {run.id} {verb} {change.status}, {count(n_iterations, 'iteration')}; {step}")


def measures(figures: Mapping[str, Mapping[str, float]]) -> Table:
    """Make a table with a row for each part of the data, and a column for each measure.

    Args:
        figures: {part: {metric: value}}; all parts have the same metrics.
    """
    metrics = next(iter(figures.values())).keys()
    rows = [
        [part, *(f"{value:.4f}" for value in value_of_metric.values())]
        for part, value_of_metric in figures.items()
    ]
    return table_of_cells(["", *metrics], rows)


def interval(share: float, n: int) -> str:
    """Write the 95 % interval of an accuracy on n judged pairs, which is Wilson's score interval.

    Args:
        share: the accuracy, a share of the pairs.
        n: number of judged pairs.

    >>> interval(0.8, 50)
    'accuracy on 50 judged pairs that were held out; 95 % interval 0.67 to 0.89'
    """
    from scipy.stats import binomtest

    low, high = binomtest(round(share * n), n).proportion_ci(method="wilson")
    accuracy = f"accuracy on {n:,} judged pairs that were held out"
    return f"{accuracy}; 95 % interval {low:.2f} to {high:.2f}"


def write_pairs(frames: Iterator[pd.DataFrame], form: str, output: str) -> None:
    """Write frames of pairs to a file, or to stdout (`-`).

    Args:
        frames: the frames, which are written one after the other.
        form: format of the file: `csv`, `jsonl` or `parquet`.
        output: path of the file, or `-`.

    Raises:
        SortNetError: if pyarrow is missing, which Parquet needs, or the output cannot be written.
    """
    if form != "parquet":
        write_output(output, partial(_write_text, form, frames))
        return
    import pandas as pd

    if find_spec("pyarrow") is None:
        raise SortNetError("parquet needs pyarrow: pip install 'sortnet[parquet]'")
    pairs = pd.concat(frames, ignore_index=True)
    if output != "-":
        write_file(output, partial(pairs.to_parquet, index=False))
    elif sys.stdout.isatty():
        raise click.UsageError("parquet cannot be written to a terminal: give --output FILE")
    else:
        pairs.to_parquet(sys.stdout.buffer, index=False)


def _write_text(form: str, frames: Iterator[pd.DataFrame], file: IO[str]) -> None:
    """Write all frames as CSV with one header, or as JSON lines."""
    for number, frame in enumerate(frames):
        if form == "csv":
            names = list(frame.columns) if number == 0 else None
            write_csv(file, names, rows_of_frame(frame))
        else:
            frame.to_json(file, orient="records", lines=True)
