"""Let recorded votes answer questions, and measure how well held-out pairs are predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sortnet.core import F64, I64, Progress
from sortnet.errors import JudgementError
from sortnet.lab.simulated_annotators import (
    ANNOTATOR,
    N_ANNOTATORS,
    SET_SIZES,
    Annotators,
    ask_all,
    pairs_of_a_question,
    refuse_arguments,
)
from sortnet.preference.base import Judgement, Pair, unordered_pair
from sortnet.preference.comparisons import Comparisons

if TYPE_CHECKING:
    import pandas as pd

HELD_OUT = 0.2  # share of the pairs on which accuracy is measured
VOTE_STRATEGIES = ("default", "random", *SET_SIZES)


class _Collection(NamedTuple):
    """Features of items that are compared with each other, and the votes on pairs of the items."""

    features: F64
    votes: Comparisons


def simulate_votes(
    features: F64,
    votes: Comparisons,
    strategies: Sequence[str],
    budgets: Sequence[int],
    *,
    group: I64 | None = None,
    seeds: int = 5,
    seed: int = 0,
    jobs: int = 1,
    progress: Progress = lambda text: None,
) -> pd.DataFrame:
    """Measure for every strategy how accuracy on held-out pairs grows with the number of answers.

    For every seed another fifth of the pairs is held out; sessions ask about the remaining pairs.
    A question about two items is answered by a recorded vote on the pair, and each vote is used
    once. A question about a set is answered by one vote on each pair of its items: the item that
    wins most votes is the best, the item that wins fewest is the worst.

    A held-out pair is predicted if the ranking orders it as the majority of its votes does. Pairs
    without a majority do not count, and a pair that is ranked equally counts half.

    Args:
        features: (n_items, n_features) features of the items.
        votes: recorded votes. A pair can be asked about as often as it has votes, but at most by
            four annotators.
        strategies: names from `VOTE_STRATEGIES`.
        budgets: numbers of answers after which accuracy is measured.
        group: (n_votes,) the group of each vote. Each group is a separate collection, and the
            seeds use the collections in turn. If None, all votes are about one collection.
        seeds: number of divisions into asked and held-out pairs.
        seed: seed of all divisions.
        jobs: number of processes.
        progress: called with a line after each session.

    Returns:
        The frame of `ask_all` with the measure `accuracy`, the share of the held-out pairs that are
        predicted.

    Raises:
        JudgementError: if a strategy is unknown, or there are too few votes.
    """
    refuse_arguments(strategies, VOTE_STRATEGIES, budgets, seeds)
    collections = _collections(features, votes, group)[:seeds]
    most = min(_most_answers(collection.votes, strategies) for collection in collections)
    if max(budgets) > most:
        raise JudgementError(f"{max(budgets)} votes are to be used, and there are {most}")
    return ask_all(
        partial(_hold_out, collections), strategies, budgets,
        seeds=seeds, seed=seed, jobs=jobs, progress=progress,
    )  # fmt: skip


def _collections(features: F64, votes: Comparisons, group: I64 | None) -> list[_Collection]:
    """Make a collection of each group of votes, with its items numbered from 0."""
    if group is None:
        return [_Collection(features, votes)]
    collections = []
    for number in np.unique(group):
        votes_of_group = votes.where(group == number)
        sides = np.stack((votes_of_group.left, votes_of_group.right))
        items, renumbered = np.unique(sides, return_inverse=True)
        first, second = renumbered.reshape(2, -1)
        renumbered_votes = Comparisons.of_one(first, second, votes_of_group.target)
        collections.append(_Collection(features[items], renumbered_votes))
    return collections


def _most_answers(votes: Comparisons, strategies: Sequence[str]) -> int:
    """Estimate how many questions can be answered by the votes that are not held out.

    Each of the four annotators is asked about a pair at most once.
    """
    _, n_votes_on_pair = np.unique(_pair_of_vote(votes), axis=0, return_counts=True)
    n_usable = int((1 - HELD_OUT) * np.minimum(n_votes_on_pair, N_ANNOTATORS).sum())
    return n_usable // pairs_of_a_question(strategies)


def _pair_of_vote(votes: Comparisons) -> I64:
    """List the two items of each vote, the lower number first, (n_votes, 2)."""
    return np.sort(np.stack((votes.left, votes.right), axis=1), axis=1)


def accuracy(scores: F64, votes: Comparisons) -> float:
    """Compute the share of votes that agree with the scores of the items.

    Ties among the votes are left out; equal scores of two items count half.
    """
    decided = votes.where(votes.target != 0.5)
    difference = scores[decided.left] - scores[decided.right]
    agreement = np.sign(difference) * np.sign(decided.target - 0.5)  # -1, 0 or 1
    return float(np.mean((1 + agreement) / 2))


def majority(votes: Comparisons) -> Comparisons:
    """Replace all votes on a pair by one vote of the majority; leave out pairs without majority."""
    # The target of a vote is 1 if the left item is better, 0 if the right item is, 0.5 for a tie.
    votes_for_low = np.where(votes.left < votes.right, votes.target, 1 - votes.target)
    pairs, pair_of_vote = np.unique(_pair_of_vote(votes), axis=0, return_inverse=True)
    margin = np.zeros(len(pairs))
    np.add.at(margin, pair_of_vote.reshape(-1), votes_for_low - 0.5)
    target = (np.sign(margin) + 1) / 2  # 1 if the majority prefers the lower item
    return Comparisons.of_one(pairs[:, 0], pairs[:, 1], target).where(margin != 0)


def _hold_out(
    collections: Sequence[_Collection], division: int, rng: np.random.Generator
) -> VotingAnnotators:
    """Divide the votes of one repetition into votes that answer questions and held-out pairs.

    Args:
        collections: the collections, which the repetitions use in turn.
        division: number of the repetition.
        rng: random generator of the division.
    """
    features, votes = collections[division % len(collections)]
    pairs, pair_of_vote = np.unique(_pair_of_vote(votes), axis=0, return_inverse=True)
    is_held_out = rng.random(len(pairs)) < HELD_OUT
    is_vote_held_out = is_held_out[pair_of_vote.reshape(-1)]
    test = majority(votes.where(is_vote_held_out))
    if not len(test):
        raise JudgementError(f"{len(pairs)} pairs are too few to hold some out")
    votes_to_ask = votes.where(~is_vote_held_out)
    among = pairs[~is_held_out]
    return VotingAnnotators(features, len(features), rng, votes_to_ask, test, among=among)


@dataclass(frozen=True, eq=False)
class VotingAnnotators(Annotators):
    """Annotators who answer by recorded votes, which are drawn at random, each vote once.

    Attributes:
        votes: the votes that answer questions.
        test: one vote on each held-out pair.
    """

    votes: Comparisons
    test: Comparisons
    _votes_left: dict[Pair, list[tuple[int, float]]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Shuffle the votes: {pair: (first item, target) of its votes}."""
        votes = self.votes.where(self.rng.permutation(len(self.votes)))
        items = np.stack((votes.left, votes.right), axis=1).tolist()
        for (first, second), target in zip(items, votes.target.tolist(), strict=True):
            self._votes_left.setdefault(unordered_pair(first, second), []).append((first, target))

    def answer(self, items: tuple[int, ...]) -> Judgement:
        """Answer by drawing a vote on each pair of the items; "can't say" if no vote is left.

        The item with most wins is the best and the item with fewest wins is the worst. Among items
        with equally many wins one is drawn at random.
        """
        wins = self._wins(items)
        if wins is None:
            return Judgement(ANNOTATOR, items, "cant-say")
        if np.ptp(wins) == 0:
            return Judgement(ANNOTATOR, items, "same")
        best = items[self.rng.choice(np.flatnonzero(wins == wins.max()))]
        worst = None
        if len(items) > 2:
            worst = items[self.rng.choice(np.flatnonzero(wins == wins.min()))]
        return Judgement(ANNOTATOR, items, "best", best, worst)

    def _wins(self, items: Sequence[int]) -> F64 | None:
        """Draw a vote on each pair of the items, and count the votes that each item wins.

        If a pair has no vote left, each of its items gets half a win.

        Returns:
            (n_items,) the number of wins; None if no pair has a vote left.
        """
        wins = np.zeros(len(items))
        has_vote = False
        for i, j in combinations(range(len(items)), 2):
            votes_of_pair = self._votes_left.get(unordered_pair(items[i], items[j]))
            share = 0.5
            if votes_of_pair:
                has_vote = True
                first, target = votes_of_pair.pop()
                share = target if first == items[i] else 1 - target
            wins[i] += share
            wins[j] += 1 - share
        return wins if has_vote else None

    def figures(self, scores: F64) -> dict[str, float]:
        """Compute the share of the held-out pairs that scores of the items predict: `accuracy`."""
        return {"accuracy": accuracy(scores, self.test)}
