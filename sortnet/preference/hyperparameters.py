"""Choose the hyperparameters of the model of answers: by evidence, and by left-out answers.

A hyperparameter is its posterior mean on a grid, given the other ones, not its most probable value:
a chain of unanimous answers has its greatest evidence at a variance near 0.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sortnet.core import F64, Bool
from sortnet.core.pairs import unordered
from sortnet.preference.answers import GOLD, Answers
from sortnet.preference.model import (
    BIAS_SD,
    SHARPNESS,
    Annotators,
    Columns,
    Draws,
    Mode,
    Posterior,
    Prior,
    bias_curve,
    choice_odds,
    find_mode,
    likelihood,
    measurement_errors,
)

_CLOSE = 1e-3  # modes are compared that are found to a thousandth
_LOG_VARIANCES = np.linspace(-1.2, 3.6, 9)
# Prior of the log variance: hardly below 1, as a small variance lets anything decide the order.
_SD_BELOW, _SD_ABOVE = 0.25, 1.5
_SHARES = np.array([0.3, 0.6, 0.85, 0.95, 0.99])
_P_FEATURES = 0.3  # prior probability that features explain a share of the variance
_SMALLER = (0.5, 0.2, 0.05, 0.01)  # variances without features that features must be better than
_SMALLER_OF_FEATURES = (0.2, 0.05)  # variances at which features may be better
_SMALLER_GAIN = 0.5  # gain of evidence by which such a variance must be better
_SQUARES_GAIN = 3.0  # gain of evidence by which squares of features are earned
_SCALES = np.array([0.1, 0.2, 0.4, 0.8, 1.6])
_LOG_SCALE, _LOG_SCALE_SD = -0.9, 1.2
_BIAS_GAIN = 6.0  # twice the gain of log-likelihood by which a place bias is earned
_RELIABILITIES = np.linspace(-1.5, 2.5, 41)
_RELIABILITY_WIDTH = 0.3  # of the prior of c, which has heavy tails around 1
_P_DIFFERENT = 0.3  # prior probability that an annotator is not as reliable as the average one
_LEAST_MEDIAN = 0.5
_ENOUGH_GOLD = 10  # answers to gold pairs by which a model is measured
_DRAWS = 40
_ENOUGH_MEASUREMENTS = 20


def choose(
    answers: Answers,
    prior: Prior,
    squares: Columns | None,
    annotators: Annotators,
    *,
    models: Collection[int] = (),
    seed: int,
) -> tuple[Prior, Annotators, F64]:
    """Choose variance, share, scales, biases and reliabilities from answers.

    Args:
        answers: the answers.
        prior: the prior to start from.
        squares: the features with their squares; None if there are no features.
        annotators: the annotators to start from.
        models: the numbers of the annotators that are models.
        seed: the seed of the draws by which annotators are predicted.

    Returns:
        The prior, the annotators, and the most probable scores.

    Cost: about 50 searches of a mode, with features 90, and two for each annotator.
    """
    rng = np.random.default_rng(seed)
    linear = prior.columns
    answers, annotators = _in_words_where_better(answers, prior, annotators, rng)
    # Without features and measurements the variance depends on no other hyperparameter.
    n_rounds = 2 if linear.width or answers.is_measured.any() else 1
    for _ in range(n_rounds):
        if answers.is_measured.any():
            prior, annotators = _choose_scale(answers, prior, annotators)
        prior = _choose_variance(answers, prior, annotators)
        if linear.width:
            prior = _choose_share(answers, prior, linear, squares, annotators)
    no_bias = replace(annotators, bias=0 * annotators.bias, biased=annotators.biased & False)
    mode = find_mode(answers, prior, no_bias, close=_CLOSE)
    annotators = replace(no_bias, biased=_earned_bias(answers, mode))
    if len(annotators) > 1:
        is_model = np.isin(np.arange(len(annotators)), [*models])
        annotators = _choose_reliabilities(answers, prior, annotators, is_model, mode.scores, rng)
    return prior, annotators, mode.scores


def _posterior_mean(log_weight: F64, values: F64) -> float:
    """Average values by weights that are given as logarithms."""
    weight = np.exp(log_weight - log_weight.max())
    return float(weight @ values / weight.sum())


def _evidence(answers: Answers, priors: list[Prior], annotators: Annotators) -> F64:
    """Compute the evidence of each prior; each search starts from the mode before."""
    start: F64 | None = None
    evidence = []
    for prior in priors:
        mode = find_mode(answers, prior, annotators, start, close=_CLOSE)
        start = mode.scores
        evidence.append(mode.evidence)
    return np.array(evidence)


def _spread(answers: Answers) -> float:
    """Half of the mean square of the measured probits: the variance of a score in their unit."""
    probit = answers.probit[answers.is_measured]
    return max(float(np.mean(probit**2)) / 2, 0.05)


def _choose_scale(
    answers: Answers, prior: Prior, annotators: Annotators
) -> tuple[Prior, Annotators]:
    """Choose the scale g of measurements; g^2 times the variance of a score is kept."""
    spread = _spread(answers)
    n = len(annotators)
    evidence = []
    for scale in _SCALES:
        scaled = replace(annotators, scale=np.full(n, scale))
        prior_of_scale = replace(prior, variance=spread / scale**2)
        evidence.append(find_mode(answers, prior_of_scale, scaled, close=_CLOSE).evidence)
    log_scale = np.log(_SCALES)
    log_prior = -0.5 * ((log_scale - _LOG_SCALE) / _LOG_SCALE_SD) ** 2
    scale = float(np.exp(_posterior_mean(np.array(evidence) + log_prior, log_scale)))
    variance = spread / scale**2
    return replace(prior, variance=variance), replace(annotators, scale=np.full(n, scale))


def _choose_variance(answers: Answers, prior: Prior, annotators: Annotators) -> Prior:
    """Choose the variance of a score: its posterior mean."""
    middle = 0.0
    if answers.is_measured.any():
        middle = float(np.log(prior.variance))
    log_variance = middle + _LOG_VARIANCES
    priors = [replace(prior, variance=float(np.exp(value))) for value in log_variance]
    sd = np.where(_LOG_VARIANCES < 0, _SD_BELOW, _SD_ABOVE)
    log_prior = -0.5 * (_LOG_VARIANCES / sd) ** 2
    evidence = _evidence(answers, priors, annotators)
    variance = _posterior_mean(evidence + log_prior, np.exp(log_variance))
    return replace(prior, variance=variance)


def _choose_share(
    answers: Answers,
    prior: Prior,
    linear: Columns,
    squares: Columns | None,
    annotators: Annotators,
) -> Prior:
    """Choose the share of the variance that features explain; 0 unless they have earned it.

    Features must predict the answers better than no features do, whatever the variance is without
    them: otherwise a useless feature would decide the order of items that answers hardly tell.
    """
    without = replace(prior, columns=linear, share=0.0)
    smaller = [replace(without, variance=prior.variance * factor) for factor in _SMALLER]
    base = _evidence(answers, [without, *smaller], annotators).max()
    evidence = _evidence_of_shares(answers, without, annotators)
    columns = linear
    if squares is not None:
        with_squares = replace(without, columns=squares)
        evidence_of_squares = _evidence_of_shares(answers, with_squares, annotators)
        to_beat = max(_mean_evidence(evidence), base) + _SQUARES_GAIN
        if _mean_evidence(evidence_of_squares) > to_beat:
            evidence = evidence_of_squares
            columns = squares
    if _mean_evidence(evidence) < base:
        return without
    log_odds = np.append(base + np.log(1 - _P_FEATURES), evidence + np.log(_P_FEATURES / 5))
    share = _posterior_mean(log_odds, np.append(0.0, _SHARES))
    return replace(without, columns=columns, share=share)


def _evidence_of_shares(answers: Answers, prior: Prior, annotators: Annotators) -> F64:
    """Compute the evidence of each share above 0, at the variance that explains the answers best.

    Where true scores differ by little, features earn nothing at the prior's variance. But useless
    features explain a chain by chance if the variance is small, so it must be better by a margin.
    """
    shares = [replace(prior, share=float(share)) for share in _SHARES]
    best = _evidence(answers, shares, annotators)
    for factor in _SMALLER_OF_FEATURES:
        smaller = [replace(share, variance=prior.variance * factor) for share in shares]
        evidence = _evidence(answers, smaller, annotators) - _SMALLER_GAIN
        if _mean_evidence(evidence) > _mean_evidence(best):
            best = evidence
    return best


def _mean_evidence(evidence: F64) -> float:
    """The logarithm of the mean of evidences that are given as logarithms."""
    highest = evidence.max()
    return float(highest + np.log(np.exp(evidence - highest).mean()))


def _earned_bias(answers: Answers, mode: Mode) -> Bool:
    """Whether the answers of each annotator tell a place bias, (a,)."""
    slope, stiffness = bias_curve(answers, mode.at, len(mode.annotators))
    earned: Bool = slope**2 > _BIAS_GAIN * stiffness
    return earned


def _choose_reliabilities(
    answers: Answers,
    prior: Prior,
    annotators: Annotators,
    is_model: Bool,
    start: F64,
    rng: np.random.Generator,
) -> Annotators:
    """Measure each annotator's reliability by the scores that the other answers give.

    An annotator who measures gets a scale in the same way. An annotator with the only answers stays
    average. Whoever has answered most is measured first, and is known when the others are measured:
    somebody who prefers the worse item, with more answers than each other, would turn their signs.

    A model that has answered enough gold pairs is measured by gold pairs alone: models are wrong
    together, and would outvote the right answers.
    """
    is_gold = answers.annotator == GOLD
    n_gold_answers = np.bincount(
        answers.annotator[_is_about_gold(answers) & ~is_gold], minlength=len(annotators)
    )
    by_gold = is_model & (n_gold_answers >= _ENOUGH_GOLD)
    columns = {name: column.copy() for name, column in vars(annotators).items()}
    so_far = Annotators(**columns)  # shares its arrays with `columns`
    n_answers = [np.count_nonzero(answers.annotator == k) for k in range(len(annotators))]
    for number in np.argsort(n_answers, kind="stable")[::-1].tolist():
        is_own = answers.annotator == number
        if not is_own.any() or is_own.all():
            continue
        others = is_gold if by_gold[number] else ~is_own
        mode = find_mode(answers.where(others), prior, so_far, start, close=_CLOSE)
        draws = mode.drawn(_DRAWS, rng)
        own_answers = replace(answers.where(is_own), annotator=np.zeros(is_own.sum(), np.int64))
        parameters = _reliability_by(
            own_answers,
            draws,
            so_far.only(number),
            prior.tie_odds,
            p_different=1.0 if by_gold[number] else _P_DIFFERENT,
        )
        for name, value in parameters.items():
            columns[name][number] = value[0]
    median = float(np.median(columns["reliability"]))
    if median > _LEAST_MEDIAN:  # the average annotator has reliability 1, by definition
        for name in ("reliability", "low", "high"):
            columns[name] /= median
    return Annotators(**columns)


def _is_about_gold(answers: Answers) -> Bool:
    """Whether each row is a choice of the best among items of a gold pair, (m,)."""
    edges = answers.edges
    pairs = unordered(edges.i, edges.j)
    is_gold = answers.annotator == GOLD
    is_gold_pair = np.isin(pairs, pairs[is_gold[edges.row]])
    about_gold: Bool = np.zeros(len(answers), np.bool_)
    about_gold[edges.row[is_gold_pair]] = True
    return about_gold & (answers.direction > 0)


def _reliability_by(
    own: Answers,
    draws: Draws,
    annotator: Annotators,
    nu: float,
    *,
    p_different: float = _P_DIFFERENT,
) -> dict[str, F64]:
    """Find the reliability of an annotator, and the scale of one who measures, by unseen answers.

    The reliability is that of the average annotator as far as the answers do not tell otherwise;
    its interval takes nothing for granted.

    Args:
        own: the answers of the annotator, who has number 0.
        draws: draws of the scores, fitted without these answers.
        annotator: the parameters of the annotator.
        nu: the odds of a tie of equal items.
        p_different: the prior probability that the annotator is not as reliable as the average.

    Returns:
        `reliability`, `low`, `high` and `scale`, each an array of one value.
    """
    bias = float(annotator.bias[0])
    scales = [*_SCALES] if own.is_measured.any() else [float(annotator.scale[0])]
    log_p = np.array(
        [[left_out(own, draws, c, bias, scale, nu) for c in _RELIABILITIES] for scale in scales]
    )
    prior = 1 / (1 + ((_RELIABILITIES - 1) / _RELIABILITY_WIDTH) ** 2)
    best_scale = int((log_p + np.log(prior)).max(axis=1).argmax())
    p = np.exp(log_p[best_scale] - log_p[best_scale].max())
    odds_of_average = (1 - p_different) * p[np.abs(_RELIABILITIES - 1).argmin()]
    odds_of_different = p_different * (p @ prior) / prior.sum()
    weight = p * prior / (p @ prior)
    different = weight @ _RELIABILITIES
    reliability = odds_of_average + odds_of_different * different
    reliability /= odds_of_average + odds_of_different
    cumulated = np.cumsum(weight)
    low, high = np.minimum(np.searchsorted(cumulated, (0.05, 0.95)), len(weight) - 1)
    return {
        "reliability": np.array([reliability]),
        "low": _RELIABILITIES[[low]],
        "high": _RELIABILITIES[[high]],
        "scale": np.array([scales[best_scale]]),
    }


def left_out(
    answers: Answers, draws: Draws, c: float, bias: float, scale: float, nu: float
) -> float:
    """Compute the log-probability of one annotator's answers that the scores do not know.

    The probability of each answer is its mean over draws of the scores.

    Args:
        answers: the answers of the annotator.
        draws: (k, n) draws of the scores, fitted without these answers.
        c, bias, scale: the parameters of the annotator.
        nu: the weight of a tie.
    """
    return float(_log_p_of_rows(answers, draws, c, bias, scale, nu).sum())


def _log_p_of_rows(
    answers: Answers, draws: Draws, c: float, bias: float, scale: float, nu: float
) -> F64:
    """Compute the log-probability of each row, its probability averaged over draws, (m,)."""
    direction = answers.direction[:, None]
    z = direction * (SHARPNESS * c * draws[:, answers.items] + bias * answers.place)
    odds = choice_odds(z, answers.items < 0, np.where(answers.may_tie, nu, 0.0))
    log_p = (answers.share * z).sum(axis=-1) - odds.log_total + answers.tied * np.log(nu or 1.0)
    rows = np.flatnonzero(answers.is_measured)
    if len(rows):
        scales = np.full(int(answers.annotator.max()) + 1, scale)
        error = measurement_errors(answers, rows, draws, c, bias, scales)
        log_p[:, rows] = -0.5 * error**2 - np.log(scale * np.sqrt(2 * np.pi))
    highest = log_p.max(axis=0)
    mean_log_p: F64 = highest + np.log(np.exp(log_p - highest).mean(axis=0))
    return mean_log_p


def _in_words_where_better(
    answers: Answers, prior: Prior, annotators: Annotators, rng: np.random.Generator
) -> tuple[Answers, Annotators]:
    """Count measurements as words where left-out answers are then predicted better.

    Half of the answers of each annotator who measures are left out, and their words are predicted
    from all other answers, with the measurements and with the words of the annotator.
    """
    in_words = np.zeros(len(annotators), np.bool_)
    for number in np.unique(answers.annotator[answers.is_measured]).tolist():
        is_theirs = (answers.annotator == number) & answers.is_measured
        if is_theirs.sum() < _ENOUGH_MEASUREMENTS:
            continue
        gain = np.concatenate(
            [_gain_of_words(answers, prior, annotators, number, half)
             for half in _halves(is_theirs, rng)]
        )  # fmt: skip
        standard_error = float(gain.std()) / np.sqrt(len(gain))
        in_words[number] = gain.mean() > standard_error
    chosen = answers.in_words(np.flatnonzero(in_words).tolist())
    return chosen, replace(annotators, in_words=in_words)


def _halves(selected: Bool, rng: np.random.Generator) -> tuple[Bool, Bool]:
    """Divide selected rows into two random halves."""
    is_first = selected & (rng.random(len(selected)) < 0.5)
    return is_first, selected & ~is_first


def _gain_of_words(
    answers: Answers, prior: Prior, annotators: Annotators, number: int, half: Bool
) -> F64:
    """Compute how much better each word in one half is predicted if the annotator's words count."""
    rest = answers.where(~half)
    words = answers.where(half).in_words([number])
    log_p = []
    for others in (rest.in_words([number]), rest):
        prior_of_half, scaled = prior, annotators
        if others.is_measured.any():
            prior_of_half, scaled = _choose_scale(others, prior, annotators)
        mode = find_mode(others, _choose_variance(others, prior_of_half, scaled), scaled)
        draws = mode.drawn(_DRAWS, np.random.default_rng(number))
        log_p.append(_log_p_of_rows(words, draws, 1.0, 0.0, 1.0, prior.tie_odds))
    return log_p[0] - log_p[1]


