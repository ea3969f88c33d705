"""`sortnet report`: a run as one HTML file to send to a colleague."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.inputs.opened_store import open_run, run_ids
from cli.options import (
    Whole,
    data_option,
    files,
    folders,
    output_option,
    store_option,
    threads_option,
)
from cli.output import progress, put, refuse_output, write_output

if TYPE_CHECKING:
    from cli.report.sources import Sources
    from store import Run


@click.command()
@click.argument("run", shell_complete=run_ids)
@output_option(
    "--output",
    "-o",
    inputs=["model", "data"],
    help="HTML file, replaced if it exists; -: stdout; default: report-RUN.html in this folder.",
)
@click.option(
    "--model",
    metavar="DIR",
    shell_complete=folders,
    help="Model folder of the run, if it was moved.",
)
@click.option(
    "--data",
    metavar="FILE",
    multiple=True,
    shell_complete=files,
    help="Training or validation data of the run, if it was moved; repeatable.",
)
@click.option(
    "--queries", type=Whole(0), default=3, help="Number of hardest queries shown per part."
)
@data_option
@threads_option
@store_option
def report(
    run: str,
    output: str | None,
    model: str | None,
    data: tuple[str, ...],
    queries: int,
    cache: Path | None,
    threads: int | None,
    store: str | None,
) -> None:
    """Write a RUN as one HTML file: plots, the hardest queries, how to reproduce it.

    RUN is a run id, a prefix of one, or `last`. The file needs no network and contains no script.
    Documents of the hardest queries are shown if the run's model and data still exist.

    \b
    Examples:
      sortnet report last
      sortnet report 3f2a --output report.html --queries 5
    """
    from cli.report.page import refuse_without_iterations, render
    from cli.report.sources import find_sources
    from sortnet.threads import set_threads

    with progress() as status, open_run(store, run) as found:
        set_threads(threads)
        refuse_without_iterations(found)
        to = f"report-{found.id}.html" if output is None else output
        refuse_output(to, *(str(facts.get("path") or "") for facts in found.data.values()))
        sources = find_sources(found, model, data, cache=cache, progress=status)
        status("drawing")
        text = render(found, sources, _conventions(found, sources), top=queries)
    write_output(to, lambda file: file.write(text))
    if to != "-":
        put(to)


def _conventions(run: Run, sources: Sources) -> list[str]:
    from cli.printing.conventions import conventions_of, metrics_of
    from cli.report.sources import PARTS
    from sortnet.config import Config

    if not sources.data:  # nor need the run have settings of a training
        return []
    known = Config.from_json({k: v for k, v in run.config.items() if k != "tuning"})
    return [
        f"{PARTS[split]}: {line}"
        for split, queries in sources.data.items()
        for line in conventions_of(queries, metrics_of(known), known.empty)
    ]
