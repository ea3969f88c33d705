"""List the hardest queries and pairs of a run, with their documents if these still exist."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from sortnet.core import Queries, Split
from sortnet.files import rows_of
from store.frames import counted_iterations, order_frame
from store.plots.figures import before_after
from store.report.sources import PARTS, Sources
from store.report.svg import picture

N_PAIRS = 12  # pairs of a query that are shown, at most
N_DOCUMENTS = 20  # documents of a query that are shown, at most
N_RECURRING = 20  # pairs in the table of recurring pairs, at most
_NO_GRADES = "-"
_SPLITS_ON_PAGE: tuple[Split, ...] = ("vali", "train")


class Table(NamedTuple):
    """A table of the page: caption, column heads and rows of cells."""

    caption: str
    heads: list[str]
    rows: list[list[Any]]


class _PairRow(NamedTuple):
    """The cells of a table about a wrong pair; each field has the name of its column."""

    query: str
    part: str
    winner: str
    loser: str
    grades: str
    n_wrong: str
    wrong_in: str


# {name of a cell of a wrong pair: head of its column}
_HEADS_OF_PAIRS = {
    "query": "query",
    "part": "part",
    "winner": "belongs first",
    "loser": "before",
    "grades": "grades",
    "n_wrong": "iterations wrong",
    "wrong_in": "first to last wrong",
}


def hardest(pairs: pd.DataFrame, sources: Sources, *, top: int) -> list[dict[str, Any]]:
    """Describe the queries whose pairs were wrong most often, for the template.

    The hardest queries of the validation part come first, then the hardest queries of the training
    part. In each part the hardest query is the first.

    Args:
        pairs: the wrong pairs, as `store.frames.after_the_first` returns them. The column `times`
            is the number of iterations in which a pair was wrong.
        sources: the model and the data of the run, where documents are looked up.
        top: the number of queries of each part.
    """
    descriptions: list[dict[str, Any]] = []
    for split in _SPLITS_ON_PAGE:
        pairs_of_part = pairs[pairs["split"] == split]
        times_of_query = pairs_of_part.groupby("qid", observed=True)["times"].sum()
        hardest_first = times_of_query.sort_values(ascending=False, kind="stable")
        for qid in hardest_first.head(top).index:
            pairs_of_query = pairs_of_part[pairs_of_part["qid"] == qid]
            descriptions.append(_hard_query(pairs_of_query, split, str(qid), sources))
    return descriptions


def _hard_query(pairs: pd.DataFrame, split: Split, qid: str, sources: Sources) -> dict[str, Any]:
    """Describe a hard query: its worst pairs, and its documents in the order of the kept model.

    Args:
        pairs: the wrong pairs of the query.
        split: the part of the query.
        qid: the name of the query.
        sources: the model and the data of the run.
    """
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
    """Return the ranks of a query's documents before and after training.

    Return None if the model or the data were not found.
    """
    queries = sources.data.get(split)
    model = sources.model
    if queries is None or model is None:
        return None
    query = queries.take(np.flatnonzero(queries.qids == qid))
    if len(query) != 1:  # a file with other content may lack the query
        return None
    return order_frame(query, model.order_before(query), model.order(query))


def _document_table(order: pd.DataFrame, split: Split, sources: Sources) -> Table:
    """Make a table of the first documents of a query in the order of the kept model."""
    head_of_column = {
        "after": "rank",
        "document": "document",
        "grade": "grade",
        "before": "rank before training",
    }
    if sources.data[split].judged is not None:
        del head_of_column["grade"]
    first_documents = order.sort_values("after").head(N_DOCUMENTS)
    names = first_documents["document"].map(sources.name_of)
    document_rows = rows_of(first_documents.assign(document=names))
    rows = [[row[name] for name in head_of_column] for row in document_rows]
    caption = "Its documents as the kept model ranks them"
    if len(order) > N_DOCUMENTS:
        caption += f", the first {N_DOCUMENTS} of {len(order)}"
    caption += "."
    return Table(caption, list(head_of_column.values()), rows)


def _order_picture(order: pd.DataFrame, qid: str) -> dict[str, str]:
    """Draw the ranks of a query's documents before and after training."""
    alt = f"Ranks of the documents of query {qid} before and after training; see the table."
    caption = "Before training (random weights) and after, by the kept model."
    return picture(f"Query {qid}", caption, alt, before_after(order, top=N_DOCUMENTS))


def recurring(pairs: pd.DataFrame, sources: Sources) -> Table | None:
    """Make a table of the pairs that were wrong in the most iterations, from iteration 1 on.

    Return None if there are no pairs, or if only one iteration is counted, since no pair can be
    wrong again in it. If further pairs were wrong as often as the last pair of the table, the
    caption has the number of all these pairs.

    Args:
        pairs: the wrong pairs, as `store.frames.after_the_first` returns them.
        sources: the model and the data of the run, where documents are looked up.
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
    """Make a table of wrong pairs, in which documents are named by id, row or place.

    Args:
        caption: the caption, without a full stop.
        pairs: the wrong pairs.
        sources: the model and the data of the run.
        with_query: whether there are columns for the query and the part.
    """
    pair_rows = [_pair_row(pair, pairs.attrs["counted"], sources) for pair in rows_of(pairs)]
    columns = [*_HEADS_OF_PAIRS]
    if not with_query:
        columns.remove("query")
        columns.remove("part")
    if all(row.grades == _NO_GRADES for row in pair_rows):
        columns.remove("grades")
    rows = [[getattr(row, column) for column in columns] for row in pair_rows]
    caption = f"{caption}."
    if any(sources.data.get(split) is None for split in pairs["split"]):
        caption += " Documents are named by their place in the query's data, from 0."
    return Table(caption, [_HEADS_OF_PAIRS[column] for column in columns], rows)


def _pair_row(pair: dict[str, Any], n_counted: int, sources: Sources) -> _PairRow:
    """Make the cells about a wrong pair.

    Args:
        pair: the row of the pair in the frame of wrong pairs.
        n_counted: the number of iterations that are counted.
        sources: the model and the data of the run.
    """
    queries = sources.data.get(pair["split"])
    grades = _NO_GRADES
    if queries is not None and queries.judged is None:
        grades = f"{queries.grades[pair['winner']]} > {queries.grades[pair['loser']]}"
    first = pair["first_wrong"]
    last = pair["last_wrong"]
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
    """Name a document: by its id, else by its row in the data, else by its place in the query.

    Args:
        sources: the model and the data of the run.
        queries: the queries of the document's part; None if the data was not found.
        document: the index of the document among all documents of the part.
        place: the place of the document in its query's data, from 0.
    """
    if queries is None:
        return f"place {place}"
    docid = "" if queries.docids is None else str(queries.docids[document])
    return sources.name_of(docid) or f"row {queries.rows[document]}"
