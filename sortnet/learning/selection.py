"""What to learn from: which pairs the judge is asked about, by strategy.

A strategy is a function of what one sort showed that gives comparisons to ask about, (m,) and
(m,) document numbers of one query each. Those that were asked before cost no further answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from sortnet.comparators import Learner
from sortnet.config import PAIRS
from sortnet.errors import DataError
from sortnet.learning.judges import in_order, judge_by_grades
from sortnet.sorting.sort import margins_of
from sortnet.types import F64, I32, I64, Pairs, Queries
from sortnet.types.shard import before, gathered, offsets_of_all, own, summed

_CANDIDATES = 20  # random pairs looked at for each that `uncertain` chooses,
_AT_ONCE = 1 << 20  # as long as they are no more than this, which bounds memory
_OF_A_QUERY = 1000  # pairs that `even` takes of a query, at least,
_IN_ALL = 1 << 23  # unless these are more in all


@dataclass(frozen=True)
class Shown:
    """What a strategy chooses by: a part, the sort of it and the comparator that sorted it.

    Of a shard the strategies draw from the whole, each process the same, and take what is theirs:
    so the choice does not depend on the number of processes.

    Attributes:
        i, j: what the sort compared, where it was kept, see `compares`.
        comparisons: how many that were.
        wanted: comparisons wanted of the whole; None: as many as the strategy finds right.
        asked: (k,) `keys` of all that was asked of this part before, ascending.
    """

    queries: Queries
    comparator: Learner
    wanted: int | None
    rng: np.random.Generator
    asked: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    i: I32 = field(default_factory=lambda: np.empty(0, np.int32))
    j: I32 = field(default_factory=lambda: np.empty(0, np.int32))
    comparisons: int = 0


Strategy = Callable[[Shown], tuple[I64, I64]]


def compared(shown: Shown) -> tuple[I64, I64]:
    """All that the sort compared, n ceil(log2 n) a query at most."""
    return shown.i.astype(np.int64), shown.j.astype(np.int64)


def every(shown: Shown) -> tuple[I64, I64]:
    """Every pair of a query's documents, n (n - 1) / 2."""
    return all_pairs(shown.queries.offsets)


def neighbours(shown: Shown) -> tuple[I64, I64]:
    """Pairs of adjacent grades, from which the order of all others follows."""
    queries = shown.queries
    i, j = every(shown)
    key = (queries.query_of_docs().astype(np.int64) << 32) | queries.grades
    step = np.searchsorted(np.unique(key), key)  # adjacent grades of a query differ by 1
    adjacent = np.abs(step[i] - step[j]) == 1
    return i[adjacent], j[adjacent]


def random(shown: Shown) -> tuple[I64, I64]:
    """Pairs drawn alike from all: a query of many documents has most of them."""
    sizes = np.diff(offsets_of_all(shown.queries))
    return _drawn(shown, sizes * (sizes - 1) / 2, _wanted(shown))


