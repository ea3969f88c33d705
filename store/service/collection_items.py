"""Rank the items of a collection as a data frame, find one by its id, and decide about it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sortnet.errors import StoreError
from sortnet.files import Record
from sortnet.items import Items, readable_names
from sortnet.messages import known_names
from sortnet.tables.values import date_text

if TYPE_CHECKING:
    import pandas as pd

    from sortnet.preference.intervals import Ranking
    from store import Collection
    from store.service.labelling import LabellingService

COLUMNS = ("rank", "id", "score", "low", "high", "judgements")
TOP = "among_top"  # one more column if the goal is about the top items
FORMATS = {"score": ".2f", TOP: ".0%"}  # formats of values in tables


def page_cell(column: str, value: Any) -> str:
    """Format a value in a column of a ranking for pages, with a space before the percent sign.

    >>> page_cell("among_top", 0.5), page_cell("score", 0.125)
    ('50 %', '0.12')
    """
    return format(value, FORMATS.get(column, "")).replace("%", " %")


def rank_collection(
    collection: Collection, *, group: str | None = None, top: int | None = None
) -> list[tuple[LabellingService, pd.DataFrame]]:
    """Rank the items of a collection by each of its criteria, or by its only question.

    Args:
        group: the only group that is ranked; None: all groups.
        top: number of best items of each group that are in the frame; None: all items.

    Returns:
        The services, each with a frame that has a row for each item, group by group, best first.
        The frame of a criterion has the column `criterion`, too.

    Raises:
        StoreError: if the items have no such group.

    Cost: a fit to all judgements of each criterion.
    """
    from store.service.labelling import LabellingService

    with collection.database.one_state():  # all criteria are ranked as they are at one time
        services = [LabellingService(criterion) for criterion in collection.asked()]
    items = services[0].items  # the criteria of a collection have the same items
    groups = list(dict.fromkeys(items.groups or ()))
    if group is not None and group not in groups:
        names = known_names(groups, group) if groups else "none (items add --group)"
        raise StoreError(
            f"collection {collection.name!r} has no group {group[:60]!r}; groups: {names}"
        )
    rankings = []
    for service in services:
        service.settle()
        frame = ranking_frame(service.ranking, service.items)
        if group is not None:
            frame = frame[frame["group"] == group]
        if top is not None:
            of_groups = frame if items.groups is None else frame.groupby("group", sort=False)
            frame = of_groups.head(top)
        criterion = service.collection.criterion
        if criterion is not None:
            frame.insert(0, "criterion", criterion)
        rankings.append((service, frame))
    return rankings


def ranking_frame(ranked: Ranking, items: Items) -> pd.DataFrame:
    """Make a frame with a row for each item, group by group, best first, indexed by item number."""
    import pandas as pd

    columns = {name: getattr(ranked, name)[ranked.order] for name in COLUMNS if name != "id"}
    columns["id"] = [items.ids[number] for number in ranked.order]
    frame = pd.DataFrame(columns, index=ranked.order, columns=list(COLUMNS))
    if ranked.among_top is not None:
        frame[TOP] = ranked.among_top[ranked.order]
    if items.groups is not None:
        frame.insert(0, "group", [items.groups[number] for number in ranked.order])
    return frame


def decide_about_item(collection: Collection, kind: str, id: str, reason: str | None) -> None:
    """Store a decision about an item, such as `retire` or `restore`.

    Raises:
        StoreError: if the collection has no such item.
    """
    from sortnet.preference.study import Decision

    number = _number_of(id, collection, collection.items())
    collection.decide(Decision(kind, item=number, reason=reason))


def item_record(collection: Collection, id: str) -> Record:
    """Return the facts about an item, and its features as {readable name: value}.

    The value of a missing feature is None, and the value of a date is a text.

    Raises:
        StoreError: if the collection has no such item.
    """
    items = collection.items()
    number = _number_of(id, collection, items)
    columns = collection.settings.get("columns") or {}
    names = readable_names(items.feature_names, columns)
    values = items.features[number].tolist()
    dates = columns.get("dates") or ()  # the features that are dates
    features: Record = {}
    for stored_name, name, value in zip(items.feature_names, names, values, strict=True):
        if math.isnan(value):
            features[name] = None
        elif stored_name in dates:
            features[name] = date_text(value)
        else:
            features[name] = value
    return {**item_facts(items, number), "features": features}


def item_facts(items: Items, number: int) -> Record:
    """Return the id of an item, and its text, files, group and shown columns if it has them."""
    columns = {
        "text": items.texts,
        "image": items.images,
        "audio": items.audio,
        "group": items.groups,
        "context": items.contexts,
        "shown": items.shown,
    }
    facts: Record = {"id": items.ids[number]}
    for name, values in columns.items():
        if values and values[number] is not None:
            facts[name] = values[number]
    return facts


def _number_of(id: str, collection: Collection, items: Items) -> int:
    """Return the number of the item with an id; StoreError if the collection has no such item."""
    if id not in items.ids:
        known = known_names(items.ids, id)
        raise StoreError(f"collection {collection.name!r} has no item {id[:60]!r}; items: {known}")
    return items.ids.index(id)
