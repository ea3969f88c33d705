"""The hardest queries and pairs of a run, with their documents if available."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from cli.printing.iterations import rows_of
from cli.report.sources import PARTS, Sources
from cli.report.svg import picture
from sortnet.types import SPLITS, Queries, Split
from store.frames import order_frame
from store.plots.figures import before_after

PAIRS, DOCUMENTS = 12, 20  # maximum rows per query
RECURRING = 20  # rows


def hardest(pairs: pd.DataFrame, sources: Sources, *, top: int) -> list[dict[str, Any]]:
    """The `top` hardest queries of each part, those of validation first, for the template.

    The hardness of a query is the number of times its pairs were wrong, over all iterations.

    Args:
        pairs: of `Run.pairs_frame`.
        sources: where to look up their documents.
        top: number of queries per part.
    """
    found = []
    for split in reversed(SPLITS):
        own = pairs[pairs["split"] == split]
        times = own.groupby("qid", observed=True)["times"].sum()
        worst = times.sort_values(ascending=False, kind="stable").head(top)
        found += [_hard_query(own[own["qid"] == q], split, str(q), sources) for q in worst.index]
    return found


def _hard_query(own: pd.DataFrame, split: Split, qid: str, sources: Sources) -> dict[str, Any]:
    """A query, its worst pairs, and its documents as ranked by the kept model."""
    found = {
        "qid": qid,
        "part": PARTS[split],
        "n_pairs": len(own),
        "times": int(own["times"].sum()),
        "pairs": _pair_rows(own.nlargest(PAIRS, "times"), sources),
        "documents": [],
        "graded": False,
        "picture": None,
    }
    queries, model = sources.data.get(split), sources.model
    one = None if queries is None else queries.take(np.flatnonzero(queries.qids == qid))
    if one is None or len(one) != 1 or model is None:
        return found
    order = order_frame(one, model.order_before(one), model.order(one))
    first = order.sort_values("after").head(DOCUMENTS)
    documents = rows_of(first.assign(document=first["document"].map(sources.name_of)))
    alt = f"Ranks of the documents of query {qid} before and after training; see the table."
    about = "Before training (random weights) and after, by the kept model."
    drawn = picture(f"Query {qid}", about, alt, lambda: before_after(order, top=DOCUMENTS))
    known = {"documents": documents, "n_docs": len(order), "graded": one.judged is None}
    return found | known | {"picture": drawn}


def recurring(pairs: pd.DataFrame, sources: Sources) -> tuple[list[dict[str, Any]], int]:
    """The pairs that were wrong in the most iterations, and the number of equally wrong pairs.

    Among equally wrong pairs the first ones are returned; the others are only counted.

    Args:
        pairs: of `Run.pairs_frame`.
        sources: where to look up their documents.
    """
    worst = pairs.nlargest(RECURRING, "times")
    return _pair_rows(worst, sources), int((pairs["times"] >= worst["times"].min()).sum())


def _pair_rows(worst: pd.DataFrame, sources: Sources) -> list[dict[str, Any]]:
    """Rows of the page's table: documents by id if they have one, else by place."""
    rows = []
    for pair in rows_of(worst):
        queries = sources.data.get(pair["split"])
        first, last = pair["first_iteration"], pair["last_iteration"]
        docs = [pair[side] for side in ("winner", "loser")]
        graded = None if queries is None or queries.judged is not None else queries
        grades = [] if graded is None else graded.grades[docs].tolist()
        rows.append(
            {
                "query": pair["qid"],
                "part": PARTS[pair["split"]],
                "winner": _name(sources, queries, pair["winner"], pair["winner_place"]),
                "loser": _name(sources, queries, pair["loser"], pair["loser_place"]),
                "placed": queries is None,
                "grades": " > ".join(map(str, grades)),
                "times": pair["times"],
                "iterations": str(first) if first == last else f"{first} to {last}",
            }
        )
    return rows


def _name(sources: Sources, queries: Queries | None, document: int, place: int) -> str:
    if queries is None:
        return f"place {place}"
    docid = "" if queries.docids is None else str(queries.docids[document])
    return sources.name_of(docid) or f"row {queries.rows[document]}"
