"""Strategies, which select the pairs to ask the judge about, and to learn from.

A strategy is a function of a sorted part of the data, such as the training queries. It returns the
keys (m,) of the selected pairs, in any order. The key of a pair is its `unordered` number. A pair
that was asked about before costs no further answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from sortnet.comparators import TrainableComparator
from sortnet.config import LEARNING
from sortnet.core import F32, F64, I64, Bool, ComparedPairs, Pairs, Queries
from sortnet.core.compared_pairs import prefers_i
from sortnet.core.pairs import all_pairs, is_in, packed, unique, unordered, unpacked
from sortnet.errors import DataError
from sortnet.learning.judges import judge_by_data, judged_by_data
from sortnet.learning.step_budget import MOST_PAIRS
from sortnet.sorting.sort import certainty_of, sort

# Number of random candidates for each pair that `uncertain` or `top` selects. It is lower if there
# would be more than `_AT_ONCE` candidates.
_CANDIDATES = 20
_AT_ONCE = 1 << 20  # number of pairs processed at a time, which bounds memory
_TOP = 0.5  # weight of the rank in `top` at the end of a run, where certainty has weight 1
_ASKING = 0.6  # share of a run's trainings during which the judge is asked
_SHARE_OF_VALI = 5  # one of 5 answers is about validation queries
_DIFFERENT_SORTS = 3  # all sorts of a run together compare as many different pairs as 3 sorts
_IN_ALL = MOST_PAIRS  # largest number of pairs that `compared` learns from


@dataclass(frozen=True)
class SortedPart:
    """Input of a strategy: a part of the data, its ranking, and the comparator that sorted it.

    Attributes:
        queries: the queries of the part.
        comparator: the comparator that sorted the part.
        wanted: the number of pairs to select; None if the strategy decides.
        rng: the generator of random pairs.
        asked: (k,) ascending keys of the pairs that were asked about before.
        done: the share of the run's trainings that are done, 1 before the last training.
        order: (n_docs,) the ranking: document numbers query by query, best first.
        compared: the pairs that the sort compared, if the strategy needs them, see
            `uses_sorted_pairs`.
        comparisons: the number of all comparisons of the sort.
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
        """Number of pairs to select: `wanted`, by default as many as the sort compared."""
        return self.comparisons if self.wanted is None else self.wanted


Strategy = Callable[[SortedPart], I64]


def compared(part: SortedPart) -> I64:
    """Select all pairs that the sort compared: at most n ceil(log2 n) in a query of n documents."""
    return part.compared.unordered_key


def random(part: SortedPart) -> I64:
    """Draw pairs uniformly from the pairs of all queries; most pairs come from long queries."""
    return _draw(part, part.number)


def uncertain(part: SortedPart) -> I64:
    """Select the pairs that the comparator is least sure of, from many random candidates.

    No candidate was asked about before. The first pairs of a run are random, since the margins of
    an untrained comparator carry no information.
    """
    if not len(part.asked):
        return random(part)
    candidates = _draw_candidates(part)
    certainty = certainty_of(part.comparator, part.queries, *unpacked(candidates))
    return candidates[np.argsort(certainty, kind="stable")[: part.number]]


def top(part: SortedPart) -> I64:
    """Select pairs that the comparator is unsure of, with a growing preference for top ranks.

    The candidates are the pairs that the sort compared and many random pairs. No candidate was
    asked about before. The selected candidates have the lowest values of

        (share of the candidates that the comparator is less sure of)
        + a * (share of the candidates whose better-ranked document has a higher rank)

    The factor a grows from 0 to 1/2 over the run's trainings, since the first comparators hardly
    know which documents are near the top. The first pairs of a run are random, as in `uncertain`.
    """
    if not len(part.asked):
        return random(part)
    candidates = np.append(_draw_candidates(part), compared(part))
    candidates = unique(candidates[~is_in(candidates, part.asked)])
    i, j = unpacked(candidates)
    certainty = certainty_of(part.comparator, part.queries, i, j)
    rank = part.queries.ranks(part.order)
    higher_rank = np.minimum(rank[i], rank[j])
    values = _shares_below(certainty) + _TOP * part.done * _shares_below(higher_rank)
    return candidates[np.argsort(values, kind="stable")[: part.number]]


# The choices of `Config.pairs`. With the strategy `wrong` all compared pairs are selected, but a
# run learns only from the pairs that the comparator compared wrongly.
STRATEGIES: dict[str, Strategy] = {
    "wrong": compared,
    "compared": compared,
    "uncertain": uncertain,
    "random": random,
    "top": top,
}
_NEED_COMPARISONS = (compared, top)  # strategies that select from the pairs that a sort compared


def uses_sorted_pairs(strategy: str, queries: Queries) -> bool:
    """Whether a strategy selects from the pairs that a sort compared; true for judged queries."""
    return queries.judged is not None or STRATEGIES[strategy] in _NEED_COMPARISONS


