"""Search and sort the ranking on the admin page, and return the rows of one page."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from textwrap import shorten
from typing import Any

import numpy as np

from sortnet.core import I64
from sortnet.files import plain
from sortnet.items import Items
from sortnet.preference.intervals import Ranking
from store.service.item_ranking import TOP
from store.service.labelling import LabellingService

ROWS = 50  # most rows on a page
COLUMNS = ("rank", "low", "high", "score", "judgements")
SORTS = (*COLUMNS, TOP, "item")
SNIPPET = 100  # most characters of an item's text in a table


@dataclass(frozen=True)
class View:
    """The choice of the rows of the ranking that the admin page shows.

    Attributes:
        find: part of an item's id or text, or the whole name of a group; empty for all items.
        sort: the column by which the rows are sorted, a name of `SORTS`.
        down: whether the largest value is first.
        page: the number of the page, from 1; a number after the last page means the last page.
    """

    find: str = ""
    sort: str = "rank"
    down: bool = False
    page: int = 1


def ranking_rows(service: LabellingService, view: View) -> dict[str, Any]:
    """Return the rows of one page of the ranking, with the number of items and pages found.

    Cost: proportional to the rows of the page. The first page after a fit also takes a sort of all
    items, unless the rows are in the order of the ranking. The first page of a search takes a pass
    over all items.
    """
    if not service.is_fitted:
        return {"ranking": [], "found": 0, "page": 1, "pages": 1}
    items = service.items
    ranking = service.ranking
    find = view.find.strip().casefold()
    matching_items = _matching_items(items, ranking, view.sort, view.down, find)
    n_pages = max(math.ceil(len(matching_items) / ROWS), 1)
    page = min(view.page, n_pages)
    items_on_page = matching_items[(page - 1) * ROWS : page * ROWS]
    rows = [_row(items, ranking, item) for item in items_on_page.tolist()]
    return {"ranking": rows, "found": len(matching_items), "page": page, "pages": n_pages}


def _row(items: Items, ranking: Ranking, item: int) -> dict[str, Any]:
    """Return an item's row: its cell, its group, and its values.

    The value `of` is the number of items that the rank counts: all items, or the items of the
    group.
    """
    row = item_cell(items, item)
    row["group"] = None if items.groups is None else items.groups[item]
    row["of"] = len(items) if items.groups is None else _group_sizes(items)[items.groups[item]]
    for name in COLUMNS:
        row[name] = plain(getattr(ranking, name)[item])
    row[TOP] = None if ranking.among_top is None else plain(ranking.among_top[item])
    return row


def item_cell(items: Items, item: int) -> dict[str, Any]:
    """Return the facts that identify an item in a table: number, id, start of the text, image."""
    text = items.texts[item]
    if text:
        # Only the beginning is passed on: `shorten` would read the whole text.
        text = shorten(text[: 2 * SNIPPET], SNIPPET, placeholder=" …")
    image_address: str | None = None
    if items.images[item] is not None:
        image_address = f"/image/{item}"
    return {"item": item, "id": items.ids[item], "text": text, "image": image_address}


# The page asks every few seconds. With a million items, a search or a sort takes longer than
# everything else that a request does, so the last results are kept.
@lru_cache(maxsize=2)
def _matching_items(items: Items, ranking: Ranking, sort: str, down: bool, find: str) -> I64:
    """Return the numbers of the items that match a search, in the order of a column.

    Items with the same value stay in the order of the ranking: best first, group by group.

    Args:
        sort: a name of `SORTS`.
        down: whether the largest value is first.
        find: the search text without case; empty: all items match.
    """
    # The ranking may be newer than `items`, and have items that were added meanwhile.
    order = ranking.order[ranking.order < len(items)]
    texts = [text or "" for text in items.texts]
    if find:
        groups = [group.casefold() for group in items.groups or ()]
        if find in groups:
            is_match = np.array(groups) == find
        else:
            names = zip(items.ids, texts, strict=True)
            is_match = np.array([find in f"{id}\n{text}".casefold() for id, text in names])
        order = order[is_match[order]]
    if sort == "item":
        labels = [(texts[item] or items.ids[item]).casefold() for item in order.tolist()]
        return order[sorted(range(len(labels)), key=labels.__getitem__, reverse=down)]
    is_in_order_already = sort == "rank" and not down
    has_no_values = sort == TOP and ranking.among_top is None  # the goal has no top
    if is_in_order_already or has_no_values:
        return order
    values = getattr(ranking, sort)[order]
    return order[np.argsort(-values if down else values, kind="stable")]


@lru_cache(maxsize=1)
def _group_sizes(items: Items) -> Counter[str]:
    """Count the items of each group."""
    return Counter(items.groups or ())
