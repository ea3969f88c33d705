"""Let recorded votes answer questions, and measure how well held-out pairs are predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

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
    refuse_unknown,
    usual_budgets,
)
from sortnet.preference.base import Judgement, Pair, unordered_pair
from sortnet.preference.comparisons import ByPair, Comparisons

if TYPE_CHECKING:
    import pandas as pd

HELD_OUT = 0.2  # share of the pairs on which accuracy is measured
VOTE_STRATEGIES = ("default", "random", *SET_SIZES)


def simulate_votes(
    features: F64,
    votes: Comparisons,
    strategies: Sequence[str],
    budgets: Sequence[int] = (),
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
        budgets: numbers of answers after which accuracy is measured; if there are none, the usual
            numbers up to the number of votes.
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
    refuse_unknown(strategies, VOTE_STRATEGIES)
    collections = _collections(features, votes, group)[:seeds]
    most = min(_most_answers(votes_of_items, strategies) for _, votes_of_items in collections)
    budgets = budgets or usual_budgets(most)
    if max(budgets) > most:
        raise JudgementError(f"{max(budgets)} votes are to be used, and there are {most}")
    return ask_all(
        partial(_hold_out, collections), strategies, budgets,
        seeds=seeds, seed=seed, jobs=jobs, progress=progress,
    )  # fmt: skip


def _collections(
    features: F64, votes: Comparisons, group: I64 | None
) -> list[tuple[F64, Comparisons]]:
    """List the features of each group's items, numbered from 0, and the votes of the group."""
    if group is None:
        return [(features, votes)]
    collections = []
    for number in np.unique(group):
        votes_of_group = votes.where(group == number)
        sides = np.stack((votes_of_group.left, votes_of_group.right))
        items, renumbered = np.unique(sides, return_inverse=True)
        left, right = renumbered.reshape(2, -1)
        collections.append((features[items], replace(votes_of_group, left=left, right=right)))
    return collections


def _most_answers(votes: Comparisons, strategies: Sequence[str]) -> int:
    """Estimate how many questions can be answered by the votes that are not held out.

    Each of the four annotators is asked about a pair at most once.
    """
    n_votes_on_pair = np.bincount(ByPair(votes).pair)
    n_usable = int((1 - HELD_OUT) * np.minimum(n_votes_on_pair, N_ANNOTATORS).sum())
    return n_usable // pairs_of_a_question(strategies)


def accuracy(scores: F64, votes: Comparisons) -> float:
    """Compute the share of votes that agree with the scores; equal scores count half."""
    difference = scores[votes.left] - scores[votes.right]
    agreement = np.sign(difference) * np.sign(votes.target - 0.5)  # -1, 0 or 1
    return float(np.mean((1 + agreement) / 2))


def majority(votes: Comparisons) -> Comparisons:
    """Replace all votes on a pair by one vote of the majority; leave out pairs without majority."""
    by_pair = ByPair(votes)
    margin = np.bincount(by_pair.pair, by_pair.for_low - 0.5, minlength=len(by_pair.low))
    target = (np.sign(margin) + 1) / 2  # 1 if the majority prefers the lower item
    return Comparisons.of_one(by_pair.low, by_pair.high, target).where(margin != 0)


def _hold_out(
    collections: Sequence[tuple[F64, Comparisons]], division: int, rng: np.random.Generator
) -> VotingAnnotators:
    """Divide the votes of one repetition into votes that answer questions and held-out pairs.

    Args:
        collections: the collections, which the repetitions use in turn.
        division: number of the repetition.
        rng: random generator of the division.
    """
    features, votes = collections[division % len(collections)]
    by_pair = ByPair(votes)
    pairs = np.stack((by_pair.low, by_pair.high), axis=1)
    is_held_out = rng.random(len(pairs)) < HELD_OUT
    is_vote_held_out = is_held_out[by_pair.pair]
    test = majority(votes.where(is_vote_held_out))
    if not len(test):
        raise JudgementError(f"{len(pairs)} pairs are too few to hold some out")
    votes_to_ask = votes.where(~is_vote_held_out)
    return VotingAnnotators(features, rng, votes_to_ask, test, among=pairs[~is_held_out])


@dataclass(frozen=True, eq=False)
class VotingAnnotators(Annotators):
    """Annotators who answer by recorded votes, which are drawn at random, each vote once.

    Attributes:
        votes: the votes that answer questions.
        test: one vote on each held-out pair.
    """

    votes: Comparisons
    test: Comparisons
    _votes_left: dict[Pair, list[float]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Shuffle the votes: {pair: the shares of its votes for the item with the lower number}."""
        votes = self.votes.where(self.rng.permutation(len(self.votes)))
        sides = np.stack((votes.left, votes.right), axis=1).tolist()
        for (left, right), for_low in zip(sides, votes.for_low.tolist(), strict=True):
            self._votes_left.setdefault(unordered_pair(left, right), []).append(for_low)

    def answer(self, items: tuple[int, ...]) -> Judgement:
        """Answer by drawing a vote on each pair of the items; "can't say" if no vote is left.

        The item with most wins is the best and the item with fewest wins is the worst. Among items
        with equally many wins one is drawn at random. If only some pairs have a vote left, each
        item of another pair gets half a win.
        """
        pairs = [*combinations(sorted(items), 2)]
        if not any(self._votes_left.get(pair) for pair in pairs):
            return Judgement(ANNOTATOR, items, "cant-say")
        wins = dict.fromkeys(items, 0.0)
        for low, high in pairs:
            votes_of_pair = self._votes_left.get((low, high))
            for_low = votes_of_pair.pop() if votes_of_pair else 0.5
            wins[low] += for_low
            wins[high] += 1 - for_low
        most, fewest = max(wins.values()), min(wins.values())
        if most == fewest:
            return Judgement(ANNOTATOR, items, "same")
        best = self._draw_item(wins, most)
        worst = self._draw_item(wins, fewest) if len(items) > 2 else None
        return Judgement(ANNOTATOR, items, "best", best, worst)

    def _draw_item(self, wins: dict[int, float], n_wins: float) -> int:
        """Draw one of the items with so many wins."""
        return int(self.rng.choice([item for item in wins if wins[item] == n_wins]))

    def figures(self, scores: F64) -> dict[str, float]:
        """Compute the share of the held-out pairs that scores of the items predict: `accuracy`."""
        return {"accuracy": accuracy(scores, self.test)}
