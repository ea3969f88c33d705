"""Items that were sorted by asking a judge: their order, how sure it is, a ranker for others."""

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

_QUANTILES = (0.05, 0.95)  # of the ranks in draws: a 90 % interval


@dataclass(frozen=True, eq=False)
class SortedItems:
    """The result of `sortnet.sort`.

    Attributes:
        frame: one row per item that was passed, best first, indexed by its place in the input:
            `rank`, `item`, `low` and `high` (90 % interval of the rank), `score` (in units of the
            noise of an answer), `judgements` (answers about it), and with a goal of top items
            `in_top`, the probability that it is one of them; `group`, if there are groups.
        name: of the collection.
        store: the store that has it.
        reason: why the asking ended.
        status: how far the goal is, in a line.
        answered: answers of this call.
        answered_in_all: answers in the collection.
        spent: calls, tokens and cost of each language model in this call.
        seed: of the ranker's training.
        goal: when the asking was to stop; None: the collection's own goal.
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
        """A ranker of other items, trained on the answers when it is first used, as `train` does.

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
    """Ranks items of which nobody was asked, by their features.

    Attributes:
        ranker: a ranker of documents, which `sortnet rank` takes from its folder.
    """

    ranker: Ranker

    def rank(self, items: Any, **columns: Any) -> pd.DataFrame:
        """Rank items, best first.

        Args:
            items: as of `sortnet.sort`.
            columns: `text`, `id`, `group` and `ignore`, as of `sortnet.sort`.

        Returns a frame with `rank`, `item` and `score`, indexed by the places in the input; with
        `low` and `high` where the ranker says how sure it is: of a posterior the 90 % interval of
        the rank, of soft trees or a committee the range of the ranks over its heads or members.
        A score says how good an item is, not only its place.

        Raises:
            DataError: if the items lack a feature that the ranker was trained on.
        """
        import pandas as pd

        given = items_from(items, least=1, **columns)
        queries = self._queries(given)
        order = self.ranker.order(queries)
        rank = np.empty(len(order), np.int64)
        rank[order] = _places(queries)
        facts: dict[str, Any] = {"score": self.ranker.real_scores(queries)}
        intervals = _rank_intervals(self.ranker, queries)
        if intervals is not None:
            facts["low"], facts["high"] = intervals
        row_of = {row: k for k, row in enumerate(queries.rows.tolist())}
        rows = [row_of[number] for number in given.number]
        frame = pd.DataFrame(
            {
                "rank": rank[rows],
                "item": pd.Series(list(given.values), dtype=object),
                **{name: values[rows] for name, values in facts.items()},
            }
        )
        if given.items.groups is not None:
            frame.insert(0, "group", [given.items.groups[k] for k in given.number])
        by = ["group", "rank"] if "group" in frame else ["rank"]
        return frame.sort_values(by, kind="stable")

    def save(self, folder: str | Path) -> None:
        """Write the model folder, which `sortnet rank FOLDER FILE` and `load_ranker` read."""
        self.ranker.save(folder)

    def _queries(self, given: GivenItems) -> Queries:
        describer = self.ranker.describer
        if describer is None:
            raise SortNetError("the ranker knows no features of items")
        items = describer.apply(given.items)
        return Queries.from_arrays(
            items.features,
            qid=items.groups,
            docids=items.ids,
            feature_names=items.feature_names,
            source=items.source,
        )


def ranking_frame(ranking: Ranking, given: GivenItems, ids: Sequence[str]) -> pd.DataFrame:
    """One row per row that was passed, see `SortedItems.frame`.

    Args:
        ids: of the ranked items, in the order of the collection.
    """
    import pandas as pd

    number_of_id = {id: number for number, id in enumerate(ids)}
    in_collection = np.array([number_of_id[id] for id in given.items.ids], np.int64)
    numbers = in_collection[np.asarray(given.number, np.int64)]
    columns: dict[str, Any] = {
        "rank": ranking.rank[numbers],
        "item": pd.Series(list(given.values), dtype=object),
        "low": ranking.low[numbers],
        "high": ranking.high[numbers],
        "score": ranking.score[numbers],
        "judgements": ranking.judgements[numbers],
    }
    if ranking.among_top is not None:
        columns["in_top"] = ranking.among_top[numbers]
    frame = pd.DataFrame(columns)
    if given.items.groups is not None:
        frame.insert(0, "group", [given.items.groups[k] for k in given.number])
    place = np.empty(len(ranking), np.int64)
    place[ranking.order] = np.arange(len(ranking))
    return frame.iloc[np.argsort(place[numbers], kind="stable")]


def _places(queries: Queries) -> Any:
    """(n_docs,) 1, 2, ... within each query."""
    sizes = np.diff(queries.offsets)
    return np.concatenate([np.arange(1, size + 1) for size in sizes])


def _rank_intervals(ranker: Ranker, queries: Queries) -> tuple[I64, I64] | None:
    """(n_docs,) lowest and highest rank of each document; None if the ranker is one score alone.

    Of a posterior they hold 90 % of its draws, of other rankers all heads or members.
    """
    if isinstance(ranker, PosteriorRanker):
        prepared = ranker.comparator.prepare(ranker.scaled(queries).features)[:, 1:]
        noise = np.random.default_rng(0).normal(size=prepared.shape)
        draws = prepared + np.sqrt(ranker.comparator.residual) * noise
        quantiles = _QUANTILES
    elif isinstance(ranker, Model) and (scores := _scores_of_heads(ranker, queries)).shape[1] > 1:
        draws, quantiles = scores, (0.0, 1.0)
    else:
        return None
    low, high = np.empty(len(draws), np.int64), np.empty(len(draws), np.int64)
    for begin, end in zip(queries.offsets[:-1], queries.offsets[1:], strict=True):
        ranks = np.argsort(np.argsort(-draws[begin:end], axis=0), axis=0) + 1
        low[begin:end], high[begin:end] = np.quantile(ranks, quantiles, axis=1, method="nearest")
    return low, high


def _scores_of_heads(ranker: Model, queries: Queries) -> F64:
    """(n_docs, k) the score by each head of soft trees, or each member of a committee."""
    features = ranker.scaled(queries).features
    columns: list[F64] = []
    for net in ranker.comparator.members:
        if isinstance(net, FittedTrees):
            scores: Any = net.prepare(features)
        else:
            scores = net.scores(features)
        if scores is None:  # margins that are no difference of scores
            return np.empty((queries.n_docs, 0))
        columns.append(np.asarray(scores, np.float64).reshape(queries.n_docs, -1))
    return np.hstack(columns)
