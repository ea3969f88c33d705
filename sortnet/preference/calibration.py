"""Calibration: compare how sure an annotator is with how often the annotator is right."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from sortnet.preference.base import Judgement, Pair
from sortnet.preference.comparisons import ByPair, Comparisons, gold_targets
from sortnet.preference.judgement_table import Judgements

# Edges of the ranges of the probability that an annotator gives to the preferred item.
EDGES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 1.0)


@dataclass(frozen=True)
class Calibration:
    """An annotator's probabilities beside the known answers, or else other annotators' answers.

    Attributes:
        answers: the number of answers with a probability that something is known about.
        said: the mean probability that the answers give to the item that they prefer.
        right: the share of the known answers that prefer this item.
        brier: the mean of (said - right)^2 over the answers; 0 is perfect, a quarter is a coin.
        curve: (said, right, answers) of the answers in each range of the probability.
    """

    answers: int
    said: float
    right: float
    brier: float
    curve: list[tuple[float, float, int]]


def calibration(
    judgements: Iterable[Judgement], annotator: str, gold: Collection[Pair] = ()
) -> Calibration | None:
    """Compare an annotator's probabilities with gold pairs, and elsewhere with others' answers.

    Ties and answers about more than two items are left out. None without answers to compare.

    Args:
        judgements: the judgements of all annotators.
        annotator: the name of the annotator.
        gold: pairs (better, worse) whose order is known.

    Cost: two sorts of the judgements.

    >>> by_model = Judgement.of("model", (0, 1), "left", p=0.75)  # prefers item 0, and is 75 % sure
    >>> by_ana = Judgement.of("ana", (1, 0), "left")  # prefers item 1
    >>> calibration([by_model, by_ana], "model").brier
    0.5625
    """
    table = Judgements.of(judgements)
    votes = ByPair(Comparisons.of_table(table))
    comparisons = votes.comparisons
    n_low, n_high, _ = votes.others(votes.counts)[votes.group].T  # by other annotators
    p_low = n_low / np.maximum(n_low + n_high, 1)
    gold_low = gold_targets(votes, gold)[votes.pair]
    p_low = np.where(np.isnan(gold_low), p_low, gold_low)
    p_left = table.p[comparisons.row]
    is_known = (n_low + n_high > 0) | ~np.isnan(gold_low)
    is_own = comparisons.annotator == table.annotators.get(annotator, -1)
    is_compared = is_own & is_known & ~np.isnan(p_left) & (comparisons.target != 0.5)
    if not is_compared.any():
        return None
    p_said = np.where(comparisons.target == 1, p_left, 1 - p_left)[is_compared]
    is_right = np.where(votes.for_low == 1, p_low, 1 - p_low)[is_compared]
    brier = is_right * (1 - p_said) ** 2 + (1 - is_right) * p_said**2
    bins = np.searchsorted(EDGES[1:-1], p_said, side="right")
    curve = []
    for k in np.unique(bins):
        is_in_bin = bins == k
        mean_said = float(p_said[is_in_bin].mean())
        mean_right = float(is_right[is_in_bin].mean())
        curve.append((mean_said, mean_right, int(is_in_bin.sum())))
    return Calibration(
        answers=len(p_said),
        said=float(p_said.mean()),
        right=float(is_right.mean()),
        brier=float(brier.mean()),
        curve=curve,
    )
