"""Find the judged pairs whose order is most in doubt, for the report on a collection."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from sortnet.preference.annotator_agreement import disagreement
from sortnet.preference.base import Judgement, Pair
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.posterior import Posterior
from sortnet.preference.shared_votes import SharedVotes


@dataclass(frozen=True)
class Doubt:
    """A pair whose order is in doubt.

    Attributes:
        pair: the two items, the more probable winner first.
        p: the probability that the first item is better.
        disputed: whether the answers about the pair differ.
        answers: the judgements about the pair or about a set that compares both items, oldest
            first.
    """

    pair: Pair
    p: float
    disputed: bool
    answers: list[Judgement]


def in_doubt(posterior: Posterior, judgements: Judgements, most: int) -> list[Doubt]:
    """Return the judged pairs whose order is most in doubt, at most `most` pairs.

    Pairs whose answers differ come first, the most disputed pair first. Then come the pairs whose
    order is least sure: the probability Φ(μ / σ) that the first item is better is near ½, where μ
    and σ are mean and standard deviation of the difference of the scores.

    Cost: a sort of the judgements, and a sort of their pairs.
    """
    votes = SharedVotes.of(judgements, sets=True)
    low = votes.low[votes.starts]
    high = votes.high[votes.starts]
    mean, variance = posterior.difference(low, high)
    p_low = ndtr(mean / np.sqrt(variance))
    spread = disagreement(votes)
    doubts = []
    for number in np.lexsort((np.abs(p_low - 0.5), -spread))[:most].tolist():
        pair = int(low[number]), int(high[number])
        p = float(p_low[number])
        if p < 0.5:
            pair = pair[::-1]
            p = 1 - p
        answers = votes.answers(judgements, number)
        doubts.append(Doubt(pair, p, bool(spread[number] > 0), answers))
    return doubts
