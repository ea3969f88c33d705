"""Protocols between the parts of the project: comparators, judges, and stores of pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from sortnet.core.arrays import F32, F64, Ints
from sortnet.core.compared_pairs import ComparedPairs

if TYPE_CHECKING:
    from sortnet.core import Queries

# A function of the scaled features, (m, d), of the first and of the second document of m pairs. It
# returns the margins, (m,), and their gradients in both features, (m, d) each.
Margin: TypeAlias = Callable[[F64, F64], tuple[F64, F64, F64]]
# A function of queries and of the numbers i and j, (m,), of the documents of m pairs of one query
# each. It returns the probabilities, (m,), that document i is better than document j; NaN for no
# answer. SortNet calls a judge with queries whose features are scaled; `docids` and `rows` identify
# the documents in the caller's data. `learn_to_sort` asks about no pair twice, but a resumed run
# asks again, and needs the same answers.
Judge: TypeAlias = Callable[["Queries", Ints, Ints], F32]

Split: TypeAlias = Literal["train", "vali"]
SPLITS: tuple[Split, ...] = ("train", "vali")
NEVER_ADDED = 2**31 - 1  # `first_iteration` of a pair that is in neither TP nor VP
NEVER_WRONG = -1  # `first_wrong` and `last_wrong` of a pair that was never wrong


@runtime_checkable
class Comparator(Protocol):
    """Comparator of documents: `prepare` runs once per document, `prefer` once per comparison."""

    def prepare(self, X: F32) -> Any:
        """Prepare n documents for comparisons, given their scaled features, (n, n_features).

        Returns:
            The prepared documents, any value that `prefer` accepts.
        """
        ...

    def prefer(self, prepared: Any, i: Ints, j: Ints) -> F32:
        """Compute the margins of documents i over documents j, (m,).

        Document i goes first if the margin is positive, document j if it is negative.

        Args:
            prepared: the result of `prepare` for n documents.
            i, j: (m,) numbers of documents, 0 to n - 1.
        """
        ...


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
        """Add an iteration's pairs to the training or validation pairs, and count the wrong pairs.

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
