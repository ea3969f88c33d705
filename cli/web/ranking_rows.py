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
from store.service.item_ranking import TOP, page_cell
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
    """Return an item's row: its cell, its group, and its values as numbers and as texts.

    The value `of` is the number of items that the rank counts: all items, or the items of the
    group.
    """
    row = item_cell(items, item)
    if items.groups is None:
        row["group"] = None
        row["of"] = len(items)
    else:
        group = items.groups[item]
        row["group"] = group
        row["of"] = _group_sizes(items)[group]
    for name in COLUMNS:
        row[name] = plain(getattr(ranking, name)[item])
    row[TOP] = None if ranking.among_top is None else plain(ranking.among_top[item])
    row["cells"] = _value_texts(ranking, item)
    return row


def _value_texts(ranking: Ranking, item: int) -> dict[str, str]:
    """Write an item's values as {column: text}, with a column about the top if the goal has one."""
    names = COLUMNS if ranking.among_top is None else (*COLUMNS, TOP)
    return {name: page_cell(name, getattr(ranking, name)[item]) for name in names}


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

    Args:
        sort: a name of `SORTS`.
        down: whether the largest value is first.
        find: the search text without case; empty: all items match.
    """
    order = _sorted_items(items, ranking, sort, down)
    if not find:
        return order
    group_names = [group.casefold() for group in items.groups or ()]
    if find in group_names:
        is_match = [group_names[item] == find for item in order.tolist()]
    else:
        is_match = [
            _contains(items.ids[item], find) or _contains(items.texts[item], find)
            for item in order.tolist()
        ]
    return order[np.array(is_match, np.bool_)]


def _contains(text: str | None, find: str) -> bool:
    """Tell whether a text contains the search text, which has no upper case."""
    return text is not None and find in text.casefold()


@lru_cache(maxsize=2)
def _sorted_items(items: Items, ranking: Ranking, sort: str, down: bool) -> I64:
    """Return the numbers of the items in the order of a column.

    Items with the same value stay in the order of the ranking: best first, group by group.

    Args:
        sort: a name of `SORTS`.
        down: whether the largest value is first.
    """
    # The ranking may be newer than `items`, and have items that were added meanwhile.
    order = ranking.order[ranking.order < len(items)]
    if sort == "item":
        names = [(items.texts[item] or items.ids[item]).casefold() for item in order.tolist()]
        places = sorted(range(len(names)), key=names.__getitem__, reverse=down)
        return order[places]
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
