"""Make the report of a run: its data, its model, how good the model is, and its wrong pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from sortnet.config import Config
from sortnet.core import Progress, Queries
from sortnet.errors import SortNetError
from sortnet.explanation.columns import Dependence
from sortnet.files import Record, rows_of
from sortnet.messages import count
from sortnet.tables.values import date_text
from store import Run
from store.frames import after_the_first, measure_names
from store.plots.figures import PARTS, SMALL, bars, curves, label_dates, learning
from store.report.columns import cell
from store.report.html_page import (
    Block,
    Picture,
    Section,
    Table,
    picture,
    render_page,
)
from store.report.model_findings import Findings, find_out
from store.report.run_texts import (
    conventions_of,
    from_which,
    iteration_header,
    iteration_line,
    kept_model,
    metrics_of,
    quality_of,
)
from store.report.sources import Sources, find_sources
from store.runs.resuming import again, find_data
from store.service.judged_queries import Source

N_COLUMNS = 10  # columns whose importance is shown
N_RECURRING = 8  # pairs that keep coming back, at most
_MOST_GRADES = 8  # with more grades only the lowest and the highest are shown
_LEAST_DROP = 0.00005  # a smaller drop of a measure has four zeros
_UNKNOWN = "-"
_MODEL = "this model"
_PAIR_HEADS = ("belongs first", "stands behind")


def page_of(
    run: Run,
    *,
    model: str | None,
    data: Sequence[str],
    top: int,
    progress: Progress,
) -> tuple[str, str]:
    """Render the page of a run, and a line about what was not found; it is empty if all was found.

    For the arguments see `store.report.subject_page.write_report`.

    Raises:
        SortNetError: if the run has no iteration, or `model` or `data` is not the run's.

    Cost: reading the run's pairs and data, some seconds to find out about the model, and about two
    seconds to draw.
    """
    if not len(run.iterations_frame()):
        if run.status == "running":
            step = f"follow it: sortnet show {run.id} --follow"
        else:
            step = f"resume it: {again(run) or run.command}"
        raise SortNetError(f"run {run.id} ({run.status}) has no iteration yet; {step}")
    sources = find_sources(run, model, data, progress=progress)
    findings = find_out(sources, _MODEL, progress)
    progress("drawing")
    return render(run, sources, findings, top=top), sources.missing


def render(run: Run, sources: Sources, findings: Findings, *, top: int = 5) -> str:
    """Render the page of a run as HTML.

    Args:
        run: the run.
        sources: the model and the data, where documents are looked up.
        findings: what was found out about the model.
        top: the number of hardest queries.

    Raises:
        StoreError: on database errors.

    Cost: about two seconds to draw, and reading the run's pairs.
    """
    with run.database.one_state():  # the run may be training
        iterations = run.iterations_frame()
        pairs = run.pairs_frame()
        status = _status_line(run, len(iterations))
        sections = [
            Section("The data", _what_was_learned(run, sources)),
            Section("How good it is", _how_good(run, iterations, findings)),
            Section("What decides", _what_decides(findings)),
            Section("How it learned", [("pictures", _pictures_of_learning(iterations))]),
            Section("Where it is still wrong", _where_wrong(pairs, sources, top)),
            Section("Settings, conventions and versions", _settings(run, iterations, sources),
                    is_folded=True),
        ]  # fmt: skip
    started = run.created.strftime("%Y-%m-%d %H:%M UTC")
    subtitle = f"SortNet run {run.id}, started {started}."
    return render_page(
        f"A ranking learned from {_data_name(run)}", sections, about=subtitle, alert=status
    )


def _data_name(run: Run) -> str:
    """Name the data of a run: its collection, its only file, or the folder of its files."""
    paths = {str(facts["path"]) for facts in run.data.values() if "path" in facts}
    if not paths:
        return f"Run {run.id}"
    source = Source.parse(str(run.data["train"]["path"]))
    if source is not None:
        return source.name
    path = Path(find_data(run.data["train"])).absolute()
    return path.name if len(paths) == 1 else "/".join(path.parent.parts[-2:])


def _status_line(run: Run, n_iterations: int) -> str:
    """Write a sentence on the status of an unfinished run; it is empty if the run is done."""
    status = run.status
    if status == "done":
        return ""
    text = f"The run is unfinished: {status} after {count(n_iterations, 'iteration')}."
    command = again(run)
    return f"{text} To resume: {command}" if command else text


def _what_was_learned(run: Run, sources: Sources) -> list[Block]:
    """Describe the data and the kept model."""
    part_rows = [
        _part_row(part, run.data.get(part), sources.data.get(part))
        for part in PARTS
        if part in {*run.data, *sources.data}
    ]
    is_judged = any(queries.judged is not None for queries in sources.data.values())
    labels = "judgements" if is_judged else "grades"
    heads = ["part", "queries", "rows", "features", labels, "file"]
    blocks: list[Block] = [("table", Table("What was read.", heads, part_rows, text=(0, 4, 5)))]
    if sources.missing:
        blocks.append(("text", sources.missing))
    origin = run.config.get("from")
    if origin is not None:
        blocks.append(("text", f"The training continued from {from_which(origin)}."))
    if run.kept is not None:
        blocks.append(("text", f"Kept is {kept_model(run.kept)}."))
    return blocks


def _part_row(part: str, facts: Record | None, queries: Queries | None) -> list[str]:
    """Make the cells about a part of the data.

    Args:
        part: the name of the part.
        facts: the recorded facts. If None, the part is a file beside the training file.
        queries: the queries, if they were found.
    """
    labels = "not read"
    if queries is not None:
        labels = _grades(queries)
        facts = facts or {
            "n_queries": len(queries),
            "n_docs": queries.n_docs,
            "n_features": queries.n_features,
            "path": queries.source,
        }
    sizes = [(facts or {}).get(name) for name in ("n_queries", "n_docs", "n_features")]
    cells = [_UNKNOWN if size is None else f"{size:,}" for size in sizes]
    # A file is named with its folder; the whole path is among the settings.
    path = Path(str((facts or {}).get("path", _UNKNOWN)))
    return [PARTS[part], *cells, labels, "/".join(path.parts[-2:])]


def _grades(queries: Queries) -> str:
    """Describe the grades of queries by the number of rows of each, or the judged pairs."""
    if queries.judged is not None:
        return f"{count(len(queries.judged), 'judged pair')}"
    grades, counts = np.unique(queries.grades, return_counts=True)
    if len(grades) > _MOST_GRADES:
        return f"{grades[0]} to {grades[-1]}"
    return ", ".join(f"{n:,} × {grade}" for grade, n in zip(grades, counts, strict=True))


def _how_good(run: Run, iterations: pd.DataFrame, findings: Findings) -> list[Block]:
    """Make the table of measures: this model before and after training, and LightGBM."""
    names = measure_names(iterations)
    if not names:
        return []
    measures = dict[tuple[str, str], Mapping[str, float | None]]()
    for row in rows_of(iterations):
        values = {name: row.get(f"vali_{name}") for name in names}
        if row["iteration"] == 0:
            measures["vali", "started from" if run.config.get("from") else "before training"] = (
                values
            )
        if row["iteration"] == iterations.attrs.get("kept"):
            measures["vali", _MODEL] = values
    measures.update(findings.measures)
    rows = [
        [PARTS[part], model, *(cell("figure", values.get(name)) for name in names)]
        for (part, model), values in measures.items()
    ]
    advice = "sortnet evaluate measures it on new data."
    if ("test", _MODEL) in measures:
        advice = "the test part shows what to expect of new data."
    caption = f"Higher is better. The model was chosen by the validation part; {advice}"
    table = Table(caption, ["part", "model", *names], rows, text=(0, 1))
    return [("table", table), *(("text", note) for note in findings.notes)]


def _what_decides(findings: Findings) -> list[Block]:
    """Draw the importance of the columns, and curves of the most important columns."""
    importance = findings.importance
    if importance is None:
        return []
    all_parts = {part for column in importance.columns for part in column.parts}
    largest = [k for k in importance.largest() if importance.columns[k] not in all_parts]
    decisive = [k for k in largest if importance.mean[k] >= _LEAST_DROP][:N_COLUMNS]
    if not decisive:
        return [("text", "No column decides: shuffling any of them changes nothing.")]
    names = [_column_name(importance.columns[k].name) for k in decisive]
    drops = [f"{drop:.4f}" for drop in importance.mean[decisive]]
    measure = importance.metric.name
    figure = bars(
        names, importance.mean[decisive].tolist(), drops,
        errors=importance.std[decisive].tolist(), title="What the ranking needs",
        xlabel=f"drop of {measure} if shuffled",
    )  # fmt: skip
    columns = ", ".join(f"{name} {drop}" for name, drop in zip(names, drops, strict=True))
    pictures = [picture(figure, f"Drop of {measure} if a column is shuffled: {columns}.")]
    pictures += _dependence_pictures(findings.dependences)
    n_columns_left = len(largest) - len(decisive)
    clause = f"; columns that decide less: {n_columns_left}" if n_columns_left else ""
    text = (
        f"Measured on {findings.sampled}{clause}. The curves show how much of its query a row is "
        "ranked above if the column had another value and all else stayed as it is."
    )
    return [("text", text), ("pictures", pictures)]


def _column_name(name: str) -> str:
    """Name a column; a column without a name has a number."""
    return f"feature {name}" if name.isdecimal() else name


def _dependence_pictures(dependences: Sequence[Dependence]) -> Iterator[Picture]:
    """Draw where a row is ranked by the value of each column, all on the same scale."""
    for dependence in dependences:
        name = _column_name(dependence.column.name)
        frame = pd.DataFrame({"value": dependence.values, "ranked above": dependence.above})
        figure = curves(frame, "value", "ranked above", percent=True, title=name, size=SMALL)
        all_shares = np.concatenate([curve.above for curve in dependences])
        limits = (all_shares.min() - 0.02, all_shares.max() + 0.02)
        figure.axes[0].set(xlabel="", ylim=limits)
        first, last = dependence.values[0], dependence.values[-1]
        if dependence.column.is_date:
            label_dates(figure.axes[0])
            first, last = date_text(round(float(first))), date_text(round(float(last)))
        shares = f"{dependence.above[0]:.0%} at {first}, {dependence.above[-1]:.0%} at {last}"
        alt = f"Share of its query that a row is ranked above, by {name}: {shares}."
        yield picture(figure, alt)


def _pictures_of_learning(iterations: pd.DataFrame) -> list[Picture]:
    """Draw pairs kept, wrong comparisons and RankQuality by iteration."""
    captions = {
        "Pairs kept": "A good run finds ever fewer new pairs.",
        "Comparisons that were wrong": "Of the comparisons of each sort; they become fewer.",
    }
    n_iterations = count(len(iterations), "iteration")
    return [
        picture(
            figure,
            f"{title}: lines over {n_iterations}.",
            captions.get(title, "RankQuality, by which the iteration was chosen."),
        )
        for title, figure in learning(iterations).items()
    ]


def _where_wrong(pairs: pd.DataFrame, sources: Sources, top: int) -> list[Block]:
    """Make tables of the hardest queries and of the pairs that keep coming back."""
    counted = after_the_first(pairs)
    if counted.empty:
        return [("text", "No pair was wrong after iteration 0, which sorts at random.")]
    blocks: list[Block] = [("table", _hardest_table(counted, sources, top))] if top else []
    n_counted = counted.attrs["counted"]
    if n_counted > 1 and top:
        rows = [
            [pair["qid"], PARTS[pair["split"]], *_pair_cells(pair, sources),
             f"{pair['times']} of {n_counted}"]
            for pair in rows_of(counted.nlargest(N_RECURRING, "times"))
        ]  # fmt: skip
        caption = (
            "Pairs that keep coming back, however often they are learned: hard to tell apart, or "
            "labelled wrongly."
        )
        heads = ["query", "part", *_PAIR_HEADS, "iterations wrong"]
        blocks.append(("table", Table(caption, heads, rows, text=range(4))))
    if any(sources.data.get(split) is None for split in counted["split"].unique()):
        blocks.append(("text", "Rows are named by their place in the query's data, from 0."))
    return blocks


def _hardest_table(counted: pd.DataFrame, sources: Sources, top: int) -> Table:
    """Make the table of the hardest validation queries, or training queries if it has none.

    Validation queries were not learned, so their mistakes are like those on new data.
    """
    of_vali = counted[counted["split"] == "vali"]
    of_part = of_vali if len(of_vali) else counted
    most_often_first = of_part.sort_values("times", ascending=False, kind="stable")
    worst_pairs = {pair["qid"]: pair for pair in rows_of(most_often_first.drop_duplicates("qid"))}
    times_of_query = of_part.groupby("qid", observed=True)["times"].agg(["size", "sum"])
    hardest = times_of_query.sort_values("sum", ascending=False, kind="stable").head(top)
    rows = [
        [qid, f"{n_pairs:,}", f"{times:,}", *_pair_cells(worst_pairs[qid], sources)]
        for qid, n_pairs, times in hardest.itertuples()
    ]
    part = PARTS[str(of_part["split"].iloc[0])]
    caption = (
        f"The hardest {part} queries, by the mistakes after iteration 0, which sorts at random: "
        "pairs that were wrong, how many times, and the pair that was wrong most often."
    )
    return Table(caption, ["query", "wrong pairs", "times", *_PAIR_HEADS], rows, text=(0, 3, 4))


def _pair_cells(pair: Record, sources: Sources) -> list[str]:
    """Name the two documents of a wrong pair: by id and grade, else by row or by place."""
    queries = sources.data.get(pair["split"])
    cells = []
    for side in ("winner", "loser"):
        if queries is None:
            cells.append(f"place {pair[f'{side}_place']}")
            continue
        document = pair[side]
        docid = "" if queries.docids is None else str(queries.docids[document])
        name = sources.name_of(docid) or f"row {queries.rows[document]}"
        grade = "" if queries.judged is not None else f" (grade {queries.grades[document]})"
        cells.append(f"{name}{grade}")
    return cells


def _settings(run: Run, iterations: pd.DataFrame, sources: Sources) -> list[Block]:
    """List what it takes to do the run again: command, conventions, iterations and versions."""
    quality = quality_of(run.config)
    table_lines = [
        *iteration_header(quality),
        *(iteration_line(row, quality) for row in rows_of(iterations)),
    ]
    conventions = [str(iterations.attrs.get("conventions") or "Conventions were not recorded.")]
    if sources.data:
        # The recorded settings also name the model that the run began with.
        config = Config.from_json({name: run.config[name] for name in run.config if name != "from"})
        queries_of_part = {PARTS[part]: queries for part, queries in sources.data.items()}
        conventions = conventions_of(queries_of_part, metrics_of(config), config.empty)
    lines = [
        "A pair is two rows of one query, of which one belongs first; it is wrong if the sort "
        "compared the two and the model put the other first.",
        "Iteration 0 sorts with random weights. The best iteration on validation, the last one "
        "marked with a star, is kept, unless another ranker was better.",
        *conventions,
    ]
    data = {
        f"{PARTS[part]} data": {
            "file": facts.get("path"),
            "SHA-256": facts.get("fingerprint") or "not recorded",
        }
        for part, facts in run.data.items()
    }
    rows = [*_flat(data), *_flat(run.config), *_flat({"version of": dict(run.versions)})]
    table = Table(f"Data, settings and versions; the seed is {run.seed}.", ["what", "value"], rows,
                  text=range(2))  # fmt: skip
    return [
        ("code", run.command),
        ("lines", lines),
        ("listing", "\n".join(table_lines)),
        ("table", table),
    ]


def _flat(config: Record, prefix: str = "") -> Iterator[list[str]]:
    """Yield names and values of the settings that are set; names of nested settings have dots."""
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        elif value is not None:
            yield [f"{prefix}{name}", str(value)]
