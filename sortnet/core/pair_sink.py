"""Protocol of a store, in memory or a database, that keeps training and validation pairs."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from sortnet.core.compared_pairs import ComparedPairs

Split: TypeAlias = Literal["train", "vali"]
SPLITS: tuple[Split, ...] = ("train", "vali")
NEVER_ADDED = 2**31 - 1  # `first_iteration` of a pair that is in neither TP nor VP
NEVER_WRONG = -1  # `first_wrong` and `last_wrong` of a pair that was never wrong


class PairSink(Protocol):
    """Store of training and validation pairs, and of when each pair was compared wrongly.

    Adding the same iteration again changes nothing.
    """

    def add(
        self,
        split: Split,
        iteration: int,
        pairs: ComparedPairs,
        wrong: ComparedPairs | None = None,
    ) -> None:
        """Add an iteration's pairs to the training or validation pairs; count its wrong pairs.

        Args:
            split: `train` for the training pairs, `vali` for the validation pairs.
            iteration: the number of the iteration.
            pairs: the pairs to add, `in_order`; wrong pairs among them are counted.
            wrong: further wrong pairs to count, `in_order`, which are not added.
        """
        ...

    def pairs(self, split: Split, before: int | None = None) -> ComparedPairs:
        """Return training or validation pairs, each with the better document first, in order.

        A sink does not keep margins and answers: the pairs are made by `ComparedPairs.of_keys`.

        Args:
            split: `train` for the training pairs, `vali` for the validation pairs.
            before: return pairs that were added before this iteration; if None, all pairs.
        """
        ...
