"""Extend a question about a pair to a question about a set, by choosing further items."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from sortnet.core import F64, I64, Bool
from sortnet.errors import JudgementError
from sortnet.preference.base import MOST_ITEMS, Pair
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.posterior import Draws, Posterior
from sortnet.preference.set_answers import BEST_FACTOR, WORST_FACTOR
from sortnet.preference.strategies import Free, View, draw_in_proportion

_CANDIDATES = 64  # approximate number of items that are considered
_RANDOM_ITEMS = 8  # number of random items that are considered in a large group
_RARE_ITEMS = 8  # number of items with few answers that are considered in a large group
_SAMPLE = 512  # number of drawn items, of which those with the fewest answers are considered
_DRAWS_OF_CHECK = 256  # approximate number of draws by which the model is checked
_DRAWS = 64  # approximate number of draws of the scores that are used
_LEAST_P = 1e-300  # keeps a probability above 0, so that it has a logarithm and can be a divisor
# Keeps the worth of a set above 0, so that the information decides between sets without worth.
_LEAST_WORTH = 1e-12
_WORTH_OF_ORDER = 0.1  # worth of knowing the order of the top items, relative to knowing the items
_NEAR = 8  # neighbours are at most this number of ranks above or below an item of the pair


def checked_set_size(set_size: int) -> int:
    """Check and return the number of items of a question.

    Raises:
        JudgementError: if the number is not from 2 to 6.
    """
    if not 2 <= set_size <= MOST_ITEMS:
        raise JudgementError(f"a question about {set_size} items: it takes 2 to {MOST_ITEMS}")
    return set_size


def worth_in_pairs(set_size: int) -> float:
    """Compute how many answers about pairs are as informative as an answer about a set.

    The items are taken to be equally good. The information is the trace of the Fisher information
    on the scores. It is 4 / π for a pair. An answer about a set of k items is a choice of the best
    of k items and a choice of the worst of the rest, with the factors f and g of the softmax:

        worth = (f² (1 - 1 / k) + g² (1 - 1 / (k - 1))) π / 4

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


def random_set(
    view: View, pair: Pair, size: int, rng: np.random.Generator, askable: Free
) -> tuple[int, ...]:
    """Extend a pair to a set by random items of its group.

    The arguments and the result are those of `grown_set`.
    """
    items: tuple[int, ...] = pair
    if size <= 2:
        return items
    members = view.groups.members[view.groups.of[pair[0]]]
    shuffled = rng.permutation(members).tolist()
    for may_be_together in (view.free, askable):
        for item in shuffled:
            if len(items) < size and _extends(items, item, may_be_together):
                items = (*items, item)
    return items