def kept_share(strategy: str, queries: Queries, n_sorts: int) -> float:
    """Compute the share of the compared pairs to keep, so that a run keeps at most about 2 million.

    A sort compares at most n ceil(log2 n) of the n (n - 1) / 2 pairs of a query. Later sorts mostly
    compare pairs that were compared before: all sorts together compare about three times as many
    different pairs as one sort. The share is 1 for judged pairs, for the strategy `wrong`, as in
    Algorithm 3.1, and for a strategy that does not select from the compared pairs.

    Args:
        strategy: a name of `STRATEGIES`.
        queries: the queries that are sorted.
        n_sorts: the number of sorts of the run.
    """
    is_judged = queries.judged is not None
    if is_judged or strategy == "wrong" or not uses_sorted_pairs(strategy, queries):
        return 1.0
    sizes = queries.sizes.astype(np.float64)
    n_in_sort = sizes * np.ceil(np.log2(np.maximum(sizes, 1)))
    n_in_run = min(n_sorts, _DIFFERENT_SORTS) * n_in_sort
    total = np.minimum(n_in_run, sizes * (sizes - 1) / 2).sum()
    return float(min(1.0, _IN_ALL / max(total, 1)))


def is_kept(compared: ComparedPairs, share: float) -> Bool:
    """Decide which compared pairs a run keeps, a mask (m,).

    A hash of the two documents' numbers decides. So a pair that is compared again is kept again.

    Args:
        compared: the compared pairs.
        share: the share of the pairs to keep, 0 to 1.
    """
    bits = compared.unordered_key.astype(np.uint64)
    for _ in range(2):  # mix the bits as the generator SplitMix64 does
        bits = (bits ^ (bits >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    upper_24_bits = bits >> np.uint64(40)
    is_in_share: Bool = upper_24_bits < share * 2.0**24
    return is_in_share


def n_answers_to_ask(
    strategy: str, judgements: int | None, n_asked: int, iteration: int, trainings: int
) -> int | None:
    """Compute the number of new answers to ask for in an iteration; None if the strategy decides.

    A strategy that selects pairs by the comparator spends the answers evenly over the first three
    fifths of the trainings: the comparator that learned from the first answers selects the next
    questions, and the last trainings learn from all answers. Another strategy asks for all answers
    at once.

    Args:
        strategy: a name of `STRATEGIES`.
        judgements: the number of answers of the whole run; None if it is not limited.
        n_asked: the number of pairs asked about so far.
        iteration: the number of the iteration, from 0.
        trainings: the number of trainings of the run.

    >>> n_answers_to_ask("uncertain", 600, n_asked=300, iteration=3, trainings=10)
    100
    >>> n_answers_to_ask("uncertain", 600, n_asked=600, iteration=6, trainings=10)
    0
    >>> n_answers_to_ask("random", 800, n_asked=0, iteration=0, trainings=1)
    800
    """
    if judgements is None:
        return None
    n_by_now = judgements
    if strategy in LEARNING:
        n_rounds = max(1, round(_ASKING * trainings))
        n_by_now = min(judgements * (iteration + 1) // n_rounds, judgements)
    return max(0, n_by_now - n_asked)


def answers_about_vali(judgements: int | None) -> int | None:
    """Compute how many of a run's answers are about validation queries; None if not limited.

    >>> answers_about_vali(500), answers_about_vali(3), answers_about_vali(None)
    (100, 1, None)
    """
    return None if judgements is None else max(1, judgements // _SHARE_OF_VALI)


def select_pairs(strategy: str, part: SortedPart) -> tuple[I64, I64]:
    """Select the pairs to ask about by a strategy.

    At most `part.wanted` of the selected pairs are new, that is, were not asked about before. If a
    strategy selects more new pairs, some are dropped at random.

    Args:
        strategy: a name of `STRATEGIES`. If the data have judged pairs, all compared pairs are
            selected instead.
        part: the input of the strategy.

    Returns:
        (m,) keys of the selected pairs, and (k,) keys of all pairs asked about so far; both
        ascending, without duplicates.
    """
    # The data have the answers about all judged pairs, so no strategy has to select.
    select = compared if part.queries.judged is not None else STRATEGIES[strategy]
    key = unique(select(part))
    is_selected = is_in(key, part.asked)
    rows_of_new = np.flatnonzero(~is_selected)
    rows_to_ask = rows_of_new
    if part.wanted is not None and len(rows_of_new) > part.wanted:
        surplus = part.rng.permutation(len(rows_of_new))[part.wanted :]
        rows_to_ask = np.delete(rows_of_new, surplus)
    is_selected[rows_to_ask] = True
    # np.union1d would first hash all keys, which takes ten times as long as this sort.
    asked_keys = np.append(part.asked, key[rows_to_ask])
    asked_keys.sort(kind="stable")
    return key[is_selected], asked_keys


def answered_pairs(queries: Queries, key: I64) -> ComparedPairs:
    """Make a table, without margins, of the pairs for which the data have an answer.

    The better document of each pair is first, and the rows are sorted by key, see
    `ComparedPairs.in_order`.

    Args:
        queries: the queries of the pairs.
        key: (m,) keys of pairs, without duplicates.

    Cost: a sort, and temporary arrays for a million pairs.
    """
    keys_in_order = [np.empty(0, np.int64)]
    for start in range(0, len(key), _AT_ONCE):
        i, j = unpacked(key[start : start + _AT_ONCE])
        answer = judge_by_data(queries, i, j)
        i_is_better = prefers_i(i, j, answer)
        better = np.where(i_is_better, i, j)
        worse = np.where(i_is_better, j, i)
        has_answer = ~np.isnan(answer)
        keys_in_order.append(packed(better, worse)[has_answer])
    key = np.concatenate(keys_in_order)
    key.sort()
    pairs = ComparedPairs.of_keys(key)
    return pairs if queries.judged is None else judged_by_data(queries, pairs)


def sort_and_ask(strategy: str, part: SortedPart) -> tuple[Queries, I64]:
    """Sort a part of the data, and ask its judge about the pairs that a strategy selects.

    Args:
        strategy: a name of `STRATEGIES`.
        part: the input of the strategy, without the result of a sort.

    Returns:
        The queries with the answers, and (k,) keys of all pairs asked about so far. Without a judge
        both are unchanged.

    Raises:
        DataError: see `ask_judge`.

    Cost: a sort, and one call of the judge.
    """
    if part.queries.judge is None:
        return part.queries, part.asked
    # Without the answers so far, the strategy selects as it does for graded queries.
    unjudged = replace(part.queries, judged=None)
    sorting = sort(part.comparator, unjudged)
    sorted_part = replace(
        part,
        queries=unjudged,
        compared=sorting.compared,
        comparisons=len(sorting.compared),
        order=sorting.order,
    )
    key, asked_keys = select_pairs(strategy, sorted_part)
    new_keys = key[~is_in(key, part.asked)]
    return ask_judge(part.queries, new_keys), asked_keys


def ask_judge(queries: Queries, key: I64) -> Queries:
    """Ask the judge of the queries about pairs, and add the answers to the judged pairs.

    The judge is not asked about pairs that are judged already. Without a judge the queries are
    returned as they are.

    Args:
        queries: the queries.
        key: (m,) keys of pairs.

    Raises:
        DataError: if the judge does not answer every pair, or an answer is no probability.
    """
    if queries.judge is None:
        return queries
    judged = Pairs.empty() if queries.judged is None else queries.judged
    judged_keys = np.sort(unordered(judged.winner, judged.loser))
    i, j = unpacked(key[~is_in(key, judged_keys)])
    p: F64 = np.empty(0)
    if len(i):
        p = np.asarray(queries.judge(queries, i, j), np.float64)
    if p.shape != i.shape:
        raise DataError(
            f"{queries.source}: the judge was asked about {len(i)} pairs of documents, and its "
            f"answers have the shape {p.shape}"
        )
    has_answer = ~np.isnan(p)
    new_pairs = Pairs.judged(i[has_answer], j[has_answer], soft=p[has_answer])
    return replace(queries, judged=judged | new_pairs)


def pairs_of_grades(part: Queries) -> ComparedPairs:
    """Pair all documents of each query whose grades differ, the better document first."""
    i, j = all_pairs(part.offsets)
    return answered_pairs(part, unordered(i, j))


def _draw_candidates(part: SortedPart) -> I64:
    """Draw random pairs that were not asked about before, as candidates for a selection.

    About 20 candidates are drawn for each pair to select, or fewer if there would be more than a
    million candidates, but at least 2.

    Returns:
        The ascending keys of the candidates.
    """
    n_candidates = min(_CANDIDATES * part.number, max(2 * part.number, _AT_ONCE))
    drawn_pairs = unique(_draw(part, n_candidates))
    return drawn_pairs[~is_in(drawn_pairs, part.asked)]


def _shares_below(values: F32 | I64) -> F64:
    """Compute, for each of m values, the share of the values that are lower, from 0 to 1.

    >>> _shares_below(np.array([7, 3, 7, 9]))
    array([0.25, 0.  , 0.25, 0.75])
    """
    shares: F64 = np.searchsorted(np.sort(values), values) / max(len(values), 1)
    return shares


def _draw(part: SortedPart, n: int) -> I64:
    """Draw n pairs of documents uniformly from the pairs of all queries.

    Returns:
        Keys of the drawn pairs; a pair may be drawn several times.
    """
    offsets = part.queries.offsets
    sizes = part.queries.sizes
    n_pairs = sizes * (sizes - 1) / 2
    total = float(n_pairs.sum())
    if n <= 0 or total == 0:
        return np.empty(0, np.int64)
    share = n_pairs / total
    batches = []
    for start in range(0, n, _AT_ONCE):
        m = min(_AT_ONCE, n - start)
        query = part.rng.choice(len(sizes), m, p=share)
        size = sizes[query]
        i = (part.rng.random(m) * size).astype(np.int64)
        # The numbers form a circle, where 0 follows size - 1: j is 1 to size - 1 steps after i.
        distance = 1 + (part.rng.random(m) * (size - 1)).astype(np.int64)
        j = (i + distance) % size
        batches.append(unordered(offsets[query] + i, offsets[query] + j))
    return np.concatenate(batches)
