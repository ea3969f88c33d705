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
    """Answers of an annotator that are about as sure, compared with what others said.

    Attributes:
        low, high: range of the probability of the item that was preferred.
        answers: number of the answers.
        said: mean of their probabilities.
        others, n_others: share of others' answers to the same pairs that are the same, None without
            any; number of these.
        gold, n_gold: share of the answers to gold pairs that are right, None without any; number.
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
    >>> [(each.said, each.others) for each in calibration(judgements, "model")]
    [(0.8, 0.0)]
    """
    table = Judgements.of(judgements)
    votes = SharedVotes.of(table)
    own = votes.annotator == table.annotators.get(annotator, -1)
    sure = own & (votes.better != 0.5) & ~np.isnan(table.p[votes.rows])
    if not sure.any():
        return []
    others = _counts(votes, ~own)[votes.pair[sure]]
    same, n_others = _same(others, votes.better[sure]), others.sum(axis=1)
    right, is_gold = _right(votes, sure, gold)
    p = _of_preferred(table, votes.rows[sure])
    number = np.searchsorted(EDGES[1:-1], p, side="right")
    return [
        CalibrationRange(
            EDGES[k],
            EDGES[k + 1],
            int(within.sum()),
            float(p[within].mean()),
            _share(same[within].sum(), n_others[within].sum()),
            int(n_others[within].sum()),
            _share(right[within].sum(), is_gold[within].sum()),
            int(is_gold[within].sum()),
        )
        for k in range(len(EDGES) - 1)
        if (within := number == k).any()
    ]


def _counts(votes: SharedVotes, some: Bool) -> I64:
    """(p, 2) how many of some answers to each pair prefer the lower number, and the other item."""
    n_pairs = len(votes.starts)
    preferred = (
        np.bincount(votes.pair[some & (votes.better == b)], minlength=n_pairs) for b in (1, 0)
    )
    return np.stack([*preferred], axis=1)


def _same(counts: I64, better: F64) -> I64:
    """How many of the others' answers are the same as each answer."""
    same: I64 = np.where(better == 1, counts[:, 0], counts[:, 1])
    return same


def _right(votes: SharedVotes, some: Bool, gold: Iterable[Pair]) -> tuple[Bool, Bool]:
    """Whether each of some answers is right, and whether it is about a gold pair."""
    better_of = {(min(pair), max(pair)): pair[0] for pair in gold}
    low, high = votes.low[some], votes.high[some]
    keys = packed(*np.array([*better_of], np.int64).reshape(-1, 2).T)
    is_gold = np.isin(packed(low, high), keys)
    preferred = np.where(votes.better[some] == 1, low, high)
    right = np.zeros(len(low), np.bool_)
    for k in np.flatnonzero(is_gold).tolist():
        right[k] = better_of[int(low[k]), int(high[k])] == preferred[k]
    return right, is_gold


def _of_preferred(table: Judgements, rows: I64) -> F64:
    """The probability of the item that each of these answers prefers."""
    p = table.p[rows]
    return np.where(table.words(rows) == 1, p, 1 - p)


def _share(part: float, number: float) -> float | None:
    return float(part / number) if number else None
