"""A committee: comparators trained from different seeds whose margins are summed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sortnet.comparators.forms import Form, joined
from sortnet.core import F32
from sortnet.core.arrays import Ints
from sortnet.errors import ComparatorError

if TYPE_CHECKING:
    from torch import Tensor

    from sortnet.comparators.base import NeuralComparator


class Committee:
    """Comparator whose margin is the sum of its members' margins.

    It is antisymmetric if every member is antisymmetric.

    >>> import numpy as np
    >>> from sortnet.comparators import CmpNN
    >>> pair = Committee([CmpNN(2, hidden=3, seed=s) for s in (0, 1)])
    >>> X = np.eye(2, dtype=np.float32)
    >>> total = sum(net.prefer(net.prepare(X), [0], [1]) for net in pair.members)
    >>> bool(np.allclose(pair.prefer(pair.prepare(X), [0], [1]), total))
    True

    Cost: the sum of its members' costs.
    """

    def __init__(self, members: Sequence[NeuralComparator]) -> None:
        """Keep the members; raise ComparatorError if they do not take the same features."""
        if not members:
            raise ComparatorError("a committee needs at least one comparator")
        if len({member.n_features for member in members}) > 1:
            raise ComparatorError("the comparators of a committee must take the same features")
        self.members = tuple(members)

    def kernel(self) -> Form | None:
        """Describe the summed margin for the compiled sort.

        Return None if the compiled sort cannot compute a member's margin or the sum, or for a
        subclass, which may compare in another way.
        """
        if type(self) is not Committee:
            return None
        return joined([member.kernel() for member in self.members])

    def prepare(self, X: F32) -> list[Tensor]:
        return [member.prepare(X) for member in self.members]

    def prefer(self, prepared: list[Tensor], i: Ints, j: Ints) -> F32:
        total: F32 = np.sum(self._margins(prepared, i, j), axis=0, dtype=np.float32)
        return total

    def _margins(self, prepared: list[Tensor], i: Ints, j: Ints) -> list[F32]:
        """Compute the margins, (m,), of documents i over documents j by each member."""
        return [
            member.prefer(prepared_by_member, i, j)
            for member, prepared_by_member in zip(self.members, prepared, strict=True)
        ]

    def spread(self, prepared: list[Tensor], i: Ints, j: Ints) -> F32 | None:
        """Compute the standard deviation (m,) of the members' margins; None for one member."""
        if len(self.members) == 1:
            return None
        margins = self._margins(prepared, i, j)
        spread: F32 = np.std(margins, axis=0, dtype=np.float32)
        return spread
