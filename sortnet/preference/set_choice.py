"""Which further items make a question about a pair a question about a set."""

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

_CANDIDATES = 64  # items that are looked at, about
_SAMPLE = 512  # items of which those with the fewest answers are candidates
_DRAWS = 64  # of the scores
_ORDER_OF_TOP = 0.1
_NEAR = 8  # ranks around an item of the pair


def checked_set_size(set_size: int) -> int:
    """The number of items of a question.

    Raises:
        JudgementError: if it is not from 2 to 6.
    """
    if not 2 <= set_size <= MOST_ITEMS:
        raise JudgementError(f"a question about {set_size} items: it takes 2 to {MOST_ITEMS}")
    return set_size


def worth_in_pairs(set_size: int) -> float:
    """How many answers about pairs an answer about a set of alike items says as much as.

    By the trace of the information on the scores: 2 (2 / π) of a pair; of a set, whose items are
    chosen with equal probability, that of the best item and that of the worst of the others.

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
    """A pair and the further items that make the answer most informative, one after the other.

    That is the information of the best and the worst item about the scores, see `set_information`.
    With a goal of top items it is weighted with how open their membership is, as in `top_pair`.
    Every pair of the items is free; there are fewer items than wanted if no other one is free.

    Cost: a millisecond for each further item, and a look at each item.
    """
    items: tuple[int, ...] = pair
    if size <= 2:
        return items
    n_draws = len(view.posterior.draws)
    draws = view.posterior.draws[:: max(n_draws // _DRAWS, 1)]
    candidates = _candidates(view, pair, rng)
    while len(items) < size:
        free = [item for item in candidates if _extends(items, item, view.free)]
        if not free:
            break
        more = np.array(free)
        together = np.concatenate((np.tile(np.array(items), (len(more), 1)), more[:, None]), axis=1)
        worth = set_information(draws, together) * _openness(view, together)
        items = (*items, free[int(worth.argmax())])
        candidates = free
    return items


def _extends(items: Sequence[int], item: int, free: Free) -> bool:
    return item not in items and all(free(one, item) for one in items)


def _openness(view: View, sets: I64) -> F64:
    """How much each set is about items that may or may not be among the top; 1 without a top."""
    if view.among_top is None:
        return np.ones(len(sets))
    open_ = _worth_of_items(view.among_top)
    about: F64 = open_[sets].sum(axis=1) / (1 + view.pending[sets].sum(axis=1))
    return about + 1e-12


def _candidates(view: View, pair: Pair, rng: np.random.Generator) -> list[int]:
    """Items of the pair's group that may belong to the set: its neighbours in the ranking, those
    with few answers and random ones; with a goal of top items also those near the edge of the top.
    """
    members = view.groups.members[view.groups.of[pair[0]]]
    if len(members) <= _CANDIDATES:
        return [*map(int, members)]
    some = members[rng.integers(len(members), size=_SAMPLE)]
    rare = some[np.argsort(view.seen[some], kind="stable")[: _CANDIDATES // 8]]
    around = [_neighbours(view, item) for item in pair]
    parts = [some[: _CANDIDATES // 8], rare, *around]
    if view.among_top is not None:
        parts.append(_near_edge(view.among_top[members], members, rng))
    candidates = np.concatenate(parts)
    within = view.groups.of[candidates] == view.groups.of[pair[0]]
    return [*map(int, np.unique(candidates[within]))]


def _neighbours(view: View, item: int) -> I64:
    """The items next to an item in the ranking."""
    (at,) = np.flatnonzero(view.order == item)
    return view.order[max(at - _NEAR, 0) : at + _NEAR + 1]


def _near_edge(q: F64, members: I64, rng: np.random.Generator) -> I64:
    """Items drawn in proportion to their worth."""
    with np.errstate(divide="ignore"):
        drawn = np.log(_worth_of_items(q)) + rng.gumbel(size=len(q))
    return members[np.argpartition(-drawn, _CANDIDATES // 2)[: _CANDIDATES // 2]]


def _worth_of_items(q: F64) -> F64:
    """Of how much interest the order of items is that are of the top with these probabilities.

    Which items are of the top is what is wanted; once that is settled, their order.
    """
    worth: F64 = q * (1 - q) + _ORDER_OF_TOP * q
    return worth


def set_information(draws: Draws, sets: I64) -> F64:
    """(m,) mutual information, in bits, of the scores and the best and worst items of each set.

    Args:
        draws: (k, n) of the scores.
        sets: (m, size) items.
    """
    size = sets.shape[1]
    scores = np.asarray(draws[:, sets], np.float64)  # (k, m, size)
    scores = scores - scores.mean(axis=2, keepdims=True)
    best = np.exp(BEST_FACTOR[size] * scores)
    best /= best.sum(axis=2, keepdims=True)
    worst = np.exp(-WORST_FACTOR[size] * scores)
    others = worst @ (1 - np.eye(size))  # the sum without the best item
    p = best[..., :, None] * worst[..., None, :] / np.maximum(others, 1e-300)[..., :, None]
    p = p[..., ~np.eye(size, dtype=np.bool_)]
    bits: F64 = _entropy(p.mean(axis=0)) - _entropy(p).mean(axis=0)
    return bits


def _entropy(p: F64) -> F64:
    bits: F64 = -np.sum(p * np.log2(np.maximum(p, 1e-300)), axis=-1)
    return bits
