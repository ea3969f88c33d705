"""Find the rank of one item by binary search with an annotator as the comparator."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from cli.terminal.asking import NOT_STORED, QUIT, UNDO, Asking, Front
from sortnet.errors import SortNetError
from sortnet.preference import Judgement, Question
from sortnet.preference.base import ORDER_ANSWERS
from sortnet.sorting.live import LiveRanking

if TYPE_CHECKING:
    from store import Lease

STRATEGY = "place"  # name of this way to choose questions, stored with each question


class _Stopped(Exception):
    """Raised if the annotator quits, or has given as many answers as were asked for."""


class _Undone(Exception):
    """Raised if an answer is undone: the search restarts with the remaining answers."""


def place_item(
    asking: Asking, front: Front, id: str, number: int | None
) -> tuple[str, dict[str, Any]]:
    """Ask at most ceil(log2 n) questions to find the rank of an item.

    The item is placed among the n - 1 other items of its group, or of the collection if there are
    no groups. The other items keep their present order by the model. Earlier answers of the
    annotator about the same pairs count. The model decides the pairs that the annotator skips or
    cannot decide.

    Args:
        asking: the annotator and the labelling service.
        front: user interface of the annotator.
        id: id of the item.
        number: number of answers after which the search ends; None: no limit.

    Returns:
        A sentence that says why the search ended; and facts for JSON: the item, and its rank or
        None.

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
    # An earlier run of the same annotator may have been killed while it had pairs reserved. This
    # process takes over these reservations, and then cancels them.
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
    """Binary search for the rank of an item.

    Args:
        asking: the annotator and the labelling service.
        front: user interface of the annotator.
        item: number of the item.
        number: number of answers after which the search ends; None: no limit.

    Attributes:
        pivots: numbers of the items with which the item may be compared, best first.
    """

    def __init__(self, asking: Asking, front: Front, item: int, number: int | None) -> None:
        """Note the order and the scores of the other items at the start of the search."""
        self._asking = asking
        self._front = front
        self._item = item
        self._number = number
        session = asking.service.session
        ranking = asking.service.ranking
        self._n_events_before = session.events
        self._scores = ranking.score.tolist()
        self.pivots = [
            pivot
            for pivot in ranking.order.tolist()
            if pivot != item and session.allows((min(item, pivot), max(item, pivot)))
        ]

    def rank(self) -> int:
        """Search until the rank of the item is found; the best item has rank 1.

        After an undone answer the search restarts.
        """
        while True:
            # `LiveRanking` takes pairs (id, item). Here an item's number is used as id and as item.
            live = LiveRanking(self._prefer, [(pivot, pivot) for pivot in self.pivots])
            with suppress(_Undone):
                return live.insert(self._item, self._item)

    def _prefer(self, item: int, pivot: int) -> float:
        """Compare the item with a pivot: 1 if the item is better, -1 if it is worse, 0 for a tie.

        If the annotator skips or cannot decide the pair, the result is the difference of the
        model's scores.
        """
        judgement = self._last_judgement(pivot)
        while judgement is None:
            self._ask(pivot)
            judgement = self._last_judgement(pivot)
        if judgement.answer not in ORDER_ANSWERS:
            return float(self._scores[item] - self._scores[pivot])
        if judgement.best is None:
            return 0.0
        return 1.0 if judgement.best == item else -1.0

    def _last_judgement(self, pivot: int) -> Judgement | None:
        """Find the annotator's last judgement about the item and a pivot, without undone ones.

        Skips and can't-says count only if they were given in this search. If no judgement counts,
        the result is None.
        """
        judgements = self._asking.service.session.judgements()
        has_items = np.isin(judgements.items, (self._item, pivot))
        is_about_both = judgements.is_pair & (has_items.sum(axis=1) == 2)
        is_by_annotator = judgements.by(self._asking.annotator)
        counting: dict[int, Judgement] = {}  # by number, oldest first
        for judgement in judgements.where(is_about_both & is_by_annotator):
            is_preference = judgement.answer in ORDER_ANSWERS
            is_of_this_search = judgement.number > self._n_events_before
            if judgement.undoes is not None:
                counting.pop(judgement.undoes, None)
            elif is_preference or is_of_this_search:
                counting[judgement.number] = judgement
        return next(reversed(counting.values()), None)

    def _ask(self, pivot: int) -> None:
        """Ask the annotator to compare the item with a pivot, and store an answer.

        Raises:
            _Stopped: if the annotator quits, or has given the number of answers.
            _Undone: if the annotator undoes an answer.
            SortNetError: if the pair cannot be asked about now.
        """
        asking = self._asking
        if self._number is not None and asking.n_new >= self._number:
            raise _Stopped
        lease = self._lease(pivot)
        if lease is None:
            return
        outcome = asking.ask(self._front, lease, self._may_undo)
        if outcome == QUIT:
            raise _Stopped
        if outcome == UNDO:
            asking.service.release(asking.annotator)
            raise _Undone
        if outcome not in NOT_STORED:
            asking.service.keep_fitted(wait=True)

    def _lease(self, pivot: int) -> Lease | None:
        """Reserve the comparison of the item with a pivot for the annotator.

        If the pair cannot be reserved, but new answers were read from the store, the result is
        None: the annotator may have answered the question in another process.

        Raises:
            SortNetError: if the pair cannot be asked about now.
        """
        asking = self._asking
        # The item takes the left place in about half of the pairs, so that an annotator who prefers
        # the left place does not favour the item.
        left, right = (self._item, pivot) if pivot % 2 else (pivot, self._item)
        n_events = asking.service.session.events
        question = Question((left, right), STRATEGY, probability=1.0, model=n_events)
        leases = asking.service.lease(asking.annotator, [question])
        if leases:
            return leases[0]
        why_closed = asking.service.why_closed(asking.annotator)
        if why_closed:
            raise SortNetError(why_closed)
        if asking.service.sync():
            return None
        ids = asking.service.items.ids
        raise SortNetError(
            f"another annotator is asked about {ids[self._item]} and {ids[pivot]} now: try again "
            "later"
        )

    def _may_undo(self) -> bool:
        """Whether the last answer belongs to this search."""
        last = self._asking.service.session.last(self._asking.annotator)
        return last is not None and last.number > self._n_events_before
