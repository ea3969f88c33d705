"""Choose the hyperparameters of the model of answers: by evidence, and by left-out answers.

Hyperparameters are posterior means on grids, not most probable values: variance and share of the
features together, then what is each annotator's.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching
from scipy.special import logsumexp

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
_LOG_VARIANCES = np.linspace(-4.0, 3.2, 10)
_SD = 1.2  # of the prior of the log variance
_SD_UNANIMOUS = 0.15  # of this prior below 0, while no answer contradicts others
_LARGE_VARIANCE = 1e3  # a variance at which scores explain all answers that contradict no others
_CLEAR_MARGIN = 0.01  # a difference of scores by which an answer is contradicted
_NO_SHARE = np.zeros(1)
_SHARES = np.array([0.3, 0.6, 0.85, 0.97])
_P_FEATURES = 0.3  # prior probability that features explain a share of the variance
_FEATURES_GAIN = 1.0  # gain of evidence by which features are earned
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
    must_earn: bool = True,
    seed: int,
) -> tuple[Prior, Annotators, F64]:
    """Choose variance, share, scales, biases and reliabilities from answers.

    Args:
        answers: the answers.
        prior: the prior to start from.
        squares: the features with their squares; None if there are no features.
        annotators: the annotators to start from.
        models: the numbers of the annotators that are models.
        must_earn: whether a variance below 1, and a share of the features, must be earned. They
            must also if the answers alone order the items, as those of a chain do.
        seed: the seed of the draws by which annotators are predicted.

    Returns:
        The prior, the annotators, and the most probable scores.

    Cost: about 13 searches of a mode, with features 93; with several annotators twice as many, and
    one for each annotator.
    """
    rng = np.random.default_rng(seed)
    answers, annotators = _in_words_where_better(answers, prior, annotators, rng)
    if answers.is_measured.any():
        prior, annotators = _choose_scale(answers, prior, annotators)
    first_prior = prior
    prior = _choose_prior(answers, first_prior, squares, annotators, must_earn=must_earn)
    no_bias = replace(annotators, bias=0 * annotators.bias, biased=annotators.biased & False)
    mode = find_mode(answers, prior, no_bias, close=_CLOSE)
    annotators = replace(no_bias, biased=_earned_bias(answers, mode))
    if len(annotators) > 1:
        is_model = np.isin(np.arange(len(annotators)), [*models])
        # Answers of somebody who prefers the worse item make all differences of scores look small.
        wide = replace(prior, variance=max(prior.variance, _middle(answers, first_prior)))
        annotators = _choose_reliabilities(answers, wide, annotators, is_model, mode.scores, rng)
        prior = _choose_prior(answers, first_prior, squares, annotators, must_earn=must_earn)
    return prior, annotators, mode.scores


def _posterior_mean(log_weight: F64, values: F64) -> float:
    """Average values by weights that are given as logarithms."""
    weight = np.exp(log_weight - log_weight.max())
    return float(np.average(np.broadcast_to(values, weight.shape), weights=weight))


def _mean_evidence(evidence: F64) -> float:
    """The logarithm of the mean of evidences that are given as logarithms."""
    return float(logsumexp(evidence) - np.log(evidence.size))


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


def _choose_prior(
    answers: Answers,
    prior: Prior,
    squares: Columns | None,
    annotators: Annotators,
    *,
    must_earn: bool,
) -> Prior:
    """Choose the variance of a score, and the share of it that features explain.

    Both are posterior means on a grid. If they have to be earned, a variance below 1 takes answers
    that contradict each other: the evidence of a chain of unanimous answers is greatest at a
    variance near 0, where anything decides the order. And features must predict the answers better
    than no features do, whatever the variance is without features: otherwise a useless feature
    would decide the order of items that answers hardly tell apart.
    """
    linear = prior.columns
    sd_below = _SD
    n_contradicted = _n_contradicted(answers, replace(prior, variance=_LARGE_VARIANCE), annotators)
    are_chains = n_contradicted == 0 and _form_chains(answers, len(prior.columns))
    if must_earn or are_chains:
        must_earn = True
        sd_below = min(_SD_UNANIMOUS * (1 + n_contradicted), _SD)
    log_prior = _log_prior_of_variances(sd_below)
    without = _evidence(answers, prior, linear, _NO_SHARE, annotators)
    columns, shares, log_weight = linear, _NO_SHARE, without + log_prior
    if linear.width:
        of_features = _evidence(answers, prior, linear, _SHARES, annotators) + log_prior
        if squares is not None:
            of_squares = _evidence(answers, prior, squares, _SHARES, annotators) + log_prior
            to_beat = max(_mean_evidence(of_features), _mean_evidence(log_weight)) + _SQUARES_GAIN
            if _mean_evidence(of_squares) > to_beat:
                columns, of_features = squares, of_squares
        gain = logsumexp(of_features) - np.log(len(_SHARES)) - without.max()
        if not must_earn or gain > _FEATURES_GAIN:
            shares = np.append(_NO_SHARE, _SHARES)
            log_odds = np.log(_P_FEATURES / (1 - _P_FEATURES) / len(_SHARES))
            log_weight = np.concatenate((log_weight, of_features + log_odds))
    log_variance = _posterior_mean(log_weight, _LOG_VARIANCES)
    share = _posterior_mean(log_weight, shares[:, None])
    variance = _middle(answers, prior) * float(np.exp(log_variance))
    chosen_prior = replace(prior, columns=columns, variance=variance, share=share)
    if are_chains and _n_contradicted(answers, chosen_prior, annotators):
        # Links with few answers between links with many hold only if the variance is large.
        return replace(chosen_prior, variance=_LARGE_VARIANCE, share=0.0)
    return chosen_prior


def _evidence(
    answers: Answers, prior: Prior, columns: Columns, shares: F64, annotators: Annotators
) -> F64:
    """Compute the evidence of each share and each variance of the grid, (shares, variances).

    Each search of a mode starts from the mode before.
    """
    evidence = np.empty((len(shares), len(_LOG_VARIANCES)))
    start: F64 | None = None
    for row, share in enumerate(shares.tolist()):
        for column, log_variance in enumerate(_LOG_VARIANCES.tolist()):
            variance = _middle(answers, prior) * np.exp(log_variance)
            of_grid = replace(prior, columns=columns, share=share, variance=variance)
            mode = find_mode(answers, of_grid, annotators, start, close=_CLOSE)
            start = mode.scores
            evidence[row, column] = mode.evidence
    return evidence


def _middle(answers: Answers, prior: Prior) -> float:
    """The middle of the grid of variances: 1, or for measurements what goes with their scale."""
    return prior.variance if answers.is_measured.any() else 1.0


def _log_prior_of_variances(sd_below: float) -> F64:
    """The logarithm of the prior probability of each variance of the grid."""
    sd = np.where(_LOG_VARIANCES < 0, sd_below, _SD)
    log_prior = -0.5 * (_LOG_VARIANCES / sd) ** 2
    return np.asarray(log_prior - logsumexp(log_prior), np.float64)


def _form_chains(answers: Answers, n_items: int) -> bool:
    """Whether a few chains hold all items: in a chain, an answer prefers each item to the next.

    A fifth as many chains as items are few: hyperparameters may be chosen so long before the last
    answers that would join them.
    """
    edges = answers.edges
    lead = answers.share[edges.row, edges.a] - answers.share[edges.row, edges.b]
    lead *= answers.direction[edges.row]
    better = np.where(lead > 0, edges.i, edges.j)[lead != 0]
    worse = np.where(lead > 0, edges.j, edges.i)[lead != 0]
    graph = csr_array((np.ones(len(better)), (better, worse)), shape=(n_items, n_items))
    # The least number of chains: each item has one next item at most, and is the next of one.
    n_chains = int(np.count_nonzero(maximum_bipartite_matching(graph) < 0))
    return n_chains <= 1 + n_items // 5


def _n_contradicted(answers: Answers, prior: Prior, annotators: Annotators) -> int:
    """Count the choices that the most probable scores contradict."""
    is_choice = (answers.share.max(axis=1, initial=0.0) == 1) & ~answers.is_measured
    choices = answers.where(is_choice)
    scores = find_mode(choices, prior, annotators, close=_CLOSE).scores
    z = choices.direction[:, None] * scores[choices.items]
    highest = np.where(choices.items >= 0, z, -np.inf).max(axis=1, initial=-np.inf)
    of_choice = (choices.share * z).sum(axis=1)
    return int(np.count_nonzero(of_choice < highest - _CLEAR_MARGIN))


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
        [
            [_log_p_of_rows(own, draws, c, bias, scale, nu).sum() for c in _RELIABILITIES]
            for scale in scales
        ]
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


def _log_p_of_rows(
    answers: Answers, draws: Draws, c: float, bias: float, scale: float, nu: float
) -> F64:
    """Compute the log-probability of one annotator's answers that the scores do not know, (m,).

    The probability of each answer is its mean over draws of the scores.

    Args:
        answers: the answers of the annotator.
        draws: (k, n) draws of the scores, fitted without these answers.
        c, bias, scale: the parameters of the annotator.
        nu: the weight of a tie.
    """
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
    no_columns = Columns(np.empty((len(prior.columns), 0)))
    prior = replace(prior, columns=no_columns, share=0.0)
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
        mode = find_mode(
            others, _choose_prior(others, prior_of_half, None, scaled, must_earn=True), scaled
        )
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
