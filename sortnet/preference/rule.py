"""The rule that chooses questions: the answer that does most for the goal.

If the whole order is wanted, an answer about items i and j is worth the information that it has
about the scores (MacKay 1992, Information-based objective functions for active data selection):

    log(1 + v_ij / r_ij),   v_ij = C_ii + C_jj - 2 C_ij

C is the covariance of the scores, r the noise of the answer. If a top is wanted, an answer is worth
how much it lowers the variances of the scores, each weighted by o_k = q (1 - q), how open the place
of its item is that is among the top with probability q:

    sum over k of o_k (C_ki - C_kj)^2 / (v_ij + r_ij)

Each of the two is better for its own goal: 40 items rank with a correlation of .90 after 120
answers by the information and .89 by the variances; 100 items of which ten are wanted have .88
after 400 answers by the variances and .84 by the information of pairs of open items.

Items without an answer come first: after 40 answers about 40 items the correlation is .70, and .67
otherwise; of the best ten of a hundred, .64 are found by 300 answers, and .52 otherwise. They do
not where features explain most of the scores, and so tell about such items.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import combinations
from typing import TypeAlias

import numpy as np

from sortnet.core import F64, I64
from sortnet.preference.base import Pair
from sortnet.preference.groups import Groups
from sortnet.preference.model import SHARPNESS, Posterior, information_of_words
from sortnet.preference.stopping import among_top

Free: TypeAlias = Callable[[int, int], bool]  # tells whether two items may be asked about now

MOST_OPEN = 400  # of many items, the rule looks at these only
_PAIRS = 1500  # pairs that are compared for a question
_NEAR, _RANDOM, _UNSEEN = 16, 8, 8  # candidates for a further item of a set
_DRAWS = 64  # draws by which sets are compared
_LEAST_OPEN = 1e-4  # openness of an item whose place is known for certain
_ORDER_OF_TOP = 0.1  # openness of a certain top item in a set, whose answer also orders the top
_FARTHEST_PROBIT = 2.33  # a probability beyond .99 only says "at least"
_MOST = 0.5  # a larger share of the variance tells enough about items without an answer
_LEAST_VARIANCE = 1e-12


def openness(posterior: Posterior, groups: Groups, top: int, set_size: int) -> F64 | None:
    """Compute how open the place of each item is for the goal, (n,); None for the whole order.

    Args:
        posterior: the posterior of the scores.
        groups: the groups of the items.
        top: the number of top items of each group; 0 if the whole order is wanted.
        set_size: the number of items of a question.
    """
    if not top:
        return None
    q = among_top(posterior, groups, top)
    is_open: F64 = q * (1 - q) + _LEAST_OPEN
    return is_open + _ORDER_OF_TOP * q if set_size > 2 else is_open


class Beliefs:
    """Beliefs about the m items that a question may be about, by their index.

    Of many items, these are the 400 most open ones.

    Args:
        posterior: the posterior of the scores.
        groups: the groups of the items, and the pairs that may be asked about.
        openness: (n,) the openness of each item; None if the whole order is wanted.
        n_seen: (n,) the number of answers about each item.
        rng: orders items that are equally open.

    Attributes:
        items: (m,) the numbers of the items.
        mean: (m,) the expected scores.
        covariance: (m, m) the covariance of the scores.
        open: (m,) the openness of each item; 1 if the whole order is wanted.
        draws: (k, m) draws of the scores.
        n_seen: (m,) the number of answers and open questions about each item; at least 1 if
            features explain most of the scores, so that no items need come first.
        scale: g if answers are measurements; 0 if they are words.
    """

    def __init__(
        self,
        posterior: Posterior,
        groups: Groups,
        openness: F64 | None,
        n_seen: I64,
        rng: np.random.Generator,
    ) -> None:
        self._groups = groups
        self._wants_order = openness is None
        self._expected: set[Pair] = set()
        is_open = np.ones(posterior.n_items) if openness is None else openness
        if posterior.prior.share > _MOST:
            n_seen = np.maximum(n_seen, 1)
        C = posterior.covariance
        items = np.sort(np.concatenate(groups.members))
        if len(items) > MOST_OPEN:
            variance = posterior.draws.var(axis=0) if C is None else np.diag(C)
            priority = np.lexsort((rng.random(len(items)), -(is_open * variance)[items]))
            unseen_first = priority[np.argsort(n_seen[items[priority]] > 0, kind="stable")]
            items = np.sort(items[unseen_first[:MOST_OPEN]])
        self.items = items
        draws = posterior.draws[:, items].astype(np.float64)
        self.covariance = np.cov(draws, rowvar=False) if C is None else C[np.ix_(items, items)]
        self.mean = posterior.scores[items]
        self.open = is_open[items]
        self.draws = draws[:_DRAWS]
        self.n_seen = n_seen[items]
        self.scale = 0.0

    def worth(self, i: I64, j: I64) -> F64:
        """Compute what an answer about each pair of indexes is worth, (p,).

        For a whole order: the information, log(1 + variance / noise). For a top: how far the answer
        lowers the variances of the differences to items, weighted by how open each item is.
        """
        C = self.covariance
        variance = np.maximum(C[i, i] + C[j, j] - 2 * C[i, j], _LEAST_VARIANCE)
        noise = self.noise(i, j, variance)
        if self._wants_order:
            return np.log1p(variance / noise)
        variance_fall: F64 = (C[i] - C[j]) ** 2 @ self.open / (variance + noise)
        return variance_fall

    def noise(self, i: I64, j: I64, variance: F64) -> F64:
        """Compute the variance of an answer about each pair, in units of the scores."""
        mean = self.mean[i] - self.mean[j]
        of_word = 1 / information_of_words(mean, variance)
        if not self.scale:
            return of_word
        return np.where(self.scale * np.abs(mean) < _FARTHEST_PROBIT, 1.0, of_word)

    def expect_answers(self, questions: Collection[tuple[int, ...]]) -> None:
        """Update the covariance as if questions, each the numbers of its items, were answered.

        A question whose pairs are all included already is not included again: it was open before.
        """
        for items in questions:
            pairs = set(combinations(sorted(items), 2))
            if not pairs <= self._expected:
                self._expected |= pairs
                self.expect_answer(items)

    def expect_answer(self, items: Sequence[int]) -> None:
        """Lower the covariance as an answer about these items would; the mean stays.

        Args:
            items: numbers of items, which are asked about now or answered since the last fit.
        """
        indexes = np.flatnonzero(np.isin(self.items, [*items]))
        self.n_seen[indexes] += 1
        # Best and worst of k items tell about as much as k - 1 of the pairs.
        noise_factor = len(indexes) / 2
        for pair in combinations(indexes.tolist(), 2):
            i, j = np.array(pair)[:, None]
            difference = (self.covariance[i] - self.covariance[j])[0]
            variance = np.maximum(difference[i] - difference[j], _LEAST_VARIANCE)
            noise = self.noise(i, j, variance) * noise_factor
            self.covariance -= np.outer(difference, difference / (variance + noise))

    def best_pair(self, free: Free, rng: np.random.Generator) -> Pair | None:
        """Return the pair of items whose answer is worth most; None if no pair is free.

        A pair has an item without an answer as long as such a pair is free, unless features explain
        most of the scores.
        """
        every = np.arange(len(self.items))
        # All pairs of an item without an answer may be taken. Then the other items have their turn.
        for first_items in (every[self.n_seen == 0], every):
            i, j = self._drawn_pairs(first_items, rng)
            best_first = np.argsort(-self.worth(i, j))
            pairs = self.items[np.column_stack((i, j))[best_first]]
            for first, second in pairs.tolist():
                if free(first, second):
                    return first, second
        return self._groups.draw_free(free, rng)

    def _drawn_pairs(self, first_items: I64, rng: np.random.Generator) -> tuple[I64, I64]:
        """Draw pairs of indexes with one of these items, from groups or from the user's list."""
        if self._groups.listed is not None:
            listed = np.column_stack(self._groups.listed)
            listed = listed[np.isin(listed, self.items).all(axis=1)]
            pairs = np.searchsorted(self.items, listed)
            has_one = np.isin(pairs, first_items).any(axis=1)
            i, j = pairs[rng.permutation(np.flatnonzero(has_one))[:_PAIRS]].T
            return i, j
        if not len(first_items):
            return first_items, first_items
        i = rng.choice(first_items, _PAIRS)
        group = self._groups.of[self.items]
        by_group = np.argsort(group, kind="stable")
        start = np.searchsorted(group[by_group], group[i])
        end = np.searchsorted(group[by_group], group[i], side="right")
        j = by_group[rng.integers(start, end)]
        return i[i != j], j[i != j]

    def grown(
        self, pair: tuple[int, int], size: int, free: Free, askable: Free, rng: np.random.Generator
    ) -> tuple[int, ...]:
        """Add items to a pair, each time the item that makes the answer most informative.

        The information is weighted by the openness of the items.

        Args:
            pair: the numbers of two items.
            size: the number of items of the question.
            free: tells whether two items may be asked about.
            askable: tells whether two items may be in one question. Such items, which the annotator
                may have compared before, fill up the set if no free items are left.
            rng: draws candidates.

        Returns:
            The numbers of the items; fewer than `size` if no further item may be in the question.
        """
        chosen: tuple[int, ...] = pair
        members = np.flatnonzero(np.isin(self.items, self._groups.members_beside(pair[0])))
        rank = np.empty(len(members), np.int64)
        rank[np.argsort(-self.mean[members], kind="stable")] = np.arange(len(members))
        while len(chosen) < size:
            middle = rank[np.isin(self.items[members], chosen)].mean()
            near = members[np.argsort(np.abs(rank - middle), kind="stable")[:_NEAR]]
            unseen = members[self.n_seen[members] == 0][:_UNSEEN]
            likely = np.unique(np.concatenate((near, unseen, rng.choice(members, _RANDOM))))
            for possible, may_join in ((likely, free), (members, free), (members, askable)):
                may_extend = [
                    item not in chosen and all(may_join(item, other) for other in chosen)
                    for item in self.items[possible].tolist()
                ]
                candidates = possible[np.array(may_extend, np.bool_)]
                if len(candidates):
                    break
            else:
                return chosen
            indexes = np.flatnonzero(np.isin(self.items, chosen))
            sets = np.column_stack((np.tile(indexes, (len(candidates), 1)), candidates))
            worth = self._information(sets) * (self.open[candidates] + self.open[indexes].mean())
            chosen = (*chosen, int(self.items[candidates[worth.argmax()]]))
        return chosen

    def _information(self, sets: I64) -> F64:
        """Compute the information of the choice of the best item about the scores, in bits.

        It is the entropy of the expected choice less the expected entropy of the choice.

        Args:
            sets: (s, k) indexes of the items of each set.
        """
        z = SHARPNESS * self.draws[:, sets]
        odds = np.exp(z - z.max(axis=-1, keepdims=True))
        p = odds / odds.sum(axis=-1, keepdims=True)
        expected_entropy = _entropy(p).mean(axis=0)
        information: F64 = _entropy(p.mean(axis=0)) - expected_entropy
        return information + _LEAST_VARIANCE


def _entropy(p: F64) -> F64:
    """Compute the entropy of probabilities along the last axis, in bits."""
    entropy: F64 = -(p * np.log2(np.maximum(p, 1e-300))).sum(axis=-1)
    return entropy
