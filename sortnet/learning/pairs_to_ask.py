"""What to learn from: which pairs the judge is asked about, by strategy.

A strategy is a function of what one sort showed that gives the `keys` of comparisons to ask about,
(m,), in any order. Those that were asked before cost no further answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from sortnet.comparators import TrainableComparator
from sortnet.config import LEARNING
from sortnet.core import F32, F64, I64, Bool, ComparedPairs, Pairs, Queries
from sortnet.core.compared_pairs import is_better_first
from sortnet.core.pairs import is_in, moved, packed, unique, unordered, unpacked
from sortnet.core.shard import before, gathered, offsets_of_all, own, summed
from sortnet.errors import DataError
from sortnet.learning.judges import judge_by_data, judged_by_data
from sortnet.learning.step_budget import MOST_PAIRS
from sortnet.sorting.sort import certainty_of, sort

_CANDIDATES = 20  # random pairs looked at for each that `uncertain` or `top` chooses,
_AT_ONCE = 1 << 20  # as long as they are no more than this, which bounds memory, as elsewhere
_TOP = 0.5  # what a place counts for `top` at the end of a run, where certainty counts 1
_ASKING = 0.6  # the share of a run's trainings over which answers are spent
_OF_A_QUERY = 1000  # pairs that `even` takes of a query, at least,
_PART_OF_VALI = 5  # one answer in as many is about V, where a judge is asked about V too
_DIFFERENT_SORTS = 3  # sorts of as many pairs as all sorts of a run compare, each pair once
_IN_ALL = MOST_PAIRS  # unless these are more in all; also what `compared` learns from in all, about


@dataclass(frozen=True)
class Shown:
    """What a strategy chooses by: a part, the sort of it and the comparator that sorted it.

    Of a shard the strategies draw from the whole, each process the same, and take what is theirs:
    so the choice does not depend on the number of processes.
    """

    queries: Queries
    comparator: TrainableComparator
    wanted: int | None  # comparisons wanted of the whole; None: as many as the strategy finds right
    rng: np.random.Generator
    # (k,) `keys` of all that was asked of this part before, ascending
    asked: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    done: float = 0.0  # share of the run's trainings that are done, 1 before the last one
    order: I64 = field(default_factory=lambda: np.empty(0, np.int64))  # (n_docs,) the ranking
    # what the sort compared, where it was kept, see `compares`
    compared: ComparedPairs = field(default_factory=ComparedPairs.empty)
    comparisons: int = 0  # how many comparisons the sort made in all

    @property
    def number(self) -> int:
        """Comparisons wanted, of a strategy that finds as many right as a sort makes."""
        return self.comparisons if self.wanted is None else self.wanted


Strategy = Callable[[Shown], I64]


def compared(shown: Shown) -> I64:
    """All that the sort compared, n ceil(log2 n) a query at most."""
    return shown.compared.unordered_key


def every(shown: Shown) -> I64:
    """Every pair of a query's documents, n (n - 1) / 2."""
    return unordered(*all_pairs(shown.queries.offsets))


def neighbours(shown: Shown) -> I64:
    """Pairs of adjacent grades, from which the order of all others follows."""
    queries = shown.queries
    i, j = all_pairs(queries.offsets)
    key = packed(queries.query_of_docs(), queries.grades)
    step = np.searchsorted(np.unique(key), key)  # adjacent grades of a query differ by 1
    adjacent = np.abs(step[i] - step[j]) == 1
    return unordered(i[adjacent], j[adjacent])


def random(shown: Shown) -> I64:
    """Pairs drawn alike from all: a query of many documents has most of them."""
    sizes = np.diff(offsets_of_all(shown.queries))
    return _drawn(shown, sizes * (sizes - 1) / 2, shown.number)


