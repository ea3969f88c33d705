"""Rank the items of a collection by its judgements; the ranking is a data frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sortnet.errors import StoreError
from sortnet.messages import printable

if TYPE_CHECKING:
    import pandas as pd

    from sortnet.items import Items
    from sortnet.preference.intervals import Ranking
    from store import Collection
    from store.service.labelling import LabellingService

COLUMNS = ("rank", "id", "score", "low", "high", "judgements")
TOP = "among_top"  # one more column if the goal is about the top items
FORMATS = {"score": ".2f", TOP: ".0%"}  # of the values in tables


@dataclass(frozen=True, eq=False)
class ItemRanking:
    """The ranking of a collection, or of a criterion of a collection.

    Attributes:
        frame: a row for each item, group by group, best first. The frame of a criterion has the
            column `criterion`, too.
        service: the service whose model ranked the items.
        group: the only group that is ranked; None: all groups.
    """

    frame: pd.DataFrame
    service: LabellingService
    group: str | None = None


def page_cell(column: str, value: Any) -> str:
    """Format a value in a column of a ranking for pages, with a space before the percent sign.

    >>> page_cell("among_top", 0.5), page_cell("score", 0.125)
    ('50 %', '0.12')
    """
    return format(value, FORMATS.get(column, "")).replace("%", " %")


def rank_collection(
    collection: Collection, *, group: str | None = None, top: int | None = None
) -> list[ItemRanking]:
    """Rank the items of a collection by each of its criteria, or by its only question.

    Args:
        group: the only group that is ranked; None: all groups.
        top: number of best items of each group that are in the frame; None: all items.

    Raises:
        StoreError: if the items have no such group.

    Cost: a fit to all judgements of each criterion.
    """
    from store.service.labelling import LabellingService

    with collection.database.one_state():  # all criteria are ranked as they are at one time
        services = [LabellingService(criterion) for criterion in collection.asked()]
    return [_rank_criterion(service, group, top) for service in services]


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


def _rank_criterion(service: LabellingService, group: str | None, top: int | None) -> ItemRanking:
    """Fit the model to a criterion, or to a collection without criteria, and rank the items.

    Args:
        service: the service of the criterion or collection.
        group: the only group that is ranked; None: all groups.
        top: number of best items of each group that are in the frame; None: all items.
    """
    collection = service.collection
    service.settle()
    items = service.items
    groups = list(dict.fromkeys(items.groups or ()))
    if group is not None and group not in groups:
        names = ", ".join(map(printable, groups[:10])) or "none (items add --group)"
        raise StoreError(
            f"collection {collection.name!r} has no group {group[:60]!r}; groups: {names}"
        )
    frame = ranking_frame(service.ranking, items)
    n_shown = top or len(items)
    if items.groups is None:
        frame = frame.head(n_shown)
    else:
        if group is not None:
            frame = frame[frame["group"] == group]
        frame = frame.groupby("group", sort=False).head(n_shown)
    if collection.criterion is not None:
        frame.insert(0, "criterion", collection.criterion)
    return ItemRanking(frame, service, group)
