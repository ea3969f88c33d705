"""Recorded votes as simulated annotators: which held-out pairs do sessions predict with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, cycle
from typing import NamedTuple

import numpy as np

from sortnet.core import F64, I64, Progress
from sortnet.errors import JudgementError
from sortnet.lab.simulated_annotators import (
    N_ANNOTATORS,
    SET_SIZES,
    in_parallel,
    pairs_of_a_question,
)
from sortnet.preference.base import Judgement, Pair, Question, by_pair, unordered_pair
from sortnet.preference.session import Session
from sortnet.preference.strategies import STRATEGIES
from sortnet.preference.vote_arrays import Votes

HELD_OUT = 0.2  # share of the pairs that accuracy is measured on
VOTE_STRATEGIES = (*STRATEGIES, *SET_SIZES)
_MANY = 150  # items above which a session is asked in batches
_BATCH = 0.1  # size of a batch, as a share of the answers so far
_LIKE_LABEL = {"default", *SET_SIZES}  # strategies with the hold-out and repeats of `sortnet label`


@dataclass(frozen=True)
class HeldOutAccuracy:
    """Share of the held-out pairs that a session predicts after a number of answers."""

    strategy: str
    seed: int
    questions: int  # answered by recorded votes
    accuracy: float


class _Collection(NamedTuple):
    """Items that are compared with each other, and the votes on them."""

    features: F64
    votes: Votes


def simulate_votes(
    features: F64,
    votes: Votes,
    strategies: Sequence[str],
    budgets: Sequence[int],
    *,
    group: I64 | None = None,
    seeds: int = 5,
    seed: int = 0,
    jobs: int = 1,
    progress: Progress = lambda text: None,
) -> list[HeldOutAccuracy]:
    """Accuracy on held-out pairs by the number of answers used, for every strategy.

    A fifth of the pairs is held out, other ones for every seed. Sessions ask about the other pairs.
    A question about two items is answered with a vote on the pair, and each vote is used once. A
    question about a set takes one vote on each of its pairs: the item with the most votes is the
    best, the item with the fewest is the worst.

    A held-out pair is predicted if the session orders it as the majority of its votes does; pairs
    without a majority do not count, and a tie of the session counts half.

    Args:
        features: (n, d).
        votes: a pair can be asked as often as it has votes, by four annotators at most.
        strategies: names of `VOTE_STRATEGIES`.
        budgets: numbers of answers after which accuracy is measured.
        group: (m,) of each vote, if every group is a separate collection: the seeds take them in
            turn. None: all votes are about one collection.
        seeds: number of splits.
        seed: seed of all splits.
        jobs: processes.

    Raises:
        JudgementError: on an unknown strategy, or too few votes.

    Cost: above 150 items a session is refitted each time there are a tenth more answers.
    """
    for name in strategies:
        if name not in VOTE_STRATEGIES:
            known = ", ".join(VOTE_STRATEGIES)
            raise JudgementError(f"unknown strategy {name!r}; known are {known}")
    if not budgets or not strategies or seeds < 1 or min(budgets) < 1:
        raise JudgementError("a simulation takes a strategy, a vote and a seed")
    collections = _collections(features, votes, group)[:seeds]
    most = min(_most_answers(collection.votes, strategies) for collection in collections)
    if max(budgets) > most:
        raise JudgementError(f"{max(budgets)} votes are to be used, and there are {most}")
    tasks = [
        partial(
            _run_session,
            collections[k % len(collections)],
            name,
            k,
            budgets=sorted(set(budgets)),
            seed=seed,
        )
        for name in strategies
        for k in range(seeds)
    ]
    return [row for rows in in_parallel(tasks, jobs, progress) for row in rows]


def _collections(features: F64, votes: Votes, group: I64 | None) -> list[_Collection]:
    """A collection of each group of votes, its items numbered from 0."""
    if group is None:
        return [_Collection(features, votes)]
    collections = []
    for number in np.unique(group):
        of_group = votes.where(group == number)
        sides = np.stack((of_group.left, of_group.right))
        items, renumbered = np.unique(sides, return_inverse=True)
        left, right = renumbered.reshape(2, -1)
        renumbered_votes = Votes.of_one(left, right, of_group.target)
        collections.append(_Collection(features[items], renumbered_votes))
    return collections


def _most_answers(votes: Votes, strategies: Sequence[str]) -> int:
    """About how many answers four annotators can give without the votes on held-out pairs."""
    votes_on_pair = np.bincount(_pairs(votes)[2])
    usable = int((1 - HELD_OUT) * np.minimum(votes_on_pair, N_ANNOTATORS).sum())
    return usable // pairs_of_a_question(strategies)


def accuracy(scores: F64, votes: Votes) -> float:
    """Share of the votes for a side that agree with the scores; equal scores count half."""
    decided = votes.where(votes.target != 0.5)
    difference = scores[decided.left] - scores[decided.right]
    agreement = np.sign(difference) * np.sign(decided.target - 0.5)  # -1, 0 or 1
    return float(np.mean((1 + agreement) / 2))


def majority(votes: Votes) -> Votes:
    """One vote per pair: its majority; pairs without a majority are left out."""
    low, high, pair = _pairs(votes)
    for_low = np.where(votes.left < votes.right, votes.target, 1 - votes.target)
    share = np.bincount(pair, for_low) / np.bincount(pair)
    return Votes.of_one(low, high, (np.sign(share - 0.5) + 1) / 2).where(share != 0.5)


def _pairs(votes: Votes) -> tuple[I64, I64, I64]:
    """The lower and the higher item of each pair, and the number of each vote's pair."""
    sides = np.sort(np.stack((votes.left, votes.right), axis=1), axis=1)
    pairs, pair_of_vote = np.unique(sides, axis=0, return_inverse=True)
    return pairs[:, 0], pairs[:, 1], pair_of_vote.reshape(-1)


