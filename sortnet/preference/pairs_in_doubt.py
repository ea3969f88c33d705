"""The judged pairs that are most in doubt."""

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
        pair: the items, the more probable winner first.
        p: how probably the first one is better.
        disputed: whether its answers differ.
        answers: the judgements on the pair, in their order, and on sets with both items.
    """

    pair: Pair
    p: float
    disputed: bool
    answers: list[Judgement]


def in_doubt(posterior: Posterior, judgements: Judgements, most: int) -> list[Doubt]:
    """The judged pairs whose order is most in doubt, at most `most` pairs.

    Pairs whose answers differ come first, the most disputed pair first. Then come the pairs whose
    order is least sure: P = Φ(μ / σ) is near ½.

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
