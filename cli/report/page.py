"""A run as one self-contained HTML page: plots, tables and text."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, NamedTuple

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from cli.inputs.opened_store import again, is_before_the_end_of_training
from cli.printing import iterations
from cli.printing.iterations import LABELLING, quality_of, share, with_phase
from cli.printing.kept_models import Kept, kept_figure, kept_model, kept_name
from cli.printing.origins import from_which
from cli.report.hardest import hardest, recurring
from cli.report.sources import Sources
from cli.report.svg import picture
from sortnet.errors import DataError, SortNetError
from sortnet.messages import count
from store import Run
from store.frames import after_the_first, counted_iterations, measure_names
from store.plots import figures as plots


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
    return rendered(
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
            (iterations.cells(row, names, "{:,}"), row["iteration"] == frame.attrs.get("kept"))
            for row in iterations.rows_of(frame)
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


def rendered(template: str, *, script: str | None = None, **values: Any) -> str:
    """A page of a template, with its style inside and the time it was written.

    Its Content-Security-Policy allows only that style, images inside, and the script of that file
    if one is named.
    """
    style = _part("report.css")
    code = None if script is None else _part(script)
    policy = f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; "
    if code is not None:
        policy += f"script-src '{_hash(code)}'; "
    policy += "base-uri 'none'; form-action 'none'"
    page = Environment(
        loader=PackageLoader("cli.report"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    ).get_template(template)  # fmt: skip
    written = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return page.render(style=style, script=code, policy=policy, written=written, **values)


def _part(name: str) -> str:
    """The text of a file beside the templates."""
    return (files("cli.report") / "templates" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Name of a style or a script inside the page, as a policy has it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _digest(facts: Mapping[str, Any]) -> str:
    return Markup("<code>{}</code>").format(facts.get("fingerprint") or "not recorded")


def _labelling_lines(frame: pd.DataFrame) -> list[str]:
    rows = iterations.rows_of(frame)
    return iterations.header(LABELLING) + [iterations.line(row, LABELLING) for row in rows]


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
        rows = iterations.rows_of(frame)
        wrong = [iterations.wrong_share(rows[k], "train") for k in (0, -1)]
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
    rows = iterations.rows_of(frame)
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
        tp, vp = (iterations.total(rows[-1][name], number="{:,}") for name in ("tp", "vp"))
        facts.append(("Pairs kept", f"{tp} training, {vp} validation"))
        seconds = sum(map(iterations.seconds, rows))
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
