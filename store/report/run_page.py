"""Render a run as one self-contained HTML page with plots, tables and text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from sortnet.config import Config
from sortnet.core import Progress
from sortnet.errors import DataError, SortNetError
from sortnet.files import rows_of
from sortnet.messages import count
from store import Run
from store.frames import after_the_first, counted_iterations, measure_names
from store.report import iteration_table
from store.report.conventions import conventions_of, metrics_of
from store.report.hardest import hardest, recurring
from store.report.html_page import PageFile, refuse_page_file, render_template, write_page
from store.report.iteration_table import LABELLING, quality_of, share
from store.report.kept_models import Kept, kept_figure, kept_model, kept_name
from store.report.origins import from_which
from store.report.run_plots import LABELLING_PLOTS, PLOTS, draw_plots
from store.report.sources import PARTS, Sources, find_sources
from store.runs.remembered_data import find_data
from store.runs.unfinished import again, is_before_the_end_of_training


def write_run_page(
    run: Run,
    file: PageFile,
    *,
    model: str | None = None,
    data: Sequence[str] = (),
    top: int = 3,
    cache: Path | None = None,
    progress: Progress = lambda text: None,
) -> Sequence[str]:
    """Write the page of a run, which needs no network, to a file in one step.

    Args:
        run: the run, with one iteration or more.
        file: a path, replaced if it exists, or an open text file.
        model: the folder of the run's model, if the folder was moved.
        data: the files of the run's training or validation queries, if the files were moved.
        top: the number of hardest queries of each part.
        cache: the folder of parsed data. If None, data is not cached.
        progress: gets the name of each step.

    Returns:
        A line for each part of the page that is missing because the model or data were not found.

    Raises:
        SortNetError: if the run has no iteration, `model` or `data` is not the run's, or the file
            cannot be written.

    Cost: about 3 seconds to draw the plots, and reading the run's pairs and data.
    """
    refuse_without_iterations(run)
    paths = [find_data(facts) for facts in run.data.values() if "path" in facts]
    refuse_page_file(file, *paths)
    sources = find_sources(run, model, data, cache=cache, progress=progress)
    progress("drawing")
    write_page(file, render(run, sources, _conventions(run, sources), top=top))
    return sources.notes


def _conventions(run: Run, sources: Sources) -> list[str]:
    """Describe the conventions of the run's measures on each part whose data was found."""
    if not sources.data:  # a run without data may have no settings of a training
        return []
    # Besides settings, `config` has the model that the run began with.
    settings = {name: run.config[name] for name in run.config if name != "from"}
    config = Config.from_json(settings)
    metrics = metrics_of(config)
    return [
        f"{PARTS[split]}: {line}"
        for split, queries in sources.data.items()
        for line in conventions_of(queries, metrics, config.empty)
    ]


def render(
    run: Run,
    sources: Sources | None = None,
    conventions: Sequence[str] = (),
    *,
    top: int = 3,
) -> str:
    """Render the page of a run as HTML.

    Args:
        run: the run.
        sources: the model and the data, where documents are looked up; the notes are shown. If
            None, documents are not shown.
        conventions: the conventions of the measures. If empty, the conventions that the run
            recorded.
        top: the number of hardest queries of each part.

    Raises:
        StoreError: on database errors.

    Cost: about 3 seconds to draw the plots, and reading the run's pairs.
    """
    with run.database.one_state():  # the run may be training
        return _render(run, Sources() if sources is None else sources, conventions, top)


def _render(run: Run, sources: Sources, conventions: Sequence[str], top: int) -> str:
    """Render the page of a run, see `render`, within one state of the database."""
    iterations = run.iterations_frame()
    pairs = run.pairs_frame()
    measures = measure_names(iterations)
    is_labelling = quality_of(run.config) == LABELLING
    pictures, notes = draw_plots(run, pairs, LABELLING_PLOTS if is_labelling else PLOTS)
    if is_labelling:  # a labelling has neither conventions nor documents
        conventions = []
    else:
        recorded_conventions = str(iterations.attrs.get("conventions") or "not recorded")
        conventions = conventions or [recorded_conventions]
        notes = [*sources.notes, *notes]
    counted_pairs = _pairs_after_iteration_0(pairs)
    return render_template(
        "report.html",
        title=f"SortNet run {run.id}",
        run=run,
        data=[_data_row(part, facts) for part, facts in run.data.items()],
        summary=summary(run, iterations),
        status_line=status_line(run, len(iterations)),
        conventions=conventions,
        labelling=_labelling_table(iterations) if is_labelling else None,
        measures=measures,
        iterations=_iteration_rows(iterations, measures),
        pictures=pictures,
        notes=notes,
        recurring=recurring(counted_pairs, sources),
        hard=hardest(counted_pairs, sources, top=top),
        hard_in=counted_iterations(counted_pairs),
        settings=list(_settings(run.config)),
        again=again(run),
    )


def _iteration_rows(
    iterations: pd.DataFrame, measures: Sequence[str]
) -> list[tuple[list[str], bool]]:
    """Make the row of each iteration: its cells, and whether the iteration was kept."""
    kept = iterations.attrs.get("kept")
    return [
        (iteration_table.cells(row, measures, "{:,}"), row["iteration"] == kept)
        for row in rows_of(iterations)
    ]


