"""Find the rank of one item by binary search with an annotator as the comparator."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np

from cli.terminal.asking import NOT_STORED, Asking
from cli.terminal.front import QUIT, UNDO, Front
from sortnet.errors import SortNetError
from sortnet.messages import known_names
from sortnet.preference import Judgement, Question
from sortnet.preference.base import ORDER_ANSWERS

STRATEGY = "place"  # name of this way to choose questions, stored with each question


class _Interrupted(Exception):
    """Raised if the annotator quits or has given as many answers as were asked for, or undoes one.

    The argument is QUIT or UNDO.
    """


def place_item(asking: Asking, front: Front, id: str, number: int | None) -> dict[str, Any]:
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
        Facts for JSON: `why`, a sentence that says why the search ended; the item as `placed`; and
        its `rank`, or None.

    Raises:
        SortNetError: if there is no such item, or another annotator has reserved a pair.
    """
    service = asking.service
    if id not in service.items.ids:
        known = known_names(service.items.ids, id)
        raise SortNetError(
            f"collection {service.collection.name!r} has no item {id!r}; items: {known}"
        )
    item = service.items.ids.index(id)
    if item in service.study.retired:
        raise SortNetError(f"item {id!r} is retired: sortnet items restore brings it back")
    # An earlier run of the same annotator may have been killed while it had pairs reserved. This
    # process takes over these reservations, and then cancels them.
    service.next(asking.annotator, 0)  # renews leases
    service.release(asking.annotator)
    search = _Search(asking, front, item, number)
    if not search.pivots:
        raise SortNetError(f"item {id!r} cannot be compared with any other item")
    while True:
        try:
            rank = 1 + bisect_left(search.pivots, True, key=search.is_better)
        except _Interrupted as interrupted:
            if interrupted.args == (UNDO,):
                continue  # the search restarts with the remaining answers
            why = f"{id} has no place yet: resume with the same command"
            return {"why": why, "placed": id, "rank": None}
        why = f"{id} is number {rank} of {len(search.pivots) + 1}"
        return {"why": why, "placed": id, "rank": rank}


class _Search:
    """Comparison of an item with the others by an annotator, for a binary search.

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

    def is_better(self, pivot: int) -> bool:
        """Whether the item is better than a pivot; an item that ties is not.

        If the annotator skips or cannot decide the pair, the model's scores decide.

        Raises:
            _Interrupted: if the annotator quits, has given the number of answers, or undoes one.
            SortNetError: if the pair cannot be asked about now.
        """
        judgement = self._last_judgement(pivot)
        while judgement is None:
            self._ask(pivot)
            judgement = self._last_judgement(pivot)
        if judgement.answer not in ORDER_ANSWERS:
            return bool(self._scores[self._item] > self._scores[pivot])
        return judgement.best == self._item

    def _last_judgement(self, pivot: int) -> Judgement | None:
        """Find the annotator's last judgement about the item and a pivot, without undone ones.

        Skips and can't-says count only if they were given in this search. If no judgement counts,
        the result is None.
        """
        judgements = self._asking.service.session.judgements()
        is_by_annotator = judgements.by(self._asking.annotator)
        rows = np.flatnonzero(judgements.is_pair & judgements.live & is_by_annotator)
        for row in reversed(rows.tolist()):
            judgement = judgements[row]
            is_of_this_search = judgement.number > self._n_events_before
            counts = judgement.answer in ORDER_ANSWERS or is_of_this_search
            if judgement.undoes is None and counts and {*judgement.items} == {self._item, pivot}:
                return judgement
        return None

    def _ask(self, pivot: int) -> None:
        """Ask the annotator to compare the item with a pivot, and store an answer.

        The question is not asked if new answers were read from the store in place of a lease: the
        annotator may have answered the question in another process.
        """
        asking = self._asking
        service = asking.service
        if self._number is not None and asking.n_new >= self._number:
            raise _Interrupted(QUIT)
        # The item takes the left place in about half of the pairs, so that an annotator who prefers
        # the left place does not favour the item.
        pair = (self._item, pivot) if pivot % 2 else (pivot, self._item)
        question = Question(pair, STRATEGY, probability=1.0, model=service.session.events)
        leases = service.lease(asking.annotator, [question])
        why_closed = service.why_closed(asking.annotator)
        if why_closed:
            raise SortNetError(why_closed)
        if not leases and service.sync():
            return
        if not leases:
            reserved = " and ".join(service.items.ids[item] for item in pair)
            raise SortNetError(f"another annotator is asked about {reserved} now: try again later")
        outcome = asking.ask(self._front, leases[0])
        if outcome in (QUIT, UNDO):
            service.release(asking.annotator)
            raise _Interrupted(outcome)
        if outcome not in NOT_STORED:
            service.keep_fitted(wait=True)
