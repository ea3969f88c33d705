"""The hardest queries and pairs of a run, with their documents if available."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cli.printing.iterations import rows_of
from cli.report.sources import PARTS, Sources
from cli.report.svg import Picture, picture
from sortnet.types import SPLITS, Queries, Split

if TYPE_CHECKING:
    import pandas as pd

    from sortnet.rankers.base import Ranker

PAIRS, DOCUMENTS = 12, 20  # maximum rows per query
RECURRING = 20  # rows


@dataclass(frozen=True)
class HardQuery:
    """A query, its worst pairs, and its documents as ranked by the kept model."""

    qid: str
    part: str
    n_pairs: int
    times: int
    pairs: list[dict[str, Any]]
    documents: list[dict[str, Any]] = field(default_factory=list)
    n_docs: int = 0
    picture: Picture | None = None


def hardest(pairs: pd.DataFrame, sources: Sources, *, top: int) -> list[HardQuery]:
    """The `top` hardest queries of each part, those of validation first.

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


def _hard_query(own: pd.DataFrame, split: Split, qid: str, sources: Sources) -> HardQuery:
    rows = _pair_rows(own.nlargest(PAIRS, "times"), sources)
    facts = (qid, PARTS[split], len(own), int(own["times"].sum()), rows)
    queries = sources.data.get(split)
    one = None if queries is None else queries.take(np.flatnonzero(queries.qids == qid))
    if one is None or len(one) != 1 or sources.model is None:
        return HardQuery(*facts)
    order = _order(sources.model, one)
    documents = order.sort_values("after").head(DOCUMENTS)
    return HardQuery(*facts, rows_of(documents), len(order), _drawn(order, qid))


def _order(model: Ranker, one: Queries) -> pd.DataFrame:
    """The query's documents as ranked before training and by the kept model."""
    from store.frames import order_frame

    return order_frame(one, model.order_before(one), model.order(one))


def _drawn(order: pd.DataFrame, qid: str) -> Picture:
    from store.plots.figures import before_after

    alt = f"Ranks of the documents of query {qid} before and after training; see the table."
    about = "Before training (random weights) and after, by the kept model."
    return picture(f"Query {qid}", about, alt, lambda: before_after(order, top=DOCUMENTS))


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
        rows.append(
            {
                "query": pair["qid"],
                "part": PARTS[pair["split"]],
                "winner": _name(queries, pair["winner"], pair["winner_place"]),
                "loser": _name(queries, pair["loser"], pair["loser_place"]),
                "grades": "" if queries is None else _grades(queries, pair),
                "times": pair["times"],
                "iterations": str(first) if first == last else f"{first} to {last}",
            }
        )
    return rows


def _grades(queries: Queries, pair: dict[str, Any]) -> str:
    return " > ".join(str(queries.grades[pair[side]]) for side in ("winner", "loser"))


def _name(queries: Queries | None, document: int, place: int) -> str:
    if queries is None:
        return f"place {place}"
    docid = "" if queries.docids is None else str(queries.docids[document])
    return docid or f"row {queries.rows[document]}"
