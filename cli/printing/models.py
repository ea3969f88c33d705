"""Results about models: the model in a folder, its measures, what decides, and its rankings."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from cli.console import write_output
from cli.printing.results import Block, Facts, Result, Table, table_of, write_csv_file
from cli.printing.runs import scaling_in_words
from sortnet.errors import DataError
from sortnet.files import Record
from sortnet.messages import count, printable
from sortnet.tables.roles import columns_sentence
from sortnet.tables.rows import listed
from store.report.run_texts import conventions_of, from_which, kept_model
from store.service.named_model import load_model

if TYPE_CHECKING:
    from sortnet.core import I64, Progress, Queries
    from sortnet.explanation.attribution import ColumnValue, ComparedDocuments, RankedDocument
    from sortnet.explanation.columns import Column, Importance
    from store.service.named_model import DataFile

_MOST_PARTS = 5  # parts of a column, such as words, that the text shows
_MOST_NAMED = 3  # features that the answer names for and against a document
_RULES = ("gain", "relevant_from", "empty")  # settings that an evaluation may change
_LEAST_DROP = 0.00005  # a smaller drop is 0.0000 in the table


def model_result(folder: str, notes: Sequence[str] = ()) -> Result:
    """Make the result with the facts about the model in a folder; the next step evaluates it.

    The fact `feature_names` has the names in the data; None if the features have no names.

    Args:
        folder: the folder.
        notes: sentences that are printed on stderr.

    Raises:
        ModelError: if the folder has no model, or a damaged one.
    """
    from sortnet.rankers.load_ranker import load_ranker
    from sortnet.rankers.registry import name_of

    ranker = load_ranker(folder)
    names = ranker.feature_names
    config = ranker.config.to_json()
    info = dict(ranker.info)  # the facts that training has stored in the folder
    value = {
        "model": folder,
        "kind": name_of(ranker.config),
        "n_features": ranker.n_features,
        "feature_names": None if names is None else list(names),
        "config": config,
        "info": info,
    }
    readable_names = names if ranker.describer is None else ranker.describer.readable_names()
    features = str(ranker.n_features)
    if readable_names is not None:
        features += f": {listed(readable_names)}"
    text = {
        "model": f"{folder}, a ranker of kind {value['kind']}",
        "run": info.get("run", ""),
        "from": from_which(info["from"]) if info.get("from") else "",
        "features": features,
        "scaling": scaling_in_words(config),
    }
    if "kept" in info:
        text["kept"] = kept_model(info["kept"])
    elif "quality" in info:
        text["quality"] = f"{config['quality']} {float(info['quality']):.4f} on validation"
    next_command = shlex.join(["sortnet", "evaluate", folder, "TEST"])
    return Result("model", value, [Facts(text)], notes, next_command)


def evaluation_result(
    model: str,
    data: DataFile,
    measures: Sequence[str],
    *,
    rules: Record,
    threads: int | None,
    progress: Progress,
) -> Result:
    """Evaluate how well a model ranks labelled queries.

    The result has a row for each measure, the conventions, and the columns that count. The CSV file
    has the measures of each query; they are left blank for a query without a relevant document.

    Args:
        model: the folder of the model.
        data: the labelled queries.
        measures: the names of the measures. If empty, the measures `MEASURED`.
        rules: the settings `gain`, `relevant_from` and `empty` that replace the settings of the
            training.
        threads: the number of threads. If None, the number stays as it is.
        progress: gets the name of each step.

    Raises:
        SortNetError: if the model, the data or a measure cannot be used.
    """
    from sortnet.metrics import MEASURED, as_metrics, average, per_query

    ranker = load_model(model, progress, threads)
    config = ranker.config.changed(**rules)
    metrics = as_metrics(map(config.metric, measures or MEASURED))
    queries = data.read(ranker, progress, labelled=True)
    progress("ranking")
    ranked_grades: Any = queries.grades[ranker.order(queries)]
    by_query = {
        metric.name: per_query(metric, ranked_grades, queries.offsets) for metric in metrics
    }
    means = {
        name: average(values, config.empty, of=f"{queries.source}: {name}")
        for name, values in by_query.items()
    }
    notes = conventions_of({"": queries}, metrics, config.empty)
    if queries.roles is not None:
        notes.append(columns_sentence(queries.roles, queries.feature_names or ()))
    value = {
        "model": model,
        "data": queries.source,
        "n_queries": len(queries),
        "n_docs": queries.n_docs,
        "measures": means,
        **{name: getattr(config, name) for name in _RULES},
    }
    rows = [{"metric": name, "figure": mean} for name, mean in means.items()]
    csv = {"qid": queries.qids, "n_docs": queries.sizes, **by_query}
    return Result("evaluation", value, [table_of(rows, ["metric", "figure"])], notes, csv=csv)


def importance_result(
    model: str,
    data: DataFile,
    measure: str | None,
    *,
    repeats: int,
    seed: int,
    top: int,
    threads: int | None,
    progress: Progress,
) -> Result:
    """Shuffle each feature of labelled queries, and compute how much the measure drops.

    The result has a row and a bar for each feature that matters. JSON and CSV have all columns and
    their parts, such as words.

    Args:
        model: the folder of the model.
        data: the labelled queries.
        measure: the name of the measure. If None, the RankQuality of the training.
        repeats: the number of times that each feature is shuffled.
        seed: the seed of the shuffling.
        top: the number of columns that the text shows.
        threads: the number of threads. If None, the number stays as it is.
        progress: gets the name of each step.

    Raises:
        SortNetError: if the model, the data or the measure cannot be used.
    """
    from sortnet.explanation.columns import permutation_importance

    ranker = load_model(model, progress, threads)
    config = ranker.config
    metric = config.metric(measure) if measure else config.rank_quality
    queries = data.read(ranker, progress, labelled=True)
    importance = permutation_importance(
        ranker, queries, metric, repeats=repeats, seed=seed, progress=progress
    )
    rows = _importance_rows(importance)
    value = {
        "model": model,
        "data": queries.source,
        "metric": metric.name,
        "quality": importance.quality,
        "repeats": repeats,
        "seed": seed,
        "features": rows,
    }
    times = "once" if repeats == 1 else f"{repeats} times"
    table, notes = _table_of_importance(rows, top)
    notes.append(f"drop of {metric.name} where a feature is shuffled within its queries, {times}")
    notes += conventions_of({"": queries}, [metric], config.empty)
    text: list[Block] = [f"{metric.name} {importance.quality:.4f} on {queries.source}", *table]
    return Result("importance", value, text, notes, csv=rows)


def _importance_rows(importance: Importance) -> list[Record]:
    """Make a row for each column, the most important first, and below it a row for each part.

    A row has the name and the number of the first feature, and the mean and the standard deviation
    of the drop. For soft trees it also has the share of splits that use the feature. The row of a
    part, such as a word, names its column, `of`.
    """
    figures = {"mean": importance.mean, "std": importance.std}
    if importance.splits is not None:
        figures["splits"] = importance.splits
    row_of_column: dict[Column, Record] = {}  # the most important first
    for index in importance.largest():
        column = importance.columns[index]
        figures_of_column = {name: float(values[index]) for name, values in figures.items()}
        number = column.features[0] + 1
        row_of_column[column] = {"feature": column.name, "number": number, **figures_of_column}
    all_parts = {part for column in row_of_column for part in column.parts}
    rows = []
    for column, row in row_of_column.items():
        if column not in all_parts:
            rows.append(row)
            ordered_parts = sorted(column.parts, key=lambda part: -row_of_column[part]["mean"])
            rows += [{**row_of_column[part], "of": column.name} for part in ordered_parts]
    return rows


def _table_of_importance(rows: Sequence[Record], top: int) -> tuple[list[Table], list[str]]:
    """Make the table of the most important columns, and notes on the columns that it lacks."""
    columns = [row for row in rows if "of" not in row]
    important = [row for row in columns if row["mean"] > _LEAST_DROP]
    table_rows = list[Record]()
    notes = []
    for column in important[:top]:
        words = [row for row in rows if row.get("of") == column["feature"]]
        table_rows += [column, *_indented(words, column["feature"])]
        if words[_MOST_PARTS:]:
            more = count(len(words[_MOST_PARTS:]), "more part")
            notes.append(f"{more} of {printable(column['feature'])}: --json and --output have all")
    if important[top:]:
        more = count(len(important[top:]), "more column")
        notes.append(f"{more}: --top {len(important)} shows them")
    n_without = len(columns) - len(important)
    if n_without:
        notes.append(f"{count(n_without, 'column')} without a drop: --json and --output have all")
    names = [name for name in ("feature", "mean", "std", "splits") if name in rows[0]]
    return [table_of(table_rows, names, bar="mean")] if table_rows else [], notes


def _indented(words: Sequence[Record], column: str) -> list[Record]:
    """Copy the rows of a column's largest words, or other parts, with short and indented names.

    >>> _indented([{"feature": "title: fjord"}], "title")
    [{'feature': '  fjord'}]
    """
    return [
        {**part, "feature": f"  {part['feature'].removeprefix(f'{column}: ')}"}
        for part in words[:_MOST_PARTS]
    ]


def comparison_result(comparison: ComparedDocuments, top: int) -> Result:
    """Make the result: which document is ranked higher, by how much, and what decides.

    Args:
        comparison: the comparison of two documents.
        top: number of features that the text shows; JSON has all features and the margins of all
            members.
    """
    explanation = comparison.explanation
    value: Record = {
        "qid": comparison.qid,
        "first": comparison.first,
        "margin": comparison.margin,
        "a": asdict(comparison.a),
        "b": asdict(comparison.b),
        "n_docs": comparison.n_docs,
        "members": comparison.votes,
    }
    answer = _answer(comparison)
    if explanation is None:
        reason = f"which features decide is not known: {comparison.reason}"
        return Result("explanation", value, text=[answer, reason])
    features = [_feature_facts(effect) for effect in explanation.by_column()]
    value["baseline_margin"] = explanation.baseline
    value["error"] = explanation.error
    value["features"] = features
    rows = list[Record]()
    for feature in features[:top]:
        parts = feature.get("parts", ())
        rows += [feature, *_indented(parts, feature["feature"])]
        others = parts[_MOST_PARTS:]
        if others:
            sum_of_others = sum(part["value"] for part in others)
            rows.append({"feature": f"  the {len(others)} others", "value": sum_of_others})
    if features[top:]:
        sum_of_others = sum(feature["value"] for feature in features[top:])
        rows.append({"feature": f"the {len(features[top:])} others", "value": sum_of_others})
    if explanation.baseline:
        rows.append({"feature": "two at the query's mean", "value": explanation.baseline})
    sign = -1 if comparison.first == "b" else 1
    text: list[Block] = [
        answer,
        *_deciding_features("decided by", features, sign),
        *_deciding_features("against it", features, -sign),
        "",
        f"A is {_name_of(comparison.a)}, B is {_name_of(comparison.b)}",
        table_of(rows, ["feature", "a", "b", "value"], bar="value", bar_title="+ A, - B"),
    ]
    notes = ["a value above 0 is for A; the values add up to the margin of A over B"]
    return Result("explanation", value, text, notes)


def _answer(comparison: ComparedDocuments) -> str:
    """Tell which document is ranked higher, by how much, and how many members agree."""
    higher, lower = comparison.a, comparison.b
    if comparison.first is None:
        names = f"{_name_of(higher)} and {_name_of(lower)}"
        return f"{names} are the same to the model in query {comparison.qid}"
    if comparison.first == "b":
        higher, lower = lower, higher
    answer = (
        f"{_name_of(higher)} is ranked above {_name_of(lower)} by a margin of "
        f"{abs(comparison.margin):.4g}: ranks {higher.rank} and {lower.rank} of "
        f"{comparison.n_docs} in query {comparison.qid}"
    )
    members = comparison.votes
    if len(members) > 1:
        n_agreeing = sum(member["margin"] * comparison.margin > 0 for member in members)
        answer += f"; {n_agreeing} of {len(members)} members agree"
    return answer


def _deciding_features(label: str, features: Sequence[Record], sign: int) -> Iterator[str]:
    """Yield a line with the largest features whose values have a sign, if there are any."""
    names = [
        f"{printable(feature['feature'])} ({abs(feature['value']):.4g})"
        for feature in features
        if sign * feature["value"] > 0
    ]
    if names:
        yield f"{label} {', '.join(names[:_MOST_NAMED])}"


def _feature_facts(effect: ColumnValue) -> Record:
    """Convert the effect of a column, and the effects of its parts, to JSON values."""
    facts: Record = {
        "feature": effect.column.name,
        "number": effect.column.features[0] + 1,
        "value": effect.value,
        "a": effect.a,
        "b": effect.b,
    }
    if effect.parts:
        facts["parts"] = [_feature_facts(part) for part in effect.parts]
    return facts


def _name_of(document: RankedDocument) -> str:
    """Name a document by its id, or by its row if it has no id."""
    return f"row {document.row}" if document.docid is None else document.docid


def usual_form(queries: Queries) -> str:
    """Return the default format: `trec` for LETOR text, `csv` for tables and folders."""
    is_letor = queries.roles is None and queries.describer is None
    return "trec" if is_letor else "csv"


def write_ranked(queries: Queries, order: I64, form: str, tag: str, output: str) -> None:
    """Write the documents of each query, the best first, to a file or to stdout (`-`).

    Args:
        queries: the queries and their documents.
        order: the numbers of the documents, query after query, the best document first.
        form: format of the file: `trec`, `csv` or `jsonl`.
        tag: text in the last column of `trec`.
        output: path of the file, or `-`.

    Raises:
        DataError: if an id has a space, which `trec` cannot hold.
    """
    columns = _ranked_documents(queries, order)
    if form == "csv":
        write_csv_file(columns, output)
        return
    rows = zip(*columns.values(), strict=True)
    if form == "trec":
        lines = (_trec_line(row, tag, queries.source) for row in rows)
    else:
        lines = (
            json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) for row in rows
        )
    write_output(output, lambda file: file.writelines(f"{line}\n" for line in lines))


def _ranked_documents(queries: Queries, order: I64) -> dict[str, list[Any]]:
    """Make the columns of the ranked documents, query after query.

    Returns:
        {column: its values}: the query, the document's id (None without an id), its row in the
        data, its rank from 1, and as its score the number of documents that rank below it.
    """
    sizes = np.repeat(queries.sizes, queries.sizes)
    ranks = np.arange(1, len(order) + 1) - np.repeat(queries.offsets[:-1], queries.sizes)
    docids = [None] * len(order)
    if queries.docids is not None:
        docids = [docid or None for docid in queries.docids[order].tolist()]
    return {
        "qid": np.repeat(queries.qids, queries.sizes).tolist(),
        "docid": docids,
        "row": queries.rows[order].tolist(),
        "rank": ranks.tolist(),
        "score": (sizes - ranks).astype(float).tolist(),
    }


def _trec_line(ranked_document: Sequence[Any], tag: str, source: str) -> str:
    """Write a document as a line of TREC: qid Q0 docid rank score tag.

    Raises:
        DataError: if an id has a space; the error names the data `source`.
    """
    qid, docid, row, rank, score = ranked_document
    name = str(row) if docid is None else docid
    for word in (qid, name):
        if word.split() != [word]:
            raise DataError(
                f"{source}: trec ids cannot contain spaces, as {word!r} does; use csv, --format csv"
            )
    return f"{qid} Q0 {name} {rank} {score:g} {tag}"
