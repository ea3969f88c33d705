"""The hardest queries and pairs of a run, with their documents if available."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from sortnet.core import SPLITS, Queries, Split
from sortnet.files import rows_of
from store.frames import counted_iterations, order_frame
from store.plots.figures import before_after
from store.report.sources import PARTS, Sources
from store.report.svg import picture

PAIRS, DOCUMENTS = 12, 20  # maximum rows per query
RECURRING = 20  # rows
Table: TypeAlias = tuple[str, list[str], list[list[Any]]]  # its caption, heads and rows


def hardest(pairs: pd.DataFrame, sources: Sources, *, top: int) -> list[dict[str, Any]]:
    """The `top` hardest queries of each part, those of validation first, for the template.

    The hardness of a query is the number of times its pairs were wrong, from iteration 1 on.

    Args:
        pairs: of `store.frames.after_the_first`.
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
        "documents": None,
        "picture": None,
    }
    more = f": {PAIRS} of {len(own)}" if len(own) > PAIRS else ""
    about = f"Its pairs that were wrong {counted_iterations(own)}, the most often wrong first"
    found["pairs"] = _pair_table(f"{about}{more}", own.nlargest(PAIRS, "times"), sources)
    queries, model = sources.data.get(split), sources.model
    one = None if queries is None else queries.take(np.flatnonzero(queries.qids == qid))
    if one is None or len(one) != 1 or model is None:
        return found
    order = order_frame(one, model.order_before(one), model.order(one))
    shown = order.sort_values("after").head(DOCUMENTS)
    shown = shown.assign(document=shown["document"].map(sources.name_of))
    columns = {"after": "rank", "document": "document", "grade": "grade"}
    columns |= {"before": "rank before training"}
    if one.judged is not None:
        del columns["grade"]
    first = f", the first {DOCUMENTS} of {len(order)}" if len(order) > DOCUMENTS else ""
    rows = [[row[name] for name in columns] for row in rows_of(shown)]
    alt = f"Ranks of the documents of query {qid} before and after training; see the table."
    about = "Before training (random weights) and after, by the kept model."
    return found | {
        "documents": (
            f"Its documents as the kept model ranks them{first}.", [*columns.values()], rows
        ),
        "picture": picture(f"Query {qid}", about, alt, before_after(order, top=DOCUMENTS)),
    }  # fmt: skip


def recurring(pairs: pd.DataFrame, sources: Sources) -> Table | None:
    """The pairs that were wrong in the most iterations, from iteration 1 on.

    None without pairs, or if one iteration is counted: no pair comes back in it. Among equally
    wrong pairs the first ones are shown; the others are only counted.

    Args:
        pairs: of `store.frames.after_the_first`.
        sources: where to look up their documents.
    """
    if pairs.empty or pairs.attrs["counted"] < 2:
        return None
    worst = pairs.nlargest(RECURRING, "times")
    as_often = int((pairs["times"] >= worst["times"].min()).sum())
    more = f": {len(worst)} of {as_often} that were wrong as often" if as_often > len(worst) else ""
    about = f"The pairs that were wrong most often {counted_iterations(pairs)}{more}"
    return _pair_table(about, worst, sources, named=True)


def _pair_table(about: str, worst: pd.DataFrame, sources: Sources, *, named: bool = False) -> Table:
    """Pairs with their documents by id if they have one, else by place; `named`: and queries."""
    rows, graded, placed = [], False, False
    for pair in rows_of(worst):
        queries = sources.data.get(pair["split"])
        first, last = pair["first_wrong"], pair["last_wrong"]
        sides = [(pair[side], pair[f"{side}_place"]) for side in ("winner", "loser")]
        grades: list[int] = []
        if queries is not None and queries.judged is None:
            grades = queries.grades[[document for document, _ in sides]].tolist()
        graded, placed = graded or bool(grades), placed or queries is None
        rows.append(
            [
                *((pair["qid"], PARTS[pair["split"]]) if named else ()),
                *(_name(sources, queries, *side) for side in sides),
                " > ".join(map(str, grades)) or "-",
                f"{pair['times']} of {worst.attrs['counted']}",
                str(first) if first == last else f"{first} to {last}",
            ]
        )
    heads = [*(("query", "part") if named else ()), "belongs first", "before", "grades"]
    heads += ["iterations wrong", "first to last wrong"]
    if not graded:
        heads.remove("grades")
        for row in rows:
            del row[-3]
    places = " Documents are named by their place in the query's data, from 0." if placed else ""
    return f"{about}.{places}", heads, rows


def _name(sources: Sources, queries: Queries | None, document: int, place: int) -> str:
    if queries is None:
        return f"place {place}"
    docid = "" if queries.docids is None else str(queries.docids[document])
    return sources.name_of(docid) or f"row {queries.rows[document]}"
