"""The answers of a run's judges: judgements of a collection that the run owns.

Documents become items of the collection when a judge is asked about them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sqlalchemy import select

from sortnet.core import I64, SPLITS, Pairs, Split
from sortnet.core.pairs import unordered, unpacked
from sortnet.items import Items
from sortnet.messages import cut, printable
from sortnet.preference import Judgement
from sortnet.preference.base import Pair
from sortnet.preference.judgement_table import SAME, UNDO, Judgements
from sortnet.preference.study import Decision
from store.collections.collection import Collection
from store.collections.collection_rows import make_collection
from store.database.schema import CollectionRow
from store.runs.run import Run
from store.service.costs import sum_up_costs

# The strategy of the questions that the learning loop chose. Only answers to these are learned
# from, so that people may answer other questions in the collection.
STRATEGY = "loop"
_LONGEST_DOCID = 100  # characters of a document's id within the id of its item
_ID = re.compile(rf"({'|'.join(SPLITS)}) ([0-9]{{1,9}}) ")


def item_ids(split: Split, docids: Sequence[str]) -> tuple[str, ...]:
    """Make the ids of all documents of a part as items, with their numbers in the part.

    >>> item_ids("train", ["a", "b"])
    ('train 0 a', 'train 1 b')
    """
    return tuple(
        f"{split} {number} {cut(printable(docid), _LONGEST_DOCID)}"
        for number, docid in enumerate(docids)
    )


@dataclass(frozen=True, eq=False)
class AskedDocuments:
    """The documents of a run that a judge is asked about, in the order of their numbers.

    Attributes:
        shown: {part: the documents as the judge is shown them}. Empty without a judge.
        items: {part: the same documents as items of the run's collection, under unique ids}.
        value_of_id: {id of an item: the row that a judge gets}, if the judge is a function. Empty
            for all other judges.
    """

    shown: Mapping[Split, Items] = field(default_factory=dict)
    items: Mapping[Split, Items] = field(default_factory=dict)
    value_of_id: Mapping[str, Any] = field(default_factory=dict)


class RunAnswers:
    """The answers of a run's judges, in the collection that the run owns.

    Attributes:
        collection: the collection.
        judgements: the judgements that were stored when the answers were read, and those appended
            since.
        number_of_id: {id: number} of the items.
    """

    def __init__(self, run: Run, *, create: bool = False) -> None:
        """Read the stored answers; `create` makes the collection if the run has none yet.

        Raises:
            StoreError: if there is no collection.
        """
        if create:
            with run.database.transaction(write=True) as connection:
                query = select(CollectionRow.number).where(CollectionRow.name == run.collection)
                if connection.execute(query).first() is None:
                    make_collection(connection, run.collection, seed=run.seed, run=run.number)
        with run.database.one_state():
            self.collection = Collection(run.database, run.collection)
            self.judgements = self.collection.judgements()
            ids = self.collection.items().ids
        self.number_of_id = {id: number for number, id in enumerate(ids)}

    def begin(self, annotator: str, question: str) -> None:
        """Store the question, and that the annotator is a model, before the first answer."""
        is_known = annotator in self.judgements.annotators
        if is_known or annotator in self.collection.study().models:
            return
        self.collection.annotator(annotator)
        decisions = [Decision("model", annotator), Decision("p-measurement", annotator)]
        if self.collection.study().question != question:  # another judge may have been asked first
            decisions.insert(0, Decision("question", reason=question))
        self.collection.decide(*decisions)

    def add_items(self, items: Items) -> None:
        """Add documents as items, under ids of `item_ids`; adding them again changes nothing."""
        self.number_of_id = self.collection.insert_items(items, replace=True)

    def append(self, judgements: Sequence[Judgement], ids: Sequence[str]) -> None:
        """Append answers to the questions of the loop, all or none.

        Args:
            judgements: the answers.
            ids: an id for each answer. Answers whose ids are stored are left out, so that appending
                them again changes nothing.
        """
        now = self.collection.clock()
        timed = [replace(judgement, at=now) for judgement in judgements]
        self.collection.append(timed, ids=ids)
        self.judgements.extend(Judgements(timed))

    def targets(self, split: Split, annotator: str | None = None) -> dict[Pair, float]:
        """Return the result of `targets_of` for the answers about the documents of a part.

        Args:
            split: name of the part.
            annotator: whose answers are read; None: those of all judges.
        """
        documents = self._documents_of(split)
        is_of_part = (documents[self.judgements.items[:, :2]] >= 0).all(axis=1)
        is_learned = self.judgements.is_pair & (self.judgements.strategy == STRATEGY)
        is_learned &= self.judgements.live & (self.judgements.answer != UNDO)
        if annotator is not None:
            is_learned &= self.judgements.by(annotator)
        return targets_of(self.judgements.where(is_learned & is_of_part), documents)

    def counts(self) -> dict[Split, int]:
        """Return {part: number of pairs that have an answer about their order}, without skips."""
        return {split: self._n_answered(split) for split in SPLITS}

    def n_answered_by(self, annotator: str) -> int:
        """Return the number of pairs whose order an annotator has told, without skips."""
        return sum(self._n_answered(split, annotator) for split in SPLITS)

    def _n_answered(self, split: Split, annotator: str | None = None) -> int:
        """Count the pairs of a part that have an answer about their order."""
        return sum(not math.isnan(target) for target in self.targets(split, annotator).values())

    def cost(self) -> float | None:
        """Return the cost of all stored answers; None if no cost is known."""
        cost: float | None = sum_up_costs(self.judgements)["cost"]
        return cost

    def pairs(self, split: Split) -> Pairs:
        """Make training pairs of a part's answers, without pairs that the judge did not decide."""
        targets = self.targets(split)
        decided = {pair: target for pair, target in targets.items() if not math.isnan(target)}
        documents = np.array([*decided], np.int64).reshape(-1, 2)
        return Pairs.judged(documents[:, 0], documents[:, 1], soft=[*decided.values()])

    def _documents_of(self, split: Split) -> I64:
        """Return the index of each item among the documents of a part, (n_items,).

        The index is -1 for an item that is no document of the part.
        """
        matches = [_ID.match(id) for id in self.number_of_id]
        numbers = [int(match[2]) if match and match[1] == split else -1 for match in matches]
        return np.array(numbers, np.int64)


def targets_of(answers: Judgements, documents: I64) -> dict[Pair, float]:
    """Return {pair: probability that its first document is better}; the lower number is first.

    The probability is the mean over the answers about the pair, which may have been asked in both
    orders. It is NaN if no answer is about the order.

    Args:
        answers: answers about two items each.
        documents: (n_items,) the document number of each item.

    >>> both_orders = [
    ...     Judgement.of("m", (1, 0), "left", p=0.9), Judgement.of("m", (0, 1), "right", p=0.3)
    ... ]
    >>> targets_of(Judgements(both_orders), np.array([2, 4]))
    {(2, 4): 0.2}
    """
    left, right = documents[answers.items[:, :2]].T
    by_answer = np.where(answers.answer == SAME, 0.5, answers.best == answers.items[:, 0])
    for_left = np.where(np.isnan(answers.p), by_answer, answers.p)
    for_low = np.where(left < right, for_left, 1 - for_left)
    keys, pair = np.unique(unordered(left, right), return_inverse=True)
    n_decided = np.bincount(pair, answers.is_order, minlength=len(keys))
    sums = np.bincount(pair, np.where(answers.is_order, for_low, 0), minlength=len(keys))
    undecided = np.full(len(keys), math.nan)
    means = np.divide(sums, n_decided, out=undecided, where=n_decided > 0)
    means = means.round(12)  # so that 1 - 0.9 is 0.1
    low, high = unpacked(keys)
    pairs = zip(low.tolist(), high.tolist(), strict=True)
    return dict(zip(pairs, means.tolist(), strict=True))
