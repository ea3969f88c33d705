"""Votes of real people as the oracle: what a session would have learned, had it asked for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from sortnet.errors import JudgementError
from sortnet.experiments.simulated_annotators import PEOPLE, in_parallel
from sortnet.preference.base import Answer, Judgement
from sortnet.preference.posterior import Votes
from sortnet.preference.session import Session
from sortnet.preference.strategies import STRATEGIES
from sortnet.types import F64, I64, Progress

APART = 0.2  # share of the pairs whose order is to be foretold
_MANY = 150  # items from which a session is asked in batches,
_MORE = 0.1  # of so many more votes than it has had


@dataclass(frozen=True)
class Foretold:
    """How many pairs that were kept apart a session foretells after so many votes."""

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
    progress: Progress | None = None,
) -> list[Foretold]:
    """Accuracy on pairs kept apart against the number of votes used, for every strategy.

    A fifth of the pairs, other ones for every seed, is kept apart. Sessions ask about the others
    and get one of the votes that were given on the pair, each vote once. How many of the pairs
    kept apart they order as the majority of the votes does; a majority for neither does not
    count, and a tie of the session counts half.

    Args:
        features: (n, d).
        known: the votes; a pair can be asked as often as it has votes, but by four people only.
        strategies: of `sortnet.preference.strategies.STRATEGIES`.
        budgets: after how many votes.
        group: (m,) of each vote, where every group is a pile of its own: the seeds take one pile
            after another. None: all votes are about one pile.
        seeds: how many splits.
        seed: of all of them.
        jobs: processes.

    Raises:
        JudgementError: on an unknown strategy, or too few votes.

    Cost: above 150 unknowns a session learns again at a tenth more answers each.
    """
    for name in strategies:
        if name not in STRATEGIES:
            raise JudgementError(f"unknown strategy {name!r}; known are {', '.join(STRATEGIES)}")
    if not budgets or not strategies or seeds < 1 or min(budgets) < 1:
        raise JudgementError("a simulation takes a strategy, a vote and a seed")
    piles = _piles(features, known, group)[:seeds]
    most = min(_usable(pile) for _, pile in piles)
    if max(budgets) > most:
        raise JudgementError(f"{max(budgets)} votes are to be used, and there are {most}")
    tasks = [
        partial(_one, *piles[k % len(piles)], name, k, budgets=sorted(set(budgets)), seed=seed)
        for name in strategies
        for k in range(seeds)
    ]
    return [row for rows in in_parallel(tasks, jobs, progress) for row in rows]


def _piles(features: F64, known: Votes, group: I64 | None) -> list[tuple[F64, Votes]]:
    """The features and votes of each group, its items numbered from 0."""
    if group is None:
        return [(features, known)]
    piles = []
    for this in np.unique(group):
        votes = known.where(group == this)
        there, ends = np.unique(np.stack((votes.left, votes.right)), return_inverse=True)
        left, right = ends.reshape(2, -1)
        piles.append((features[there], Votes.of_one(left, right, votes.target)))
    return piles


def _usable(known: Votes) -> int:
    """Votes that four people could be asked for, about, less those kept apart."""
    each = np.bincount(_pairs(known)[2])
    return int((1 - APART) * np.minimum(each, PEOPLE).sum())


def left_out(features: F64, known: Votes, group: I64, *, seed: int = 0) -> dict[int, float]:
    """Of each group of votes the share foretold by a session that was told all the others.

    Items of the group that no other group has are known by their features alone. A tie of the
    session counts half; votes for neither side are told, but not counted.

    Args:
        features: (n, d).
        known: the votes.
        group: (m,) of each vote.

    Cost: a session's fit a group.
    """
    shares = {}
    for this in np.unique(group).tolist():
        session = Session(features, seed=seed)
        tell(session, known.where(group != this))
        shares[this] = accuracy(session.ranking().score, known.where(group == this))
    return shares


def tell(session: Session, known: Votes, annotator: str = "file") -> None:
    """Tell votes to a session, as those of one person."""
    for left, right, target, _ in known.rows():
        session.tell(Judgement(annotator, left, right, _answer(target)))


def accuracy(scores: F64, known: Votes) -> float:
    """Share of the votes for a side that scores order as they do; equal scores count half."""
    known = known.where(known.target != 0.5)
    difference = scores[known.left] - scores[known.right]
    return float(np.mean((1 + np.sign(difference) * np.sign(known.target - 0.5)) / 2))


def majority(known: Votes) -> Votes:
    """Of each pair one vote: the side that more are for; pairs without one are left out."""
    low, high, pair = _pairs(known)
    up = np.where(known.left < known.right, known.target, 1 - known.target)
    share = np.bincount(pair, up) / np.bincount(pair)
    return Votes.of_one(low, high, (np.sign(share - 0.5) + 1) / 2).where(share != 0.5)


def _pairs(known: Votes) -> tuple[I64, I64, I64]:
    """The pairs, the lower number first, and the number of each vote's pair."""
    ends = np.sort(np.stack((known.left, known.right), axis=1), axis=1)
    pairs, of = np.unique(ends, axis=0, return_inverse=True)
    return pairs[:, 0], pairs[:, 1], of.reshape(-1)


