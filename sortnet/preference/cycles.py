"""Test whether more triples are cyclic than the noise of the answers alone would cause."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from sortnet.core import F64, I64, Bool
from sortnet.preference.annotator_agreement import cyclic, triples_of
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.posterior import Draws, Posterior
from sortnet.preference.shared_votes import SharedVotes

_MOST_TRIPLES = 50_000  # triples that are looked at
_SIMULATIONS = 400
_RANGE = [0.05, 0.95]  # quantiles of the simulated shares, the bounds of the test's range


@dataclass(frozen=True)
class CycleTest:
    """The observed share of cyclic triples, and the shares in simulated answers.

    In a cyclic triple a is preferred to b, b to c and c to a, which contradicts every order of the
    three items. The last four attributes are None if there are no triples.

    Attributes:
        triples: number of triples of items whose three pairs are decided by majority.
        cyclic: number of cyclic triples among these triples.
        expected: the mean share of cyclic triples in simulated answers.
        low, high: bounds that contain 90 % of the simulated shares.
        p: share of the simulations whose share of cyclic triples is at least the observed share.
    """

    triples: int
    cyclic: int
    expected: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None

    @property
    def share(self) -> float | None:
        """The share of cyclic triples among all triples; None if there are no triples."""
        return self.cyclic / self.triples if self.triples else None


def cycle_test(
    posterior: Posterior, judgements: Judgements, *, models: Collection[str] = (), seed: int = 0
) -> CycleTest:
    """Test whether more triples are cyclic than the noise of the answers explains.

    This is a posterior predictive check (Gelman, Meng and Stern, 1996): the scores are drawn from
    the posterior, and the same annotators answer the same questions with their reliability, side
    bias, ties and blind answers. Then

        p = (1 + number of simulations whose share is >= the observed share)
            / (1 + number of simulations)

    The test is cautious, because the scores were fitted to the same answers. Of an answer with a
    probability, only the word `left`, `right` or `tie` counts.

    Args:
        posterior: the posterior of the scores.
        judgements: all judgements.
        models: names of annotators that are models; they share errors if the posterior has errors.
        seed: the seed of the simulations.

    Cost: 400 simulations of the answers about at most 50,000 triples.
    """
    votes = SharedVotes.of(judgements)
    pairs_of_triples = _pairs_of_triples(votes)
    # Only answers to pairs of these triples are simulated, so the pairs are numbered from 0 again.
    is_used = np.isin(votes.pair, pairs_of_triples)
    used_pairs, pair = np.unique(votes.pair[is_used], return_inverse=True)
    triples = np.searchsorted(used_pairs, pairs_of_triples)
    observed = _count_cycles(triples, pair, votes.better[is_used])
    if not observed.triples:
        return observed
    simulated = _simulated_answers(posterior, judgements, votes.rows[is_used], models, seed)
    shares_or_none = [_count_cycles(triples, pair, better).share for better in simulated]
    # A simulation in which no triple is decided has no share, which counts as 0.
    shares = np.array([0.0 if share is None else share for share in shares_or_none])
    n_as_large = int((shares >= observed.share).sum())
    low_share, high_share = np.quantile(shares, _RANGE).tolist()
    return replace(
        observed,
        expected=float(shares.mean()),
        low=low_share,
        high=high_share,
        p=(1 + n_as_large) / (1 + _SIMULATIONS),
    )


def _pairs_of_triples(votes: SharedVotes) -> I64:
    """Find triples of items whose three pairs all have votes.

    Returns:
        (3, t) the numbers of the pairs (a, b), (b, c) and (a, c) of each triple.
    """
    low = votes.low[votes.starts]
    high = votes.high[votes.starts]
    blocks = [np.stack(block) for block in triples_of(low, high, _MOST_TRIPLES)]
    no_triples = np.empty((3, 0), np.int64)  # there may be no block
    return np.concatenate([no_triples, *blocks], axis=1)


def _simulated_answers(
    posterior: Posterior, judgements: Judgements, rows: I64, models: Collection[str], seed: int
) -> Iterator[F64]:
    """Simulate the answers to the questions in the given rows, 400 times.

    With the scores s drawn from the posterior, an annotator's reliability c, side bias b and share
    of blind answers ε, the share t of ties among blind answers, and the tie threshold τ:

        z = c (s_left - s_right) + b, plus the difference of the shared errors if a model answers
        P(left) = Φ(z - τ), or (1 - t) / 2 if the answer is blind, with probability ε
        P(tie)  = 1 - Φ(z - τ) - Φ(-z - τ), or t if the answer is blind

    Args:
        posterior: the posterior of the scores.
        judgements: all judgements.
        rows: (m,) rows of the judgements whose questions are answered.
        models: names of annotators that are models.
        seed: the seed of the simulations.

    Yields:
        (m,) 1 if the item with the lower number is preferred, 0 if the item with the higher number
        is preferred, ½ for a tie.
    """
    rng = np.random.default_rng(seed)
    questions = _questions_in_rows(posterior, judgements, rows, models)
    low_is_left = questions.left < questions.right
    for simulation in range(_SIMULATIONS):
        draw = posterior.draws[simulation % len(posterior.draws)]
        z = _differences_in_draw(posterior, draw, questions)
        for_left = _draw_answers(posterior, z, questions.blind, rng)
        yield np.where(low_is_left, for_left, 1 - for_left)


@dataclass(frozen=True, eq=False)
class _AskedQuestions:
    """Questions about m pairs of items, and the annotators who answer them.

    Attributes:
        left, right: (m,) the items of each question.
        annotator: (m,) the number of each question's annotator in the posterior. An annotator whom
            the posterior lacks has the number after the last annotator.
        reliability: (m,) the reliability c of the annotator.
        blind: (m,) the annotator's share of blind answers.
        is_by_model: (m,) whether the annotator is a model.
    """

    left: I64
    right: I64
    annotator: I64
    reliability: F64
    blind: F64
    is_by_model: Bool


def _questions_in_rows(
    posterior: Posterior, judgements: Judgements, rows: I64, models: Collection[str]
) -> _AskedQuestions:
    """Collect the questions that the judgements in the given rows answer.

    The arguments are the same as for `_simulated_answers`.
    """
    # The posterior lacks annotators who gave their first answer after the fit. They all get the
    # number n, and `padded` adds an average annotator with this number.
    n = len(posterior.reliability)
    annotators = posterior.annotators.padded(max(n, 1) + 1)
    annotator = np.minimum(judgements.annotator[rows], n)
    numbers_of_models = [judgements.annotators.get(name, -1) for name in models]
    return _AskedQuestions(
        left=judgements.left[rows],
        right=judgements.right[rows],
        annotator=annotator,
        reliability=annotators.reliability[annotator],
        blind=annotators.blind[annotator],
        is_by_model=np.isin(judgements.annotator[rows], numbers_of_models),
    )


def _differences_in_draw(posterior: Posterior, draw: Draws, questions: _AskedQuestions) -> F64:
    """Compute the difference of the two items in each question, for one draw and without noise.

    It is z = c (s_left - s_right) + b, with the scores s, the annotator's reliability c and side
    bias b, plus the difference of the errors that models share if a model answers.

    Args:
        posterior: the posterior of the scores.
        draw: a draw of the posterior: the scores of the items, then the side biases of the
            annotators, then the errors that models share.
        questions: the questions.
    """
    left = questions.left
    right = questions.right
    biases_end = posterior.n_items + len(posterior.reliability)
    # An annotator whom the posterior lacks has no side bias.
    bias_of_annotator = np.append(draw[posterior.n_items : biases_end], 0.0)
    side_bias = bias_of_annotator[questions.annotator]
    z: F64 = questions.reliability * (draw[left] - draw[right]) + side_bias
    if posterior.errors is not None:
        errors = draw[posterior.errors :]
        z += questions.is_by_model * (errors[left] - errors[right])
    return z


def _draw_answers(posterior: Posterior, z: F64, blind: F64, rng: np.random.Generator) -> F64:
    """Draw an answer to each question: 1 for `left`, ½ for `tie`, 0 for `right`.

    An answer depends on the difference of the two items, plus normal noise: it is a tie if the sum
    is within the tie threshold. But a share of the answers is blind, and does not depend on the
    items: `left` and `right` are then equally likely.

    Args:
        posterior: has the tie threshold, and the share of ties among blind answers.
        z: (m,) the difference of the two items in each question, without noise.
        blind: (m,) the share of blind answers of each question's annotator.
        rng: draws the answers.
    """
    tie = posterior.tie
    is_blind = rng.random(len(z)) < blind
    p_left = np.where(is_blind, (1 - posterior.ties) / 2, ndtr(z - tie))
    p_tie = np.where(is_blind, posterior.ties, 1 - ndtr(z - tie) - ndtr(-z - tie))
    drawn_number = rng.random(len(z))
    tie_or_right = np.where(drawn_number < p_left + p_tie, 0.5, 0.0)
    return np.where(drawn_number < p_left, 1.0, tie_or_right)


def _count_cycles(triples: I64, pair: I64, better: F64) -> CycleTest:
    """Count the triples whose three pairs are decided by majority, and the cyclic triples.

    Args:
        triples: (3, t) the numbers of the pairs (a, b), (b, c), (a, c) of each triple.
        pair: (m,) the number of the pair that each answer is about.
        better: (m,) 1 if the item with the lower number is preferred, 0 if not, ½ for a tie.

    Returns:
        A `CycleTest` without the attributes that need simulations.
    """
    # The sum is above 0 if most answers prefer the item with the lower number, and 0 without a
    # majority.
    majority_of_pair = np.bincount(pair, better - 0.5)
    majorities = majority_of_pair[triples]
    is_decided = (majorities != 0).all(axis=0)
    prefers_first = majorities[:, is_decided] > 0
    ab, bc, ac = prefers_first
    n_cyclic = int(cyclic(ab, bc, ac).sum())
    return CycleTest(triples=int(is_decided.sum()), cyclic=n_cyclic)
