"""The choice of further items that make a question about a pair a question about a set."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from sortnet.core import F64, I64
from sortnet.errors import JudgementError
from sortnet.preference.base import MOST_ITEMS, Pair
from sortnet.preference.posterior import Draws
from sortnet.preference.set_answers import BEST_FACTOR, WORST_FACTOR
from sortnet.preference.strategies import Free, View

_CANDIDATES = 64  # approximate number of items that are considered
_SAMPLE = 512  # items that are drawn; the drawn items with the fewest answers are candidates
_DRAWS = 64  # approximate number of draws of the scores that are used
_WORTH_OF_ORDER = 0.1  # worth of the order of the top items, if knowing them has the worth 1
_NEAR = 8  # candidates are at most this number of ranks above or below an item of the pair


def checked_set_size(set_size: int) -> int:
    """The number of items of a question.

    Raises:
        JudgementError: if it is not from 2 to 6.
    """
    if not 2 <= set_size <= MOST_ITEMS:
        raise JudgementError(f"a question about {set_size} items: it takes 2 to {MOST_ITEMS}")
    return set_size


def worth_in_pairs(set_size: int) -> float:
    """The number of answers about pairs that are as informative as an answer about a set.

    The items of the set are equally good. Information is the trace of the information on the
    scores: 2 (2 / π) for a pair; for a set the sum of two choices with equal probabilities, the
    best of all items and the worst of the rest.

    >>> [round(worth_in_pairs(size), 1) for size in (2, 3, 4, 6)]
    [1.0, 2.7, 3.7, 5.1]
    """
    if set_size == 2:
        return 1.0
    best = BEST_FACTOR[set_size] ** 2 * (1 - 1 / set_size)
    worst = WORST_FACTOR[set_size] ** 2 * (1 - 1 / (set_size - 1))
    return (best + worst) * np.pi / 4


def are_free(items: Sequence[int], free: Free) -> bool:
    """Whether every pair of the items may be asked."""
    return all(free(i, j) for i, j in combinations(items, 2))


def grown_set(view: View, pair: Pair, size: int, rng: np.random.Generator) -> tuple[int, ...]:
    """A pair and the further items that make the answer most informative, added one by one.

    The answer names the best and the worst item, see `set_information`. If the goal is a top, its
    information is multiplied by the worth of the items for the top, as in `top_pair`. Every pair of
    the items is free; there are fewer items than `size` if no further item is free.

    Cost: a millisecond for each further item, and a look at each item.
    """
    items: tuple[int, ...] = pair
    if size <= 2:
        return items
    n_draws = len(view.posterior.draws)
    draws = view.posterior.draws[:: max(n_draws // _DRAWS, 1)]
    candidates = _candidates(view, pair, rng)
    while len(items) < size:
        candidates = [item for item in candidates if _extends(items, item, view.free)]
        if not candidates:
            break
        sets = np.array([(*items, candidate) for candidate in candidates])
        worth = set_information(draws, sets) * _worth_of_sets(view, sets)
        items = (*items, candidates[int(worth.argmax())])
    return items


def _extends(items: Sequence[int], candidate: int, free: Free) -> bool:
    """Whether an item is new, and may be compared with each of the items."""
    return candidate not in items and all(free(item, candidate) for item in items)


def _worth_of_sets(view: View, sets: I64) -> F64:
    """(m,) the worth of each set's items for the top; 1 if the goal is the whole order."""
    if view.among_top is None:
        return np.ones(len(sets))
    worth_of_items = _worth_of_items(view.among_top)[sets].sum(axis=1)
    worth: F64 = worth_of_items / (1 + view.pending[sets].sum(axis=1))
    return worth + 1e-12


def _candidates(view: View, pair: Pair, rng: np.random.Generator) -> list[int]:
    """Items of the pair's group that may extend the pair to a set.

    In a large group they are neighbours of the pair in the ranking, items with few answers and
    random items; if the goal is a top, also items that perhaps belong to the top.
    """
    group = view.groups.of[pair[0]]
    members = view.groups.members[group]
    if len(members) <= _CANDIDATES:
        return [int(item) for item in members]
    sample = members[rng.integers(len(members), size=_SAMPLE)]
    n_each = _CANDIDATES // 8
    rare = sample[np.argsort(view.seen[sample], kind="stable")[:n_each]]
    parts = [sample[:n_each], rare, *(_neighbours(view, item) for item in pair)]
    if view.among_top is not None:
        parts.append(_drawn_for_top(view.among_top[members], members, rng))
    candidates = np.concatenate(parts)
    is_within = view.groups.of[candidates] == group
    return [int(item) for item in np.unique(candidates[is_within])]


def _neighbours(view: View, item: int) -> I64:
    """The items next to an item in the ranking, and the item."""
    (rank,) = np.flatnonzero(view.order == item)
    return view.order[max(rank - _NEAR, 0) : rank + _NEAR + 1]


def _drawn_for_top(q: F64, members: I64, rng: np.random.Generator) -> I64:
    """Members drawn in proportion to their worth for the top, given q as in `_worth_of_items`."""
    n_drawn = _CANDIDATES // 2
    # The largest of these keys are a draw without replacement (Gumbel-top-k).
    with np.errstate(divide="ignore"):
        key = np.log(_worth_of_items(q)) + rng.gumbel(size=len(q))
    return members[np.argpartition(-key, n_drawn)[:n_drawn]]


def _worth_of_items(q: F64) -> F64:
    """The worth of each item for the top, given the probability q that the item belongs to it.

    The first term, q (1 - q), finds the top items. Once they are found it vanishes, and the second
    term finds their order.
    """
    worth: F64 = q * (1 - q) + _WORTH_OF_ORDER * q
    return worth


def set_information(draws: Draws, sets: I64) -> F64:
    """(m,) mutual information, in bits, between the scores and the answer about each set.

    An answer names the best and the worst item of the set.

    Args:
        draws: (k, n) scores of all items, drawn from the posterior.
        sets: (m, size) items of each set.
    """
    size = sets.shape[1]
    scores = np.asarray(draws[:, sets], np.float64)  # (k, m, size)
    scores = scores - scores.mean(axis=2, keepdims=True)
    p_best = np.exp(BEST_FACTOR[size] * scores)
    p_best /= p_best.sum(axis=2, keepdims=True)
    worst = np.exp(-WORST_FACTOR[size] * scores)
    sum_without_best = np.maximum(worst @ (1 - np.eye(size)), 1e-300)
    # (k, m, size, size): the best item, then the worst; no item is both.
    p = p_best[..., :, None] * worst[..., None, :] / sum_without_best[..., :, None]
    p = p[..., ~np.eye(size, dtype=np.bool_)]
    bits: F64 = _entropy(p.mean(axis=0)) - _entropy(p).mean(axis=0)
    return bits


def _entropy(p: F64) -> F64:
    """The entropy over the last axis, in bits."""
    bits: F64 = -np.sum(p * np.log2(np.maximum(p, 1e-300)), axis=-1)
    return bits
