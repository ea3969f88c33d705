"""PairSink: the pairs of TP and VP, whether in memory or in a store."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from sortnet.core.compared_pairs import ComparedPairs

Split: TypeAlias = Literal["train", "vali"]
SPLITS: tuple[Split, ...] = ("train", "vali")
NEVER_ADDED = 2**31 - 1  # the first iteration of a pair that is in neither TP nor VP
NEVER_WRONG = -1  # the first and the last iteration in which such a pair was wrong


class PairSink(Protocol):
    """TP and VP, the pairs to learn from, and how often each pair was in the wrong order.

    Adding the same iteration again changes nothing.
    """

    def add(
        self,
        split: Split,
        iteration: int,
        pairs: ComparedPairs,
        wrong: ComparedPairs | None = None,
    ) -> int:
        """Add an iteration's pairs to TP or VP; returns how many of them are new in this iteration.

        It is counted which pairs were wrong in this iteration: those of `pairs`, and those of
        `wrong`, which may be in neither TP nor VP. Both tables are `in_order`. What several writers
        of different pairs return sums to the new pairs.
        """
        ...

    def pairs(
        self, split: Split, before: int | None = None, docs: tuple[int, int] | None = None
    ) -> ComparedPairs:
        """The pairs of TP or VP that were added before that iteration, `in_order`.

        Margins and answers are not kept: they are as `ComparedPairs.of_keys` gives them. With
        `docs` only pairs whose better document is docs[0] to docs[1] - 1.
        """
        ...
