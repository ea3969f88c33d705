"""The hardest queries and pairs of a run, with their documents if available."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from sortnet.core import SPLITS, Queries, Split
from sortnet.files import rows_of
from store.frames import counted_iterations, order_frame
from store.plots.figures import before_after
from store.report.sources import PARTS, Sources
from store.report.svg import picture

N_PAIRS, N_DOCUMENTS = 12, 20  # rows of a query at most
N_RECURRING = 20  # rows at most
_NO_GRADES = "-"


class Table(NamedTuple):
    """A table of the page."""

    caption: str
    heads: list[str]
    rows: list[list[Any]]


class _PairRow(NamedTuple):
    """A wrong pair as the cells of a table."""

    query: str
    part: str
    winner: str
    loser: str
    grades: str
    n_wrong: str
    wrong_in: str


def hardest(pairs: pd.DataFrame, sources: Sources, *, top: int) -> list[dict[str, Any]]:
    """The `top` hardest queries of each part for the template, validation first.

    The hardness of a query is the number of times its pairs were wrong, from iteration 1 on.

    Args:
        pairs: frame of `store.frames.after_the_first`.
        sources: where to look up their documents.
        top: number of queries per part.
    """
    queries: list[dict[str, Any]] = []
    for split in reversed(SPLITS):
        pairs_of_part = pairs[pairs["split"] == split]
        times = pairs_of_part.groupby("qid", observed=True)["times"].sum()
        worst = times.sort_values(ascending=False, kind="stable").head(top)
        for qid in worst.index:
            pairs_of_query = pairs_of_part[pairs_of_part["qid"] == qid]
            queries.append(_hard_query(pairs_of_query, split, str(qid), sources))
    return queries


def _hard_query(pairs: pd.DataFrame, split: Split, qid: str, sources: Sources) -> dict[str, Any]:
    """A query, its worst pairs, and its documents in the order of the kept model."""
    caption = f"Its pairs that were wrong {counted_iterations(pairs)}, the most often wrong first"
    if len(pairs) > N_PAIRS:
        caption += f": {N_PAIRS} of {len(pairs)}"
    order = _order_of_documents(split, qid, sources)
    return {
        "qid": qid,
        "part": PARTS[split],
        "n_pairs": len(pairs),
        "times": int(pairs["times"].sum()),
        "pairs": _pair_table(caption, pairs.nlargest(N_PAIRS, "times"), sources),
        "documents": None if order is None else _document_table(order, split, sources),
        "picture": None if order is None else _order_picture(order, qid),
    }


def _order_of_documents(split: Split, qid: str, sources: Sources) -> pd.DataFrame | None:
    """The documents of a query before and after training; None if model or data were not found."""
    queries, model = sources.data.get(split), sources.model
    if queries is None or model is None:
        return None
    query = queries.take(np.flatnonzero(queries.qids == qid))
    if len(query) != 1:
        return None
    return order_frame(query, model.order_before(query), model.order(query))


def _document_table(order: pd.DataFrame, split: Split, sources: Sources) -> Table:
    """The first documents of a query in the order of the kept model."""
    head_of_column = {"after": "rank", "document": "document", "grade": "grade"}
    head_of_column["before"] = "rank before training"
    if sources.data[split].judged is not None:
        del head_of_column["grade"]
    first = order.sort_values("after").head(N_DOCUMENTS)
    first = first.assign(document=first["document"].map(sources.name_of))
    rows = [[row[name] for name in head_of_column] for row in rows_of(first)]
    n_shown = f", the first {N_DOCUMENTS} of {len(order)}" if len(order) > N_DOCUMENTS else ""
    caption = f"Its documents as the kept model ranks them{n_shown}."
    return Table(caption, list(head_of_column.values()), rows)


def _order_picture(order: pd.DataFrame, qid: str) -> dict[str, str]:
    alt = f"Ranks of the documents of query {qid} before and after training; see the table."
    caption = "Before training (random weights) and after, by the kept model."
    return picture(f"Query {qid}", caption, alt, before_after(order, top=N_DOCUMENTS))


def recurring(pairs: pd.DataFrame, sources: Sources) -> Table | None:
    """The pairs that were wrong in the most iterations, from iteration 1 on.

    None without pairs, or if only one iteration is counted: no pair comes back in it. If more
    pairs were wrong equally often, the caption has their number.

    Args:
        pairs: frame of `store.frames.after_the_first`.
        sources: where to look up their documents.
    """
    if pairs.empty or pairs.attrs["counted"] < 2:
        return None
    worst = pairs.nlargest(N_RECURRING, "times")
    n_as_often = int((pairs["times"] >= worst["times"].min()).sum())
    caption = f"The pairs that were wrong most often {counted_iterations(pairs)}"
    if n_as_often > len(worst):
        caption += f": {len(worst)} of {n_as_often} that were wrong as often"
    return _pair_table(caption, worst, sources, with_query=True)


def _pair_table(
    caption: str, pairs: pd.DataFrame, sources: Sources, *, with_query: bool = False
) -> Table:
    """Wrong pairs with their documents by id, else by place; `with_query` adds query and part."""
    heads = {
        "query": "query",
        "part": "part",
        "winner": "belongs first",
        "loser": "before",
        "grades": "grades",
        "n_wrong": "iterations wrong",
        "wrong_in": "first to last wrong",
    }
    pair_rows = [_pair_row(pair, pairs.attrs["counted"], sources) for pair in rows_of(pairs)]
    if not with_query:
        del heads["query"], heads["part"]
    if all(row.grades == _NO_GRADES for row in pair_rows):
        del heads["grades"]
    rows = [[getattr(row, column) for column in heads] for row in pair_rows]
    caption = f"{caption}."
    if any(sources.data.get(split) is None for split in pairs["split"]):
        caption += " Documents are named by their place in the query's data, from 0."
    return Table(caption, list(heads.values()), rows)


def _pair_row(pair: dict[str, Any], n_counted: int, sources: Sources) -> _PairRow:
    queries = sources.data.get(pair["split"])
    grades = _NO_GRADES
    if queries is not None and queries.judged is None:
        grades = f"{queries.grades[pair['winner']]} > {queries.grades[pair['loser']]}"
    first, last = pair["first_wrong"], pair["last_wrong"]
    return _PairRow(
        query=pair["qid"],
        part=PARTS[pair["split"]],
        winner=_document_name(sources, queries, pair["winner"], pair["winner_place"]),
        loser=_document_name(sources, queries, pair["loser"], pair["loser_place"]),
        grades=grades,
        n_wrong=f"{pair['times']} of {n_counted}",
        wrong_in=str(first) if first == last else f"{first} to {last}",
    )


def _document_name(sources: Sources, queries: Queries | None, document: int, place: int) -> str:
    if queries is None:
        return f"place {place}"
    docid = "" if queries.docids is None else str(queries.docids[document])
    return sources.name_of(docid) or f"row {queries.rows[document]}"
