"""Simulate annotators by recorded votes, and measure how well sessions predict held-out pairs."""

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
from sortnet.preference.comparisons import Comparisons
from sortnet.preference.session import STRATEGIES, Session

HELD_OUT = 0.2  # share of the pairs on which accuracy is measured
VOTE_STRATEGIES = (*STRATEGIES, *SET_SIZES)
_MANY = 150  # with more items than this a session is asked for batches of questions
_BATCH = 0.1  # size of a batch, as a share of the answers so far
_WITH_CONTROLS = {"default", *SET_SIZES}  # strategies with control questions, as `sortnet label`
_HOLDOUT = 0.1  # share of the questions that measure the ranking, in such a strategy
_REPEATS = 0.05  # share of the questions that are asked again, in such a strategy


@dataclass(frozen=True)
class HeldOutAccuracy:
    """Share of the held-out pairs that a session predicts after a number of answers.

    Attributes:
        strategy: name of the session's strategy.
        seed: number of the division into pairs for the session and held-out pairs.
        questions: number of questions that recorded votes have answered.
        accuracy: share of the held-out pairs that are predicted.
    """

    strategy: str
    seed: int
    questions: int
    accuracy: float


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
) -> list[HeldOutAccuracy]:
    """Measure for every strategy how accuracy on held-out pairs grows with the number of answers.

    For every seed another fifth of the pairs is held out; sessions ask about the remaining pairs.
    A question about two items is answered by a recorded vote on the pair, and each vote is used
    once. A question about a set is answered by one vote on each pair of its items: the item that
    wins most votes is the best, the item that wins fewest is the worst.

    A held-out pair is predicted if the session orders it as the majority of its votes does. Pairs
    without a majority do not count, and a pair that the session ranks equally counts half.

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

    Raises:
        JudgementError: if a strategy is unknown, or there are too few votes.

    Cost: with more than 150 items a session is refitted each time it has a tenth more answers.
    """
    _refuse_arguments(strategies, budgets, seeds)
    collections = _collections(features, votes, group)[:seeds]
    most = min(_most_answers(collection.votes, strategies) for collection in collections)
    if max(budgets) > most:
        raise JudgementError(f"{max(budgets)} votes are to be used, and there are {most}")
    run = partial(_run_session, budgets=sorted(set(budgets)), seed=seed)
    tasks = [
        partial(run, collections[division % len(collections)], name, division)
        for name in strategies
        for division in range(seeds)
    ]
    results_of_sessions = in_parallel(tasks, jobs, progress)
    return [result for results in results_of_sessions for result in results]


def _refuse_arguments(strategies: Sequence[str], budgets: Sequence[int], seeds: int) -> None:
    """Raise JudgementError for an unknown strategy, or if there is nothing to simulate."""
    for name in strategies:
        if name not in VOTE_STRATEGIES:
            known = ", ".join(VOTE_STRATEGIES)
            raise JudgementError(f"unknown strategy {name!r}; known are {known}")
    if not budgets or not strategies or seeds < 1 or min(budgets) < 1:
        raise JudgementError("a simulation takes a strategy, a vote and a seed")


def _collections(features: F64, votes: Comparisons, group: I64 | None) -> list[_Collection]:
    """Make a collection of each group of votes, with its items numbered from 0."""
    if group is None:
        return [_Collection(features, votes)]
    collections = []
    for number in np.unique(group):
        votes_of_group = votes.where(group == number)
        sides = np.stack((votes_of_group.left, votes_of_group.right))
        items, renumbered = np.unique(sides, return_inverse=True)
        left, right = renumbered.reshape(2, -1)
        renumbered_votes = Comparisons.of_one(left, right, votes_of_group.target)
        collections.append(_Collection(features[items], renumbered_votes))
    return collections


def _most_answers(votes: Comparisons, strategies: Sequence[str]) -> int:
    """Estimate how many questions can be answered by the votes that are not held out.

    Each of the four annotators is asked about a pair at most once.
    """
    n_votes_on_pair = np.bincount(_number_pairs(votes).pair_of_vote)
    n_usable = int((1 - HELD_OUT) * np.minimum(n_votes_on_pair, N_ANNOTATORS).sum())
    return n_usable // pairs_of_a_question(strategies)


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
    pairs = _number_pairs(votes)
    # The target of a vote is 1 if the left item is better, 0 if the right item is, 0.5 for a tie.
    votes_for_low = np.where(votes.left < votes.right, votes.target, 1 - votes.target)
    n_for_low = np.bincount(pairs.pair_of_vote, votes_for_low)
    share_for_low = n_for_low / np.bincount(pairs.pair_of_vote)
    target = (np.sign(share_for_low - 0.5) + 1) / 2  # 1 if the majority prefers the lower item
    return Comparisons.of_one(pairs.low, pairs.high, target).where(share_for_low != 0.5)


