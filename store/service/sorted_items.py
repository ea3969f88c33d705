"""The result of `sortnet.sort`: the sorted items, and a ranker trained on the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import URL

from sortnet.comparators.fitted_trees import FittedTrees
from sortnet.config import Config
from sortnet.core import F64, I64, Queries
from sortnet.errors import SortNetError
from sortnet.items.given_items import GivenItems, items_from
from sortnet.judges.budget import amount
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

_QUANTILES = (0.05, 0.95)  # quantiles of drawn ranks that bound their 90 % interval


@dataclass(frozen=True, eq=False)
class SortedItems:
    """The result of `sortnet.sort`.

    Attributes:
        frame: one row for each item that was passed, best first, indexed by the item's place in the
            input. Its columns are `rank`, `item`, `low` and `high` (the 90 % interval of the rank),
            `score` (in units of the noise of an answer), and `judgements` (the number of answers
            about the item). If the goal is about top items, `in_top` is the probability that the
            item is in the top; if there are groups, there is a column `group`.
        name: name of the collection.
        store: the store that has the collection. If `sort` was called without a store, it is a
            temporary store, which is removed with the result.
        reason: why the asking ended.
        status: a line about the distance from the goal.
        answered: number of answers in this call.
        answered_in_all: number of answers in the collection, on which the ranking rests.
        answered_by: {annotator: number of the annotator's answers in the collection}.
        spent: {annotator: calls, tokens and cost of the judge in this call}; empty for a judge that
            is no language model.
        cost_in_all: cost of the answers in the collection; None if no cost is known.
        skipped: {annotator: {reason: number of skips of the judge in this call}}.
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
    answered_by: Mapping[str, int]
    spent: Mapping[str, Mapping[str, Any]]
    cost_in_all: float | None = None
    skipped: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    seed: int = field(default=0, repr=False)
    goal: Goal | None = field(default=None, repr=False)

    @property
    def items(self) -> list[Any]:
        """The items, best first."""
        return list(self.frame["item"])

    @cached_property
    def ranker(self) -> ItemRanker:
        """A ranker for further items, trained on the answers when it is first used.

        Raises:
            DataError: if the items have no features, or there are too few answers.

        Cost: seconds; no judge is asked.
        """
        with open_store(self.store, write=False) as store:
            data = read_judged(store.collection(self.name), seed=self.seed)
        return ItemRanker(better_ranker(data.train, data.vali, Config(seed=self.seed)))

    def report(self, file: str | Path) -> None:
        """Write an HTML page about the collection to a file; the page needs no network.

        Raises:
            SortNetError: if the file cannot be written.
        """
        from store.report.collection_page import write_collection_page

        with open_store(self.store, write=False) as store:
            write_collection_page(store.collection(self.name), file, goal=self.goal)

    def __repr__(self) -> str:
        return f"SortedItems({self.name!r}, {self.summary})"

    def _repr_html_(self) -> str:
        """Show the summary and the frame in a notebook."""
        from html import escape

        table: str = self.frame._repr_html_()  # type: ignore[operator]
        return f"<p>{escape(printable(self.summary))}</p>{table}"

    @property
    def summary(self) -> str:
        """The numbers of items and answers, who answered, costs, and the distance from the goal."""
        by = ", ".join(f"{n} of {annotator}" for annotator, n in self.answered_by.items())
        of_whom = f": {by}" if by else ""
        answers = f"{count(self.answered, 'answer')} ({self.answered_in_all} in all{of_whom})"
        cost = ""
        if self.cost_in_all is not None:
            cost = f", {amount(self.cost_in_all)} spent in the collection"
        return f"{count(len(self.frame), 'item')}, {answers}{cost}: {self.status}"


@dataclass(frozen=True, eq=False)
class ItemRanker:
    """Ranks items that nobody was asked about, by their features.

    Attributes:
        ranker: the ranker, which sees items as documents of queries.
    """

    ranker: Ranker

    def rank(self, items: Any, **columns: Any) -> pd.DataFrame:
        """Rank items, best first.

        Args:
            items: items in any form that `sortnet.sort` accepts.
            columns: the arguments `text`, `id`, `group` and `ignore` of `sortnet.sort`.

        Returns:
            A frame with `rank`, `item` and `score`, indexed by the places in the input. The
            differences of scores tell how far apart items are. If the ranker knows how sure a rank
            is, the frame has `low` and `high`: a posterior gives the 90 % interval of the rank,
            soft trees and committees give the range of the ranks by their heads or members.

        Raises:
            DataError: if the items lack a feature that the ranker was trained on.
        """
        import pandas as pd

        given_items = items_from(items, least=1, **columns)
        queries = self._queries(given_items)
        # Queries put the items of a group together, so an item's row may differ from its place in
        # the input.
        row_of_item = {item: row for row, item in enumerate(queries.rows.tolist())}
        rows = [row_of_item[item] for item in given_items.number]
        figures = self._rank_documents(queries)
        frame = pd.DataFrame({name: values[rows] for name, values in figures.items()})
        frame.insert(1, "item", pd.Series(list(given_items.values), dtype=object))
        groups = given_items.items.groups
        if groups is None:
            return frame.sort_values("rank", kind="stable")
        frame.insert(0, "group", [groups[item] for item in given_items.number])
        return frame.sort_values(["group", "rank"], kind="stable")

    def save(self, folder: str | Path) -> None:
        """Write the model folder that `sortnet rank FOLDER FILE` and `load_ranker` read."""
        self.ranker.save(folder)

    def _rank_documents(self, queries: Queries) -> dict[str, NDArray[Any]]:
        """Return the `rank` and `score` of each document, and `low` and `high` if known.

        Each value is an array, (n_docs,).
        """
        order = self.ranker.order(queries)  # the documents query by query, each query best first
        rank = np.empty(len(order), np.int64)
        rank[order] = _ranks_in_order(queries)
        figures: dict[str, NDArray[Any]] = {"rank": rank}
        figures["score"] = self.ranker.real_scores(queries)
        intervals = _rank_intervals(self.ranker, queries)
        if intervals is not None:
            figures["low"], figures["high"] = intervals
        return figures

    def _queries(self, given_items: GivenItems) -> Queries:
        """Make queries of the items, with the features that the ranker was trained on."""
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
            origins=self.ranker.origins,
        )


