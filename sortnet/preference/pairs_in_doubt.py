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
        answers: about it, in their order; those about sets with both items, too.
    """

    pair: Pair
    p: float
    disputed: bool
    answers: list[Judgement]


def in_doubt(posterior: Posterior, judgements: Judgements, most: int) -> list[Doubt]:
    """The judged pairs whose order is most in doubt: first those whose answers differ, the most
    disputed first, then those whose order is least probable, P = Φ(μ / σ) near ½; at most `most`.

    Cost: a sort of the judgements, and one of their pairs.
    """
    votes = SharedVotes.of(judgements, sets=True)
    low, high = votes.low[votes.starts], votes.high[votes.starts]
    mean, variance = posterior.difference(low, high)
    p = ndtr(mean / np.sqrt(variance))
    spread = disagreement(votes)
    found = []
    for k in np.lexsort((np.abs(p - 0.5), -spread))[:most].tolist():
        pair = int(low[k]), int(high[k])
        pair = pair if p[k] >= 0.5 else pair[::-1]
        answers = votes.answers(judgements, k)
        found.append(Doubt(pair, float(max(p[k], 1 - p[k])), bool(spread[k] > 0), answers))
    return found