class _NumberedPairs(NamedTuple):
    """Pairs of items that have votes, numbered from 0.

    Attributes:
        low: (n_pairs,) lower item number of each pair.
        high: (n_pairs,) higher item number of each pair.
        pair_of_vote: (n_votes,) number of each vote's pair.
    """

    low: I64
    high: I64
    pair_of_vote: I64


def _number_pairs(votes: Comparisons) -> _NumberedPairs:
    """Number the pairs of items that have votes."""
    items = np.stack((votes.left, votes.right), axis=1)
    pairs, pair_of_vote = np.unique(np.sort(items, axis=1), axis=0, return_inverse=True)
    return _NumberedPairs(pairs[:, 0], pairs[:, 1], pair_of_vote.reshape(-1))


def _run_session(
    collection: _Collection, strategy: str, division: int, *, budgets: Sequence[int], seed: int
) -> list[HeldOutAccuracy]:
    """Run one session on one division of the pairs; measure its accuracy after each budget.

    Args:
        collection: the items and the votes on their pairs.
        strategy: a name from `VOTE_STRATEGIES`.
        division: number of the division into pairs to ask about and held-out pairs.
        budgets: numbers of answers, ascending.
        seed: seed of all divisions.
    """
    rng = np.random.default_rng([seed, division])
    votes = collection.votes
    pairs = _number_pairs(votes)
    n_pairs = len(pairs.low)
    is_held_out = rng.random(n_pairs) < HELD_OUT
    test = majority(votes.where(is_held_out[pairs.pair_of_vote]))
    if not len(test):
        raise JudgementError(f"{n_pairs} pairs are too few to hold some out")
    urn = _Urn(votes.where(~is_held_out[pairs.pair_of_vote]), rng)
    has_controls = strategy in _WITH_CONTROLS
    session = Session(
        collection.features,
        seed=division,
        strategy="default" if strategy in SET_SIZES else strategy,
        holdout=_HOLDOUT if has_controls else 0.0,
        repeats=_REPEATS if has_controls else 0.0,
        among=np.stack((pairs.low, pairs.high), axis=1)[~is_held_out],
        set_size=SET_SIZES.get(strategy, 2),
    )
    annotators = cycle(f"person-{number}" for number in range(N_ANNOTATORS))
    results: list[HeldOutAccuracy] = []
    for budget in budgets:
        _ask_until(session, urn, annotators, budget)
        share_predicted = accuracy(session.ranking().score, test)
        results.append(HeldOutAccuracy(strategy, division, urn.n_answers, share_predicted))
    return results


class _Vote(NamedTuple):
    """A vote on two items.

    `target` is 1 if it prefers the left item, 0 if it prefers the right item, 0.5 for a tie.
    """

    left: int
    right: int
    target: float

    @property
    def pair(self) -> Pair:
        """The two items, the lower number first."""
        return unordered_pair(self.left, self.right)


class _Urn:
    """Answers questions by recorded votes, which are drawn at random, each vote once.

    Attributes:
        n_answers: number of questions for which there were votes.
    """

    def __init__(self, votes: Comparisons, rng: np.random.Generator) -> None:
        """Shuffle the votes; `rng` also draws among items with equally many wins."""
        self.n_answers = 0
        order = rng.permutation(len(votes))
        left = votes.left[order].tolist()
        right = votes.right[order].tolist()
        target = votes.target[order].tolist()
        self._votes_on = by_pair(map(_Vote, left, right, target))
        self._rng = rng

    def answer(self, question: Question, annotator: str) -> Judgement:
        """Answer a question by drawing votes on its pairs; "can't say" if no vote is left."""
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
        """Name the item with most wins the best and the item with fewest wins the worst.

        Among items with equally many wins one is drawn at random.
        """
        if np.ptp(wins) == 0:
            return question.answered(annotator, "same")
        best = int(self._rng.choice(np.flatnonzero(wins == wins.max())))
        worst = int(self._rng.choice(np.flatnonzero(wins == wins.min())))
        return question.answered_by_place(annotator, best, worst)

    def _wins(self, items: Sequence[int]) -> F64 | None:
        """Draw a vote on each pair of the items, and count the votes that each item wins.

        If a pair has no vote left, each of its items gets half a win.

        Returns:
            (n_items,) the number of wins; None if no pair has a vote left.
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
    n_without_question = 0  # annotators in a row who got no question
    while urn.n_answers < budget and n_without_question < N_ANNOTATORS:
        annotator = next(annotators)
        batch = _size_of_batch(session.n_items, urn.n_answers, budget)
        questions = session.ask(annotator, batch)
        n_without_question = 0 if questions else n_without_question + 1
        for question in questions:
            session.tell(urn.answer(question, annotator))
        if batch > 1:
            session.refit()


def _size_of_batch(n_items: int, n_answers: int, budget: int) -> int:
    """Return the number of questions to ask at once; above 1 only if there are many items.

    Args:
        n_items: number of items of the session.
        n_answers: number of answers so far.
        budget: number of answers that are wanted.
    """
    if n_items <= _MANY:
        return 1
    return min(max(1, int(_BATCH * n_answers)), budget - n_answers)
