"""Make the report of a run: what was learned from what, how good it is, and where it is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sortnet.core import Progress, Queries
from sortnet.errors import SortNetError
from sortnet.explanation.dependence import Dependence
from sortnet.files import rows_of
from sortnet.messages import count
from sortnet.tables.values import date_text
from store import Collection, Run
from store.frames import after_the_first, counted_iterations, measure_names
from store.plots.figures import PARTS, SMALL, bars, curves, hardest_queries, label_dates, learning
from store.report.conventions import convention_notes, conventions_of, metrics_of
from store.report.html_page import (
    Block,
    PageFile,
    Picture,
    Section,
    Table,
    picture,
    refuse_page_file,
    render_page,
    write_page,
)
from store.report.iteration_table import LABELLING, header, line, quality_of
from store.report.model_findings import Findings, find_out, settings_of
from store.report.models_of_run import from_which, kept_model
from store.report.sources import Sources, find_sources
from store.runs.remembered_data import find_data
from store.runs.unfinished import again, is_before_the_end_of_training
from store.service.judged_queries import PREFIX

N_COLUMNS = 10  # columns whose importance is shown
N_RECURRING = 8  # pairs that keep coming back, at most
_MOST_GRADES = 8  # with more grades only the lowest and the highest are shown
_LEAST_DROP = 0.00005  # a smaller drop of a measure has four zeros
_UNKNOWN = "-"
_MODEL = "this model"
_PAIR_HEADS = ("belongs first", "stands behind")


def write_run_page(
    run: Run,
    file: PageFile,
    *,
    model: str | None = None,
    data: Sequence[str] = (),
    top: int = 5,
    progress: Progress = lambda text: None,
) -> str:
    """Write the page of a run, which needs no network, to a file in one step.

    Args:
        run: the run, with one iteration or more.
        file: a path, replaced if it exists, or an open text file.
        model: the folder of the run's model, if the folder was moved.
        data: the files of the run's training or validation queries, if the files were moved.
        top: the number of hardest queries.
        progress: gets the name of each step.

    Returns:
        A line about the model or the data if they were not found; an empty text if they were.

    Raises:
        SortNetError: if the run has no iteration, `model` or `data` is not the run's, or the file
            cannot be written.

    Cost: reading the run's pairs and data, some seconds to find out about the model, and about two
    seconds to draw.
    """
    refuse_without_iterations(run)
    paths = [find_data(facts) for facts in run.data.values() if "path" in facts]
    refuse_page_file(file, *paths)
    sources = find_sources(run, model, data, progress=progress)
    findings = find_out(sources, _MODEL, progress)
    progress("drawing")
    write_page(file, render(run, sources, findings, top=top))
    return sources.missing


def render(
    run: Run, sources: Sources | None = None, findings: Findings | None = None, *, top: int = 5
) -> str:
    """Render the page of a run as HTML.

    Args:
        run: the run.
        sources: the model and the data, where documents are looked up. If None, both are missing.
        findings: what was found out about the model. If None, nothing.
        top: the number of hardest queries.

    Raises:
        StoreError: on database errors.

    Cost: about two seconds to draw, and reading the run's pairs.
    """
    sources = Sources() if sources is None else sources
    findings = Findings({}) if findings is None else findings
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


def labelled_collection(run: Run) -> Collection | None:
    """Return the collection whose labelling a run records; None if the run is a training."""
    if quality_of(run.config) != LABELLING:
        return None
    return Collection(run.database, run.config["collection"])


def refuse_without_iterations(run: Run) -> None:
    """Raise SortNetError if a run has no iterations; the message has the next step."""
    if len(run.iterations_frame()):
        return
    if run.status == "running":
        step = f"follow it: sortnet show {run.id} --follow"
    else:
        step = f"resume it: {again(run) or run.command}"
    raise SortNetError(f"run {run.id} ({run.status}) has no iteration yet; {step}")


def _data_name(run: Run) -> str:
    """Name the data of a run: its collection, its only file, or the folder of its files."""
    paths = [str(facts["path"]) for facts in run.data.values() if "path" in facts]
    if not paths:
        return f"Run {run.id}"
    if paths[0].startswith(PREFIX):
        return paths[0].removeprefix(PREFIX).partition("#")[0]
    path = Path(find_data(run.data["train"])).absolute()
    if len(set(paths)) == 1:
        return path.name
    return "/".join(path.parent.parts[-2:])


def _status_line(run: Run, n_iterations: int) -> str:
    """Write a sentence on the status of an unfinished run; it is empty if the run is done."""
    status = run.status
    if status == "done":
        return ""
    command = again(run)
    to_resume = f" To resume: {command}" if command else ""
    after = f"after {count(n_iterations, 'iteration')}"
    if status == "running":
        text = f"The run was {run.status} when this was written, {after}."
        return text + to_resume
    ended = "failed" if status == "failed" else f"was {status}"
    clause = ", before its learning rate came down" if is_before_the_end_of_training(run) else ""
    return f"The run is unfinished: it {ended} {after}{clause}.{to_resume}"


def _what_was_learned(run: Run, sources: Sources) -> list[Block]:
    """Describe the data and the kept model."""
    part_rows = [
        _part_row(run, part, sources) for part in PARTS if part in {*run.data, *sources.data}
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


def _part_row(run: Run, part: str, sources: Sources) -> list[str]:
    """Make the cells about a part of the data."""
    facts = run.data.get(part, {})
    queries = sources.data.get(part)
    if queries is None:
        sizes = [facts.get(name) for name in ("n_queries", "n_docs", "n_features")]
        cells = [_UNKNOWN if size is None else f"{size:,}" for size in sizes]
        return [PARTS[part], *cells, "not read", _short_path(facts.get("path", _UNKNOWN))]
    cells = [f"{size:,}" for size in (len(queries), queries.n_docs, queries.n_features)]
    return [PARTS[part], *cells, _grades(queries), _short_path(facts.get("path", queries.source))]


def _short_path(path: object) -> str:
    """Name a file with its folder; the whole path is among the settings."""
    return "/".join(Path(str(path)).parts[-2:])


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
    before = "started from" if run.config.get("from") else "before training"
    model_of_iteration = {0: before, iterations.attrs.get("kept"): _MODEL}
    recorded = {
        ("vali", model_of_iteration[row["iteration"]]): {
            name: row.get(f"vali_{name}") for name in names
        }
        for row in rows_of(iterations)
        if row["iteration"] in model_of_iteration
    }
    measures = recorded | dict(findings.measures)
    rows = [
        [PARTS[part], model, *(_share(values.get(name)) for name in names)]
        for (part, model), values in measures.items()
    ]
    caption = "Higher is better. The model was chosen by the validation part; "
    if ("test", _MODEL) in measures:
        caption += "the test part shows what to expect of new data."
    else:
        caption += "sortnet evaluate measures it on new data."
    table = Table(caption, ["part", "model", *names], rows, text=(0, 1))
    return [("table", table), *(("text", note) for note in findings.notes)]


def _share(value: float | None) -> str:
    """Write a measure with four decimals, or a dash if it is unknown."""
    return _UNKNOWN if value is None or np.isnan(value) else f"{value:.4f}"


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
    rows = [
        [query["qid"], f"{query['pairs']:,}", f"{query['times']:,}",
         *_pair_cells(worst_pairs[query["qid"]], sources)]
        for query in rows_of(hardest_queries(of_part).head(top))
    ]  # fmt: skip
    part = PARTS[str(of_part["split"].iloc[0])]
    caption = (
        f"The hardest {part} queries {counted_iterations(counted)}: pairs that were wrong, how "
        "many times, and the pair that was wrong most often."
    )
    return Table(caption, ["query", "wrong pairs", "times", *_PAIR_HEADS], rows, text=(0, 3, 4))


def _pair_cells(pair: dict[str, Any], sources: Sources) -> list[str]:
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
    fingerprints = [
        [PARTS[part], facts.get("path"), facts.get("fingerprint") or "not recorded"]
        for part, facts in run.data.items()
    ]
    quality = quality_of(run.config)
    table_lines = [*header(quality), *(line(row, quality) for row in rows_of(iterations))]
    lines = [
        "A pair is two rows of one query, of which one belongs first; it is wrong if the sort "
        "compared the two and the model put the other first.",
        "Iteration 0 sorts with random weights. The best iteration on validation, the last one "
        "marked with a star, is kept, unless another ranker was better.",
        *_conventions(run, iterations, sources),
    ]
    return [
        ("code", run.command),
        ("lines", lines),
        ("listing", "\n".join(table_lines)),
        ("table", Table("Data; the fingerprint is the SHA-256 of the file.",
                        ["part", "file", "fingerprint"], fingerprints, text=range(3))),
        ("table", Table(f"Settings; the seed is {run.seed}.", ["setting", "value"],
                        [*_flat(run.config)], text=range(2))),
        ("table", Table("Versions.", ["what", "version"], [*map(list, run.versions.items())],
                        text=range(2))),
    ]  # fmt: skip


def _conventions(run: Run, iterations: pd.DataFrame, sources: Sources) -> list[str]:
    """Describe the conventions of the measures, or return them as the run recorded them."""
    if not sources.data:
        return [str(iterations.attrs.get("conventions") or "Conventions were not recorded.")]
    config = settings_of(run.config)
    conventions = {
        PARTS[part]: conventions_of(queries, metrics_of(config), config.empty)
        for part, queries in sources.data.items()
    }
    return convention_notes(conventions)


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[list[str]]:
    """Yield names and values of the settings that are set; names of nested settings have dots."""
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif value is not None:
            yield [f"{prefix}{name}", str(value)]
