"""Report on each annotator: reliability, side bias, agreement, gold score, calibration, verdict."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri, owens_t

from sortnet.core import F64, I64
from sortnet.preference.answers import Answers
from sortnet.preference.base import ANSWERS, Judgement, Pair
from sortnet.preference.comparisons import ByPair, Comparisons, gold_targets
from sortnet.preference.hyperparameters import measured_annotator
from sortnet.preference.intervals import LEVEL
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.model import Posterior
from sortnet.preference.study import Study

FEW = 20  # with fewer answers there is no verdict on an annotator
TOO_FAST = 0.7  # seconds: whoever answers half of the questions faster can hardly have read them
_ENOUGH_TIMES = 5  # number of measured times that are needed to say "too fast"
# Bounds of the verdicts. A value is below a bound only if its whole 90 % interval is below it.
ONE_SIDE = 0.8  # a share of answers for one side above 0.8 is "always left" or "always right"
INVERTED = -0.5  # a reliability below 0, whose interval starts below -0.5, is "inverted"
RANDOM = 0.2  # a reliability below 0.95, whose interval starts below 0.2, is "answers at random"
UNRELIABLE = 0.5  # a reliability below 0.5 is "unreliable"
BELOW = 0.95  # a reliability below 0.95 is "below average: counts less", which is no fault
BELOW_AVERAGE = "below average: counts less"
FINE = ("", "no answers", "too few answers", "too fast", BELOW_AVERAGE)  # a program may be fast
HALF = 0.5  # a gold score below 0.5 is "wrong on gold pairs"
_QUANTILES = np.array([(1 - LEVEL) / 2, (1 + LEVEL) / 2])  # the ends of a 90 % interval
_MOST_ANSWERS = 400  # an excluded annotator's reliability is measured by this number of new answers
# Edges of the ranges of the probability that an annotator gives to the preferred item.
EDGES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 1.0)


@dataclass(frozen=True)
class Measured:
    """A value with its 90 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class AnnotatorReport:
    """A report on one annotator.

    Attributes:
        name: name of the annotator.
        answers: number of answers about the order that are not undone; an answer about a set counts
            once.
        reliability: reliability c, where P(left) = Φ(c (s_left - s_right) + b) for the scores s. It
            is 1 for the average annotator, 0 for coin tosses, and negative if the annotator prefers
            the worse item. None without answers of the annotator, or if no other annotator has
            answered about the same items.
        side_bias: side bias b, positive towards the left.
        agreement: share of the other annotators' answers to the same pairs that agree; None without
            such answers.
        expected_agreement: share that is expected to agree if average annotators answer, because
            even reliable people differ on pairs of close items.
        shared: number of the other annotators' answers to the same pairs.
        consistency: share of the annotator's repeated answers that are the same as the first
            answer; None without repeated answers.
        expected_consistency: share that is expected to be the same if an average annotator answers.
        repeats: number of the annotator's repeated answers.
        gold: share of the answers to gold pairs that are right; None without such answers.
        gold_answers: number of answers to gold pairs.
        skipped, cant_say, undone: number of skips, can't-says and undos.
        median_seconds: median time from showing a question to its answer.
        too_fast: whether half of a person's answers took less than 0.7 seconds.
        state: `active`, `excluded`, `paused` or `revoked`.
        reason: reason of the exclusion, if the annotator is excluded.
        verdict: the annotator's fault, in words; empty without a fault.
        model: whether the annotator is a model, which is measured by people's answers and gold
            pairs.
        probabilities: what the annotator's probabilities count as: `measurement`, `share` or
            `ignored`; `words` if measurements say nothing about the errors. Empty without
            probabilities.
    """

    name: str
    answers: int
    reliability: Measured | None
    side_bias: Measured | None
    agreement: float | None
    expected_agreement: float | None
    shared: int
    consistency: float | None
    expected_consistency: float | None
    repeats: int
    gold: Measured | None
    gold_answers: int
    skipped: int
    cant_say: int
    undone: int
    median_seconds: float | None
    too_fast: bool
    state: str
    reason: str | None
    verdict: str
    model: bool = False
    probabilities: str = ""


