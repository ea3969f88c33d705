"""The queries that a run found hardest: their wrong pairs, and their documents where known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cli.report.page import Picture, picture
from cli.training.iterations import rows_of
from sortnet.errors import DataError, ModelError, SortNetError
from sortnet.types import SPLITS, Progress, Queries, Split

if TYPE_CHECKING:
    import pandas as pd

    from sortnet.rankers.base import Ranker
    from store import Run

PAIRS, DOCUMENTS = 12, 20  # rows a query, at most
PARTS: Mapping[str, str] = {"train": "training", "vali": "validation"}


@dataclass(frozen=True, eq=False)
class Sources:
    """What a run was made of, as far as it can be found again.

    Attributes:
        model: the run's model; None where it is not to be found.
        data: its queries.
        notes: what was not found, a line each.
    """

    model: Ranker | None = None
    data: Mapping[Split, Queries] = field(default_factory=dict)
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class HardQuery:
    """A query, its worst pairs, and its documents in the order of the kept model."""

    qid: str
    part: str
    n_pairs: int
    times: int
    pairs: list[dict[str, Any]]
    documents: list[dict[str, Any]] = field(default_factory=list)
    n_docs: int = 0
    picture: Picture | None = None


def find_sources(
    run: Run, model: str | None, data: Sequence[str], *, cache: Path | None, progress: Progress
) -> Sources:
    """The run's model and data: where the user says they are, else where the run had them.

    Raises:
        SortNetError: if what the user named is not the run's.
    """
    notes: list[str] = []
    loaded = None
    try:
        progress("loading the model")
        loaded = _model(run, model or run.out)
    except SortNetError as error:
        if model is not None:
            raise
        notes.append(f"The documents' order: {error}. --model says where the model is")
    named = {_split_of(run, path): path for path in data}
    queries: dict[Split, Queries] = {}
    for split in SPLITS:
        progress(f"reading the {PARTS[split]} data")
        try:
            queries[split] = _queries(run, split, named.get(split), cache)
        except DataError as error:
            notes.append(
                f"Documents of {PARTS[split]} queries: {error}. --data says where they are"
            )
    return Sources(loaded, queries, notes)


def _model(run: Run, folder: str | None) -> Ranker:
    from sortnet.rankers.base import load_ranker

    if folder is None:
        raise ModelError(f"run {run.id} kept no model")
    model = load_ranker(folder)
    if model.info.get("run") != run.id:
        found = model.info.get("run")
        raise ModelError(f"{folder}: the model of {f'run {found}' if found else 'no run'}, "
                         f"not of run {run.id}")  # fmt: skip
    return model


def _split_of(run: Run, path: str) -> Split:
    from sortnet.data import fingerprint

    found = fingerprint(path)
    for split in SPLITS:
        if run.data[split].get("fingerprint") == found:
            return split
    raise DataError(
        f"{path}: neither the training nor the validation data of run {run.id} (other content)"
    )


def _queries(run: Run, split: Split, path: str | None, cache: Path | None) -> Queries:
    from sortnet.data import fingerprint, read_queries

    facts = run.data[split]
    if path is None:
        path = str(facts["path"])
        if facts.get("fingerprint") != fingerprint(path):
            raise DataError(f"{path}: its content is not what the run read")
    return read_queries(path, n_features=facts["n_features"], cache=cache)


def hardest(pairs: pd.DataFrame, sources: Sources, *, top: int) -> list[HardQuery]:
    """The `top` hardest queries of each part, those of validation first.

    A query is as hard as its pairs were wrong, summed over all iterations.

    Args:
        pairs: of `Run.pairs_frame`.
        sources: where their documents are looked up.
        top: queries of each part.
    """
    found = []
    for split in reversed(SPLITS):
        own = pairs[pairs["split"] == split]
        times = own.groupby("qid", observed=True)["times"].sum()
        worst = times.sort_values(ascending=False, kind="stable").head(top)
        found += [_hard_query(own[own["qid"] == q], split, str(q), sources) for q in worst.index]
    return found


def _hard_query(own: pd.DataFrame, split: Split, qid: str, sources: Sources) -> HardQuery:
    from store.plots.figures import most_recurring

    worst = most_recurring(own, PAIRS)
    facts = (qid, PARTS[split], len(own), int(own["times"].sum()))
    queries = sources.data.get(split)
    one = None if queries is None else queries.take(np.flatnonzero(queries.qids == qid))
    if one is None or len(one) != 1 or sources.model is None:
        return HardQuery(*facts, _pair_rows(worst, one))
    order = _order(sources.model, one)
    documents = order.sort_values("after").head(DOCUMENTS)
    drawn = _drawn(order, qid)
    rows = _pair_rows(worst, one)
    return HardQuery(*facts, rows, rows_of(documents), len(order), drawn)


def _order(model: Ranker, one: Queries) -> pd.DataFrame:
    """The query's documents as they were ranked before learning, and by the kept model."""
    from store.frames import order_frame

    return order_frame(one, model.order_before(one), model.order(one))


def _drawn(order: pd.DataFrame, qid: str) -> Picture:
    from store.plots.figures import before_after

    alt = f"Ranks of the documents of query {qid} before learning and after; the table has them."
    about = "Before learning (random weights) and after, by the kept model."
    return picture(f"Query {qid}", about, alt, lambda: before_after(order, top=DOCUMENTS))


def _pair_rows(worst: pd.DataFrame, one: Queries | None) -> list[dict[str, Any]]:
    """Pairs as the page has them: by document id where there is one, else by place."""
    rows = []
    for pair in rows_of(worst):
        places = (pair["winner_place"], pair["loser_place"])
        winner, loser = (_name(one, place) for place in places)
        first, last = pair["first_iteration"], pair["last_iteration"]
        rows.append(
            {
                "winner": winner,
                "loser": loser,
                "grades": "" if one is None else " > ".join(str(one.grades[p]) for p in places),
                "times": pair["times"],
                "iterations": str(first) if first == last else f"{first} to {last}",
            }
        )
    return rows


def _name(one: Queries | None, place: int) -> str:
    if one is None or not len(one):
        return str(place)
    docid = "" if one.docids is None else str(one.docids[place])
    return docid or f"row {one.rows[place]}"
