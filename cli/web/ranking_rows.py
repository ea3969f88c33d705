"""Rows of the ranking on the admin page: searched, sorted, and one page of them."""

from __future__ import annotations

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

ROWS = 50  # of a page
COLUMNS = ("rank", "low", "high", "score", "judgements")
SORTS = (*COLUMNS, TOP, "item")
SNIPPET = 100  # characters of a text


@dataclass(frozen=True)
class View:
    """The choice of the rows of the ranking that are shown.

    Attributes:
        find: part of an id or a text, or the whole name of a group; empty for all.
        sort: a name of `SORTS`.
        down: whether the largest is first.
        page: the number of the page, from 1; after the last page it stands for the last page.
    """

    find: str = ""
    sort: str = "rank"
    down: bool = False
    page: int = 1


def ranking_rows(service: LabellingService, view: View) -> dict[str, Any]:
    """The rows of one page, the number of items found, of pages, and the number of this page.

    Cost: proportional to the rows of the page. The first page after a fit also takes a sort of all
    items, unless they are shown as ranked; the first page of a search takes a pass over all items.
    """
    if not service.is_fitted:
        return {"ranking": [], "found": 0, "page": 1, "pages": 1}
    items, ranking = service.items, service.ranking
    matching = _matching_items(items, ranking, view.sort, view.down, view.find.strip().casefold())
    n_pages = max(-(-len(matching) // ROWS), 1)
    page = min(view.page, n_pages)
    on_page = matching[(page - 1) * ROWS : page * ROWS].tolist()
    rows = [_row(items, ranking, item) for item in on_page]
    return {"ranking": rows, "found": len(matching), "page": page, "pages": n_pages}


def _row(items: Items, ranking: Ranking, item: int) -> dict[str, Any]:
    """An item's row: how it is shown, its group and the group's size, figures and their texts."""
    group = None if items.groups is None else items.groups[item]
    row = item_cell(items, item)
    row["group"] = group
    row["of"] = len(items) if group is None else _group_sizes(items)[group]
    for name in COLUMNS:
        row[name] = plain(getattr(ranking, name)[item])
    row[TOP] = None if ranking.among_top is None else plain(ranking.among_top[item])
    row["cells"] = _figure_texts(ranking, item)
    return row


def _figure_texts(ranking: Ranking, item: int) -> dict[str, str]:
    """The figures of an item as text; the probability of the top only if there is a top."""
    names = COLUMNS if ranking.among_top is None else (*COLUMNS, TOP)
    return {name: page_cell(name, getattr(ranking, name)[item]) for name in names}


def item_cell(items: Items, item: int) -> dict[str, Any]:
    """An item in a table: its number, id, the start of its text, and the address of its image."""
    text = items.texts[item]
    return {
        "item": item,
        "id": items.ids[item],
        "text": text and shorten(text[: 2 * SNIPPET], SNIPPET, placeholder=" …"),
        "image": None if items.images[item] is None else f"/image/{item}",
    }


# The page asks every few seconds. With a million items, a search or a sort takes longer than
# everything else that a request does.
@lru_cache(maxsize=2)
def _matching_items(items: Items, ranking: Ranking, sort: str, down: bool, find: str) -> I64:
    """The items that match, in the order of a column."""
    order = _in_order(items, ranking, sort, down)
    if not find:
        return order
    group_names = [group.casefold() for group in items.groups or ()]
    if find in group_names:
        is_match = (group_names[item] == find for item in order.tolist())
    else:
        is_match = (
            _has(items.ids[item], find) or _has(items.texts[item], find) for item in order.tolist()
        )
    return order[np.fromiter(is_match, np.bool_, len(order))]


def _has(text: str | None, find: str) -> bool:
    return text is not None and find in text.casefold()


@lru_cache(maxsize=2)
def _in_order(items: Items, ranking: Ranking, sort: str, down: bool) -> I64:
    """The items by a column; ties stay in the order of the ranking, best first, group by group."""
    order = ranking.order[ranking.order < len(items)]
    if sort == "item":
        keys = [(items.texts[item] or items.ids[item]).casefold() for item in order.tolist()]
        return order[sorted(range(len(keys)), key=keys.__getitem__, reverse=down)]
    if sort == "rank" and not down:
        return order
    if sort == TOP and ranking.among_top is None:
        return order
    values = getattr(ranking, sort)[order]
    return order[np.argsort(-values if down else values, kind="stable")]


@lru_cache(maxsize=1)
def _group_sizes(items: Items) -> Counter[str]:
    """The number of items of each group."""
    return Counter(items.groups or ())