def ranking_frame(ranking: Ranking, given_items: GivenItems, ids: Sequence[str]) -> pd.DataFrame:
    """Make the frame `SortedItems.frame`, with a row for each value that was passed.

    Args:
        ranking: the ranking of the collection's items.
        given_items: the values that were passed to `sortnet.sort`, and their items.
        ids: ids of the ranked items, in the order of the collection.
    """
    import pandas as pd

    numbers = _numbers_in_collection(given_items, ids)
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
    place_of_item = np.empty(len(ranking), np.int64)  # the inverse of the permutation `order`
    place_of_item[ranking.order] = np.arange(len(ranking))
    # Equal values that are one item stay in the order of the input.
    best_first = np.argsort(place_of_item[numbers], kind="stable")
    return frame.iloc[best_first]


def _numbers_in_collection(given_items: GivenItems, ids: Sequence[str]) -> I64:
    """Return for each passed value the number that its item has in the collection.

    Several equal values may be one item.

    Args:
        given_items: the passed values, and their items.
        ids: ids of the items, in the order of the collection.
    """
    number_of_id = {id: number for number, id in enumerate(ids)}
    id_of_item = given_items.items.ids
    numbers = [number_of_id[id_of_item[item]] for item in given_items.number]
    return np.array(numbers, np.int64)


def _ranks_in_order(queries: Queries) -> I64:
    """Return the ranks 1, 2, ... for each query, one query after another, as an (n_docs,) array."""
    sizes = np.diff(queries.offsets)
    return np.concatenate([np.arange(1, size + 1) for size in sizes])


def _rank_intervals(ranker: Ranker, queries: Queries) -> tuple[I64, I64] | None:
    """Return the lowest and the highest rank of each document, (n_docs,) each.

    A posterior gives the 90 % interval of a document's rank. Another ranker gives the range of the
    document's ranks by its heads or members. None if the ranker has one score for each document.
    """
    if isinstance(ranker, PosteriorRanker):
        return _rank_quantiles(_draws(ranker, queries), queries, _QUANTILES)
    if isinstance(ranker, Model):
        scores = _scores_of_heads(ranker, queries)
        n_scores_a_document = scores.shape[1]
        if n_scores_a_document >= 2:
            return _rank_quantiles(scores, queries, (0.0, 1.0))  # the lowest and the highest rank
    return None


def _rank_quantiles(
    scores: F64, queries: Queries, quantiles: tuple[float, float]
) -> tuple[I64, I64]:
    """Rank documents by each of k scores, and return two quantiles of each document's k ranks.

    Args:
        scores: (n_docs, k) scores; a document is ranked among the documents of its query.
        quantiles: the lower and the upper quantile, from 0 to 1.

    Returns:
        The lower and the upper quantile of the ranks, (n_docs,) each.
    """
    low = np.empty(len(scores), np.int64)
    high = np.empty(len(scores), np.int64)
    for begin, end in zip(queries.offsets[:-1], queries.offsets[1:], strict=True):
        # Sort the documents of a query by each column of scores; the second argsort inverts the
        # permutation, which gives each document its place.
        order = np.argsort(-scores[begin:end], axis=0)
        ranks = np.argsort(order, axis=0) + 1
        low[begin:end], high[begin:end] = np.quantile(ranks, quantiles, axis=1, method="nearest")
    return low, high


def _draws(ranker: PosteriorRanker, queries: Queries) -> F64:
    """Draw k scores for each document from a posterior, (n_docs, k).

    A score is a draw of the part that the features explain, plus a random residual with the
    posterior's residual variance.
    """
    mean_and_draws = ranker.comparator.prepare(ranker.scaled(queries).features)
    draws: F64 = mean_and_draws[:, 1:]  # column 0 is the posterior mean
    noise = np.random.default_rng(0).normal(size=draws.shape)
    scores: F64 = draws + np.sqrt(ranker.comparator.residual) * noise
    return scores


def _scores_of_heads(ranker: Model, queries: Queries) -> F64:
    """Score documents by each of k heads of soft trees or members of a committee, (n_docs, k).

    No column is returned if a member has only margins of pairs, and no scores of documents.
    """
    features = ranker.scaled(queries).features
    columns: list[F64] = []
    for member in ranker.comparator.members:
        if isinstance(member, FittedTrees):
            scores: Any = member.prepare(features)
        else:
            scores = member.scores(features)
        if scores is None:
            return np.empty((queries.n_docs, 0))
        columns.append(np.asarray(scores, np.float64).reshape(queries.n_docs, -1))
    return np.hstack(columns)
