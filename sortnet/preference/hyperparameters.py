"""Choose the hyperparameters of the model of answers: by evidence, and by left-out answers.

Variance and share of the features together, and then reliability and scale of each of several
annotators, are posterior means on grids. Whether annotators have a place bias, whether squares of
features count, and whether measurements count as words, is decided by what it gains.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, maximum_bipartite_matching
from scipy.special import logsumexp

from sortnet.core import F64, I64, Bool
from sortnet.preference.answers import GOLD, Answers
from sortnet.preference.fit import BIAS_SD, find_mode
from sortnet.preference.model import (
    Annotators,
    Columns,
    Draws,
    Posterior,
    Prior,
    likelihood,
    predict,
)

_MOST_ITEMS = 300  # from whose answers hyperparameters are chosen
_CLOSE = 1e-3  # modes are compared that are found to a thousandth
_LOG_VARIANCES = np.linspace(-4.0, 3.2, 10)
_SD = 1.2  # of the prior of the log variance
_SD_UNANIMOUS = 0.15  # of this prior below 0, while no answer contradicts others
_LARGE_VARIANCE = 1e3  # a variance at which scores explain all answers that contradict no others
# Scores contradict a choice if another item is more probable by this factor, which rounding allows.
_CLEAR_RATIO = 1.0001
_NO_SHARE = np.zeros(1)
_SHARES = np.array([0.3, 0.6, 0.85, 0.97])
# Each stands for the shares that are nearest to it: equal parts would favour shares near 1.
_LOG_P_SHARES = np.log([0.35, 0.32, 0.22, 0.11])
_P_FEATURES = 0.3  # prior probability that features explain a share of the variance
_FEATURES_GAIN = 1.0  # gain of evidence by which features are earned in chains
_SQUARES_GAIN = 3.0  # gain of evidence by which squares of features are earned
_SCALES = np.array([0.1, 0.2, 0.4, 0.8, 1.6])
_LOG_SCALE, _LOG_SCALE_SD = -0.9, 1.2
_BIAS_GAIN = 6.0  # twice the gain of log-likelihood by which a place bias is earned
_RELIABILITIES = np.linspace(-1.5, 2.5, 41)
_FEW_RELIABILITIES = _RELIABILITIES[::5]  # between which evidence is interpolated
_OWN_SCALES = np.geomspace(0.1, 1.6, 13)
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
) -> tuple[Prior, Annotators]:
    """Choose variance, share, scales, biases and reliabilities from answers.

    Args:
        answers: the answers. Of more than 300 items, answers about a sample of 300 count.
        prior: the prior to start from, with variance 1.
        squares: the features with their squares, without products of two features; None if there
            are no features.
        annotators: the annotators to start from.
        models: the numbers of the annotators that are models.
        must_earn: whether a variance below the one to start from must be earned. It must also if
            the answers alone order the items, as those of a chain do; then features must be, too.
        seed: the seed of the sample, and of the draws by which annotators are predicted.

    Returns:
        The prior and the annotators.

    Cost: about 13 searches of a mode, with features 93; with several annotators twice as many, and
    9 for each annotator; for each annotator who measures, 108 to 176 more.
    """
    rng = np.random.default_rng(seed)
    linear = prior.columns
    candidates = [linear] if squares is None else [linear, squares]
    # Items without answers change no evidence.
    answers, items = _sample(answers, rng)
    candidates = [Columns(columns.values[items]) for columns in candidates]
    first_prior = replace(prior, columns=candidates[0])
    answers, annotators = _in_words_where_better(answers, first_prior, annotators, rng)
    if answers.is_measured.any():
        first_prior, annotators = _choose_scale(answers, first_prior, annotators)
    chosen = _choose_prior(answers, first_prior, candidates, annotators, must_earn=must_earn)
    no_bias = replace(annotators, bias=0 * annotators.bias, biased=annotators.biased & False)
    mode = find_mode(answers, chosen, no_bias, close=_CLOSE)
    is_biased = mode.at.bias_slope**2 > _BIAS_GAIN * mode.at.bias_stiffness
    annotators = replace(no_bias, biased=is_biased)
    # Chains say nothing about annotators: at the large variance, every error tells against them.
    if len(annotators) > 1 and chosen.variance < _LARGE_VARIANCE:
        is_model = np.isin(np.arange(len(annotators)), [*models])
        # Answers of somebody who prefers the worse item make all differences of scores look small.
        wide = replace(chosen, variance=max(chosen.variance, prior.variance))
        annotators = _choose_reliabilities(answers, wide, annotators, is_model, mode.unknowns)
        chosen = _choose_prior(answers, first_prior, candidates, annotators, must_earn=must_earn)
    columns = linear
    if squares is not None and chosen.columns is candidates[1]:
        columns = squares
    return replace(chosen, columns=columns), annotators


def _sample(answers: Answers, rng: np.random.Generator) -> tuple[Answers, I64]:
    """Select items and the answers among them; return the answers, and the items.

    Gold pairs, then answers in a random order are taken until they are about as many items as are
    wanted. Then every answer about these items is taken.
    """
    order = rng.permutation(len(answers))
    gold_first = np.argsort(answers.annotator[order] != GOLD, kind="stable")
    in_order = answers.items[order[gold_first]]
    flat = in_order[in_order >= 0]
    _, first = np.unique(flat, return_index=True)
    items = flat[np.sort(first)[:_MOST_ITEMS]]
    is_inside = np.all(np.isin(answers.items, items) | (answers.items < 0), axis=1)
    return answers.where(is_inside).of_own_items()


def _posterior_mean(log_weight: F64, values: F64) -> float:
    """Average values by weights that are given as logarithms."""
    weight = np.exp(log_weight - log_weight.max())
    return float(np.average(np.broadcast_to(values, weight.shape), weights=weight))


def _choose_scale(
    answers: Answers, prior: Prior, annotators: Annotators
) -> tuple[Prior, Annotators]:
    """Choose the scale g of measurements; g^2 times the variance of a score is kept.

    This product is half of the mean square of the measured probits.
    """
    spread = max(float(np.nanmean(answers.probit**2)) / 2, 0.05)
    n = len(annotators)
    evidence = []
    for scale in _SCALES:
        scaled = replace(annotators, scale=np.full(n, scale))
        prior_of_scale = replace(prior, variance=spread / scale**2)
        evidence.append(find_mode(answers, prior_of_scale, scaled, close=_CLOSE).evidence)
    log_weight = np.array(evidence) + _log_prior_of_scale(_SCALES)
    scale = float(np.exp(_posterior_mean(log_weight, np.log(_SCALES))))
    variance = spread / scale**2
    return replace(prior, variance=variance), replace(annotators, scale=np.full(n, scale))


def _choose_prior(
    answers: Answers,
    prior: Prior,
    candidates: Sequence[Columns],
    annotators: Annotators,
    *,
    must_earn: bool,
) -> Prior:
    """Choose the variance of a score, and the share of it that features explain.

    Both are posterior means on a grid. A variance below 1 that has to be earned takes answers that
    contradict each other: the evidence of a chain of unanimous answers is greatest at a variance
    near 0, where anything decides the order. In chains, features must predict the answers better
    than no features do, whatever the variance is without features: otherwise a useless feature
    would decide the order of items that answers hardly tell apart.

    Args:
        answers: the answers.
        prior: the prior, with the variance at the middle of the grid.
        candidates: the features, and perhaps the features with their squares.
        annotators: the annotators.
        must_earn: whether a variance below 1 must be earned, even if the answers form no chains.
    """
    linear, *_ = candidates
    n_contradicted = _n_contradicted(answers, replace(prior, variance=_LARGE_VARIANCE), annotators)
    are_chains = _form_chains(answers, len(linear), are_unanimous=n_contradicted == 0)
    sd_below = _SD
    if must_earn or are_chains:
        sd_below = min(_SD_UNANIMOUS * (1 + n_contradicted), _SD)
    log_prior = -0.5 * (_LOG_VARIANCES / np.where(_LOG_VARIANCES < 0, sd_below, _SD)) ** 2
    log_prior -= logsumexp(log_prior)
    columns, shares = linear, _NO_SHARE
    without = _evidence(answers, prior, shares, annotators)
    log_weight = without + log_prior
    if linear.width:
        log_prior_of_shares = log_prior + _LOG_P_SHARES[:, None]
        of_columns = [
            log_prior_of_shares
            + _evidence(answers, replace(prior, columns=columns), _SHARES, annotators)
            for columns in candidates
        ]
        totals = [logsumexp(evidence) for evidence in of_columns]
        to_beat = max(totals[0], logsumexp(log_weight)) + _SQUARES_GAIN
        best = len(candidates) - 1 if totals[-1] > to_beat else 0
        columns, of_features = candidates[best], of_columns[best]
        gain = totals[best] - without.max()
        if gain > _FEATURES_GAIN or not are_chains:
            shares = np.append(_NO_SHARE, _SHARES)
            log_odds = np.log(_P_FEATURES / (1 - _P_FEATURES))
            log_weight = np.concatenate((log_weight, of_features + log_odds))
    log_variance = _posterior_mean(log_weight, _LOG_VARIANCES)
    share = _posterior_mean(log_weight, shares[:, None])
    variance = prior.variance * float(np.exp(log_variance))
    chosen_prior = replace(prior, columns=columns, variance=variance, share=share)
    if len(shares) > 1 or not are_chains:
        return chosen_prior
    if n_contradicted or _n_contradicted(answers, chosen_prior, annotators):
        # A long chain holds only if the variance is large: links with few answers between links
        # with many, and any link once some answers contradict others.
        return replace(chosen_prior, variance=_LARGE_VARIANCE, share=0.0)
    return chosen_prior


def _evidence(answers: Answers, prior: Prior, shares: F64, annotators: Annotators) -> F64:
    """Compute the evidence of each share and each variance of the grid, (shares, variances).

    Each search of a mode starts from the mode before.
    """
    evidence = []
    start: F64 | None = None
    for share in shares.tolist():
        for factor in np.exp(_LOG_VARIANCES).tolist():
            of_grid = replace(prior, share=share, variance=prior.variance * factor)
            mode = find_mode(answers, of_grid, annotators, start, close=_CLOSE)
            start = mode.unknowns
            evidence.append(mode.evidence)
    return np.reshape(evidence, (len(shares), -1))


def _form_chains(answers: Answers, n_items: int, *, are_unanimous: bool) -> bool:
    """Whether a few chains hold all items: in a chain, answers prefer each item to the next.

    A fifth as many chains as items count as few: when hyperparameters are chosen, the answers that
    will join the chains may still be missing. Answers that contradict each other must also be about
    no more pairs than there are items: where many pairs were asked, chains are found by chance.
    """
    edges = answers.edges
    lead = answers.share[edges.row, edges.a] - answers.share[edges.row, edges.b]
    lead *= answers.direction[edges.row] * np.where(edges.i < edges.j, 1, -1)
    ends = np.sort(np.column_stack((edges.i, edges.j)), axis=1)
    pairs, pair_of_edge = np.unique(ends, axis=0, return_inverse=True)
    if not are_unanimous and len(pairs) > n_items:
        return False
    majority = np.bincount(pair_of_edge, lead)
    better_first = np.where(majority[:, None] > 0, pairs, pairs[:, ::-1])[majority != 0]
    ones = np.ones(len(better_first))
    graph = csr_array((ones, tuple(better_first.T)), shape=(n_items, n_items))
    # The least number of chains: each item has one next item at most, and is the next of one.
    n_chains = int(np.count_nonzero(maximum_bipartite_matching(graph) < 0))
    return n_chains <= 1 + n_items // 5


def _n_contradicted(answers: Answers, prior: Prior, annotators: Annotators) -> int:
    """Count the choices of all annotators that the most probable scores contradict.

    A choice is contradicted if another item than the chosen item is more probably the best, by a
    factor of more than `_CLEAR_RATIO`.
    """
    is_choice = (answers.share.max(axis=1, initial=0.0) == 1) & ~answers.is_measured
    choices = answers.where(is_choice)
    scores = find_mode(choices, prior, annotators).unknowns
    p = predict(choices, scores, Annotators.average(len(annotators)), 0.0).expected
    p_of_choice = (choices.share * p).sum(axis=1)
    return int(np.count_nonzero(p.max(axis=1, initial=0.0) > _CLEAR_RATIO * p_of_choice))


def _choose_reliabilities(
    answers: Answers,
    prior: Prior,
    annotators: Annotators,
    is_model: Bool,
    start: F64,
) -> Annotators:
    """Measure each annotator's reliability by the evidence that all answers give it.

    An annotator who measures gets a scale in the same way. An annotator with the only answers stays
    average. The annotator with most answers is measured first: if the others were measured before,
    an annotator who prefers the worse item and has most answers would turn their signs.

    If no features count, an answer is used only if answers of other annotators join its items:
    there, no other answer tells whether it is right.

    A model that has answered enough gold pairs is measured by scores fitted to gold pairs alone:
    models are wrong together, and would outvote the right answers.
    """
    is_gold = answers.annotator == GOLD
    n = len(annotators)
    n_answers = np.bincount(answers.annotator[~is_gold], minlength=n)
    is_about_gold = _is_about_gold(answers) & ~is_gold
    n_about_gold = np.bincount(answers.annotator[is_about_gold], minlength=n)
    by_gold = is_model & (n_about_gold >= _ENOUGH_GOLD)
    for number in np.argsort(n_answers, kind="stable")[::-1].tolist():
        is_own = answers.annotator == number
        if is_own.all():
            continue
        is_other = ~is_own
        is_used = is_own.copy()
        if by_gold[number]:
            is_other = is_gold
            is_used &= is_about_gold
        elif not prior.share:
            n_items = len(prior.columns)
            is_used[is_own] = _joined(answers.where(is_own), answers.where(is_other), n_items)
        if not is_used.any():
            continue
        evidence = _evidence_of_one(
            answers.where(is_used | is_other), prior, annotators, number, start
        )
        p_different = 1.0 if by_gold[number] else _P_DIFFERENT
        measured = _measured(evidence, annotators.only(number), p_different)
        annotators = annotators.with_one(number, measured)
    median = float(np.median(annotators.reliability))
    if median <= _LEAST_MEDIAN:
        return annotators
    return replace(  # the average annotator has reliability 1, by definition
        annotators,
        reliability=annotators.reliability / median,
        low=annotators.low / median,
        high=annotators.high / median,
    )


def _joined(answers: Answers, other_answers: Answers, n_items: int) -> Bool:
    """Whether answers of others join the items of each row, perhaps by further items, (m,)."""
    edges = other_answers.edges
    graph = csr_array((np.ones(len(edges.i)), (edges.i, edges.j)), shape=(n_items, n_items))
    component = connected_components(graph, directed=False)[1]
    of_first = component[answers.items[:, :1]]
    joined: Bool = ((component[answers.items] == of_first) | (answers.items < 0)).all(axis=1)
    return joined


def _is_about_gold(answers: Answers) -> Bool:
    """Find the answers that choose the best among items with both items of a gold pair, (m,)."""
    about_gold: Bool = np.zeros(len(answers), np.bool_)
    for better, worse in answers.items[answers.annotator == GOLD, :2]:
        has_both = (answers.items == better).any(axis=1) & (answers.items == worse).any(axis=1)
        about_gold |= has_both
    return about_gold & (answers.direction > 0)


def _evidence_of_one(
    answers: Answers, prior: Prior, annotators: Annotators, number: int, start: F64
) -> F64:
    """Compute the evidence of each scale and each reliability of one annotator.

    All answers count together, because each question was chosen by the earlier answers of all:
    scores fitted without the annotator would not know why these questions were asked.

    Args:
        answers: the answers of the annotator and of others.
        prior: the prior of the scores.
        annotators: the annotators, of whom the others are measured, or average so far.
        number: the number of the annotator.
        start: (n,) the scores where the first search starts.

    Returns:
        (scales, c) the logarithms for `_OWN_SCALES`, or for the only scale of an annotator without
        measurements, and for `_RELIABILITIES`. They are interpolated between a few reliabilities.
    """
    from scipy.interpolate import make_interp_spline  # imported here: it takes a tenth of a second

    one = annotators.only(number)
    measures = (answers.is_measured & (answers.annotator == number)).any()
    scales = _OWN_SCALES if measures else one.scale
    evidence = []
    for scale in scales[:, None]:
        for c in _FEW_RELIABILITIES[:, None]:
            changed = annotators.with_one(number, replace(one, reliability=c, scale=scale))
            mode = find_mode(answers, prior, changed, start, close=_CLOSE)
            start = mode.unknowns
            bias = float(mode.annotators.bias[number])
            evidence.append(mode.evidence - 0.5 * (bias / BIAS_SD) ** 2)
    of_grid = np.reshape(evidence, (len(scales), -1))
    interpolated: F64 = make_interp_spline(_FEW_RELIABILITIES, of_grid, axis=1)(_RELIABILITIES)
    return interpolated


def _measured(log_p: F64, annotator: Annotators, p_different: float = _P_DIFFERENT) -> Annotators:
    """Measure the reliability of one annotator, and the scale if answers are measurements.

    Reliability and log scale are posterior means on a grid. The prior of the reliability has a part
    p_different, 1 / (1 + ((c - 1) / .3)^2), and the rest at c = 1. The interval has the first part
    alone, which takes nothing for granted.

    Args:
        log_p: (scales, c) the log-probability of the answers for each scale and each reliability.
        annotator: the parameters of the annotator.
        p_different: the prior probability that the annotator is not as reliable as the average.
    """
    scales = _OWN_SCALES if len(log_p) > 1 else annotator.scale
    log_density = -np.log1p(((_RELIABILITIES - 1) / _RELIABILITY_WIDTH) ** 2)
    log_weight = log_p + log_density + _log_prior_of_scale(scales)[:, None]
    p = np.exp(log_weight - log_weight.max())
    is_average = np.arange(len(_RELIABILITIES)) == np.abs(_RELIABILITIES - 1).argmin()
    p_of_different = p_different / np.exp(log_density).sum()
    with_average = p * (p_of_different + (1 - p_different) * is_average)
    log_scale = np.average(np.log(scales), weights=with_average.sum(axis=1))
    cumulated = np.cumsum(p.sum(axis=0)) / p.sum()
    low, high = np.minimum(np.searchsorted(cumulated, (0.05, 0.95)), len(cumulated) - 1)
    return replace(
        annotator,
        reliability=np.average(_RELIABILITIES, weights=with_average.sum(axis=0), keepdims=True),
        low=_RELIABILITIES[[low]],
        high=_RELIABILITIES[[high]],
        scale=np.exp([log_scale]),
    )


def _log_prior_of_scale(scale: F64) -> F64:
    """Compute the prior of the logarithm of a scale, as a logarithm."""
    return -0.5 * ((np.log(scale) - _LOG_SCALE) / _LOG_SCALE_SD) ** 2


def _log_p(answers: Answers, draws: Draws, annotator: Annotators) -> F64:
    """Compute the log-probability of one annotator's answers that the scores do not know, (m,).

    The probability of each answer is its mean over draws of the scores.
    """
    log_p = predict(answers, draws, annotator, 0.0).log_p
    mean_log_p: F64 = logsumexp(log_p, axis=0) - np.log(len(draws))
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
        is_first = is_theirs & (rng.random(len(answers)) < 0.5)
        gain = []
        for half in (is_first, is_theirs & ~is_first):
            other_answers = answers.where(~half)
            words = answers.where(half).in_words([number]).by_one()
            of_words = _log_p_of_words(
                words, other_answers.in_words([number]), prior, annotators, number
            )
            gain += [*(of_words - _log_p_of_words(words, other_answers, prior, annotators, number))]
        standard_error = np.std(gain) / np.sqrt(len(gain))
        in_words[number] = np.mean(gain) > standard_error
    chosen = answers.in_words(np.flatnonzero(in_words).tolist())
    return chosen, replace(annotators, in_words=in_words)


def _log_p_of_words(
    words: Answers, other_answers: Answers, prior: Prior, annotators: Annotators, seed: int
) -> F64:
    """Predict words of an average annotator by the rest of the answers, (m,)."""
    if other_answers.is_measured.any():
        prior, annotators = _choose_scale(other_answers, prior, annotators)
    prior = _choose_prior(other_answers, prior, [prior.columns], annotators, must_earn=True)
    draws = find_mode(other_answers, prior, annotators).drawn(_DRAWS, np.random.default_rng(seed))
    return _log_p(words, draws, Annotators.average(1))


def measured_annotator(
    answers: Answers, posterior: Posterior, number: int | None
) -> tuple[Annotators, float]:
    """Measure one annotator by the posterior, with a place bias that need not be earned.

    Args:
        answers: the answers of the annotator.
        posterior: the posterior of the scores.
        number: the number of the annotator, if the posterior knows the annotator. If None, the
            posterior was fitted without these answers, and the reliability is found by them.

    Returns:
        The annotator, and the standard deviation of the bias.
    """
    own_answers = answers.by_one()
    if number is None:
        average = Annotators.average(1)
        scales = _OWN_SCALES if answers.is_measured.any() else average.scale
        log_p = [
            [
                _log_p(
                    own_answers,
                    posterior.draws[:_DRAWS],
                    replace(average, reliability=c, scale=scale),
                ).sum()
                for c in _RELIABILITIES[:, None]
            ]
            for scale in scales[:, None]
        ]
        annotator = _measured(np.array(log_p), average)
    else:
        annotator = posterior.annotators.only(number)
    own_likelihood = likelihood(own_answers, posterior.scores, annotator, posterior.prior.tie_odds)
    precision = own_likelihood.bias_stiffness + BIAS_SD**-2
    step = (own_likelihood.bias_slope - annotator.bias * BIAS_SD**-2) / precision
    return replace(annotator, bias=annotator.bias + step), float(precision[0] ** -0.5)
