"""Calibration: compare how sure an annotator is with how often the annotator is right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sortnet.core import F64, I64, Bool
from sortnet.core.pairs import packed
from sortnet.preference.base import Judgement, Pair, unordered_pair
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.shared_votes import SharedVotes

# Edges of the ranges of the probability that an annotator gives to the preferred item.
EDGES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 1.0)


@dataclass(frozen=True)
class CalibrationRange:
    """An annotator's answers with about the same probability, compared with other answers.

    Attributes:
        low, high: the range of the probability that the answers give to the preferred item.
        answers: the number of answers in the range.
        said: the mean probability that the answers give to the preferred item.
        others: the share of other annotators' answers to the same pairs that prefer the same item;
            None if there are no such answers.
        n_others: the number of other annotators' answers to the same pairs.
        gold: the share of the answers about gold pairs that are right; None if there are none.
        n_gold: the number of answers about gold pairs.
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
    """Group an annotator's answers by their probability, from the least sure range to the surest.

    Ties, answers without a probability, and ranges without answers are left out.

    Args:
        judgements: the judgements of all annotators.
        annotator: the name of the annotator.
        gold: pairs (better, worse) whose order is known.

    Cost: a sort of the judgements.

    >>> judgements = [Judgement("model", 0, 1, "left", p=0.8), Judgement("ana", 1, 0, "left")]
    >>> ranges = calibration(judgements, "model")
    >>> [(answers.said, answers.others) for answers in ranges]
    [(0.8, 0.0)]
    """
    table = Judgements.of(judgements)
    votes = SharedVotes.of(table)
    is_own = votes.annotator == table.annotators.get(annotator, -1)
    is_tie = votes.better == 0.5
    has_p = ~np.isnan(table.p[votes.rows])
    is_counted = is_own & ~is_tie & has_p
    if not is_counted.any():
        return []
    # For each counted vote: the other annotators' votes about the same pair, and those among them
    # that prefer the same item.
    counts = _preference_counts(votes, ~is_own)[votes.pair[is_counted]]
    n_others = counts.sum(axis=1)
    n_same = np.where(votes.better[is_counted] == 1, counts[:, 0], counts[:, 1])
    is_right, is_gold = _compare_with_gold(votes, is_counted, gold)
    p = _p_of_preferred(table, votes.rows[is_counted])
    inner_edges = EDGES[1:-1]
    range_numbers = np.searchsorted(inner_edges, p, side="right")
    ranges = []
    for k in np.unique(range_numbers).tolist():
        is_within = range_numbers == k
        n_others_within = int(n_others[is_within].sum())
        n_gold_within = int(is_gold[is_within].sum())
        ranges.append(
            CalibrationRange(
                low=EDGES[k],
                high=EDGES[k + 1],
                answers=int(is_within.sum()),
                said=float(p[is_within].mean()),
                others=_share(n_same[is_within].sum(), n_others_within),
                n_others=n_others_within,
                gold=_share(is_right[is_within].sum(), n_gold_within),
                n_gold=n_gold_within,
            )
        )
    return ranges


def _preference_counts(votes: SharedVotes, is_counted: Bool) -> I64:
    """Count the selected votes of each pair, separately for the item that they prefer.

    Returns:
        (n_pairs, 2) the number of votes for the item with the lower number, and for the other item.
    """
    n_pairs = len(votes.starts)
    pairs_for_lower = votes.pair[is_counted & (votes.better == 1)]
    pairs_for_higher = votes.pair[is_counted & (votes.better == 0)]
    n_lower = np.bincount(pairs_for_lower, minlength=n_pairs)
    n_higher = np.bincount(pairs_for_higher, minlength=n_pairs)
    return np.stack((n_lower, n_higher), axis=1)


def _compare_with_gold(
    votes: SharedVotes, is_counted: Bool, gold: Iterable[Pair]
) -> tuple[Bool, Bool]:
    """Compare the counted votes with the gold pairs (better, worse).

    Returns:
        For each counted vote, whether it prefers the better item of a gold pair, and whether it is
        about a gold pair.
    """
    better_of_pair = {unordered_pair(better, worse): better for better, worse in gold}
    gold_pairs = np.array([*better_of_pair], np.int64).reshape(-1, 2)
    low = votes.low[is_counted]
    high = votes.high[is_counted]
    is_gold = np.isin(packed(low, high), packed(gold_pairs[:, 0], gold_pairs[:, 1]))
    preferred = np.where(votes.better[is_counted] == 1, low, high)
    is_right = np.zeros(len(low), np.bool_)
    for k in np.flatnonzero(is_gold).tolist():
        pair = int(low[k]), int(high[k])
        is_right[k] = preferred[k] == better_of_pair[pair]
    return is_right, is_gold


def _p_of_preferred(table: Judgements, rows: I64) -> F64:
    """Return the probability that each answer gives to the preferred item."""
    p_of_left = table.p[rows]
    is_left_preferred = table.words(rows) == 1
    return np.where(is_left_preferred, p_of_left, 1 - p_of_left)


def _share(count: float, total: int) -> float | None:
    """Divide a count by the total; None if the total is 0."""
    return float(count / total) if total else None
