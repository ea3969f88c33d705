"""Find the rank of one item by binary search with an annotator as the comparator."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from cli.terminal.asking import NOT_STORED, QUIT, UNDO, Asking, Front
from sortnet.errors import SortNetError
from sortnet.preference import Judgement, Question
from sortnet.preference.base import TARGETS
from sortnet.sorting.live import LiveRanking

STRATEGY = "place"


class _Stopped(Exception):
    """The annotator quit, or reached the number of answers."""


class _Again(Exception):
    """An answer was undone: the search restarts, and reuses the answers it has."""


def place_item(
    asking: Asking, front: Front, id: str, number: int | None
) -> tuple[str, dict[str, Any]]:
    """Ask at most ceil(log2 n) questions to place an item; return why it ended, and its rank.

    The others, of its group where there are groups, are in the current order of the model. Earlier
    answers of the annotator about these pairs count. Pairs that they skip or cannot decide are
    decided by the model.

    Raises:
        SortNetError: if there is no such item, or another annotator has reserved a pair.
    """
    service = asking.service
    items, collection = service.items, service.collection
    if id not in items.ids:
        raise SortNetError(f"collection {collection.name!r} has no item {id!r}")
    if items.ids.index(id) in service.study.retired:
        raise SortNetError(f"item {id!r} is retired: sortnet items restore brings it back")
    service.held(asking.annotator)  # takes over pairs that a killed session has reserved
    service.release(asking.annotator)
    search = _Search(asking, front, items.ids.index(id), number)
    if not search.others:
        raise SortNetError(f"item {id!r} may be compared with no other")
    try:
        rank = search.rank()
    except _Stopped:
        return f"{id} has no place yet: resume with the same command", {"placed": id, "rank": None}
    return f"{id} is number {rank} of {len(search.others) + 1}", {"placed": id, "rank": rank}


class _Search:
    def __init__(self, asking: Asking, front: Front, item: int, number: int | None) -> None:
        self._asking, self._front, self._item, self._number = asking, front, item, number
        self._first_event = asking.service.session.events
        ranking, allows = asking.service.ranking, asking.service.session.allows
        self._score = ranking.score.tolist()
        others = (k for k in ranking.order.tolist() if k != item)
        self.others = [k for k in others if allows((min(item, k), max(item, k)))]

    def rank(self) -> int:
        while True:
            live = LiveRanking(self._prefer, [(k, k) for k in self.others])
            with suppress(_Again):
                return live.insert(self._item, self._item)

    def _prefer(self, item: int, other: int) -> float:
        """1 if the item is better, -1 if the other one is, 0 for a tie."""
        while (said := self._said(other)) is None:
            self._ask(other)
        if said.answer not in TARGETS:
            return float(self._score[item] - self._score[other])
        target = TARGETS[said.answer]
        return 2 * (target if said.left == item else 1 - target) - 1

    def _said(self, other: int) -> Judgement | None:
        events = self._asking.service.session.judgements()
        about = (events.left == self._item) & (events.right == other)
        about |= (events.left == other) & (events.right == self._item)
        standing: dict[int, Judgement] = {}
        for event in events.where(about & events.by(self._asking.annotator)):
            if event.undoes is not None:
                standing.pop(event.undoes, None)
            elif event.answer in TARGETS or event.number > self._first_event:
                standing[event.number] = event
        return next(reversed(standing.values()), None)

    def _ask(self, other: int) -> None:
        asking = self._asking
        if self._number is not None and asking.answered - asking.began >= self._number:
            raise _Stopped
        session = asking.service.session
        # Alternate the sides, so that a preference for the left does not favour the item.
        left, right = (self._item, other)[:: 1 if other % 2 else -1]
        question = Question(left, right, STRATEGY, 1.0, session.events)
        leases = asking.service.lease(asking.annotator, [question])
        if not leases:
            if closed := asking.service.why_closed(asking.annotator):
                raise SortNetError(closed)
            if asking.service.sync():
                return  # perhaps with the answer, by another process of this annotator
            raise SortNetError(
                f"another annotator is asked about {asking.service.items.ids[self._item]} and "
                f"{asking.service.items.ids[other]} now: try again later"
            )
        reply = asking.put(self._front, leases[0], self._may_undo)
        if reply == QUIT:
            raise _Stopped
        if reply == UNDO:
            asking.service.release(asking.annotator)
            raise _Again
        if reply not in NOT_STORED:
            asking.service.update()

    def _may_undo(self) -> bool:
        """Whether the last answer belongs to this search."""
        last = self._asking.service.session.last(self._asking.annotator)
        return last is not None and last.number > self._first_event