def _pairs_after_iteration_0(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs that were wrong after iteration 0.

    Return no rows if the run is of an older version, which did not count the iterations.
    """
    try:
        return after_the_first(pairs)
    except DataError:  # the plot of hard queries tells why
        return after_the_first(pairs.head(0))


def _data_row(part: str, facts: Mapping[str, Any]) -> list[Any]:
    """Make a row of the table of data: part, path, sizes and fingerprint."""
    fingerprint = Markup("<code>{}</code>").format(facts.get("fingerprint") or "not recorded")
    path_and_sizes = [facts.get(name) for name in ("path", "n_queries", "n_docs", "n_features")]
    return [part, *path_and_sizes, fingerprint]


def _labelling_table(iterations: pd.DataFrame) -> str:
    """Format the recorded fits of a labelling as a text table."""
    lines = [iteration_table.line(row, LABELLING) for row in rows_of(iterations)]
    return "\n".join([*iteration_table.header(LABELLING), *lines])


def summary(run: Run, iterations: pd.DataFrame) -> list[tuple[str, str]]:
    """Summarise the run in facts for people, each a name and a value.

    Args:
        run: the run.
        iterations: frame of `Run.iterations_frame`; may have no rows.
    """
    rows = rows_of(iterations)
    quality = quality_of(run.config)
    started = run.created.strftime("%Y-%m-%d %H:%M UTC")
    facts = [("Run", run.id), ("Status", run.status), ("Started", started)]
    facts += _quality_facts(run, rows)
    if not rows:
        return [*facts, ("Iterations", "0")]
    last = rows[-1]
    if quality == LABELLING:
        facts.append(("Iterations", str(len(rows))))
        facts.append(("Judgements", str(last["iteration"])))
        return facts
    facts.append(("Iterations", f"0 to {last['iteration']}"))
    n_training_pairs = iteration_table.total(last["tp"], number="{:,}")
    n_validation_pairs = iteration_table.total(last["vp"], number="{:,}")
    pairs_kept = f"{n_training_pairs} training, {n_validation_pairs} validation"
    facts.append(("Pairs kept", pairs_kept))
    seconds = sum(map(iteration_table.seconds, rows))
    facts.append(("Time", f"{seconds:,.1f} seconds of sorting and training"))
    return facts


def _quality_facts(run: Run, rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Describe the quality of the kept model, of the best iteration, and before the training.

    Args:
        run: the run.
        rows: the rows of the iterations. If no row is marked as best, there are no facts.

    Returns:
        The facts, each a name and a value.
    """
    # A row is marked as best if it was the best so far, so the last mark is on the best of all.
    best_rows = [row for row in rows if row["best"]]
    if not best_rows:
        return []
    best = best_rows[-1]
    name = f"{quality_of(run.config)} of the best iteration"
    figure = f"{share(best['quality'])} on validation, iteration {best['iteration']}"
    facts = _kept_facts(run.kept, name, figure)
    origin = run.config.get("from")
    weights = "random weights" if origin is None else f"from {from_which(origin)}"
    before_training = f"{share(rows[0]['quality'])} ({weights})"
    return [*facts, ("Before training", before_training)]


def _kept_facts(
    model: Kept | None, name_of_best: str, figure_of_best: str
) -> list[tuple[str, str]]:
    """Describe the kept model, and the best iteration if another ranker was kept.

    Args:
        model: the kept model; None if it is not recorded.
        name_of_best: the name of the fact about the best iteration.
        figure_of_best: the value of the fact about the best iteration.

    Returns:
        The facts, each a name and a value.
    """
    fact_about_best = (name_of_best, figure_of_best)
    if model is None:
        return [fact_about_best]
    name = f"{model['measure']} of the kept model"
    kept = ("Kept", kept_model(model))
    if model["kind"] == "sortnet":  # the kept model is the best iteration
        return [(name, figure_of_best), kept]
    figure = f"{share(kept_figure(model))} on validation, {kept_name(model)}"
    return [(name, figure), kept, fact_about_best]


def status_line(run: Run, n_iterations: int) -> str | None:
    """Write a sentence on the status of an unfinished run; return None if the run is done."""
    status = run.status
    if status == "done":
        return None
    after = f"after {count(n_iterations, 'iteration')}"
    if status == "running":
        return f"The run was {run.status} when this was written, or was killed, {after}."
    ended = "failed" if status == "failed" else f"was {status}"
    early_clause = (
        ", before its learning rate came down" if is_before_the_end_of_training(run) else ""
    )
    return f"The run is unfinished: it {ended} {after}{early_clause}."


def refuse_without_iterations(run: Run) -> None:
    """Raise SortNetError if a run has no iterations; the message has the next step."""
    if len(run.iterations_frame()):
        return
    if run.status == "running":
        step = f"follow it: sortnet show {run.id} --follow"
    else:
        step = f"resume it: {again(run) or run.command}"
    raise SortNetError(f"run {run.id} ({run.status}) has no iteration yet; {step}")


def _settings(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the settings as names and values; the names of nested settings are joined by dots."""
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _settings(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", "not set" if value is None else str(value)
