"""Cyclic triples beside what noise alone would give."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from sortnet.preference.annotator_agreement import cyclic, triples_of
from sortnet.preference.judgement_table import Judgements, SharedVotes
from sortnet.preference.posterior import Posterior
from sortnet.types import F64, I64, Bool

_MOST_TRIPLES = 50_000
_SIMULATED = 400
_RANGE = [0.05, 0.95]


@dataclass(frozen=True)
class CycleTest:
    """How many triples contradict any order, and how many would if only noise did.

    Attributes:
        triples: number of triples of items of which all pairs are decided by majority.
        cyclic: how many of them are cyclic: a over b over c over a.
        expected: the share of cyclic ones in simulated answers; None without triples.
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
    their word.

    Args:
        posterior: fitted to the judgements, its annotators numbered as theirs.
        judgements: those that count.
        models: the annotators that share errors, if they are in the posterior.
        seed: of the simulations.

    Cost: 400 times a look at the answers about 50,000 triples at most.
    """
    votes = SharedVotes.of(judgements)
    at = votes.starts[np.lexsort((votes.high[votes.starts], votes.low[votes.starts]))]
    parts = [np.stack(part) for part in triples_of(votes.low[at], votes.high[at], _MOST_TRIPLES)]
    triples = votes.pair[at][np.concatenate([np.empty((3, 0), np.int64), *parts], axis=1)]
    used = np.isin(votes.pair, triples)
    pairs, pair = np.unique(votes.pair[used], return_inverse=True)
    triples = np.searchsorted(pairs, triples)
    circles, n = _counted(triples, pair, votes.better[used])
    if not n:
        return CycleTest(0, 0)
    rng = np.random.default_rng(seed)
    simulated = _Simulated(posterior, judgements, votes.rows[used], models)
    shares = np.array(
        [_share(*_counted(triples, pair, simulated.better(k, rng))) for k in range(_SIMULATED)]
    )
    p = (1 + int((shares >= circles / n).sum())) / (1 + _SIMULATED)
    low, high = np.quantile(shares, _RANGE).tolist()
    return CycleTest(n, circles, float(shares.mean()), low, high, p)


class _Simulated:
    """Answers to the same questions as these rows of a table, by the model.

    Args:
        posterior: of the scores and the annotators.
        judgements: the table.
        rows: of the answers.
        models: see `cycle_test`.
    """

    def __init__(
        self, posterior: Posterior, judgements: Judgements, rows: I64, models: Collection[str]
    ) -> None:
        self._posterior = posterior
        self._left, self._right = judgements.left[rows], judgements.right[rows]
        known = posterior.annotators.padded(max(len(posterior.reliability), 1) + 1)
        self._who = np.minimum(judgements.annotator[rows], len(posterior.reliability))
        self._c, self._blind = known.reliability[self._who], known.blind[self._who]
        self._left_is_low = self._left < self._right
        numbers = [judgements.annotators.get(name, -1) for name in models]
        self._by_model = np.isin(judgements.annotator[rows], numbers)

    def better(self, draw: int, rng: np.random.Generator) -> F64:
        """(m,) 1 if the item with the lower number is preferred, 0 if the other is, ½ for a tie."""
        found = self._posterior
        scores = found.draws[draw % len(found.draws)]
        biases = scores[found.n_items :][: len(found.reliability)]
        z = self._c * (scores[self._left] - scores[self._right]) + np.append(biases, 0.0)[self._who]
        if found.errors is not None:
            errors = scores[found.errors :]
            z += self._by_model * (errors[self._left] - errors[self._right])
        blind = rng.random(len(z)) < self._blind
        left = np.where(blind, (1 - found.ties) / 2, ndtr(z - found.tie))
        tie = np.where(blind, found.ties, 1 - ndtr(z - found.tie) - ndtr(-z - found.tie))
        drawn = rng.random(len(z))
        said = np.where(drawn < left, 1.0, np.where(drawn < left + tie, 0.5, 0.0))
        return np.where(self._left_is_low, said, 1 - said)


def _counted(triples: I64, pair: I64, better: F64) -> tuple[int, int]:
    """How many triples are cyclic, and of how many all pairs have a majority."""
    balance = np.bincount(pair, better - 0.5)
    sides = balance[triples]
    decided: Bool = (sides != 0).all(axis=0)
    ab, bc, ac = sides[:, decided] > 0
    return int(cyclic(ab, bc, ac).sum()), int(decided.sum())


def _share(circles: int, n: int) -> float:
    return circles / n if n else 0.0
