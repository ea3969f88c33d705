"""Render a run as one self-contained HTML page with plots, tables and text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from markupsafe import Markup

from sortnet.config import Config
from sortnet.core import Progress
from sortnet.errors import DataError, SortNetError
from sortnet.files import rows_of
from sortnet.messages import count
from store import Run
from store.frames import after_the_first, counted_iterations, measure_names
from store.plots import figures as plots
from store.report import iteration_table
from store.report.conventions import conventions_of, metrics_of
from store.report.hardest import hardest, recurring
from store.report.html_page import PageFile, refuse_page_file, render_template, write_page
from store.report.iteration_table import LABELLING, quality_of, share
from store.report.kept_models import Kept, kept_figure, kept_model, kept_name
from store.report.origins import from_which
from store.report.sources import PARTS, Sources, find_sources
from store.report.svg import picture
from store.runs.remembered_data import find_data
from store.runs.unfinished import again, is_before_the_end_of_training, with_phase


class _Plot(NamedTuple):
    """A plot of the page.

    Attributes:
        function: the name of the function in `store.plots.figures` that draws the plot.
        frame_method: the name of the method of `Run` that returns the data of the plot.
        title: the title.
        caption: the caption.
    """

    function: str
    frame_method: str
    title: str
    caption: str


PLOTS = (
    _Plot("pair_growth", "iterations_frame", "Pairs kept",
          "TP and VP are the training and validation pairs kept so far: those learned from, and "
          "those that sorting the validation queries compared; with --pairs wrong the mis-compared "
          "ones. A good run finds ever fewer new ones, and a falling share of its comparisons is "
          "wrong."),
    _Plot("measures", "iterations_frame", "Measures",
          "Measures of the training and validation queries in every iteration; the best is marked, "
          "unless another ranker was kept."),
    _Plot("margins", "margins_frame", "Margins, right and wrong",
          "How confident the comparator was. Wrong pairs with a large margin are the most "
          "persistent ones: check their labels."),
    _Plot("mistakes_by_rank", "mistakes_frame", "Where in the ranking the mistakes are",
          "Mistakes in the upper left cost the most: they are at the top of the ranking."),
    _Plot("hard_queries", "pairs_frame", "Hard queries",
          "Each bar counts how often pairs of the query were wrong, from iteration 1 on: iteration "
          "0 sorts with random weights."),
    _Plot("cycles", "cycles_frame", "Cycles",
          "A comparator need not be transitive: the share of cyclic triples."),
    _Plot("seconds", "iterations_frame", "Seconds", "Wall-clock time of sorting and training."),
)  # fmt: skip
_LABELLING_PLOTS = (
    _Plot("measures", "iterations_frame", "Pairs in the right order",
          "Expected of all pairs, and of the hold-out questions, by the number of judgements."),
    _Plot("seconds", "iterations_frame", "Seconds", "Wall-clock time of a fit."),
)  # fmt: skip


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
    # The facts `tuning` and `from`, on the origin of settings and weights, are no settings.
    settings = {name: run.config[name] for name in run.config if name not in ("tuning", "from")}
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
    if sources is None:
        sources = Sources()
    iterations = run.iterations_frame()
    pairs = run.pairs_frame()
    is_labelling = quality_of(run.config) == LABELLING
    measures = measure_names(iterations)
    if is_labelling:  # a labelling has neither conventions nor documents
        conventions = []
        pictures, notes = _draw_plots(run, pairs, _LABELLING_PLOTS)
    else:
        recorded_conventions = str(iterations.attrs.get("conventions") or "not recorded")
        conventions = conventions or [recorded_conventions]
        pictures, notes_on_plots = _draw_plots(run, pairs, PLOTS)
        notes = [*sources.notes, *notes_on_plots]
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


def _draw_plots(
    run: Run, pairs: pd.DataFrame, page_plots: Sequence[_Plot]
) -> tuple[list[dict[str, str]], list[str]]:
    """Draw the plots for which the run has data.

    Returns:
        The pictures; and a line for each plot for which the run has no data.
    """
    pictures: list[dict[str, str]] = []
    notes: list[str] = []
    frames = {"pairs_frame": pairs}  # by method; a frame of several plots is read once
    for plot in page_plots:
        if plot.frame_method not in frames:
            frames[plot.frame_method] = getattr(run, plot.frame_method)()
        frame = frames[plot.frame_method]
        try:
            figure = getattr(plots, plot.function)(frame)
        except DataError as error:
            notes.append(f"{plot.title}: {error}")
        else:
            alt = f"{plot.title}. {_describe_plot(plot.function, frame)}"
            pictures.append(picture(plot.title, plot.caption, alt, figure))
    return pictures, notes


def _describe_plot(function: str, frame: pd.DataFrame) -> str:
    """Write the alternative text of a plot; the tables of the page have all the figures.

    Args:
        function: the name of the function in `store.plots.figures` that drew the plot.
        frame: the data of the plot.
    """
    if frame.empty:
        return ""
    kept = frame.attrs.get("kept")
    kept_clause = "" if kept is None else f"; iteration {kept} was kept"
    if function == "pair_growth":
        return _describe_pair_growth(frame)
    if function == "measures":
        return f"Lines over {len(frame)} iterations{kept_clause}."
    if function == "hard_queries":
        return _describe_hard_queries(frame)
    if function == "seconds":
        n_seconds = float(frame[["seconds_sort", "seconds_train"]].sum().sum())
        return f"Bars over {len(frame)} iterations, {n_seconds:.1f} seconds in all."
    if function == "cycles":
        share_of_cycles = frame.iloc[-1].to_dict()["share"]
        return f"Lines; {share_of_cycles:.2%} of the validation triples in the last iteration."
    form_of_plot = {"margins": "Histograms, an iteration each", "mistakes_by_rank": "Heat map"}
    return f"{form_of_plot[function]}, of validation pairs{kept_clause}."


def _describe_pair_growth(iterations: pd.DataFrame) -> str:
    """Write the alternative text of the plot of pairs kept."""
    rows = rows_of(iterations)
    first = rows[0]
    last = rows[-1]
    first_wrong = iteration_table.wrong_share(first, "train")
    last_wrong = iteration_table.wrong_share(last, "train")
    return (
        f"TP: {first['tp']} to {last['tp']} pairs. VP: {first['vp']} to {last['vp']} pairs. "
        f"Wrong of the training comparisons: {first_wrong} to {last_wrong}."
    )


def _describe_hard_queries(pairs: pd.DataFrame) -> str:
    """Write the alternative text of the plot of hard queries."""
    counted_pairs = after_the_first(pairs)
    times = counted_pairs.groupby(["split", "qid"], observed=True)["times"].sum().reset_index()
    worst = times.nlargest(1, "times").iloc[0].to_dict()
    return (
        f"Bars. The pairs of query {worst['qid']} were wrong {worst['times']} times "
        f"{counted_iterations(counted_pairs)}."
    )


def summary(run: Run, iterations: pd.DataFrame) -> list[tuple[str, str]]:
    """Summarise the run in facts for people, each a name and a value.

    Args:
        run: the run.
        iterations: frame of `Run.iterations_frame`; may have no rows.
    """
    rows = rows_of(iterations)
    quality = quality_of(run.config)
    started = run.created.strftime("%Y-%m-%d %H:%M UTC")
    facts = [("Run", run.id), ("Status", run.status_text), ("Started", started)]
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
    facts = _kept_facts(run.kept, (name, figure))
    origin = run.config.get("from")
    weights = "random weights" if origin is None else f"from {from_which(origin)}"
    before_training = f"{share(rows[0]['quality'])} ({weights})"
    return [*facts, ("Before training", before_training)]


def _kept_facts(model: Kept | None, best_iteration: tuple[str, str]) -> list[tuple[str, str]]:
    """Describe the kept model, and the best iteration if another ranker was kept.

    Args:
        model: the kept model; None if it is not recorded.
        best_iteration: the name and the value of the fact about the best iteration.

    Returns:
        The facts, each a name and a value.
    """
    if model is None:
        return [best_iteration]
    measure_name = f"{model['measure']} of the kept model"
    kept = ("Kept", kept_model(model))
    if model["kind"] == "sortnet":  # the kept model is the best iteration
        _, measure = best_iteration
        return [(measure_name, measure), kept]
    measure = f"{share(kept_figure(model))} on validation, {kept_name(model)}"
    return [(measure_name, measure), kept, best_iteration]


def status_line(run: Run, n_iterations: int) -> str | None:
    """Write a sentence on the status of an unfinished run; return None if the run is done."""
    status = run.status
    if status == "done":
        return None
    after = f"after {count(n_iterations, 'iteration')}"
    if status == "running":
        return f"The run was {run.status_text} when this was written, or was killed, {after}."
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
    status = with_phase(run.status, run.phase)
    raise SortNetError(f"run {run.id} ({status}) has no iteration yet; {step}")


def _settings(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the settings as names and values; the names of nested settings are joined by dots."""
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _settings(value, f"{prefix}{name}.")
        elif name == "tuning":
            yield f"{prefix}{name}", count(len(value), "trial")
        else:
            yield f"{prefix}{name}", "not set" if value is None else str(value)