def annotator_reports(
    numbers: Mapping[str, int | None],
    judgements: Iterable[Judgement],
    posterior: Posterior,
    study: Study,
    *,
    features: bool = False,
) -> list[AnnotatorReport]:
    """Report on each annotator.

    Args:
        numbers: {name: number of the annotator in the posterior}; None for an annotator who is not
            in the posterior.
        judgements: all judgements, including undos, and judgements of excluded annotators.
        posterior: posterior of the scores, without the excluded annotators.
        study: present state of the study.
        features: whether items have features. Then answers about some items inform the scores of
            all items.

    Cost: three sorts of the judgements, and about 30 ms per excluded annotator with 400 answers.
    """
    table = Judgements.of(judgements)
    counted = table.without(study.excluded)
    votes = ByPair(Comparisons.of_table(table))
    with_others, with_self = _agreements(votes, posterior, len(table.annotators))
    gold = gold_targets(votes, study.gold_pairs())[votes.pair]
    reports = []
    for name, number in numbers.items():
        row = table.annotators.get(name, -1)
        rows = np.flatnonzero(table.by(name) & table.is_answer)
        replies = np.bincount(table.answer[table.by(name) & table.live], minlength=len(ANSWERS))
        reliability, side_bias = _reliability_and_bias(posterior, table, rows, number)
        if not _is_measurable(counted, name, table.items[rows], features=features):
            reliability = None
        of_gold = (votes.comparisons.annotator == row) & ~np.isnan(gold)
        n_gold = int(np.count_nonzero(of_gold))
        n_right = int((votes.for_low[of_gold] == gold[of_gold]).sum())  # a tie is never right
        gold_share = _share(n_right, n_gold) if n_gold else None
        is_model = name in study.models
        times = table.milliseconds[rows]
        times = times[times >= 0]  # below 0 if it was not measured
        median_seconds = float(np.median(times)) / 1000 if len(times) else np.inf
        too_fast = len(times) >= _ENOUGH_TIMES and median_seconds < TOO_FAST and not is_model
        agreement, expected_agreement, n_shared = _shares(with_others[row])
        consistency, expected_consistency, n_repeats = _shares(with_self[row])
        reports.append(
            AnnotatorReport(
                name=name,
                answers=len(rows),
                reliability=reliability,
                side_bias=side_bias,
                agreement=agreement,
                expected_agreement=expected_agreement,
                shared=n_shared,
                consistency=consistency,
                expected_consistency=expected_consistency,
                repeats=n_repeats,
                gold=gold_share,
                gold_answers=n_gold,
                skipped=int(replies[ANSWERS.index("skip")]),
                cant_say=int(replies[ANSWERS.index("cant-say")]),
                undone=int(replies[ANSWERS.index("undo")]),
                median_seconds=median_seconds if len(times) else None,
                too_fast=too_fast,
                state=study.state(name),
                reason=study.excluded[name].reason if name in study.excluded else None,
                verdict=_verdict(table, rows, reliability, gold_share, too_fast),
                model=is_model,
                probabilities=_probabilities(name, number, table.p[rows], posterior, study),
            )
        )
    return reports


def _is_measurable(counted: Judgements, name: str, items: I64, *, features: bool) -> bool:
    """Whether other annotators' answers tell about the items of an annotator's answers.

    With features, answers about some items inform the scores of all.
    """
    by_others = counted.is_answer & ~counted.by(name)
    if features:
        return bool(by_others.any())
    return bool(np.isin(items[items >= 0], counted.items[by_others]).any())


def _probabilities(
    name: str, number: int | None, p: F64, posterior: Posterior, study: Study
) -> str:
    """Tell how an annotator's probabilities are used, as `AnnotatorReport.probabilities` does.

    Args:
        name: name of the annotator.
        number: number of the annotator in the posterior; None if the posterior lacks the annotator.
        p: (m,) the annotator's probabilities, NaN for an answer without one.
        posterior: posterior of the scores.
        study: present state of the study.
    """
    if np.isnan(p).all():
        return ""
    kind = study.probabilities.get(name, "share")
    if kind == "measurement" and number is not None and posterior.annotators.in_words[number]:
        return "words"  # the fit found that the measurements say nothing
    return kind


