"""The result of `sortnet.sort`: the sorted items, and a ranker trained on the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import URL

from sortnet.comparators.fitted_trees import FittedTrees
from sortnet.config import Config
from sortnet.core import F64, I64, Queries
from sortnet.errors import SortNetError
from sortnet.items.given_items import GivenItems, items_from
from sortnet.messages import count, printable
from sortnet.preference.goal import Goal
from sortnet.preference.intervals import Ranking
from sortnet.rankers.base import Ranker
from sortnet.rankers.better_ranker import better_ranker
from sortnet.rankers.posterior_ranker import PosteriorRanker
from sortnet.rankers.sortnet import Model
from store.service.judge_as_annotator import EndReason
from store.service.judged_queries import read_judged
from store.store import open_store

if TYPE_CHECKING:
    import pandas as pd

_QUANTILES = (0.05, 0.95)  # quantiles of drawn ranks that bound a 90 % interval


@dataclass(frozen=True, eq=False)
class SortedItems:
    """The result of `sortnet.sort`.

    Attributes:
        frame: one row per item that was passed, best first, indexed by its place in the input:
            `rank`, `item`, `low` and `high` (90 % interval of the rank), `score` (in units of the
            noise of an answer), `judgements` (answers about the item), and with a goal of top items
            `in_top`, the probability that the item is in the top; `group`, if there are groups.
        name: name of the collection.
        store: the store that has the collection.
        reason: why the asking ended.
        status: a line about the distance from the goal.
        answered: number of answers of this call.
        answered_in_all: number of answers in the collection.
        spent: calls, tokens and cost of each language model in this call.
        seed: seed of the ranker's training.
        goal: the goal at which the asking was to stop; None: the goal of the collection.
    """

    frame: pd.DataFrame
    name: str
    store: URL = field(repr=False)
    reason: EndReason
    status: str
    answered: int
    answered_in_all: int
    spent: Mapping[str, Mapping[str, Any]]
    seed: int = field(default=0, repr=False)
    goal: Goal | None = field(default=None, repr=False)

    @property
    def items(self) -> list[Any]:
        """The items, best first."""
        return list(self.frame["item"])

    @cached_property
    def ranker(self) -> ItemRanker:
        """A ranker of other items, which is trained on the answers at its first use, as by `train`.

        Raises:
            DataError: if the items have no features, or there are too few answers.

        Cost: seconds; no call of a judge.
        """
        with open_store(self.store, write=False) as store:
            data = read_judged(store.collection(self.name), seed=self.seed)
        return ItemRanker(better_ranker(data.train, data.vali, Config(seed=self.seed)))

    def report(self, file: str | Path) -> None:
        """Write a page about the collection, which needs no network, to a file.

        Raises:
            SortNetError: if the file cannot be written.
        """
        from store.report.collection_page import write_collection_page

        with open_store(self.store, write=False) as store:
            write_collection_page(store.collection(self.name), file, goal=self.goal)

    def __repr__(self) -> str:
        return f"SortedItems({self.name!r}, {self._summary()})"

    def _repr_html_(self) -> str:
        from html import escape

        table: str = self.frame._repr_html_()  # type: ignore[operator]
        return f"<p>{escape(printable(self._summary()))}</p>{table}"

    def _summary(self) -> str:
        answers = f"{count(self.answered, 'answer')} ({self.answered_in_all} in all)"
        return f"{count(len(self.frame), 'item')}, {answers}: {self.status}"


@dataclass(frozen=True, eq=False)
class ItemRanker:
    """Ranks items that nobody was asked about, by their features.

    Attributes:
        ranker: the ranker of documents, as a model folder holds it.
    """

    ranker: Ranker

    def rank(self, items: Any, **columns: Any) -> pd.DataFrame:
        """Rank items, best first.

        Args:
            items: as `sortnet.sort` takes them.
            columns: `text`, `id`, `group` and `ignore`, as `sortnet.sort` takes them.

        Returns a frame with `rank`, `item` and `score`, indexed by the places in the input. It has
        `low` and `high` if the ranker knows how sure a rank is: a posterior gives the 90 % interval
        of the rank, soft trees and committees the range of the ranks by their heads or members.
        Scores also tell how far apart two items are.

        Raises:
            DataError: if the items lack a feature that the ranker was trained on.
        """
        import pandas as pd

        given_items = items_from(items, least=1, **columns)
        queries = self._queries(given_items)
        order = self.ranker.order(queries)
        rank = np.empty(len(order), np.int64)
        rank[order] = _places_within_queries(queries)
        scores = self.ranker.real_scores(queries)
        intervals = _rank_intervals(self.ranker, queries)
        # Queries group the items, so that an item may be in another row than in the input.
        row_of_item = {item: row for row, item in enumerate(queries.rows.tolist())}
        rows = [row_of_item[item] for item in given_items.number]
        frame = pd.DataFrame(
            {
                "rank": rank[rows],
                "item": pd.Series(list(given_items.values), dtype=object),
                "score": scores[rows],
            }
        )
        if intervals is not None:
            low, high = intervals
            frame["low"] = low[rows]
            frame["high"] = high[rows]
        groups = given_items.items.groups
        if groups is None:
            return frame.sort_values("rank", kind="stable")
        frame.insert(0, "group", [groups[item] for item in given_items.number])
        return frame.sort_values(["group", "rank"], kind="stable")

    def save(self, folder: str | Path) -> None:
        """Write the model folder, which `sortnet rank FOLDER FILE` and `load_ranker` read."""
        self.ranker.save(folder)

    def _queries(self, given_items: GivenItems) -> Queries:
        """Make queries of items, with the features that the ranker was trained on."""
        describer = self.ranker.describer
        if describer is None:
            raise SortNetError("the ranker knows no features of items")
        items = describer.apply(given_items.items)
        return Queries.from_arrays(
            items.features,
            qid=items.groups,
            docids=items.ids,
            feature_names=items.feature_names,
            source=items.source,
        )


def ranking_frame(ranking: Ranking, given_items: GivenItems, ids: Sequence[str]) -> pd.DataFrame:
    """Make the frame `SortedItems.frame`, with a row for each value that was passed.

    Args:
        ids: ids of the ranked items, in the order of the collection.
    """
    import pandas as pd

    number_of_id = {id: number for number, id in enumerate(ids)}
    numbers_in_collection = np.array([number_of_id[id] for id in given_items.items.ids], np.int64)
    numbers = numbers_in_collection[np.asarray(given_items.number, np.int64)]
    columns: dict[str, Any] = {
        "rank": ranking.rank[numbers],
        "item": pd.Series(list(given_items.values), dtype=object),
        "low": ranking.low[numbers],
        "high": ranking.high[numbers],
        "score": ranking.score[numbers],
        "judgements": ranking.judgements[numbers],
    }
    if ranking.among_top is not None:
        columns["in_top"] = ranking.among_top[numbers]
    frame = pd.DataFrame(columns)
    groups = given_items.items.groups
    if groups is not None:
        frame.insert(0, "group", [groups[item] for item in given_items.number])
    place = np.empty(len(ranking), np.int64)
    place[ranking.order] = np.arange(len(ranking))
    return frame.iloc[np.argsort(place[numbers], kind="stable")]


def _places_within_queries(queries: Queries) -> I64:
    """Number the places 1, 2, ... within each query, (n_docs,)."""
    sizes = np.diff(queries.offsets)
    return np.concatenate([np.arange(1, size + 1) for size in sizes])


def _rank_intervals(ranker: Ranker, queries: Queries) -> tuple[I64, I64] | None:
    """Return the lowest and the highest rank of each document, (n_docs,) each.

    Between them are 90 % of the ranks in draws of a posterior, or all ranks by the heads or members
    of another ranker. None if the ranker has only one score for a document.
    """
    if isinstance(ranker, PosteriorRanker):
        scores = _draws(ranker, queries)
        quantiles = _QUANTILES
    elif isinstance(ranker, Model):
        scores = _scores_of_heads(ranker, queries)
        quantiles = (0.0, 1.0)
        if scores.shape[1] < 2:
            return None
    else:
        return None
    low = np.empty(len(scores), np.int64)
    high = np.empty(len(scores), np.int64)
    for begin, end in zip(queries.offsets[:-1], queries.offsets[1:], strict=True):
        ranks = np.argsort(np.argsort(-scores[begin:end], axis=0), axis=0) + 1
        low[begin:end], high[begin:end] = np.quantile(ranks, quantiles, axis=1, method="nearest")
    return low, high


def _draws(ranker: PosteriorRanker, queries: Queries) -> F64:
    """Draw k scores for each document from a posterior, (n_docs, k), with random residuals."""
    mean_and_draws = ranker.comparator.prepare(ranker.scaled(queries).features)
    draws: F64 = mean_and_draws[:, 1:]
    noise = np.random.default_rng(0).normal(size=draws.shape)
    scores: F64 = draws + np.sqrt(ranker.comparator.residual) * noise
    return scores


def _scores_of_heads(ranker: Model, queries: Queries) -> F64:
    """Score documents by each head of soft trees, or each member of a committee, (n_docs, k).

    k is 0 if a member has only margins, and no scores.
    """
    features = ranker.scaled(queries).features
    columns: list[F64] = []
    for net in ranker.comparator.members:
        if isinstance(net, FittedTrees):
            scores: Any = net.prepare(features)
        else:
            scores = net.scores(features)
        if scores is None:  # the margins of this net are no differences of scores
            return np.empty((queries.n_docs, 0))
        columns.append(np.asarray(scores, np.float64).reshape(queries.n_docs, -1))
    return np.hstack(columns)