def even(shown: Shown) -> tuple[I64, I64]:
    """Equally many random pairs of each query, all of a query that has no more.

    Left to itself 1,000, or as many as a sort compares where that is more: n log2 n; but less of
    each where that makes more than 8 million in all.
    """
    sizes = np.diff(offsets_of_all(shown.queries))
    share = np.maximum(_OF_A_QUERY, sizes * np.log2(np.maximum(sizes, 1)))
    if shown.wanted is not None:
        share = np.full(len(sizes), -(-shown.wanted // len(sizes)))
    every_one = sizes * (sizes - 1) // 2
    if shown.wanted is None and (total := np.minimum(share, every_one).sum()) > _IN_ALL:
        share = np.ceil(share * (_IN_ALL / total))
    short = every_one <= share
    ours = shown.queries.sizes
    short_here = short[_own_queries(shown.queries)]
    i, j = all_pairs(np.append(0, np.cumsum(np.where(short_here, ours, 0))))
    docs = np.flatnonzero(np.repeat(short_here, ours))
    drawn = _drawn(shown, np.where(short, 0, share), int(share[~short].sum()))
    return np.append(docs[i], drawn[0]), np.append(docs[j], drawn[1])


def uncertain(shown: Shown) -> tuple[I64, I64]:
    """Of many random pairs, not asked about before, those whose margins are nearest 0.

    The first ones are random: the margins of a comparator that has learned nothing say nothing.
    """
    if not summed(shown.queries, len(shown.asked)):
        return random(shown)
    sizes, n = np.diff(offsets_of_all(shown.queries)), _wanted(shown)
    drawn = _drawn(shown, sizes * (sizes - 1) / 2, min(_CANDIDATES * n, max(2 * n, _AT_ONCE)))
    key, first = np.unique(keys(*drawn), return_index=True)
    first = first[~np.isin(key, shown.asked, assume_unique=True)]
    i, j = drawn[0][first], drawn[1][first]
    distance = np.abs(margins_of(shown.comparator, shown.queries, i, j))
    nearest = np.argsort(gathered(shown.queries, distance), kind="stable")[:n]
    nearest = nearest - before(shown.queries, len(distance))
    nearest = nearest[(nearest >= 0) & (nearest < len(distance))]
    return i[nearest], j[nearest]


STRATEGIES: dict[str, Strategy] = dict(
    zip(PAIRS, (compared, compared, uncertain, random, neighbours, even, every), strict=True)
)


def compares(strategy: str, queries: Queries) -> bool:
    """Whether the strategy takes the pairs that a sort compared."""
    return queries.judged is not None or STRATEGIES[strategy] is compared


def selected(strategy: str, shown: Shown) -> tuple[I64, I64, I64]:
    """The comparisons to ask about, as a strategy chooses them, no more new ones than wanted.

    Args:
        strategy: a name of `STRATEGIES`; of judged pairs all are taken.
        shown: what it chooses by; of more new comparisons than `wanted`, random ones are kept.

    Returns:
        (m,) and (m,) document numbers, no pair twice, and the keys of all asked so far.

    Raises:
        DataError: if `neighbours` finds no two grades.
    """
    grades = gathered(shown.queries, np.unique(shown.queries.grades))
    if strategy == "neighbours" and len(np.unique(grades)) < 2:
        raise DataError(f"{shown.queries.source}: no grades to choose pairs of adjacent ones by")
    judged = shown.queries.judged is not None  # then all that is known is in the data
    i, j = compared(shown) if judged else STRATEGIES[strategy](shown)
    key, first = np.unique(keys(i, j), return_index=True)
    fresh = np.isin(key, shown.asked, assume_unique=True, invert=True)
    new = np.flatnonzero(fresh)
    total = int(summed(shown.queries, len(new)))
    if shown.wanted is not None and total > shown.wanted:
        left_out = shown.rng.permutation(total)[shown.wanted :] - before(shown.queries, len(new))
        kept = np.ones(len(key), np.bool_)
        kept[new[left_out[(left_out >= 0) & (left_out < len(new))]]] = False
        key, first, fresh = key[kept], first[kept], fresh[kept]
    # np.union1d would hash all of them first, which takes ten times as long as this sort.
    return i[first], j[first], np.sort(np.append(shown.asked, key[fresh]), kind="stable")


def keys(i: I64, j: I64) -> I64:
    """(m,) a number for each unordered pair of documents."""
    return (np.minimum(i, j) << 32) | np.maximum(i, j)


def _wanted(shown: Shown) -> int:
    return shown.comparisons if shown.wanted is None else shown.wanted


def _own_queries(queries: Queries) -> slice:
    """Which of all queries these are."""
    first = 0 if queries.shard is None else queries.shard.first
    return slice(first, first + len(queries))


def all_pairs(offsets: I64) -> tuple[I64, I64]:
    """Every pair of documents of one query, i < j."""
    sizes = np.diff(offsets)
    n_after = np.repeat(offsets[1:], sizes) - np.arange(offsets[-1]) - 1
    i = np.repeat(np.arange(offsets[-1]), n_after)
    return i, i + 1 + np.arange(len(i)) - np.repeat(np.cumsum(n_after) - n_after, n_after)


def pairs_of_grades(part: Queries) -> Pairs:
    """Every pair of documents of one query that differ in grade."""
    i, j = all_pairs(part.offsets)
    return in_order(i, j, judge_by_grades(part, i, j))


def _drawn(shown: Shown, weight: F64 | I64, n: int) -> tuple[I64, I64]:
    """n pairs of different documents, each of a query of all drawn by its weight; those of ours."""
    total = float(weight.sum())
    if n <= 0 or total == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    offsets, docs = offsets_of_all(shown.queries), shown.queries.n_docs
    query = shown.rng.choice(len(weight), n, p=weight / total)
    sizes, first = np.diff(offsets)[query], own(shown.queries, offsets[query])
    i = (shown.rng.random(n) * sizes).astype(np.int64)
    j = (i + 1 + (shown.rng.random(n) * (sizes - 1)).astype(np.int64)) % sizes
    ours = (first >= 0) & (first < docs)
    return (first + i)[ours], (first + j)[ours]