def grown_set(
    view: View, pair: Pair, size: int, rng: np.random.Generator, askable: Free
) -> tuple[int, ...]:
    """Extend a pair to a set item by item, so that the answer is as informative as possible.

    The answer names the best and the worst item, see `set_information`. If the goal is a top, the
    information is multiplied by the worth of the items for the top, as in `top_pair`.

    Args:
        view: the state of the session.
        pair: the two items to begin with.
        size: number of items of the set.
        rng: draws candidates.
        askable: tells whether two items may be in one question. Such items, which the annotator may
            have compared before, fill up the set if no free items are left.

    Returns:
        The items. There are fewer than `size` items if no further item may be in the question.

    Cost: a millisecond for each further item, and a look at each item.
    """
    items: tuple[int, ...] = pair
    if size <= 2:
        return items
    every_nth = max(len(view.posterior.draws) // _DRAWS, 1)
    draws = view.posterior.draws[::every_nth]  # about 64 draws, to save time
    candidates = _candidates(view, pair, rng)
    while len(items) < size:
        extending = _extending(items, candidates, view.free, askable)
        if not extending:
            members = view.groups.members[view.groups.of[pair[0]]].tolist()
            extending = _extending(items, members, view.free, askable)
        if not extending:
            break
        sets = np.array([(*items, candidate) for candidate in extending])
        worth = set_information(draws, sets) * _worth_of_sets(view, sets)
        best_candidate = extending[int(worth.argmax())]
        items = (*items, best_candidate)
    return items


def _extending(
    items: Sequence[int], candidates: Sequence[int], free: Free, askable: Free
) -> list[int]:
    """List the candidates that may be added to the items: free ones, or else askable ones."""
    for may_be_together in (free, askable):
        extending = [item for item in candidates if _extends(items, item, may_be_together)]
        if extending:
            return extending
    return []


def _extends(items: Sequence[int], candidate: int, free: Free) -> bool:
    """Whether a candidate can be added: it is a new item, and may be compared with all items."""
    return candidate not in items and all(free(item, candidate) for item in items)


def _worth_of_sets(view: View, sets: I64) -> F64:
    """Compute what the answer about each set is worth for finding the top items.

    Args:
        view: the state of the session.
        sets: (m, size) the items of each set.

    Returns:
        (m,) the sum of the items' worth / (1 + number of pending questions about the items), which
        is kept above 0; 1 if the goal is the whole order.
    """
    if view.among_top is None:
        return np.ones(len(sets))
    worth_of_items = _worth_of_items(view.among_top)[sets].sum(axis=1)
    n_pending = view.pending[sets].sum(axis=1)
    worth: F64 = worth_of_items / (1 + n_pending)
    return worth + _LEAST_WORTH


def _candidates(view: View, pair: Pair, rng: np.random.Generator) -> list[int]:
    """Return the items of the pair's group that are considered as further items.

    In a large group these are neighbours of the pair in the ranking, items with few answers and
    random items. If the goal is a top, items that perhaps belong to the top are added.
    """
    group = view.groups.of[pair[0]]
    members = view.groups.members[group]
    if len(members) <= _CANDIDATES:
        return [int(item) for item in members]
    parts = [
        _random_and_rare_items(view, members, rng),
        _neighbours(view, pair[0]),
        _neighbours(view, pair[1]),
    ]
    if view.among_top is not None:
        parts.append(_draw_for_top(view.among_top[members], members, rng))
    candidates = np.concatenate(parts)
    is_within = view.groups.of[candidates] == group  # neighbours may be of other groups
    return [int(item) for item in np.unique(candidates[is_within])]


def _random_and_rare_items(view: View, members: I64, rng: np.random.Generator) -> I64:
    """Draw 8 random members of a group, and the 8 with the fewest answers in a random sample."""
    sample = members[rng.integers(len(members), size=_SAMPLE)]
    fewest_answers_first = sample[np.argsort(view.seen[sample], kind="stable")]
    return np.concatenate((sample[:_RANDOM_ITEMS], fewest_answers_first[:_RARE_ITEMS]))


def _neighbours(view: View, item: int) -> I64:
    """Return the items that are next to an item in the ranking, and the item itself."""
    (rank,) = np.flatnonzero(view.order == item)
    return view.order[max(rank - _NEAR, 0) : rank + _NEAR + 1]


def _draw_for_top(q: F64, members: I64, rng: np.random.Generator) -> I64:
    """Draw members of a group in proportion to their worth for the top.

    Args:
        q: (m,) the probability that each member is among the top.
        members: (m,) the items of the group.
        rng: draws the members.
    """
    return members[draw_in_proportion(_worth_of_items(q), _CANDIDATES // 2, rng)]


def _worth_of_items(q: F64) -> F64:
    """Compute the worth of asking about items with the probability q of being a top item.

    The worth is q (1 - q) + q / 10. The first term finds the top items. Once the top items are
    found, it vanishes, and the second term finds their order.
    """
    worth: F64 = q * (1 - q) + _WORTH_OF_ORDER * q
    return worth


def predict_best(posterior: Posterior, answers: Judgements) -> tuple[F64, Bool]:
    """Predict the best item in each of q answers about sets.

    Args:
        posterior: the posterior of the scores, which was not fitted to the answers.
        answers: q answers that name the best item of a set.

    Returns:
        (q,) the probability of the item that is expected to be named, and whether it was named. The
        probability of an item is the mean over the draws of the scores, see `_p_of_best`. An
        annotator's reliability multiplies the scores, and a blind answer names any item.
    """
    every_nth = max(len(posterior.draws) // _DRAWS_OF_CHECK, 1)
    annotators = posterior.annotators.padded(len(posterior.reliability) + 1)
    p_expected = np.ones(len(answers))
    is_right = np.zeros(len(answers), np.bool_)
    for row, answer in enumerate(answers):
        # An annotator that the posterior does not know is average.
        annotator = min(int(answers.annotator[row]), len(posterior.reliability))
        scores = posterior.draws[::every_nth, np.array(answer.items)].astype(np.float64)
        p_genuine = _p_of_best(annotators.reliability[annotator] * scores).mean(axis=0)
        blind = annotators.blind[annotator]
        p = blind / len(answer.items) + (1 - blind) * p_genuine
        p_expected[row] = p.max()
        is_right[row] = answer.items[int(p.argmax())] == answer.best
    return p_expected, is_right


def set_information(draws: Draws, sets: I64) -> F64:
    """Compute the mutual information, in bits, between the scores and the answer about each set.

    An answer names the best and the worst item of the set. The information is the entropy of the
    mean probabilities of the answers minus the mean entropy of the probabilities, over the draws
    (BALD).

    Args:
        draws: (k, n) scores of all items, drawn from the posterior.
        sets: (m, size) items of each set.

    Returns:
        (m,) the information of each set.
    """
    p = _p_of_answers(np.asarray(draws[:, sets], np.float64))
    bits: F64 = _entropy(p.mean(axis=0)) - _entropy(p).mean(axis=0)
    return bits


def _p_of_answers(scores: F64) -> F64:
    """Compute the probability of each answer about sets, given the scores s of the items.

        P(best) = exp(f s_best) / Σ exp(f s)                    over all items
        P(worst, given best) = exp(-g s_worst) / Σ exp(-g s)    over all items except the best

    The factors f and g are those of `set_answers`.

    Args:
        scores: (..., size) the scores of the items of each set.

    Returns:
        (..., size (size - 1)) the probability of each choice of a best and another worst item.
    """
    size = scores.shape[-1]
    centred = scores - scores.mean(axis=-1, keepdims=True)  # so that exp does not overflow
    p_best = _p_of_best(scores)
    exp_worst = np.exp(-WORST_FACTOR[size] * centred)
    is_other = ~np.eye(size, dtype=np.bool_)  # (best item, worst item): they differ
    sum_without_best = np.maximum(exp_worst @ is_other.astype(np.float64), _LEAST_P)
    # The last two axes are the best item and the worst item.
    p: F64 = p_best[..., :, None] * exp_worst[..., None, :] / sum_without_best[..., :, None]
    return p[..., is_other]


def _p_of_best(scores: F64) -> F64:
    """Compute the probability of each item to be named the best, a softmax of the scores."""
    size = scores.shape[-1]
    centred = scores - scores.mean(axis=-1, keepdims=True)  # so that exp does not overflow
    p_best: F64 = np.exp(BEST_FACTOR[size] * centred)
    p_best /= p_best.sum(axis=-1, keepdims=True)
    return p_best


def _entropy(p: F64) -> F64:
    """Compute the entropy of distributions, in bits; the last axis sums to 1."""
    bits: F64 = -np.sum(p * np.log2(np.maximum(p, _LEAST_P)), axis=-1)
    return bits
