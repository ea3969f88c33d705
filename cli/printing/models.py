"""Results about models: the model in a folder, its measures, what decides, and its rankings."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from cli.console import write_output
from cli.printing.results import Block, Facts, Result, Step, table_of, write_csv_file
from cli.printing.runs import scaling_in_words
from sortnet.errors import DataError
from sortnet.messages import count, printable
from sortnet.tables.column_groups import columns_sentence
from sortnet.tables.rows import listed
from store.report.models_of_run import from_which, kept_model

if TYPE_CHECKING:
    from sortnet.core import I64, Queries
    from sortnet.explanation.attribution import ColumnValue, ComparedDocuments, RankedDocument
    from store.report.evaluation import Evaluation
    from store.report.feature_importance import FeatureImportance

_MOST_PARTS = 5  # parts of a column, such as words, that the text shows
_MOST_NAMED = 3  # features that the answer names for and against a document
_LEAST_DROP = 0.00005  # a smaller drop is 0.0000 in the table


def model_result(facts: dict[str, Any], notes: Sequence[str] = ()) -> Result:
    """Make the result with the facts about a model; the next step evaluates the model.

    Args:
        facts: the facts, as `store.report.run_facts.model_facts` returns them.
        notes: sentences that are printed on stderr.
    """
    value = {name: fact for name, fact in facts.items() if name != "features"}
    folder = facts["model"]
    config = facts["config"]
    info = facts["info"]  # the facts that training has stored in the folder
    features = str(facts["n_features"])
    if facts["features"] is not None:
        features += f": {listed(facts['features'])}"
    text = {
        "model": f"{folder}, a ranker of kind {facts['kind']}",
        "run": info.get("run", ""),
        "from": from_which(info["from"]) if info.get("from") else "",
        "features": features,
        "scaling": scaling_in_words(config),
    }
    if "kept" in info:
        text["kept"] = kept_model(info["kept"])
    elif "quality" in info:
        text["quality"] = f"{config['quality']} {float(info['quality']):.4f} on validation"
    step = Step(shlex.join(["sortnet", "evaluate", folder, "TEST"]))
    return Result("model", value, [Facts(text)], notes, step)


def evaluation_result(evaluation: Evaluation) -> Result:
    """Make the result with a row for each measure, the conventions, and the columns that count.

    The CSV file has the measures of each query; they are left blank for a query without a relevant
    document.
    """
    queries = evaluation.queries
    notes = [*evaluation.conventions]
    if queries.roles is not None:
        notes.append(columns_sentence(queries.roles, queries.feature_names or ()))
    value = {
        "model": evaluation.model,
        "data": queries.source,
        "n_queries": len(queries),
        "n_docs": queries.n_docs,
        "measures": evaluation.measures,
        **evaluation.rules,
    }
    rows = [{"metric": name, "figure": mean} for name, mean in evaluation.measures.items()]
    by_query = {"qid": queries.qids, "n_docs": queries.sizes, **evaluation.by_query}
    text = [table_of(rows, ["metric", "figure"])]
    return Result("evaluation", value, text, notes, csv=by_query)


def importance_result(importance: FeatureImportance, top: int) -> Result:
    """Make the result with a row and a bar for each feature that matters.

    Args:
        importance: the importance of all features.
        top: number of columns that the text shows; JSON and CSV have all columns and parts.
    """
    facts = importance.facts
    rows = importance.rows
    metric = facts["metric"]
    columns = [row for row in rows if "of" not in row]
    important = [row for row in columns if row["mean"] > _LEAST_DROP]
    table_rows = list[Mapping[str, Any]]()
    for column in important[:top]:
        words = [row for row in rows if row.get("of") == column["feature"]]
        table_rows += [column, *_indented(words, column["feature"])]
    names = [name for name in ("feature", "mean", "std", "splits") if name in rows[0]]
    text: list[Block] = [f"{metric} {facts['quality']:.4f} on {facts['data']}"]
    if table_rows:
        text.append(table_of(table_rows, names, bar="mean"))
    n_less = len(important[top:])
    n_without = len(columns) - len(important)
    notes = []
    if n_less:
        notes.append(f"{count(n_less, 'more column')}: --top {len(important)} shows them")
    if n_without:
        notes.append(f"{count(n_without, 'column')} without a drop: --json and --output have all")
    times = "once" if facts["repeats"] == 1 else f"{facts['repeats']} times"
    notes.append(f"drop of {metric} where a feature is shuffled within its queries, {times}")
    notes += importance.conventions
    return Result("importance", {**facts, "features": rows}, text, notes, csv=rows)


def _indented(words: Sequence[Mapping[str, Any]], column: str) -> list[dict[str, Any]]:
    """Copy the rows of a column's largest words, or other parts, with short and indented names.

    >>> _indented([{"feature": "title: fjord"}], "title")
    [{'feature': '  fjord'}]
    """
    return [
        {**word, "feature": f"  {word['feature'].removeprefix(f'{column}: ')}"}
        for word in words[:_MOST_PARTS]
    ]


def comparison_result(comparison: ComparedDocuments, top: int) -> Result:
    """Make the result: which document is ranked higher, by how much, and what decides.

    Args:
        comparison: the comparison of two documents.
        top: number of features that the text shows; JSON has all features and the margins of all
            members.
    """
    explanation = comparison.explanation
    value: dict[str, Any] = {
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
    rows = list[dict[str, Any]]()
    for feature in features[:top]:
        rows += [feature, *_indented(feature.get("parts", ()), feature["feature"])]
    if features[top:]:
        sum_of_others = sum(feature["value"] for feature in features[top:])
        rows.append({"feature": f"the {len(features[top:])} others", "value": sum_of_others})
    if explanation.baseline:
        rows.append({"feature": "two at the query's mean", "value": explanation.baseline})
    table = table_of(rows, ["feature", "a", "b", "value"], bar="value", bar_title="+ A, - B")
    text: list[Block] = [
        answer,
        *_deciding_features(features, sign=-1 if comparison.first == "b" else 1),
        "",
        f"A is {_name_of(comparison.a)}, B is {_name_of(comparison.b)}",
        table,
    ]
    notes = ["a value above 0 is for A; the values add up to the margin of A over B"]
    return Result("explanation", value, text, notes)


def _answer(comparison: ComparedDocuments) -> str:
    """Tell which document is ranked higher, by how much, and how many members agree."""
    higher, lower = comparison.a, comparison.b
    if comparison.first == "b":
        higher, lower = lower, higher
    place = f"in query {comparison.qid}"
    if comparison.first is None:
        return f"{_name_of(higher)} and {_name_of(lower)} are the same to the model {place}"
    answer = (
        f"{_name_of(higher)} is ranked above {_name_of(lower)} by a margin of "
        f"{abs(comparison.margin):.4g}: ranks {higher.rank} and {lower.rank} of "
        f"{comparison.n_docs} {place}"
    )
    members = comparison.votes
    if len(members) == 1:
        return answer
    n_agreeing = sum(member["margin"] * comparison.margin > 0 for member in members)
    return f"{answer}; {n_agreeing} of {len(members)} members agree"


def _deciding_features(features: Sequence[Mapping[str, Any]], sign: int) -> Iterator[str]:
    """Yield a line with the features that put the document higher, and one with those against it.

    Args:
        features: facts about the features, the largest value first.
        sign: 1 if A is ranked higher, -1 if B is.
    """
    for label, side in (("decided by", sign), ("against it", -sign)):
        names = [
            f"{printable(feature['feature'])} ({abs(feature['value']):.4g})"
            for feature in features
            if side * feature["value"] > 0
        ]
        if names:
            yield f"{label} {', '.join(names[:_MOST_NAMED])}"


def _feature_facts(effect: ColumnValue) -> dict[str, Any]:
    """Convert the effect of a column, and the effects of its parts, to JSON values."""
    facts: dict[str, Any] = {
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
    if form == "jsonl":
        rows = zip(*columns.values(), strict=True)
        documents = (dict(zip(columns, row, strict=True)) for row in rows)
        lines: Iterator[str] = (json.dumps(row, ensure_ascii=False) for row in documents)
    else:
        lines = _trec_lines(columns, tag, queries.source)
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


def _trec_lines(columns: Mapping[str, list[Any]], tag: str, source: str) -> Iterator[str]:
    """Yield each document as a line of TREC: qid Q0 docid rank score tag.

    Raises:
        DataError: if an id has a space; the error names the data `source`.
    """
    for qid, docid, row, rank, score in zip(*columns.values(), strict=True):
        name = str(row) if docid is None else docid
        for word in (qid, name):
            if word.split() != [word]:
                raise DataError(
                    f"{source}: trec ids cannot contain spaces, as {word!r} does; "
                    "use csv, --format csv"
                )
        yield f"{qid} Q0 {name} {rank} {score:g} {tag}"
