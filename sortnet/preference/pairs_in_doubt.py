"""Find the judged pairs whose order is most in doubt, for the report on a collection."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from sortnet.preference.annotator_agreement import disagreement
from sortnet.preference.base import Judgement, Pair
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.model import Posterior
from sortnet.preference.shared_votes import SharedVotes


@dataclass(frozen=True)
class Doubt:
    """A pair of items whose order is in doubt.

    Attributes:
        pair: the two items, first the item that is probably better.
        p: the probability that the first item is better.
        disputed: whether the answers about the pair differ.
        answers: the judgements that compare the two items, oldest first; some may be about a set.
    """

    pair: Pair
    p: float
    disputed: bool
    answers: list[Judgement]


def in_doubt(posterior: Posterior, judgements: Judgements, most: int) -> list[Doubt]:
    """List the judged pairs whose order is most in doubt.

    Pairs whose answers differ come first, the most disputed pair first. Then come the pairs whose
    order is least sure. In a pair whose order is not sure, the probability Φ(μ / σ) that the first
    item is better is near ½. Here μ and σ are the mean and the standard deviation of the difference
    of the two scores.

    Args:
        posterior: the posterior of the scores.
        judgements: all judgements.
        most: the largest number of pairs to return.

    Cost: a sort of the judgements, and a sort of their pairs.
    """
    votes = SharedVotes.of(judgements, sets=True)
    low = votes.low[votes.starts]
    high = votes.high[votes.starts]
    mean, variance = posterior.difference(low, high)
    p_low = ndtr(mean / np.sqrt(variance))  # probability that the lower number is better
    high_is_better = p_low < 0.5
    better = np.where(high_is_better, high, low)
    worse = np.where(high_is_better, low, high)
    p = np.where(high_is_better, 1 - p_low, p_low)
    disagreement_of_pair = disagreement(votes)
    most_doubtful_first = np.lexsort((np.abs(p_low - 0.5), -disagreement_of_pair))
    return [
        Doubt(
            pair=(int(better[number]), int(worse[number])),
            p=float(p[number]),
            disputed=bool(disagreement_of_pair[number] > 0),
            answers=votes.answers(judgements, number),
        )
        for number in most_doubtful_first[:most].tolist()
    ]
