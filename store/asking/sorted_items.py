"""The result of `sortnet.sort`: the sorted items, and a ranker of items nobody was asked about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import URL

from sortnet.core import Queries
from sortnet.errors import SortNetError
from sortnet.items import Items
from sortnet.items.given_items import GivenItems, items_from
from sortnet.messages import count, printable
from sortnet.preference.intervals import Ranking
from sortnet.preference.stopping import Goal
from store.asking.machine import AnswerSummary, EndReason, cost_text
from store.service.collection_items import TOP, ranking_frame
from store.store import open_store

if TYPE_CHECKING:
    import pandas as pd

    from sortnet.rankers.base import Ranker

_COLUMNS = ("group", "rank", "item", "low", "high", "score", "judgements", "in_top")


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
        by: {annotator: what the annotator has answered, left out and spent in this call}, for each
            judge of this call, and each annotator who has answered before.
        cost_in_all: cost of the answers in the collection; None if no cost is known.
        seed: seed of the ranker's training.
        goal: the goal at which the asking was to stop; None: the goal of the collection.
        columns: what was made of the columns of the items, in words; empty if they have none.
    """

    frame: pd.DataFrame
    name: str
    store: URL = field(repr=False)
    reason: EndReason
    status: str
    answered: int
    answered_in_all: int
    by: Mapping[str, AnswerSummary]
    cost_in_all: float | None = None
    seed: int = field(default=0, repr=False)
    goal: Goal | None = field(default=None, repr=False)
    columns: str = ""

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
        # Only whoever uses the ranker waits for torch.
        from sortnet.config import Config
        from sortnet.rankers.posterior_ranker import better_ranker
        from store.asking.sorted_items import ItemRanker
        from store.service.judged_queries import read_judged

        with open_store(self.store, write=False) as store:
            data = read_judged(store.collection(self.name), seed=self.seed)
        return ItemRanker(better_ranker(data.train, data.vali, Config(seed=self.seed)))

    def report(self, file: str | Path) -> None:
        """Write an HTML page about the collection to a file; the page needs no network.

        Raises:
            SortNetError: if the file cannot be written.
        """
        from store.report.subject_page import write_report

        with open_store(self.store, write=False) as store:
            collection = store.collection(self.name)
            write_report(collection, file, goal=self.goal, progress=lambda text: None)

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
        by_annotator = [f"{annotator}: {summary.text}" for annotator, summary in self.by.items()]
        texts = [count(len(self.frame), "item"), *by_annotator, cost_text(self.cost_in_all)]
        return "; ".join(filter(None, [*texts, self.status]))


def sorted_frame(ranking: Ranking, items: Items, given_items: GivenItems) -> pd.DataFrame:
    """Make the frame `SortedItems.frame`, with a row for each value that was passed.

    Args:
        ranking: the ranking of the collection's items.
        items: the items of the collection.
        given_items: the values that were passed to `sortnet.sort`, and their items.
    """
    import pandas as pd

    # The number that the item of each passed value has in the collection; several equal values may
    # be one item.
    number_of_id = {id: number for number, id in enumerate(items.ids)}
    id_of_item = given_items.items.ids
    numbers = [number_of_id[id_of_item[item]] for item in given_items.number]
    by_item = ranking_frame(ranking, items)  # best first
    place_of_number = {number: place for place, number in enumerate(by_item.index)}
    frame = by_item.rename(columns={"id": "item", TOP: "in_top"}).loc[numbers]
    frame.index = pd.RangeIndex(len(numbers))
    frame["item"] = pd.Series(list(given_items.values), dtype=object)
    names = [name for name in _COLUMNS if name in frame]
    # Equal values that are one item stay in the order of the input.
    best_first = np.argsort([place_of_number[number] for number in numbers], kind="stable")
    return frame[names].iloc[best_first]


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
            differences of scores tell how far apart items are.

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
        scores = self.ranker.real_scores(queries)
        ranks = queries.ranks(self.ranker.order(queries))
        frame = pd.DataFrame({"rank": ranks[rows], "item": None, "score": scores[rows]})
        frame["item"] = pd.Series(list(given_items.values), dtype=object)
        groups = given_items.items.groups
        if groups is None:
            return frame.sort_values("rank", kind="stable")
        frame.insert(0, "group", [groups[item] for item in given_items.number])
        return frame.sort_values(["group", "rank"], kind="stable")

    def save(self, folder: str | Path) -> None:
        """Write the model folder that `sortnet rank FOLDER FILE` and `load_ranker` read."""
        self.ranker.save(folder)

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
