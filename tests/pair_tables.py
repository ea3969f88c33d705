"""Tables of compared pairs, made of the better and the worse document of each."""

from __future__ import annotations

from numpy.typing import ArrayLike

from sortnet.core import ComparedPairs, Pairs
from sortnet.core.pairs import unpacked


def table(winner: ArrayLike, loser: ArrayLike, *, wrong: bool = True) -> ComparedPairs:
    """Pairs in order, each once; the sort compared all of them wrongly, or all rightly."""
    key = Pairs(winner, loser).key
    return ComparedPairs.of(*unpacked(key), margin=-1 if wrong else 1, answer=1)