class MeasuredAnnotator(NamedTuple):
    """The reliability of one annotator with its 90 % interval, and the bias to the first place."""

    value: float
    low: float
    high: float
    bias: float
    bias_sd: float


def measured_annotator(
    answers: Answers, posterior: Posterior, number: int | None
) -> MeasuredAnnotator:
    """Measure one annotator by the posterior.

    Args:
        answers: the answers of the annotator.
        posterior: the posterior of the scores.
        number: the number of the annotator, if the posterior knows the annotator. If None, the
            posterior was fitted without these answers, and the reliability is found by them.
    """
    own_answers = replace(answers, annotator=np.zeros(len(answers), np.int64))
    tie_odds = posterior.prior.tie_odds
    if number is None:
        annotator = Annotators.average(1)
        columns = _reliability_by(own_answers, posterior.draws[:_DRAWS], annotator, tie_odds)
        annotator = Annotators(**(vars(annotator) | columns))
    else:
        annotator = posterior.annotators.only(number)
    at = likelihood(own_answers, posterior.scores, annotator, tie_odds)
    slope, stiffness = bias_curve(own_answers, at, 1)
    prior_precision = BIAS_SD**-2
    precision = float(stiffness[0]) + prior_precision
    fitted_bias = float(annotator.bias[0])
    bias = fitted_bias + (float(slope[0]) - fitted_bias * prior_precision) / precision
    return MeasuredAnnotator(
        float(annotator.reliability[0]),
        float(annotator.low[0]),
        float(annotator.high[0]),
        bias,
        precision**-0.5,
    )
