"""Replay recorded votes as a simulated annotator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from sortnet.core import F64, I64, Progress
from sortnet.errors import JudgementError
from sortnet.lab.simulated_annotators import N_ANNOTATORS, in_parallel
from sortnet.preference.base import Answer, Pair, by_pair, unordered_pair
from sortnet.preference.session import Session
from sortnet.preference.strategies import STRATEGIES
from sortnet.preference.vote_arrays import Votes

HELD_OUT = 0.2  # share of the pairs that accuracy is measured on
_MANY = 150  # items above which a session is asked in batches,
_MORE = 0.1  # each as large as this share of the votes so far


@dataclass(frozen=True)
class HeldOutAccuracy:
    """Share of the held-out pairs that a session predicts after a number of votes."""

    strategy: str
    seed: int
    questions: int  # that got a vote
    accuracy: float


def simulate_votes(
    features: F64,
    known: Votes,
    strategies: Sequence[str],
    budgets: Sequence[int],
    *,
    group: I64 | None = None,
    seeds: int = 5,
    seed: int = 0,
    jobs: int = 1,
    progress: Progress = lambda text: None,
) -> list[HeldOutAccuracy]:
    """Accuracy on held-out pairs by the number of votes used, for every strategy.

    A fifth of the pairs is held out, other ones for every seed. Sessions ask about the other pairs
    and get one of the votes given on the pair, each vote once. A held-out pair is predicted if the
    session orders it as the majority of its votes does; pairs without a majority do not count, and
    a tie of the session counts half.

    Args:
        features: (n, d).
        known: the votes; a pair can be asked as often as it has votes, by four annotators at most.
        strategies: of `sortnet.preference.strategies.STRATEGIES`.
        budgets: numbers of votes after which accuracy is measured.
        group: (m,) of each vote, if every group is a separate collection: the seeds take them in
            turn. None: all votes are about one collection.
        seeds: number of splits.
        seed: of all of them.
        jobs: processes.

    Raises:
        JudgementError: on an unknown strategy, or too few votes.

    Cost: above 150 unknowns a session is refitted each time there are a tenth more answers.
    """
    for name in strategies:
        if name not in STRATEGIES:
            raise JudgementError(f"unknown strategy {name!r}; known are {', '.join(STRATEGIES)}")
    if not budgets or not strategies or seeds < 1 or min(budgets) < 1:
        raise JudgementError("a simulation takes a strategy, a vote and a seed")
    groups = _groups(features, known, group)[:seeds]
    # About how many votes four annotators can be asked for, without the held-out pairs.
    each = (np.minimum(np.bincount(_pairs(votes)[2]), N_ANNOTATORS) for _, votes in groups)
    most = min(int((1 - HELD_OUT) * found.sum()) for found in each)
    if max(budgets) > most:
        raise JudgementError(f"{max(budgets)} votes are to be used, and there are {most}")
    tasks = [
        partial(_one, *groups[k % len(groups)], name, k, budgets=sorted(set(budgets)), seed=seed)
        for name in strategies
        for k in range(seeds)
    ]
    return [row for rows in in_parallel(tasks, jobs, progress) for row in rows]


def _groups(features: F64, known: Votes, group: I64 | None) -> list[tuple[F64, Votes]]:
    """The features and votes of each group, its items numbered from 0."""
    if group is None:
        return [(features, known)]
    groups = []
    for this in np.unique(group):
        votes = known.where(group == this)
        there, ends = np.unique(np.stack((votes.left, votes.right)), return_inverse=True)
        left, right = ends.reshape(2, -1)
        groups.append((features[there], Votes.of_one(left, right, votes.target)))
    return groups


def accuracy(scores: F64, known: Votes) -> float:
    """Share of the votes for a side that agree with the scores; equal scores count half."""
    known = known.where(known.target != 0.5)
    difference = scores[known.left] - scores[known.right]
    return float(np.mean((1 + np.sign(difference) * np.sign(known.target - 0.5)) / 2))


def majority(known: Votes) -> Votes:
    """One vote per pair: its majority; pairs without a majority are left out."""
    low, high, pair = _pairs(known)
    up = np.where(known.left < known.right, known.target, 1 - known.target)
    share = np.bincount(pair, up) / np.bincount(pair)
    return Votes.of_one(low, high, (np.sign(share - 0.5) + 1) / 2).where(share != 0.5)


def _pairs(known: Votes) -> tuple[I64, I64, I64]:
    """The pairs, lower number first, and the index of each vote's pair."""
    ends = np.sort(np.stack((known.left, known.right), axis=1), axis=1)
    pairs, of = np.unique(ends, axis=0, return_inverse=True)
    return pairs[:, 0], pairs[:, 1], of.reshape(-1)


def _one(
    features: F64, known: Votes, strategy: str, k: int, *, budgets: Sequence[int], seed: int
) -> list[HeldOutAccuracy]:
    rng = np.random.default_rng([seed, k])
    low, high, pair = _pairs(known)
    held_out = rng.random(len(low)) < HELD_OUT
    test = majority(known.where(held_out[pair]))
    if not len(test):
        raise JudgementError(f"{len(low)} pairs are too few to hold some out")
    urn = _Urn(known.where(~held_out[pair]), rng)
    holdout, repeats = (0.1, 0.05) if strategy == "default" else (0.0, 0.0)
    among = np.stack((low, high), axis=1)[~held_out]
    session = Session(
        features, seed=k, strategy=strategy, holdout=holdout, repeats=repeats, among=among
    )
    results: list[HeldOutAccuracy] = []
    for budget in budgets:
        _ask_until(session, urn, budget)
        found = accuracy(session.ranking().score, test)
        results.append(HeldOutAccuracy(strategy, k, urn.drawn, found))
    return results


class _Vote(NamedTuple):
    """A vote on two items: the share of it that prefers the left one."""

    left: int
    right: int
    target: float

    @property
    def pair(self) -> Pair:
        """The two items, the lower number first."""
        return unordered_pair(self.left, self.right)


class _Urn:
    """The votes of every pair, to be drawn one by one."""

    def __init__(self, known: Votes, rng: np.random.Generator) -> None:
        self.drawn = self.turn = 0
        order = rng.permutation(len(known))
        columns = (known.left[order], known.right[order], known.target[order])
        votes = map(_Vote, *(column.tolist() for column in columns))
        self._votes_on = by_pair(votes)

    def draw(self, left: int, right: int) -> Answer:
        """Draw a vote on a pair, as an answer to these sides."""
        votes = self._votes_on[unordered_pair(left, right)]
        if not votes:
            return "cant-say"
        self.drawn += 1
        vote = votes.pop()
        share = vote.target if vote.left == left else 1 - vote.target
        return "tie" if share == 0.5 else "left" if share == 1 else "right"


def _ask_until(session: Session, urn: _Urn, budget: int) -> None:
    """Ask four annotators in turn, until `budget` votes are drawn or no question is left."""
    passed = 0
    while urn.drawn < budget and passed < N_ANNOTATORS:
        annotator = f"person-{urn.turn % N_ANNOTATORS}"
        urn.turn += 1
        at_once = 1
        if session.n_items > _MANY:  # it is refitted after each batch of answers
            at_once = min(max(1, int(_MORE * urn.drawn)), budget - urn.drawn)
        questions = session.ask(annotator, at_once)
        passed = 0 if questions else passed + 1
        for q in questions:
            answer = urn.draw(q.left, q.right)
            session.tell(q.answered(annotator, answer))
        if at_once > 1:
            session.refit()
