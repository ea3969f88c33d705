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


class _Undone(Exception):
    """An answer was undone: the search must restart; it reuses the answers that are left."""


def place_item(
    asking: Asking, front: Front, id: str, number: int | None
) -> tuple[str, dict[str, Any]]:
    """Ask at most ceil(log2 n) questions to find the rank of an item.

    The item is placed among the other items of its group, or of the collection, in the current
    order of the model. Earlier answers of the annotator about these pairs count. The model decides
    pairs that the annotator skips or cannot decide.

    Args:
        asking: the annotator and the service.
        front: the user interface.
        id: the id of the item.
        number: answers after which the search ends; None: no limit.

    Returns:
        A sentence that says why the search ended, and the facts: the item and its rank, or None.

    Raises:
        SortNetError: if there is no such item, or another annotator has reserved a pair.
    """
    service = asking.service
    items = service.items
    collection = service.collection
    if id not in items.ids:
        raise SortNetError(f"collection {collection.name!r} has no item {id!r}")
    if items.ids.index(id) in service.study.retired:
        raise SortNetError(f"item {id!r} is retired: sortnet items restore brings it back")
    # A killed session of this annotator may have left reserved pairs: take them over and free them.
    service.held(asking.annotator)
    service.release(asking.annotator)
    search = _Search(asking, front, items.ids.index(id), number)
    if not search.pivots:
        raise SortNetError(f"item {id!r} cannot be compared with any other item")
    try:
        rank = search.rank()
    except _Stopped:
        return f"{id} has no place yet: resume with the same command", {"placed": id, "rank": None}
    return f"{id} is number {rank} of {len(search.pivots) + 1}", {"placed": id, "rank": rank}


class _Search:
    """A binary search for the rank of an item.

    Attributes:
        pivots: the items that the item may be compared with, best first.
    """

    def __init__(self, asking: Asking, front: Front, item: int, number: int | None) -> None:
        self._asking = asking
        self._front = front
        self._item = item
        self._number = number
        session = asking.service.session
        ranking = asking.service.ranking
        self._n_events_before = session.events
        self._score = ranking.score.tolist()
        self.pivots = [
            pivot
            for pivot in ranking.order.tolist()
            if pivot != item and session.allows((min(item, pivot), max(item, pivot)))
        ]

    def rank(self) -> int:
        """The rank of the item, 1 for the best."""
        while True:
            live = LiveRanking(self._prefer, [(pivot, pivot) for pivot in self.pivots])
            with suppress(_Undone):
                return live.insert(self._item, self._item)

    def _prefer(self, item: int, pivot: int) -> float:
        """Compare the two items: 1 if `item` is better, -1 if `pivot` is better, 0 for a tie.

        If the annotator skips or cannot decide the pair, the result is the difference of the
        model's scores.
        """
        while (judgement := self._judgement_about(pivot)) is None:
            self._ask(pivot)
        if judgement.answer not in TARGETS:
            return float(self._score[item] - self._score[pivot])
        target = TARGETS[judgement.answer]
        return 2 * (target if judgement.left == item else 1 - target) - 1

    def _judgement_about(self, pivot: int) -> Judgement | None:
        """The annotator's last judgement about the item and the pivot that is not undone.

        Skips and can't-says count only if they were given in this search. None: no judgement
        counts.
        """
        judgements = self._asking.service.session.judgements()
        is_pair = (judgements.left == self._item) & (judgements.right == pivot)
        is_pair |= (judgements.left == pivot) & (judgements.right == self._item)
        by_number: dict[int, Judgement] = {}
        for judgement in judgements.where(is_pair & judgements.by(self._asking.annotator)):
            if judgement.undoes is not None:
                by_number.pop(judgement.undoes, None)
            elif judgement.answer in TARGETS or judgement.number > self._n_events_before:
                by_number[judgement.number] = judgement
        return next(reversed(by_number.values()), None)

    def _ask(self, pivot: int) -> None:
        """Ask about the item and the pivot, and store the answer if there is one."""
        asking = self._asking
        if self._number is not None and asking.n_new >= self._number:
            raise _Stopped
        # The sides alternate, so that a preference for the left does not favour the item.
        places = (self._item, pivot) if pivot % 2 else (pivot, self._item)
        question = Question(*places, STRATEGY, 1.0, asking.service.session.events)
        leases = asking.service.lease(asking.annotator, [question])
        if not leases:
            if closed := asking.service.why_closed(asking.annotator):
                raise SortNetError(closed)
            if asking.service.sync():
                return  # the annotator may have answered in another process
            raise SortNetError(
                f"another annotator is asked about {asking.service.items.ids[self._item]} and "
                f"{asking.service.items.ids[pivot]} now: try again later"
            )
        outcome = asking.ask(self._front, leases[0], self._may_undo)
        if outcome == QUIT:
            raise _Stopped
        if outcome == UNDO:
            asking.service.release(asking.annotator)
            raise _Undone
        if outcome not in NOT_STORED:
            asking.service.update()

    def _may_undo(self) -> bool:
        """Whether the last answer belongs to this search."""
        last = self._asking.service.session.last(self._asking.annotator)
        return last is not None and last.number > self._n_events_before
