"""Strategies, which choose the pairs to ask the judge about, and to learn from.

A strategy is a function of a sorted part that returns the keys of the comparisons to ask about,
(m,), in any order. Comparisons that were asked about before cost no further answer.
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

# Number of random candidates for each pair that `uncertain` or `top` selects. It is lower if there
# would be more than `_AT_ONCE` candidates.
_CANDIDATES = 20
_AT_ONCE = 1 << 20  # pairs processed at a time, which bounds memory
_TOP = 0.5  # weight of the rank in `top` at the end of a run; certainty has weight 1
_ASKING = 0.6  # the share of a run's trainings over which answers are spent
_LEAST_OF_QUERY = 1000  # pairs that `even` selects of a query, at least, if it has as many
_SHARE_OF_VALI = 5  # one answer in 5 is about validation queries
_DIFFERENT_SORTS = 3  # all sorts of a run compare as many different pairs as 3 sorts
_IN_ALL = MOST_PAIRS  # most pairs that `even` selects, or that `compared` learns from


@dataclass(frozen=True)
class SortedPart:
    """Input of a strategy: a part of the data, its ranking, and the comparator that sorted it.

    With several processes a strategy draws from the whole, the same in each process, and each
    process keeps the pairs of its own queries. So the selection does not depend on the number of
    processes.

    Attributes:
        queries: the part, or this process's shard of it.
        comparator: the comparator that sorted the part.
        wanted: number of comparisons to select from the whole; None: the strategy decides.
        rng: source of random pairs.
        asked: (k,) keys of the pairs of this part that were asked about before, ascending.
        done: share of the run's trainings that are done, 1 before the last training.
        order: (n_docs,) the ranking.
        compared: the pairs that the sort compared, where the strategy needs them, see `compares`.
        comparisons: number of all comparisons of the sort.
    """

    queries: Queries
    comparator: TrainableComparator
    wanted: int | None
    rng: np.random.Generator
    asked: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    done: float = 0.0
    order: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    compared: ComparedPairs = field(default_factory=ComparedPairs.empty)
    comparisons: int = 0

    @property
    def number(self) -> int:
        """Number of comparisons to select: `wanted`, by default as many as the sort made."""
        return self.comparisons if self.wanted is None else self.wanted


Strategy = Callable[[SortedPart], I64]


def compared(part: SortedPart) -> I64:
    """Select all pairs that the sort compared: at most n ceil(log2 n) in a query of n documents."""
    return part.compared.unordered_key


def every(part: SortedPart) -> I64:
    """Select all n (n - 1) / 2 pairs of the n documents of each query."""
    return unordered(*all_pairs(part.queries.offsets))


def neighbours(part: SortedPart) -> I64:
    """Select all pairs of adjacent grades, from which the order of all other pairs follows."""
    queries = part.queries
    i, j = all_pairs(queries.offsets)
    key = packed(queries.query_of_docs(), queries.grades)
    step = np.searchsorted(np.unique(key), key)  # adjacent grades of a query differ by 1
    adjacent = np.abs(step[i] - step[j]) == 1
    return unordered(i[adjacent], j[adjacent])


def random(part: SortedPart) -> I64:
    """Draw pairs uniformly from all pairs; most of them come from long queries."""
    sizes = np.diff(offsets_of_all(part.queries))
    return _draw(part, sizes * (sizes - 1) / 2, part.number)


def even(part: SortedPart) -> I64:
    """Draw equally many pairs from each query; a query with fewer pairs gives all its pairs.

    Where the number is open, a query gives 1,000 pairs, or n log2 n, about as many as a sort
    compares, where that is more. All queries give less where that exceeds 2 million in all.
    """
    sizes = np.diff(offsets_of_all(part.queries))
    n_pairs = sizes * (sizes - 1) // 2
    if part.wanted is not None:
        n_wanted = np.full(len(sizes), -(-part.wanted // len(sizes)))
    else:
        n_wanted = np.maximum(_LEAST_OF_QUERY, sizes * np.log2(np.maximum(sizes, 1)))
        total = np.minimum(n_wanted, n_pairs).sum()
        if total > _IN_ALL:
            n_wanted = np.ceil(n_wanted * (_IN_ALL / total))
    gives_all = n_pairs <= n_wanted
    random_keys = _draw(part, np.where(gives_all, 0, n_wanted), int(n_wanted[~gives_all].sum()))
    # This process adds all pairs of those of its own queries that give all their pairs.
    first = 0 if part.queries.shard is None else part.queries.shard.first
    own_gives_all = gives_all[first : first + len(part.queries)]
    own_sizes = part.queries.sizes
    docs = np.flatnonzero(np.repeat(own_gives_all, own_sizes))
    i, j = all_pairs(np.append(0, np.cumsum(np.where(own_gives_all, own_sizes, 0))))
    return np.append(unordered(docs[i], docs[j]), random_keys)


def uncertain(part: SortedPart) -> I64:
    """Select the pairs that the comparator is least sure of from many random candidates.

    No candidate was asked about before. The first pairs of a run are random, since the margins of
    an untrained comparator tell nothing.
    """
    if not summed(part.queries, len(part.asked)):
        return random(part)
    key = _new_random(part)
    certainty = certainty_of(part.comparator, part.queries, *unpacked(key))
    return key[_lowest(part, gathered(part.queries, certainty), len(key))]


def top(part: SortedPart) -> I64:
    """Select pairs that the comparator is unsure of, and prefer top ranks more and more.

    The candidates are the pairs that the sort compared and many random pairs, none of them asked
    about before. A candidate's value is the share of the candidates that the comparator is less
    sure of, plus a times the share of the candidates whose better document is placed higher in its
    query. The lowest values are selected. The factor a grows from 0 to ½ over the run's trainings,
    since the first comparators hardly know what is near the top. The first pairs are random, as
    for `uncertain`.
    """
    if not summed(part.queries, len(part.asked)):
        return random(part)
    key = np.append(_new_random(part), compared(part))
    key = unique(key[~is_in(key, part.asked)])
    i, j = unpacked(key)
    certainty = gathered(part.queries, certainty_of(part.comparator, part.queries, i, j))
    place = _places(part.queries, part.order)
    better_place = gathered(part.queries, np.minimum(place[i], place[j]))
    values = _shares_below(certainty) + _TOP * part.done * _shares_below(better_place)
    return key[_lowest(part, values, len(key))]


# The choices of `Config.pairs`. The strategy `wrong` selects all compared pairs, but a run learns
# only from the wrong ones.
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
_NEED_COMPARISONS = (compared, top)  # strategies that select from the pairs that a sort compared


def compares(strategy: str, queries: Queries) -> bool:
    """Whether a strategy selects from the pairs that a sort compared."""
    return queries.judged is not None or STRATEGIES[strategy] in _NEED_COMPARISONS


def kept_share(strategy: str, queries: Queries, n_sorts: int) -> float:
    """Share of the compared pairs to keep, so that a run keeps about 2 million pairs in all.

    A sort compares at most n ceil(log2 n) of the n (n - 1) / 2 pairs of a query. Later sorts mostly
    compare pairs that were compared before: all sorts together compare about three times as many
    different pairs as one sort. The strategy `wrong` keeps all pairs, as in Algorithm 3.1, and so
    do judged pairs.
    """
    if queries.judged is not None or strategy == "wrong" or not compares(strategy, queries):
        return 1.0
    sizes = np.diff(offsets_of_all(queries)).astype(np.float64)
    n_in_sort = sizes * np.ceil(np.log2(np.maximum(sizes, 1)))
    n_in_run = min(n_sorts, _DIFFERENT_SORTS) * n_in_sort
    total = np.minimum(n_in_run, sizes * (sizes - 1) / 2).sum()
    return float(min(1.0, _IN_ALL / max(total, 1)))


def is_kept(queries: Queries, compared: ComparedPairs, share: float) -> Bool:
    """Whether (m,) each compared pair belongs to the share of pairs that a run keeps.

    A hash of the two documents' numbers decides. So a pair that is compared again is kept again,
    and the kept pairs do not depend on the number of processes.
    """
    if share >= 1:
        return np.ones(len(compared), np.bool_)
    key = compared.unordered_key
    if queries.shard is not None:
        key = moved(key, queries.shard.first_doc)
    bits = key.astype(np.uint64)
    for _ in range(2):  # as in the finalizer of SplitMix64
        bits = (bits ^ (bits >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    is_in_share: Bool = (bits >> np.uint64(40)) < share * 2.0**24
    return is_in_share


def wanted(
    strategy: str, judgements: int | None, n_asked: int, iteration: int, trainings: int
) -> int | None:
    """Number of new answers to ask for in an iteration; None if the strategy decides.

    A strategy that chooses by the comparator spends the budget of answers evenly over the first
    three fifths of the trainings: the comparator learned from the first answers chooses the next
    questions, and the last trainings learn from all answers. Other strategies ask for all answers
    at once. The last sort, which no training follows, asks nothing.

    >>> [wanted("uncertain", 600, min(100 * i, 600), i, trainings=10) for i in (0, 3, 5, 6)]
    [100, 100, 100, 0]
    >>> wanted("even", 800, 0, 0, trainings=1), wanted("even", None, 0, 0, trainings=1)
    (800, None)
    """
    if judgements is None:
        return None
    n_by_now = judgements
    if strategy in LEARNING:
        n_rounds = max(1, round(_ASKING * trainings))
        n_by_now = min(judgements * (iteration + 1) // n_rounds, judgements)
    return max(0, n_by_now - n_asked)


def answers_about_vali(judgements: int | None) -> int | None:
    """Number of answers about validation queries; None if the strategy decides.

    >>> answers_about_vali(500), answers_about_vali(3), answers_about_vali(None)
    (100, 1, None)
    """
    return None if judgements is None else max(1, judgements // _SHARE_OF_VALI)


def selected(strategy: str, part: SortedPart) -> tuple[I64, I64]:
    """Select the comparisons to ask about by a strategy; at most `part.wanted` of them are new.

    Args:
        strategy: a name of `STRATEGIES`. Where the data have judged pairs, all compared pairs are
            selected instead.
        part: the input of the strategy. Where it selects too many new comparisons, a random
            choice of them stays.

    Returns:
        (m,) the keys of the selected pairs, and (k,) the keys of all pairs asked about so far;
        both ascending, without duplicates.

    Raises:
        DataError: if `neighbours` finds no two grades.
    """
    grades = gathered(part.queries, np.unique(part.queries.grades))
    if strategy == "neighbours" and len(np.unique(grades)) < 2:
        raise DataError(f"{part.queries.source}: no grades to choose pairs of adjacent ones by")
    # The data have all answers about judged pairs, so no strategy has to choose.
    choose = compared if part.queries.judged is not None else STRATEGIES[strategy]
    key = unique(choose(part))
    is_new = ~is_in(key, part.asked)
    new_places = np.flatnonzero(is_new)
    n_new = int(summed(part.queries, len(new_places)))
    if part.wanted is not None and n_new > part.wanted:
        # Every process draws the same surplus from the new pairs of all processes, and drops the
        # part of the surplus that belongs to its own pairs.
        surplus = part.rng.permutation(n_new)[part.wanted :]
        surplus -= before(part.queries, len(new_places))
        own_surplus = surplus[(surplus >= 0) & (surplus < len(new_places))]
        stays = np.ones(len(key), np.bool_)
        stays[new_places[own_surplus]] = False
        key, is_new = key[stays], is_new[stays]
    # np.union1d would first hash all keys, which takes ten times as long as this sort.
    asked_keys = np.append(part.asked, key[is_new])
    asked_keys.sort(kind="stable")
    return key, asked_keys


def pairs_to_learn(queries: Queries, key: I64, compared: ComparedPairs) -> ComparedPairs:
    """Selected pairs whose answers the data have, in order.

    A pair that the sort compared keeps its row. Another pair gets a row without a margin.

    Args:
        key: (m,) the selected pairs, see `selected`.
        compared: the comparisons of the sort, judged.
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
    """Pairs in `key`, which has no duplicates, whose answers the data have; in order.

    Cost: temporaries for a million pairs, and a sort.
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


def ask(strategy: str, part: SortedPart) -> tuple[Queries, I64]:
    """Ask the judge of the queries about the comparisons that a strategy selects.

    Returns:
        The queries with the answers, and (k,) the keys of all pairs asked about so far. Without a
        judge both are unchanged.

    Raises:
        DataError: as `selected` and `answered`.

    Cost: a sort, and one call of the judge.
    """
    if part.queries.judge is None:
        return part.queries, part.asked
    ungraded = replace(part.queries, judged=None)
    run = sort(part.comparator, ungraded)
    sorted_part = replace(
        part,
        queries=ungraded,
        compared=run.compared,
        comparisons=int(summed(ungraded, len(run.compared))),
        order=run.order,
    )
    key, asked_keys = selected(strategy, sorted_part)
    return answered(part.queries, key[~is_in(key, part.asked)]), asked_keys


def answered(queries: Queries, key: I64) -> Queries:
    """Add the judge's answers about the pairs in `key` to the queries' judged pairs.

    Raises:
        DataError: if the judge does not answer every pair, or an answer is no probability.
    """
    if queries.judge is None:
        return queries
    judged = Pairs.empty() if queries.judged is None else queries.judged
    judged_keys = np.sort(unordered(judged.winner, judged.loser))
    i, j = unpacked(key[~is_in(key, judged_keys)])
    p = np.asarray(queries.judge(queries, i, j) if len(i) else [], np.float64)
    if p.shape != i.shape:
        raise DataError(
            f"{queries.source}: the judge was asked about {len(i)} pairs of documents, and its "
            f"answers have the shape {p.shape}"
        )
    has_answer = ~np.isnan(p)
    new_pairs = Pairs.judged(i[has_answer], j[has_answer], soft=p[has_answer])
    return replace(queries, judged=judged | new_pairs)


def all_pairs(offsets: I64) -> tuple[I64, I64]:
    """Document numbers i < j of every pair of documents of one query."""
    documents = np.arange(offsets[-1])
    end_of_query = np.repeat(offsets[1:], np.diff(offsets))
    n_after = end_of_query - documents - 1  # documents behind each document in its query
    i = np.repeat(documents, n_after)
    first_pair = np.cumsum(n_after) - n_after
    distance = np.arange(len(i)) - np.repeat(first_pair, n_after) + 1
    return i, i + distance


def pairs_of_grades(part: Queries) -> ComparedPairs:
    """All pairs of documents of one query whose grades differ, in order."""
    return answered_pairs(part, unordered(*all_pairs(part.offsets)))


def _new_random(part: SortedPart) -> I64:
    """Ascending keys of many random pairs that were not asked about, as candidates to select."""
    sizes = np.diff(offsets_of_all(part.queries))
    n_candidates = min(_CANDIDATES * part.number, max(2 * part.number, _AT_ONCE))
    key = unique(_draw(part, sizes * (sizes - 1) / 2, n_candidates))
    return key[~is_in(key, part.asked)]


def _lowest(part: SortedPart, values: F32 | F64, n_own: int) -> I64:
    """Places of the lowest `part.number` values, as far as they belong to this process.

    The values are of the candidates of all processes; `n_own` of them belong to this process.
    """
    lowest = np.argsort(values, kind="stable")[: part.number]
    own_places = lowest - before(part.queries, n_own)
    return own_places[(own_places >= 0) & (own_places < n_own)]


def _shares_below(values: F32 | I64) -> F64:
    """Share (m,), from 0 to 1, of the values that are lower than each value.

    >>> _shares_below(np.array([7, 3, 7, 9]))
    array([0.25, 0.  , 0.25, 0.75])
    """
    shares: F64 = np.searchsorted(np.sort(values), values) / max(len(values), 1)
    return shares


def _places(queries: Queries, order: I64) -> I64:
    """Place (n_docs,) of each document in the ranking of its query, from 0."""
    place = np.empty(queries.n_docs, np.int64)
    place[order] = np.arange(queries.n_docs) - np.repeat(queries.offsets[:-1], queries.sizes)
    return place


def _draw(part: SortedPart, weight: F64 | I64, n: int) -> I64:
    """Draw n pairs of different documents; each query is drawn by its weight.

    Returns:
        Keys of the drawn pairs of this process's queries.
    """
    total = float(weight.sum())
    if n <= 0 or total == 0:
        return np.empty(0, np.int64)
    offsets = offsets_of_all(part.queries)
    sizes = np.diff(offsets)
    share = weight / total
    batches = []
    for start in range(0, n, _AT_ONCE):
        m = min(_AT_ONCE, n - start)
        query = part.rng.choice(len(weight), m, p=share)
        size = sizes[query]
        first = own(part.queries, offsets[query])
        i = (part.rng.random(m) * size).astype(np.int64)
        j = (i + 1 + (part.rng.random(m) * (size - 1)).astype(np.int64)) % size
        is_own = (first >= 0) & (first < part.queries.n_docs)
        batches.append(unordered((first + i)[is_own], (first + j)[is_own]))
    return np.concatenate(batches)
