"""Rank items that nobody was asked about, by a ranker trained on the answers about others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sortnet.core import I64, Queries
from sortnet.errors import SortNetError
from sortnet.items.given_items import GivenItems, items_from
from sortnet.rankers.base import Ranker

if TYPE_CHECKING:
    import pandas as pd


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
        frame = pd.DataFrame(
            {"rank": self._ranks(queries)[rows], "item": None, "score": scores[rows]}
        )
        frame["item"] = pd.Series(list(given_items.values), dtype=object)
        groups = given_items.items.groups
        if groups is None:
            return frame.sort_values("rank", kind="stable")
        frame.insert(0, "group", [groups[item] for item in given_items.number])
        return frame.sort_values(["group", "rank"], kind="stable")

    def save(self, folder: str | Path) -> None:
        """Write the model folder that `sortnet rank FOLDER FILE` and `load_ranker` read."""
        self.ranker.save(folder)

    def _ranks(self, queries: Queries) -> I64:
        """Return the rank of each document in its query, (n_docs,)."""
        order = self.ranker.order(queries)  # the documents query by query, each query best first
        rank = np.empty(len(order), np.int64)
        sizes = np.diff(queries.offsets)
        rank[order] = np.concatenate([np.arange(1, size + 1) for size in sizes])
        return rank

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
