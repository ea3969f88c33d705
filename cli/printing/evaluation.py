"""Result of `sortnet evaluate`: the measures of a model, and a CSV file of every query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cli.printing.results import Column, Result, Table, write_csv_file
from sortnet.tables.column_groups import columns_sentence

if TYPE_CHECKING:
    from store.report.evaluation import Evaluation


def evaluation_result(evaluation: Evaluation) -> Result:
    """Make the result with a row for each measure, the conventions, and the columns that count."""
    queries = evaluation.queries
    notes = [*evaluation.conventions]
    if queries.roles is not None:
        notes.append(columns_sentence(queries.roles, queries.feature_names or ()))
    value: dict[str, Any] = {
        "model": evaluation.model,
        "data": queries.source,
        "n_queries": len(queries),
        "n_docs": queries.n_docs,
        "measures": evaluation.measures,
        **evaluation.rules,
    }
    text: list[str | Table] = [Table(_COLUMNS, list(evaluation.measures.items())), *notes]
    return Result("evaluation", value, text=text, notes=notes, is_noted_in_text=True)


def write_query_figures(evaluation: Evaluation, to: str) -> None:
    """Write the measures of each query to a CSV file, or to stdout (`-`).

    The measures of a query without a relevant document are left blank.
    """
    queries = evaluation.queries
    write_csv_file({"qid": queries.qids, "n_docs": queries.sizes, **evaluation.by_query}, to)


_COLUMNS = [
    Column("metric", lambda measure: str(measure[0])),
    Column("mean", lambda measure: f"{measure[1]:.4f}"),
]