def even(shown: Shown) -> I64:
    """Equally many random pairs of each query, all of a query that has no more.

    Left to itself 1,000, or as many as a sort compares where that is more: n log2 n; but less of
    each where that makes more than 2 million in all.
    """
    sizes = np.diff(offsets_of_all(shown.queries))
    share = np.maximum(_OF_A_QUERY, sizes * np.log2(np.maximum(sizes, 1)))
    if shown.wanted is not None:
        share = np.full(len(sizes), -(-shown.wanted // len(sizes)))
    all_of = sizes * (sizes - 1) // 2
    if shown.wanted is None and (total := np.minimum(share, all_of).sum()) > _IN_ALL:
        share = np.ceil(share * (_IN_ALL / total))
    short, ours = all_of <= share, shown.queries.sizes
    first = 0 if shown.queries.shard is None else shown.queries.shard.first
    short_here = short[first : first + len(shown.queries)]
    i, j = all_pairs(np.append(0, np.cumsum(np.where(short_here, ours, 0))))
    docs = np.flatnonzero(np.repeat(short_here, ours))
    drawn = _drawn(shown, np.where(short, 0, share), int(share[~short].sum()))
    return np.append(unordered(docs[i], docs[j]), drawn)


def uncertain(shown: Shown) -> I64:
    """Of many random pairs, not asked about before, those that the comparator is least sure of.

    The first ones are random: the margins of a comparator that has learned nothing say nothing.
    """
    if not summed(shown.queries, len(shown.asked)):
        return random(shown)
    key = _new_random(shown)
    certainty = certainty_of(shown.comparator, shown.queries, *unpacked(key))
    return key[_lowest(shown, gathered(shown.queries, certainty), len(key))]


def top(shown: Shown) -> I64:
    """Pairs that the comparator is least sure of, and more and more those near the top.

    The candidates are the pairs that the sort compared and many random ones, none asked about
    before. Each has the share of the candidates that the comparator is less sure of, plus a times
    the share of those whose better document is placed higher in its query; the lowest sums are
    taken. a grows from 0 to ½ over the run's trainings: the first comparators know little of what
    is near the top. The first pairs are random, as those of `uncertain`.
    """
    if not summed(shown.queries, len(shown.asked)):
        return random(shown)
    key = np.append(_new_random(shown), compared(shown))
    key = unique(key[~is_in(key, shown.asked)])
    i, j = unpacked(key)
    certainty = gathered(shown.queries, certainty_of(shown.comparator, shown.queries, i, j))
    place = _places(shown.queries, shown.order)
    better_place = gathered(shown.queries, np.minimum(place[i], place[j]))
    worth = _shares_below(certainty) + _TOP * shown.done * _shares_below(better_place)
    return key[_lowest(shown, worth, len(key))]


# The choices of `Config.pairs`. Of what `wrong` compared, only the wrong pairs are learned from.
STRATEGIES: dict[str, Strategy] = {
    "wrong": compared,
    "compared": compared,
    "uncertain": uncertain,
    "random": random,
    "neighbours": neighbours,
    "even": even,
    "all": every,
    "top": top,
}
_OF_THE_SORT = (compared, top)  # look at the pairs that a sort compared


def compares(strategy: str, queries: Queries) -> bool:
    """Whether the strategy looks at the pairs that a sort compared."""
    return queries.judged is not None or STRATEGIES[strategy] in _OF_THE_SORT


def kept_share(strategy: str, queries: Queries, n_sorts: int) -> float:
    """Share of the compared pairs that a run keeps: about 2 million in all its sorts.

    A sort compares at most n ceil(log2 n) of the n (n - 1) / 2 pairs of a query. Later sorts mostly
    compare pairs that were compared before: all of them add up to about three sorts' pairs. All
    are kept by the strategy `wrong`, as in Algorithm 3.1, and of judged pairs.
    """
    if queries.judged is not None or strategy == "wrong" or not compares(strategy, queries):
        return 1.0
    sizes = np.diff(offsets_of_all(queries)).astype(np.float64)
    in_a_sort = sizes * np.ceil(np.log2(np.maximum(sizes, 1)))
    n_different = min(n_sorts, _DIFFERENT_SORTS) * in_a_sort
    most = np.minimum(n_different, sizes * (sizes - 1) / 2).sum()
    return float(min(1.0, _IN_ALL / max(most, 1)))


def is_kept(queries: Queries, compared: ComparedPairs, share: float) -> Bool:
    """(m,) whether each compared pair is one of the share to keep, the same ones in each sort.

    A hash of the two documents' numbers decides, so that a pair that is compared again is kept
    again, and the pairs do not depend on the number of processes.
    """
    if share >= 1:
        return np.ones(len(compared), np.bool_)
    key = compared.unordered_key
    if queries.shard is not None:
        key = moved(key, queries.shard.first_doc)
    bits = key.astype(np.uint64)
    for _ in range(2):  # as in the finalizer of SplitMix64
        bits = (bits ^ (bits >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    kept: Bool = (bits >> np.uint64(40)) < share * 2.0**24
    return kept


def wanted(
    strategy: str, judgements: int | None, asked: int, iteration: int, trainings: int
) -> int | None:
    """New answers that a strategy asks for in an iteration; None: as many as it finds right.

    A strategy that chooses by the comparator spends the budget of answers evenly over the first
    three fifths of the trainings: what was learned from the first answers chooses the next, and
    the last trainings learn from all. Another strategy asks for all at once. The last sort, which
    no training follows, asks nothing.

    >>> [wanted("uncertain", 600, min(100 * i, 600), i, trainings=10) for i in (0, 3, 5, 6)]
    [100, 100, 100, 0]
    >>> wanted("even", 800, 0, 0, trainings=1), wanted("even", None, 0, 0, trainings=1)
    (800, None)
    """
    if judgements is None:
        return None
    by_now = judgements
    if strategy in LEARNING:
        rounds = max(1, round(_ASKING * trainings))
        by_now = judgements * (iteration + 1) // rounds
    return max(0, min(by_now, judgements) - asked)


def answers_about_vali(judgements: int | None) -> int | None:
    """Answers about V, of all that a judge may give; None: as many as the strategy finds right.

    >>> answers_about_vali(500), answers_about_vali(3), answers_about_vali(None)
    (100, 1, None)
    """
    return None if judgements is None else max(1, judgements // _PART_OF_VALI)


def selected(strategy: str, shown: Shown) -> tuple[I64, I64]:
    """The comparisons to ask about, as a strategy chooses them, no more new ones than wanted.

    Args:
        strategy: a name of `STRATEGIES`; of judged pairs all are taken.
        shown: what it chooses by; of more new comparisons than `wanted`, random ones are kept.

    Returns:
        (m,) their `keys` and (k,) those of all asked so far, both ascending, none twice.

    Raises:
        DataError: if `neighbours` finds no two grades.
    """
    grades = gathered(shown.queries, np.unique(shown.queries.grades))
    if strategy == "neighbours" and len(np.unique(grades)) < 2:
        raise DataError(f"{shown.queries.source}: no grades to choose pairs of adjacent ones by")
    judged = shown.queries.judged is not None  # then all that is known is in the data
    key = unique(compared(shown) if judged else STRATEGIES[strategy](shown))
    fresh = ~is_in(key, shown.asked)
    new = np.flatnonzero(fresh)
    total = int(summed(shown.queries, len(new)))
    if shown.wanted is not None and total > shown.wanted:
        left_out = shown.rng.permutation(total)[shown.wanted :] - before(shown.queries, len(new))
        kept = np.ones(len(key), np.bool_)
        kept[new[left_out[(left_out >= 0) & (left_out < len(new))]]] = False
        key, fresh = key[kept], fresh[kept]
    # np.union1d would hash all of them first, which takes ten times as long as this sort.
    asked = np.append(shown.asked, key[fresh])
    asked.sort(kind="stable")
    return key, asked


def pairs_to_learn(queries: Queries, key: I64, compared: ComparedPairs) -> ComparedPairs:
    """The chosen pairs that the data can answer, in order: the rows of the sort that compared them.

    A pair that the sort did not compare has a row without a margin.

    Args:
        key: (m,) the chosen pairs, see `selected`.
        compared: what the sort compared, judged.
    """
    key_of_rows = compared.unordered_key
    order = np.argsort(key_of_rows)
    key_of_rows = key_of_rows[order]
    rows = compared.where(order[is_in(key_of_rows, key)])
    new_pairs = answered_pairs(queries, key[~is_in(key, key_of_rows)])
    if len(new_pairs):
        rows = ComparedPairs.joined([rows, new_pairs])
    return rows.in_order()


def answered_pairs(queries: Queries, key: I64) -> ComparedPairs:
    """The pairs of some `keys`, none twice, that the data can answer, in order.

    Cost: temporaries for a million of them, and a sort.
    """
    keys_in_order = [np.empty(0, np.int64)]
    for start in range(0, len(key), _AT_ONCE):
        i, j = unpacked(key[start : start + _AT_ONCE])
        answer = judge_by_data(queries, i, j)
        stays = is_better_first(i, j, answer)
        key_in_order = packed(np.where(stays, i, j), np.where(stays, j, i))
        keys_in_order.append(key_in_order[~np.isnan(answer)])
    key = np.concatenate(keys_in_order)
    key.sort()
    pairs = ComparedPairs.of_keys(key)
    return pairs if queries.judged is None else judged_by_data(queries, pairs)


def ask(strategy: str, shown: Shown) -> tuple[Queries, I64]:
    """Queries with what their judge answers about the comparisons that a strategy chooses.

    Returns:
        The queries and (k,) the `keys` of all asked so far; both as they were without a judge.

    Raises:
        DataError: as `selected` and `answered`.

    Cost: a sort, and one call of the judge.
    """
    if shown.queries.judge is None:
        return shown.queries, shown.asked
    ungraded = replace(shown.queries, judged=None)
    run = sort(shown.comparator, ungraded)
    made = int(summed(ungraded, len(run.compared)))
    shows = replace(
        shown, queries=ungraded, compared=run.compared, comparisons=made, order=run.order
    )
    key, asked = selected(strategy, shows)
    return answered(shown.queries, key[~is_in(key, shown.asked)]), asked


def answered(queries: Queries, key: I64) -> Queries:
    """Queries whose judged pairs hold what their judge says of these comparisons too.

    Raises:
        DataError: if it gives no answer to each, or one that is no probability.
    """
    if queries.judge is None:
        return queries
    known = Pairs.judged([], []) if queries.judged is None else queries.judged
    i, j = unpacked(key[~is_in(key, np.sort(unordered(known.winner, known.loser)))])
    p = np.asarray(queries.judge(queries, i, j) if len(i) else [], np.float64)
    if p.shape != i.shape:
        raise DataError(
            f"{queries.source}: the judge was asked about {len(i)} pairs of documents, and its "
            f"answers have the shape {p.shape}"
        )
    said = ~np.isnan(p)
    return replace(queries, judged=known | Pairs.judged(i[said], j[said], soft=p[said]))


def all_pairs(offsets: I64) -> tuple[I64, I64]:
    """Every pair of documents of one query, i < j."""
    sizes = np.diff(offsets)
    n_after = np.repeat(offsets[1:], sizes) - np.arange(offsets[-1]) - 1
    i = np.repeat(np.arange(offsets[-1]), n_after)
    return i, i + 1 + np.arange(len(i)) - np.repeat(np.cumsum(n_after) - n_after, n_after)


def pairs_of_grades(part: Queries) -> ComparedPairs:
    """Every pair of documents of one query that differ in grade, in order."""
    return answered_pairs(part, unordered(*all_pairs(part.offsets)))


def _new_random(shown: Shown) -> I64:
    """Keys of many random pairs that were not asked about, ascending, for a choice among them."""
    sizes, n = np.diff(offsets_of_all(shown.queries)), shown.number
    drawn = _drawn(shown, sizes * (sizes - 1) / 2, min(_CANDIDATES * n, max(2 * n, _AT_ONCE)))
    key = unique(drawn)
    return key[~is_in(key, shown.asked)]


def _lowest(shown: Shown, values: F32 | F64, n_own: int) -> I64:
    """Own places, from 0, of the lowest of the values of all candidates, as many as are wanted.

    Of a shard the values are of all processes, `n_own` of them of this one.
    """
    lowest = np.argsort(values, kind="stable")[: shown.number]
    own_places = lowest - before(shown.queries, n_own)
    return own_places[(own_places >= 0) & (own_places < n_own)]


def _shares_below(values: F32 | I64) -> F64:
    """(m,) the share of the values that are below each one, from 0 to 1.

    >>> _shares_below(np.array([7, 3, 7, 9]))
    array([0.25, 0.  , 0.25, 0.75])
    """
    shares: F64 = np.searchsorted(np.sort(values), values) / max(len(values), 1)
    return shares


def _places(queries: Queries, order: I64) -> I64:
    """(n_docs,) the place of each document in the ranking of its query, 0 for the first."""
    place = np.empty(queries.n_docs, np.int64)
    place[order] = np.arange(queries.n_docs) - np.repeat(queries.offsets[:-1], queries.sizes)
    return place


def _drawn(shown: Shown, weight: F64 | I64, n: int) -> I64:
    """Keys of n pairs of different documents, each of a query of all drawn by its weight; those of
    ours."""
    total = float(weight.sum())
    if n <= 0 or total == 0:
        return np.empty(0, np.int64)
    offsets, docs = offsets_of_all(shown.queries), shown.queries.n_docs
    sizes, share, parts = np.diff(offsets), weight / total, []
    for start in range(0, n, _AT_ONCE):
        m = min(_AT_ONCE, n - start)
        query = shown.rng.choice(len(weight), m, p=share)
        size, first = sizes[query], own(shown.queries, offsets[query])
        i = (shown.rng.random(m) * size).astype(np.int64)
        j = (i + 1 + (shown.rng.random(m) * (size - 1)).astype(np.int64)) % size
        ours = (first >= 0) & (first < docs)
        parts.append(unordered((first + i)[ours], (first + j)[ours]))
    return np.concatenate(parts)