def _verdict(
    table: Judgements,
    rows: I64,
    reliability: Measured | None,
    gold: Measured | None,
    too_fast: bool,
) -> str:
    """Name the annotator's first fault that the intervals show; an empty text without a fault.

    With fewer than 20 answers, only their lack is named. A value is below a bound only if its whole
    90 % interval is below it. For "inverted" and "answers at random" the interval must also start
    below a second bound.

    Args:
        table: the judgements.
        rows: the rows of the annotator's answers about the order.
        reliability: reliability of the annotator, if it is known.
        gold: share of right answers to gold pairs, if there are any.
        too_fast: whether half of the answers were too fast.
    """
    if not len(rows):
        return "no answers"
    if len(rows) < FEW:
        return "too few answers"
    of_two = rows[table.is_pair[rows] & (table.best[rows] >= 0)]
    is_left = table.best[of_two] == table.items[of_two, 0]
    for side, is_side in (("left", is_left), ("right", ~is_left)):
        if _share(int(is_side.sum()), len(is_side)).low > ONE_SIDE:
            return f"always {side}"
    if reliability is None:  # unknown, so no fault is shown: the bounds are above all limits
        c_low, c_high = np.inf, np.inf
    else:
        c_low, c_high = reliability.low, reliability.high
    faults = {
        "inverted": c_high < 0 and c_low < INVERTED,
        "answers at random": c_high < BELOW and c_low < RANDOM,
        "unreliable": c_high < UNRELIABLE,
        "wrong on gold pairs": gold is not None and gold.high < HALF,
        "too fast": too_fast,
        BELOW_AVERAGE: c_high < BELOW,
    }
    return next((fault for fault, is_shown in faults.items() if is_shown), "")


def _reliability_and_bias(
    posterior: Posterior, table: Judgements, rows: I64, number: int | None
) -> tuple[Measured | None, Measured | None]:
    """Return the reliability c and the side bias b of one annotator, with 90 % intervals.

    Both are None without answers of the annotator.

    Args:
        posterior: posterior of the scores.
        table: the judgements.
        rows: rows of the annotator's answers.
        number: number of the annotator in the posterior. If None, the posterior lacks the
            annotator. Then c and b are estimated from the newest 400 answers.
    """
    if not len(rows):
        return None, None
    answers = Answers.of_table(table, rows[-_MOST_ANSWERS:])
    annotator, bias_sd = measured_annotator(answers, posterior, number)
    ((reliability, low, high, bias),) = np.column_stack(
        (annotator.reliability, annotator.low, annotator.high, annotator.bias)
    ).tolist()
    half_width = bias_sd * float(ndtri(_QUANTILES[1]))
    return Measured(reliability, low, high), Measured(bias, bias - half_width, bias + half_width)


def _share(k: int, n: int) -> Measured:
    """Return the share k / n with a 90 % interval, by Jeffreys' prior for a binomial share.

    If n is 0, the share is ½ and the interval is from 0 to 1.

    >>> _share(9, 10)  # doctest: +ELLIPSIS
    Measured(value=0.9, low=0.6..., high=0.98...)
    """
    if not n:
        return Measured(0.5, 0.0, 1.0)
    low, high = betaincinv(k + 0.5, n - k + 0.5, _QUANTILES).tolist()
    return Measured(k / n, low, high)


def _shares(totals: F64) -> tuple[float | None, float | None, int]:
    """Return the share that is the same, and the share that is expected to be, and their number.

    Args:
        totals: (3,) the numbers of other answers, of the same ones, and of expected ones.
    """
    n, n_same, n_expected = totals.tolist()
    return (n_same / n, n_expected / n, round(n)) if n else (None, None, 0)


