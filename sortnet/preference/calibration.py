"""Calibration: how often annotators are right who say how sure they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sortnet.core import F64, I64, Bool
from sortnet.core.pairs import packed
from sortnet.preference.base import Judgement, Pair
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.shared_votes import SharedVotes

# How probable an annotator calls the item that was preferred: edges of the ranges.
EDGES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 1.0)


@dataclass(frozen=True)
class CalibrationRange:
    """Answers of an annotator with about the same probability, compared with others' answers.

    Attributes:
        low, high: range of the probability of the item that was preferred.
        answers: number of the answers.
        said: mean of their probabilities.
        others: share of others' answers to the same pairs that are the same; None without any.
        n_others: number of the others' answers.
        gold: share of the answers to gold pairs that are right; None without any.
        n_gold: number of the answers to gold pairs.
    """

    low: float
    high: float
    answers: int
    said: float
    others: float | None
    n_others: int
    gold: float | None
    n_gold: int


def calibration(
    judgements: Iterable[Judgement], annotator: str, gold: Iterable[Pair] = ()
) -> list[CalibrationRange]:
    """Ranges of an annotator's probabilities with answers; the least sure first.

    Ties, and answers without a probability, are left out. Of a gold pair the better item is first.

    Cost: a sort of the judgements.

    >>> judgements = [Judgement("model", 0, 1, "left", p=0.8), Judgement("ana", 1, 0, "left")]
    >>> ranges = calibration(judgements, "model")
    >>> [(answers.said, answers.others) for answers in ranges]
    [(0.8, 0.0)]
    """
    table = Judgements.of(judgements)
    votes = SharedVotes.of(table)
    is_own = votes.annotator == table.annotators.get(annotator, -1)
    is_sure = is_own & (votes.better != 0.5) & ~np.isnan(table.p[votes.rows])
    if not is_sure.any():
        return []
    counts = _counts_of_preferred(votes, ~is_own)[votes.pair[is_sure]]
    n_others = counts.sum(axis=1)
    n_same = np.where(votes.better[is_sure] == 1, counts[:, 0], counts[:, 1])
    right, is_gold = _right_and_gold(votes, is_sure, gold)
    p = _p_of_preferred(table, votes.rows[is_sure])
    number = np.searchsorted(EDGES[1:-1], p, side="right")
    ranges = []
    for k in np.unique(number).tolist():
        within = number == k
        n_others_within, n_gold = int(n_others[within].sum()), int(is_gold[within].sum())
        ranges.append(
            CalibrationRange(
                EDGES[k],
                EDGES[k + 1],
                int(within.sum()),
                float(p[within].mean()),
                _share(n_same[within].sum(), n_others_within),
                n_others_within,
                _share(right[within].sum(), n_gold),
                n_gold,
            )
        )
    return ranges


def _counts_of_preferred(votes: SharedVotes, some: Bool) -> I64:
    """(p, 2) how many of some answers to each pair prefer the lower number, and the other item."""
    n_pairs = len(votes.starts)
    lower = np.bincount(votes.pair[some & (votes.better == 1)], minlength=n_pairs)
    higher = np.bincount(votes.pair[some & (votes.better == 0)], minlength=n_pairs)
    return np.stack((lower, higher), axis=1)


def _right_and_gold(votes: SharedVotes, some: Bool, gold: Iterable[Pair]) -> tuple[Bool, Bool]:
    """Whether each of some answers is right, and whether it is about a gold pair."""
    better_of = {(min(pair), max(pair)): pair[0] for pair in gold}
    low, high = votes.low[some], votes.high[some]
    gold_low, gold_high = np.array([*better_of], np.int64).reshape(-1, 2).T
    is_gold = np.isin(packed(low, high), packed(gold_low, gold_high))
    preferred = np.where(votes.better[some] == 1, low, high)
    right = np.zeros(len(low), np.bool_)
    for k in np.flatnonzero(is_gold).tolist():
        right[k] = better_of[int(low[k]), int(high[k])] == preferred[k]
    return right, is_gold


def _p_of_preferred(table: Judgements, rows: I64) -> F64:
    """The probability of the item that each of these answers prefers."""
    p = table.p[rows]
    return np.where(table.words(rows) == 1, p, 1 - p)


def _share(part: float, number: int) -> float | None:
    return float(part / number) if number else None
