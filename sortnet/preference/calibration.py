"""Calibration: compare how sure an annotator is with how often the annotator is right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

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
            None if there are no such answers. Ties are left out.
        n_others: the number of other annotators' answers to the same pairs, without ties.
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


class _ComparedAnswers(NamedTuple):
    """An annotator's m answers, compared with the gold pairs and with other annotators' answers.

    Attributes:
        p: (m,) the probability that the answer gives to the preferred item.
        n_others: (m,) the number of other annotators' answers to the same pair, without ties.
        n_same: (m,) the number of other annotators' answers that prefer the same item.
        is_gold: (m,) whether the answer is about a gold pair.
        is_right: (m,) whether the answer is about a gold pair and prefers the better item.
    """

    p: F64
    n_others: I64
    n_same: I64
    is_gold: Bool
    is_right: Bool

    def where(self, is_selected: Bool) -> _ComparedAnswers:
        """Select answers by a mask."""
        return _ComparedAnswers(
            p=self.p[is_selected],
            n_others=self.n_others[is_selected],
            n_same=self.n_same[is_selected],
            is_gold=self.is_gold[is_selected],
            is_right=self.is_right[is_selected],
        )


def calibration(
    judgements: Iterable[Judgement], annotator: str, gold: Iterable[Pair] = ()
) -> list[CalibrationRange]:
    """Group an annotator's answers by their probability, from the least sure range to the surest.

    Each range tells how sure the answers are, and how many of them other annotators and the gold
    pairs confirm. Ties, answers without a probability, and ranges without answers are left out.

    Args:
        judgements: the judgements of all annotators.
        annotator: the name of the annotator.
        gold: pairs (better, worse) whose order is known.

    Cost: a sort of the judgements.

    >>> by_model = Judgement.of("model", (0, 1), "left", p=0.8)  # prefers item 0, and is 80 % sure
    >>> by_ana = Judgement.of("ana", (1, 0), "left")  # prefers item 1
    >>> [only_range] = calibration([by_model, by_ana], "model")
    >>> only_range.said, only_range.others
    (0.8, 0.0)
    """
    answers = _compare_answers(Judgements.of(judgements), annotator, gold)
    range_numbers = _range_numbers(answers.p)
    return [
        _calibration_range(answers.where(range_numbers == k), low=EDGES[k], high=EDGES[k + 1])
        for k in np.unique(range_numbers).tolist()
    ]


def _range_numbers(p: F64) -> I64:
    """Return the number of the range in which each probability lies.

    The range k is from `EDGES[k]` up to `EDGES[k + 1]`. An inner edge belongs to the higher range,
    and the probability 1 to the last range.
    """
    inner_edges = EDGES[1:-1]
    return np.searchsorted(inner_edges, p, side="right")


def _calibration_range(answers: _ComparedAnswers, low: float, high: float) -> CalibrationRange:
    """Summarise the answers whose probability lies between `low` and `high`."""
    n_others = int(answers.n_others.sum())
    n_gold = int(answers.is_gold.sum())
    return CalibrationRange(
        low=low,
        high=high,
        answers=len(answers.p),
        said=float(answers.p.mean()),
        others=_share(answers.n_same.sum(), n_others),
        n_others=n_others,
        gold=_share(answers.is_right.sum(), n_gold),
        n_gold=n_gold,
    )


def _compare_answers(table: Judgements, annotator: str, gold: Iterable[Pair]) -> _ComparedAnswers:
    """Compare an annotator's answers with the gold pairs and with other annotators' answers.

    Ties and answers without a probability are left out.

    Args:
        table: the judgements of all annotators.
        annotator: the name of the annotator, who perhaps has no answers.
        gold: pairs (better, worse) whose order is known.
    """
    votes = SharedVotes.of(table)
    no_annotator = -1
    is_own = votes.annotator == table.annotators.get(annotator, no_annotator)
    is_tie = votes.better == 0.5
    has_p = ~np.isnan(table.p[votes.rows])
    is_counted = is_own & ~is_tie & has_p
    low = votes.low[is_counted]
    high = votes.high[is_counted]
    pair = votes.pair[is_counted]
    prefers_low = votes.better[is_counted] == 1
    n_others_for_low, n_others_for_high = _preference_counts(votes, ~is_own)
    is_right, is_gold = _compare_with_gold(
        preferred=np.where(prefers_low, low, high),
        rejected=np.where(prefers_low, high, low),
        gold=gold,
    )
    return _ComparedAnswers(
        p=_p_of_preferred(table, votes.rows[is_counted]),
        n_others=n_others_for_low[pair] + n_others_for_high[pair],
        n_same=np.where(prefers_low, n_others_for_low[pair], n_others_for_high[pair]),
        is_gold=is_gold,
        is_right=is_right,
    )


def _preference_counts(votes: SharedVotes, is_counted: Bool) -> tuple[I64, I64]:
    """Count the selected votes of each pair, separately for the item that they prefer.

    Returns:
        (n_pairs,) the number of votes for the item with the lower number, and (n_pairs,) the number
        of votes for the item with the higher number.
    """
    n_pairs = len(votes.starts)
    pairs_for_low = votes.pair[is_counted & (votes.better == 1)]
    pairs_for_high = votes.pair[is_counted & (votes.better == 0)]
    n_prefer_low = np.bincount(pairs_for_low, minlength=n_pairs)
    n_prefer_high = np.bincount(pairs_for_high, minlength=n_pairs)
    return n_prefer_low, n_prefer_high


def _compare_with_gold(preferred: I64, rejected: I64, gold: Iterable[Pair]) -> tuple[Bool, Bool]:
    """Compare m answers about pairs with the gold pairs.

    Args:
        preferred: (m,) the item that each answer prefers.
        rejected: (m,) the other item of the pair.
        gold: pairs (better, worse) whose order is known. If a pair is given in both orders, the
            last one counts.

    Returns:
        (m,) whether the answer prefers the better item of a gold pair, and (m,) whether it is about
        a gold pair.
    """
    # The key is the same for both orders of a pair, so that a later order replaces an earlier one.
    gold_pairs = {unordered_pair(better, worse): (better, worse) for better, worse in gold}
    better, worse = np.array([*gold_pairs.values()], np.int64).reshape(-1, 2).T
    is_right = np.isin(packed(preferred, rejected), packed(better, worse))
    is_wrong = np.isin(packed(preferred, rejected), packed(worse, better))
    return is_right, is_right | is_wrong


def _p_of_preferred(table: Judgements, rows: I64) -> F64:
    """Return the probability that each answer gives to the preferred item."""
    p_of_left = table.p[rows]
    is_left_preferred = table.best[rows] == table.items[rows, 0]
    return np.where(is_left_preferred, p_of_left, 1 - p_of_left)


def _share(count: float, total: int) -> float | None:
    """Divide a count by the total; None if the total is 0."""
    return float(count / total) if total else None