def _agreements(votes: ByPair, posterior: Posterior, n_annotators: int) -> tuple[F64, F64]:
    """Count how often an annotator's answers agree with other annotators and with earlier answers.

    Suppose l answers of an annotator to a pair prefer the lower item number and h answers the
    higher, and L and H answers of other annotators do. Then (l + h) (L + H) times two answers are
    compared, and l L + h H times both are the same. Two average annotators give the same answer
    with the probability E[p^2 + (1 - p)^2], p = Φ(s_i - s_j), an integral tabulated by Owen (1956).

    Returns:
        Counts of compared, same, and expected same answers: with other annotators, and with the
        annotator's own first answers, (annotators + 1, 3) each; the last row is 0.
    """
    mean, variance = posterior.difference(votes.low, votes.high)
    expected = 1 - 4 * owens_t(mean / np.sqrt(1 + variance), 1 / np.sqrt(1 + 2 * variance))
    part = votes.comparisons.part
    counts = votes.counts[:, :2]
    counts_of_others = votes.others(counts)
    n_shared = part[votes.first] * counts.sum(axis=1) * counts_of_others.sum(axis=1)
    n_same = part[votes.first] * (counts * counts_of_others).sum(axis=1)
    repeated, is_same = votes.repeated()

    def totals(rows: I64, n: F64, n_same: F64) -> F64:
        """Add up compared, same, and expected same answers for each annotator of the rows."""
        annotator = votes.comparisons.annotator[rows]
        sums = np.zeros((n_annotators + 1, 3))
        columns = np.column_stack((n, n_same, n * expected[votes.pair[rows]]))
        np.add.at(sums, annotator, columns)
        return sums

    with_self = totals(repeated, part[repeated], part[repeated] * is_same)
    return totals(votes.first, n_shared, n_same), with_self


@dataclass(frozen=True)
class Calibration:
    """An annotator's probabilities beside the known answers, or else other annotators' answers.

    Attributes:
        answers: the number of answers with a probability that something is known about.
        said: the mean probability that the answers give to the item that they prefer.
        right: the share of the known answers that prefer this item.
        brier: the mean of (said - right)^2 over the answers; 0 is perfect, a quarter is a coin.
        curve: (said, right, answers) of the answers in each range of the probability.
    """

    answers: int
    said: float
    right: float
    brier: float
    curve: list[tuple[float, float, int]]


def calibration(
    judgements: Iterable[Judgement], annotator: str, gold: Collection[Pair] = ()
) -> Calibration | None:
    """Compare an annotator's probabilities with gold pairs, and elsewhere with others' answers.

    Ties and answers about more than two items are left out. None without answers to compare.

    Args:
        judgements: the judgements of all annotators.
        annotator: the name of the annotator.
        gold: pairs (better, worse) whose order is known.

    Cost: two sorts of the judgements.

    >>> by_model = Judgement.of("model", (0, 1), "left", p=0.75)  # prefers item 0, and is 75 % sure
    >>> by_ana = Judgement.of("ana", (1, 0), "left")  # prefers item 1
    >>> calibration([by_model, by_ana], "model").brier
    0.5625
    """
    table = Judgements.of(judgements)
    votes = ByPair(Comparisons.of_table(table))
    comparisons = votes.comparisons
    n_low, n_high, _ = votes.others(votes.counts)[votes.group].T  # by other annotators
    p_low = n_low / np.maximum(n_low + n_high, 1)
    gold_low = gold_targets(votes, gold)[votes.pair]
    p_low = np.where(np.isnan(gold_low), p_low, gold_low)
    p_left = table.p[comparisons.row]
    is_known = (n_low + n_high > 0) | ~np.isnan(gold_low)
    is_own = comparisons.annotator == table.annotators.get(annotator, -1)
    is_compared = is_own & is_known & ~np.isnan(p_left) & (comparisons.target != 0.5)
    if not is_compared.any():
        return None
    p_said = np.where(comparisons.target == 1, p_left, 1 - p_left)[is_compared]
    is_right = np.where(votes.for_low == 1, p_low, 1 - p_low)[is_compared]
    brier = is_right * (1 - p_said) ** 2 + (1 - is_right) * p_said**2
    bins = np.searchsorted(EDGES[1:-1], p_said, side="right")
    curve = []
    for k in np.unique(bins):
        is_in_bin = bins == k
        mean_said = float(p_said[is_in_bin].mean())
        mean_right = float(is_right[is_in_bin].mean())
        curve.append((mean_said, mean_right, int(is_in_bin.sum())))
    return Calibration(
        answers=len(p_said),
        said=float(p_said.mean()),
        right=float(is_right.mean()),
        brier=float(brier.mean()),
        curve=curve,
    )
