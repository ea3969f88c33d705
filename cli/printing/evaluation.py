"""Result of `sortnet evaluate`: the measures of a model, and a CSV file of every query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cli.printing.results import Column, Result, Table, write_csv_file

if TYPE_CHECKING:
    from store.report.evaluation import Evaluation


def evaluation_result(evaluation: Evaluation) -> Result:
    """Make the result with a row for each measure, and list the measures' conventions."""
    queries = evaluation.queries
    conventions = evaluation.conventions
    value: dict[str, Any] = {
        "model": evaluation.model,
        "data": queries.source,
        "n_queries": len(queries),
        "n_docs": queries.n_docs,
        "measures": evaluation.measures,
        **evaluation.rules,
    }
    text: list[str | Table] = [Table(_COLUMNS, list(evaluation.measures.items())), *conventions]
    return Result("evaluation", value, text=text, notes=conventions, is_noted_in_text=True)


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