def _one(
    features: F64, known: Votes, strategy: str, k: int, *, budgets: Sequence[int], seed: int
) -> list[Foretold]:
    rng = np.random.default_rng([seed, k])
    low, high, pair = _pairs(known)
    apart = rng.random(len(low)) < APART
    test = majority(known.where(apart[pair]))
    if not len(test):
        raise JudgementError(f"{len(low)} pairs are too few to keep some apart")
    urn = _Urn(known.where(~apart[pair]), rng)
    arms = (0.1, 0.05) if strategy == "default" else (0.0, 0.0)
    among = np.stack((low, high), axis=1)[~apart]
    session = Session(
        features, seed=k, strategy=strategy, holdout=arms[0], repeats=arms[1], among=among
    )
    results: list[Foretold] = []
    for budget in budgets:
        _ask_until(session, urn, budget)
        score = session.ranking().score
        results.append(Foretold(strategy, k, urn.drawn, accuracy(score, test)))
    return results


class _Urn:
    """The votes of every pair, to be drawn one by one."""

    def __init__(self, known: Votes, rng: np.random.Generator) -> None:
        self.drawn = self.turn = 0
        self._of: dict[tuple[int, int], list[tuple[int, float]]] = {}
        for k in rng.permutation(len(known)).tolist():
            left, right = int(known.left[k]), int(known.right[k])
            low, high = min(left, right), max(left, right)
            self._of.setdefault((low, high), []).append((left, float(known.target[k])))

    def draw(self, left: int, right: int) -> Answer:
        """One more vote on a pair, as it would be given to these sides."""
        votes = self._of[min(left, right), max(left, right)]
        if not votes:
            return "cant-say"
        self.drawn += 1
        stood_left, target = votes.pop()
        return _answer(target if stood_left == left else 1 - target)


def _ask_until(session: Session, urn: _Urn, budget: int) -> None:
    """Questions to four people in turn, until so many votes are drawn or nobody has a question."""
    passed = 0
    while urn.drawn < budget and passed < PEOPLE:
        annotator = f"person-{urn.turn % PEOPLE}"
        urn.turn += 1
        at_once = 1
        if session.n_items > _MANY:  # it learns in the background, a batch of answers at a time
            at_once = min(max(1, int(_MORE * urn.drawn)), budget - urn.drawn)
        questions = session.ask(annotator, at_once)
        passed = 0 if questions else passed + 1
        for q in questions:
            answer = urn.draw(q.left, q.right)
            session.tell(q.answered(annotator, answer))
        if at_once > 1:
            session.refit()


def _answer(target: float) -> Answer:
    return "tie" if target == 0.5 else "left" if target == 1 else "right"
