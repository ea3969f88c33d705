"""Rank items that nobody was asked about, by a ranker trained on the answers about others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sortnet.comparators import SoftTrees
from sortnet.core import F64, I64, Queries
from sortnet.errors import SortNetError
from sortnet.items.given_items import GivenItems, items_from
from sortnet.rankers.base import Ranker
from sortnet.rankers.posterior_ranker import PosteriorRanker
from sortnet.rankers.sortnet import Model

if TYPE_CHECKING:
    import pandas as pd

_QUANTILES = (0.05, 0.95)  # quantiles of drawn ranks that bound their 90 % interval


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
        if isinstance(member, SoftTrees):
            scores: Any = member.prepare(features)
        else:
            scores = member.scores(features)
        if scores is None:
            return np.empty((queries.n_docs, 0))
        columns.append(np.asarray(scores, np.float64).reshape(queries.n_docs, -1))
    return np.hstack(columns)
