"""Cyclic triples beside what noise alone would give."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from sortnet.core import F64, I64
from sortnet.preference.annotator_agreement import cyclic, triples_of
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.posterior import Posterior
from sortnet.preference.shared_votes import SharedVotes

_MOST_TRIPLES = 50_000
_SIMULATED = 400
_RANGE = [0.05, 0.95]


@dataclass(frozen=True)
class CycleTest:
    """How many triples contradict any order, and how many would if only noise did.

    Attributes:
        triples: number of triples of items of which all pairs are decided by majority.
        cyclic: how many of them are cyclic: a over b over c over a.
        expected: the share in simulated answers; None, as the others, without triples.
        low, high: 90 % of the simulations are between them.
        p: share of the simulations with as large a share as was seen, or a larger one.
    """

    triples: int
    cyclic: int
    expected: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None

    @property
    def share(self) -> float | None:
        """Of the cyclic triples; None without triples."""
        return self.cyclic / self.triples if self.triples else None


def cycle_test(
    posterior: Posterior, judgements: Judgements, *, models: Collection[str] = (), seed: int = 0
) -> CycleTest:
    """Test whether more triples are cyclic than the noise of the answers explains.

    A posterior predictive check (Gelman, Meng and Stern, 1996): the scores are drawn from the
    posterior, the same annotators answer the same questions with their reliability, side bias,
    ties and blind answers, and p = (1 + #{simulated share >= seen share}) / (1 + #simulated). It
    is cautious: the scores were fitted to the same answers. Answers with a probability count by
    their word. `models` are the annotators that share errors, if they are in the posterior.

    Cost: 400 times a look at the answers about 50,000 triples at most.
    """
    votes = SharedVotes.of(judgements)
    low, high = votes.low[votes.starts], votes.high[votes.starts]
    parts = [np.stack(part) for part in triples_of(low, high, _MOST_TRIPLES)]
    triples = np.concatenate([np.empty((3, 0), np.int64), *parts], axis=1)
    used = np.isin(votes.pair, triples)
    pairs, pair = np.unique(votes.pair[used], return_inverse=True)
    triples = np.searchsorted(pairs, triples)
    seen = _counted(triples, pair, votes.better[used])
    if not seen.triples:
        return seen
    simulated = _simulated(posterior, judgements, votes.rows[used], models, seed)
    shares = np.array([_counted(triples, pair, better).share or 0 for better in simulated])
    p = (1 + int((shares >= seen.share).sum())) / (1 + _SIMULATED)
    least, most = np.quantile(shares, _RANGE).tolist()
    return CycleTest(seen.triples, seen.cyclic, float(shares.mean()), least, most, p)


def _simulated(
    found: Posterior, judgements: Judgements, rows: I64, models: Collection[str], seed: int
) -> Iterator[F64]:
    """Answers to the questions of these rows by the model, `_SIMULATED` times.

    (m,) each: 1 if the item with the lower number is preferred, 0 if the other is, ½ for a tie.
    """
    rng, n = np.random.default_rng(seed), len(found.reliability)
    left, right = judgements.left[rows], judgements.right[rows]
    known, who = found.annotators.padded(max(n, 1) + 1), np.minimum(judgements.annotator[rows], n)
    numbers = [judgements.annotators.get(name, -1) for name in models]
    by_model = np.isin(judgements.annotator[rows], numbers)
    for draw in range(_SIMULATED):
        scores = found.draws[draw % len(found.draws)]
        side = np.append(scores[found.n_items :][:n], 0.0)[who]
        z = known.reliability[who] * (scores[left] - scores[right]) + side
        if found.errors is not None:
            errors = scores[found.errors :]
            z += by_model * (errors[left] - errors[right])
        blind = rng.random(len(z)) < known.blind[who]
        prefers = np.where(blind, (1 - found.ties) / 2, ndtr(z - found.tie))
        tie = np.where(blind, found.ties, 1 - ndtr(z - found.tie) - ndtr(-z - found.tie))
        drawn = rng.random(len(z))
        said = np.where(drawn < prefers, 1.0, np.where(drawn < prefers + tie, 0.5, 0.0))
        yield np.where(left < right, said, 1 - said)


def _counted(triples: I64, pair: I64, better: F64) -> CycleTest:
    balance = np.bincount(pair, better - 0.5)
    sides = balance[triples]
    decided = (sides != 0).all(axis=0)
    ab, bc, ac = sides[:, decided] > 0
    return CycleTest(int(decided.sum()), int(cyclic(ab, bc, ac).sum()))