def _run_session(
    collection: _Collection, strategy: str, k: int, *, budgets: Sequence[int], seed: int
) -> list[HeldOutAccuracy]:
    """Accuracy of one session after each number of answers, with one division of the pairs."""
    rng = np.random.default_rng([seed, k])
    votes = collection.votes
    low, high, pair = _pairs(votes)
    is_held_out = rng.random(len(low)) < HELD_OUT
    test = majority(votes.where(is_held_out[pair]))
    if not len(test):
        raise JudgementError(f"{len(low)} pairs are too few to hold some out")
    urn = _Urn(votes.where(~is_held_out[pair]), rng)
    holdout, repeats = (0.1, 0.05) if strategy in _LIKE_LABEL else (0.0, 0.0)
    session = Session(
        collection.features,
        seed=k,
        strategy="default" if strategy in SET_SIZES else strategy,
        holdout=holdout,
        repeats=repeats,
        among=np.stack((low, high), axis=1)[~is_held_out],
        set_size=SET_SIZES.get(strategy, 2),
    )
    annotators = cycle(f"person-{number}" for number in range(N_ANNOTATORS))
    results: list[HeldOutAccuracy] = []
    for budget in budgets:
        _ask_until(session, urn, annotators, budget)
        predicted = accuracy(session.ranking().score, test)
        results.append(HeldOutAccuracy(strategy, k, urn.n_answers, predicted))
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
    """The votes on every pair, from which answers are drawn; each vote is drawn once.

    Attributes:
        n_answers: number of answers for which there were votes.
    """

    def __init__(self, votes: Votes, rng: np.random.Generator) -> None:
        self.n_answers = 0
        order = rng.permutation(len(votes))
        columns = (votes.left[order], votes.right[order], votes.target[order])
        self._votes_on = by_pair(map(_Vote, *(column.tolist() for column in columns)))
        self._rng = rng

    def answer(self, question: Question, annotator: str) -> Judgement:
        """Answer a question by votes that are drawn; "can't say" where none is left."""
        wins = self._wins(question.items)
        if wins is None:
            return question.answered(annotator, "cant-say")
        self.n_answers += 1
        if len(wins) > 2:
            return self._answer_about_set(question, annotator, wins)
        if wins[0] == wins[1]:
            return question.answered(annotator, "tie")
        return question.answered(annotator, "left" if wins[0] > wins[1] else "right")

    def _answer_about_set(self, question: Question, annotator: str, wins: F64) -> Judgement:
        """The best and the worst item by their wins; among equals the place is drawn."""
        if np.ptp(wins) == 0:
            return question.answered(annotator, "same")
        best = int(self._rng.choice(np.flatnonzero(wins == wins.max())))
        worst = int(self._rng.choice(np.flatnonzero(wins == wins.min())))
        return question.answered_by_place(annotator, best, worst)

    def _wins(self, items: Sequence[int]) -> F64 | None:
        """How many votes prefer each item to another one; None if no pair has a vote left.

        A pair without a vote is half a win for each of its items.
        """
        wins = np.zeros(len(items))
        has_vote = False
        for i, j in combinations(range(len(items)), 2):
            votes = self._votes_on.get(unordered_pair(items[i], items[j]))
            share = 0.5
            if votes:
                has_vote = True
                vote = votes.pop()
                share = vote.target if vote.left == items[i] else 1 - vote.target
            wins[i] += share
            wins[j] += 1 - share
        return wins if has_vote else None


def _ask_until(session: Session, urn: _Urn, annotators: Iterator[str], budget: int) -> None:
    """Ask annotators in turn, until there are `budget` answers or no question is left."""
    n_without_question = 0
    while urn.n_answers < budget and n_without_question < N_ANNOTATORS:
        annotator = next(annotators)
        batch = 1
        if session.n_items > _MANY:
            batch = min(max(1, int(_BATCH * urn.n_answers)), budget - urn.n_answers)
        questions = session.ask(annotator, batch)
        n_without_question = 0 if questions else n_without_question + 1
        for question in questions:
            session.tell(urn.answer(question, annotator))
        if batch > 1:
            session.refit()
