"""A run as one self-contained HTML page: plots, tables and text."""

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
    draw: str  # the function of store.plots
    frame: str  # the method of Run that makes its frame
    title: str
    about: str


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
_LABELLING = (
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
        run: the run; it has an iteration.
        file: a path, replaced if it exists, or an open text file.
        model: folder of the run's model, if it was moved.
        data: files of the run's training or validation queries, if they were moved.
        top: number of hardest queries per part.
        cache: folder of parsed data; None: none.
        progress: gets the name of each step.

    Returns a line for each part of the page that is missing, as the model or data were not found.

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
    """The conventions of the run's measures on each part whose data were found."""
    if not sources.data:  # nor need the run have settings of a training
        return []
    settings = {name: run.config[name] for name in run.config if name not in ("tuning", "from")}
    config = Config.from_json(settings)
    return [
        f"{PARTS[split]}: {line}"
        for split, queries in sources.data.items()
        for line in conventions_of(queries, metrics_of(config), config.empty)
    ]


def render(
    run: Run,
    sources: Sources | None = None,
    conventions: Sequence[str] = (),
    *,
    top: int = 3,
) -> str:
    """The page of a run.

    Args:
        run: the run.
        sources: where to look up documents; its notes are shown. None: nowhere.
        conventions: of the measures; default: those of the run's settings.
        top: number of hardest queries per part.

    Raises:
        StoreError: on database errors.

    Cost: about 3 seconds to draw the plots, and reading the run's pairs.
    """
    sources = sources or Sources()
    frame, pairs = run.iterations_frame(), run.pairs_frame()
    labelling = quality_of(run.config) == LABELLING
    names = measure_names(frame)
    recorded = str(frame.attrs.get("conventions") or "not recorded")
    pictures, missing = _pictures(run, pairs, _LABELLING if labelling else PLOTS)
    counted = _counted(pairs)
    data = [
        [part, *map(facts.get, ("path", "n_queries", "n_docs", "n_features")), _digest(facts)]
        for part, facts in run.data.items()
    ]
    return render_template(
        "report.html",
        title=f"SortNet run {run.id}",
        run=run,
        data=data,
        summary=summary(run, frame),
        status_line=status_line(run, len(frame)),
        conventions=[] if labelling else conventions or [recorded],
        labelling="\n".join(_labelling_lines(frame)) if labelling else None,
        measures=names,
        iterations=[
            (iteration_table.cells(row, names, "{:,}"), row["iteration"] == frame.attrs.get("kept"))
            for row in rows_of(frame)
        ],
        pictures=pictures,
        notes=[*([] if labelling else sources.notes), *missing],
        recurring=recurring(counted, sources),
        hard=hardest(counted, sources, top=top),
        hard_in=counted_iterations(counted),
        settings=list(_settings(run.config)),
        again=again(run),
    )


def _counted(pairs: pd.DataFrame) -> pd.DataFrame:
    """The pairs that were wrong after iteration 0; no rows for a run of an older version."""
    try:
        return after_the_first(pairs)
    except DataError:  # the picture of hard queries says why
        return after_the_first(pairs.head(0))


def _digest(facts: Mapping[str, Any]) -> str:
    return Markup("<code>{}</code>").format(facts.get("fingerprint") or "not recorded")


def _labelling_lines(frame: pd.DataFrame) -> list[str]:
    rows = rows_of(frame)
    return iteration_table.header(LABELLING) + [
        iteration_table.line(row, LABELLING) for row in rows
    ]


def _pictures(
    run: Run, pairs: pd.DataFrame, of: Sequence[_Plot]
) -> tuple[list[dict[str, str]], list[str]]:
    """All plots for which the run has data, and a line for each of the others."""
    made, missing = [], []
    frames = {"pairs_frame": pairs}
    for plot in of:
        if plot.frame not in frames:
            frames[plot.frame] = getattr(run, plot.frame)()
        frame = frames[plot.frame]
        try:
            figure = getattr(plots, plot.draw)(frame)
            alt = f"{plot.title}. {_in_words(plot.draw, frame)}"
            made.append(picture(plot.title, plot.about, alt, figure))
        except DataError as error:
            missing.append(f"{plot.title}: {error}")
    return made, missing


def _in_words(name: str, frame: pd.DataFrame) -> str:
    """The text alternative of a plot; the tables have all the figures."""
    if frame.empty:
        return ""
    first, last = (frame.iloc[k].to_dict() for k in (0, -1))
    kept = frame.attrs.get("kept")
    if name == "pair_growth":
        rows = rows_of(frame)
        wrong = [iteration_table.wrong_share(rows[k], "train") for k in (0, -1)]
        return (
            f"TP: {first['tp']} to {last['tp']} pairs. VP: {first['vp']} to {last['vp']} pairs. "
            f"Wrong of the training comparisons: {wrong[0]} to {wrong[1]}."
        )
    if name == "measures":
        chosen = "" if kept is None else f"; iteration {kept} was kept"
        return f"Lines over {len(frame)} iterations{chosen}."
    if name == "hard_queries":
        counted = after_the_first(frame)
        times = counted.groupby(["split", "qid"], observed=True)["times"].sum().reset_index()
        worst = times.nlargest(1, "times").iloc[0].to_dict()
        iterations_counted = counted_iterations(counted)
        return (
            f"Bars. The pairs of query {worst['qid']} were wrong {worst['times']} times "
            f"{iterations_counted}."
        )
    if name == "seconds":
        total = float(frame[["seconds_sort", "seconds_train"]].sum().sum())
        return f"Bars over {len(frame)} iterations, {total:.1f} seconds in all."
    if name == "cycles":
        return f"Lines; {last['share']:.2%} of the validation triples in the last iteration."
    kinds = {"margins": "Histograms, an iteration each", "mistakes_by_rank": "Heat map"}
    chosen = "" if kept is None else f"; iteration {kept} was kept"
    return f"{kinds[name]}, of validation pairs{chosen}."


def summary(run: Run, frame: pd.DataFrame) -> list[tuple[str, str]]:
    """The summary of the run as names and values."""
    rows = rows_of(frame)
    quality = quality_of(run.config)
    facts = [("Run", run.id), ("Status", run.status_text)]
    facts.append(("Started", run.created.strftime("%Y-%m-%d %H:%M UTC")))
    best = [row for row in rows if row["best"]]
    if best:
        first, kept = rows[0], best[-1]
        said = f"{share(kept['quality'])} on validation, iteration {kept['iteration']}"
        facts += _kept_facts(run.kept, f"{quality} of the best iteration", said)
        origin = run.config.get("from")
        weights = "random weights" if origin is None else f"from {from_which(origin)}"
        facts.append(("Before training", f"{share(first['quality'])} ({weights})"))
    labelling = quality == LABELLING
    last = rows[-1]["iteration"] if rows else None
    numbers = str(len(rows)) if labelling or last is None else f"0 to {last}"
    facts.append(("Iterations", numbers))
    if rows and labelling:
        facts.append(("Judgements", str(rows[-1]["iteration"])))
    elif rows:
        tp, vp = (iteration_table.total(rows[-1][name], number="{:,}") for name in ("tp", "vp"))
        facts.append(("Pairs kept", f"{tp} training, {vp} validation"))
        seconds = sum(map(iteration_table.seconds, rows))
        facts.append(("Time", f"{seconds:,.1f} seconds of sorting and training"))
    return facts


def _kept_facts(model: Kept | None, name: str, best: str) -> list[tuple[str, str]]:
    """Facts of the kept model, and of the best iteration if another ranker was kept."""
    if model is None:
        return [(name, best)]
    of_the_kept = f"{model['measure']} of the kept model"
    if model["kind"] == "sortnet":
        return [(of_the_kept, best), ("Kept", kept_model(model))]
    figure = f"{share(kept_figure(model))} on validation, {kept_name(model)}"
    return [(of_the_kept, figure), ("Kept", kept_model(model)), (name, best)]


def status_line(run: Run, n: int) -> str | None:
    """The status line of an unfinished run; None if it is done."""
    status = run.status
    after = f"after {count(n, 'iteration')}"
    if status == "running":
        where = run.status_text.removeprefix("running")
        return f"The run was running{where} when this was written, or was killed, {after}."
    if status == "done":
        return None
    how = "failed" if status == "failed" else f"was {status}"
    rate = ", before its learning rate came down" if is_before_the_end_of_training(run) else ""
    return f"The run is unfinished: it {how} {after}{rate}."


def refuse_without_iterations(run: Run) -> None:
    """Reject a run without iterations, with the next step."""
    if len(run.iterations_frame()):
        return
    if run.status == "running":
        step = f"follow it: sortnet show {run.id} --follow"
    else:
        step = f"resume it: {again(run) or run.command}"
    status = with_phase(run.status, run.phase)
    raise SortNetError(f"run {run.id} ({status}) has no iteration yet; {step}")


def _settings(values: Mapping[str, Any], under: str = "") -> Iterator[tuple[str, str]]:
    """The settings as names and values; nested names are joined by a dot."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _settings(value, f"{under}{name}.")
        elif name == "tuning":
            yield f"{under}{name}", count(len(value), "trial")
        else:
            yield f"{under}{name}", "not set" if value is None else str(value)
