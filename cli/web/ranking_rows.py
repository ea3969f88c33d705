"""Rows of the ranking on the admin page: found, sorted, and one page of them."""

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
    """Which rows are shown.

    Attributes:
        find: part of an id or a text, or the whole name of a group; empty for all.
        sort: a name of `SORTS`.
        down: whether the largest is first.
        page: from 1; the last one if there are fewer.
    """

    find: str = ""
    sort: str = "rank"
    down: bool = False
    page: int = 1


def ranking_rows(service: LabellingService, view: View) -> dict[str, Any]:
    """The rows of one page, the number of all that were found, of pages, and this one's.

    Cost: that of the rows. The first page after a fit also takes a sort of all items, unless they
    are shown as ranked, and the first one of a search a pass over them.
    """
    if not service.is_fitted:
        return {"ranking": [], "found": 0, "page": 1, "pages": 1}
    items, ranking = service.items, service.ranking
    found = _found(items, ranking, view.sort, view.down, view.find.strip().casefold())
    pages = max(-(-len(found) // ROWS), 1)
    page = min(view.page, pages)
    groups, sizes = items.groups, _sizes(items)
    rows = [
        item_shown(items, n)
        | {"group": groups and groups[n], "of": sizes[groups[n]] if groups else len(items)}
        | {name: plain(getattr(ranking, name)[n]) for name in COLUMNS}
        | {TOP: None if ranking.among_top is None else plain(ranking.among_top[n])}
        | {"cells": _cells(ranking, n)}
        for n in found[(page - 1) * ROWS : page * ROWS].tolist()
    ]
    return {"ranking": rows, "found": len(found), "page": page, "pages": pages}


def _cells(ranking: Ranking, n: int) -> dict[str, str]:
    """The figures of an item as text; the probability of the top only if there is a top."""
    names = COLUMNS if ranking.among_top is None else (*COLUMNS, TOP)
    return {name: page_cell(name, getattr(ranking, name)[n]) for name in names}


def item_shown(items: Items, n: int) -> dict[str, Any]:
    """An item in a table: its number, id, the start of its text, and the address of its image."""
    text = items.texts[n]
    return {
        "item": n,
        "id": items.ids[n],
        "text": text and shorten(text[: 2 * SNIPPET], SNIPPET, placeholder=" …"),
        "image": None if items.images[n] is None else f"/image/{n}",
    }


# The page asks every few seconds; of a million items a search or a sort takes longer than all else.
@lru_cache(maxsize=2)
def _found(items: Items, ranking: Ranking, sort: str, down: bool, find: str) -> I64:
    """The items that match, in the order of a column."""
    order = _in_order(items, ranking, sort, down)
    return _matching(items, order, find) if find else order


def _matching(items: Items, order: I64, find: str) -> I64:
    folded = [group.casefold() for group in items.groups or ()]
    if find in folded:
        matching = (folded[n] == find for n in order.tolist())
    else:
        matching = (_has(items.ids[n], find) or _has(items.texts[n], find) for n in order.tolist())
    return order[np.fromiter(matching, np.bool_, len(order))]


def _has(text: str | None, find: str) -> bool:
    return text is not None and find in text.casefold()


@lru_cache(maxsize=2)
def _in_order(items: Items, ranking: Ranking, sort: str, down: bool) -> I64:
    """The items by a column; those that are alike stay as ranked, best first, group by group."""
    order = ranking.order[ranking.order < len(items)]
    if sort == "item":
        key = [(items.texts[n] or items.ids[n]).casefold() for n in order.tolist()]
        return order[sorted(range(len(key)), key=key.__getitem__, reverse=down)]
    if sort == "rank" and not down:
        return order
    if sort == TOP and ranking.among_top is None:
        return order
    values = getattr(ranking, sort)[order]
    return order[np.argsort(-values if down else values, kind="stable")]


@lru_cache(maxsize=1)
def _sizes(items: Items) -> Counter[str]:
    """The number of items of each group."""
    return Counter(items.groups or ())
