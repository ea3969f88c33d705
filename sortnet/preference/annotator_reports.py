"""Report on each annotator: reliability, side bias, agreement, gold score, a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri

from sortnet.core import F64, I64, Bool
from sortnet.preference.annotator_agreement import counted
from sortnet.preference.answers import Answers
from sortnet.preference.base import ANSWERS, Judgement
from sortnet.preference.hyperparameters import measured_annotator
from sortnet.preference.intervals import LEVEL
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.model import Posterior
from sortnet.preference.shared_votes import SharedVotes
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
_PAIRS_AT_ONCE = 100_000
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)  # for expectations over a normal value


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

    Cost: a sort of the judgements, and about 30 ms per excluded annotator with 400 answers or more.
    """
    counts = _Counts(Judgements.of(judgements), posterior, study, features)
    return [_report(name, number, counts, posterior, study) for name, number in numbers.items()]


class _Counts:
    """Counts of the judgements by annotator.

    Arrays have a rows: one row for each annotator, and a last row of zeros for unknown annotators.

    Attributes:
        table: the judgements.
        answer_rows: for each annotator, the rows in the table of the answers about the order.
        replies: (a, r) number of replies of each kind; the columns are in the order of `ANSWERS`.
        shared: comparisons with the other annotators' answers to the same pairs.
        repeats: comparisons of repeated answers with the annotator's own first answers.
        gold: (a,) number of answers to gold pairs.
        right: (a,) number of answers to gold pairs that are right.
        is_informed: (a,) whether answers of other annotators, who are not excluded, say something
            about the items that the annotator has compared.
    """

    def __init__(
        self, table: Judgements, posterior: Posterior, study: Study, features: bool
    ) -> None:
        """Count the judgements.

        Args:
            table: the judgements.
            posterior: posterior of the scores.
            study: present state of the study.
            features: whether items have features.
        """
        n_annotators = int(table.annotator.max(initial=-1)) + 1
        n = n_annotators + 1  # with the row of zeros
        votes = SharedVotes.of(table, sets=True)
        self.table = table
        self.answer_rows = _answer_rows_by_annotator(table, n)
        self.replies = _count_replies(table, n)
        self.shared, self.repeats = _agreements(votes, posterior, n)
        self.gold, self.right = _count_gold_answers(votes, study, n)
        self.is_informed = _is_informed(table, n, study, features)

    def row(self, name: str) -> int:
        """Return an annotator's row in the arrays; for an unknown name, the last row, of zeros."""
        last_row = len(self.answer_rows) - 1
        number = self.table.annotators.get(name, last_row)
        # The table may share its numbers of names with a larger table, so the number of an
        # annotator without judgements may be above the last row.
        return min(number, last_row)


def _answer_rows_by_annotator(table: Judgements, n: int) -> list[I64]:
    """List the rows of each annotator's answers about the order, oldest first.

    Args:
        table: the judgements.
        n: number of annotators.
    """
    rows = np.flatnonzero(table.is_answer)
    by_annotator = rows[np.argsort(table.annotator[rows], kind="stable")]
    starts_of_later_annotators = np.searchsorted(table.annotator[by_annotator], np.arange(1, n))
    return np.split(by_annotator, starts_of_later_annotators)


def _count_replies(table: Judgements, n: int) -> I64:
    """Count each annotator's replies of each kind, without undone replies.

    Args:
        table: the judgements.
        n: number of annotators.

    Returns:
        (n, r) the counts; the columns are in the order of `ANSWERS`.
    """
    shape = n, len(ANSWERS)
    # The index of each judgement's count in the flattened array of counts.
    cell = np.ravel_multi_index((table.annotator, table.answer), shape)
    return np.bincount(cell[table.live], minlength=n * len(ANSWERS)).reshape(shape)


class _Agreements(NamedTuple):
    """Comparisons of each annotator's answers with other answers to the same pair of items.

    Ties are left out. All three attributes have one row per annotator.

    Attributes:
        compared: (a,) number of comparisons.
        same: (a,) number of comparisons in which both answers prefer the same item.
        expected_same: (a,) expected number of such comparisons, if average annotators answer.
    """

    compared: F64
    same: F64
    expected_same: F64

    @classmethod
    def summed(
        cls, annotator: I64, *, compared: F64, same: F64, expected_share: F64, n: int
    ) -> _Agreements:
        """Sum the comparisons of each annotator's answers.

        Args:
            annotator: (m,) number of the annotator of each answer.
            compared: (m,) number of other answers that the answer is compared with.
            same: (m,) number of other answers that prefer the same item.
            expected_share: (m,) share of other answers that are expected to prefer the same item.
            n: number of annotators.
        """
        return cls(
            _sum_by_annotator(annotator, compared, n),
            _sum_by_annotator(annotator, same, n),
            _sum_by_annotator(annotator, compared * expected_share, n),
        )

    def share(self, row: int) -> float | None:
        """Return the share of an annotator's comparisons whose two answers prefer the same item.

        None without comparisons.
        """
        if not self.compared[row]:
            return None
        return float(self.same[row] / self.compared[row])

    def expected_share(self, row: int) -> float | None:
        """Return the expected value of `share`, if average annotators answer.

        None without comparisons.
        """
        if not self.compared[row]:
            return None
        return float(self.expected_same[row] / self.compared[row])


def _report(
    name: str, number: int | None, counts: _Counts, posterior: Posterior, study: Study
) -> AnnotatorReport:
    """Report on one annotator.

    Args:
        name: name of the annotator.
        number: number of the annotator in the posterior; None if the posterior lacks the annotator.
        counts: the counts of all judgements.
        posterior: posterior of the scores.
        study: present state of the study.
    """
    table = counts.table
    row = counts.row(name)
    answer_rows = counts.answer_rows[row]
    reliability, side_bias = _reliability_and_bias(posterior, table, answer_rows, number)
    if not counts.is_informed[row]:
        reliability = None  # no other annotator's answers tell about the items
    n_gold = int(counts.gold[row])
    gold = _share(int(counts.right[row]), n_gold) if n_gold else None
    is_model = name in study.models
    median_seconds, is_fast = _answer_speed(table.milliseconds[answer_rows])
    too_fast = is_fast and not is_model  # a model reads a question at once
    exclusion = study.excluded.get(name)
    n_replies = dict(zip(ANSWERS, counts.replies[row].tolist(), strict=True))
    return AnnotatorReport(
        name=name,
        answers=len(answer_rows),
        reliability=reliability,
        side_bias=side_bias,
        agreement=counts.shared.share(row),
        expected_agreement=counts.shared.expected_share(row),
        shared=round(counts.shared.compared[row]),
        consistency=counts.repeats.share(row),
        expected_consistency=counts.repeats.expected_share(row),
        repeats=round(counts.repeats.compared[row]),
        gold=gold,
        gold_answers=n_gold,
        skipped=n_replies["skip"],
        cant_say=n_replies["cant-say"],
        undone=n_replies["undo"],
        median_seconds=median_seconds,
        too_fast=too_fast,
        state=study.state(name),
        reason=None if exclusion is None else exclusion.reason,
        verdict=_verdict(len(answer_rows), _sides(table, answer_rows), reliability, gold, too_fast),
        model=is_model,
        probabilities=_probabilities(name, number, table.p[answer_rows], posterior, study),
    )


def _answer_speed(milliseconds: I64) -> tuple[float | None, bool]:
    """Compute the median time of an annotator's answers, and whether it is too short to read.

    Args:
        milliseconds: (m,) the time of each answer; -1 if it was not measured.

    Returns:
        The median in seconds, None without measured times; and whether it is too short, false with
        fewer than 5 measured times.
    """
    measured_times = milliseconds[milliseconds >= 0]
    if not len(measured_times):
        return None, False
    median_seconds = float(np.median(measured_times)) / 1000
    is_too_short = len(measured_times) >= _ENOUGH_TIMES and median_seconds < TOO_FAST
    return median_seconds, is_too_short


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


def _sides(table: Judgements, rows: I64) -> dict[str, int]:
    """Count the answers about two items whose best item is in the left or the right place."""
    rows = rows[table.is_pair[rows] & (table.best[rows] >= 0)]
    n_left = int(np.count_nonzero(table.best[rows] == table.items[rows, 0]))
    return {"left": n_left, "right": len(rows) - n_left}


def _verdict(
    n_answers: int,
    n_sides: Mapping[str, int],
    reliability: Measured | None,
    gold: Measured | None,
    too_fast: bool,
) -> str:
    """Name the annotator's first fault that the intervals show; an empty text without a fault.

    With fewer than 20 answers, only their lack is named. A value is below a bound only if its whole
    90 % interval is below it. For "inverted" and "answers at random" the interval must also start
    below a second bound.

    Args:
        n_answers: number of answers about the order.
        n_sides: {place: number of answers about two items whose best item is in this place}.
        reliability: reliability of the annotator, if it is known.
        gold: share of right answers to gold pairs, if there are any.
        too_fast: whether half of the answers were too fast.
    """
    if not n_answers:
        return "no answers"
    if n_answers < FEW:
        return "too few answers"
    for side, n_side in n_sides.items():
        if _share(n_side, sum(n_sides.values())).low > ONE_SIDE:
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
    measured = measured_annotator(answers, posterior, number)
    reliability = Measured(measured.value, measured.low, measured.high)
    side_bias = _with_normal_interval(measured.bias, measured.bias_sd)
    return reliability, side_bias


def _with_normal_interval(mean: float, sd: float) -> Measured:
    """Return the mean of a normal distribution, with the central 90 % interval."""
    low, high = (mean + sd * ndtri(quantile) for quantile in _QUANTILES)
    return Measured(float(mean), float(low), float(high))


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


def _agreements(
    votes: SharedVotes, posterior: Posterior, n: int
) -> tuple[_Agreements, _Agreements]:
    """Compare each annotator's answers with other annotators' and with their own earlier answers.

    Args:
        votes: all votes, sorted by pair, annotator and time.
        posterior: posterior of the scores.
        n: number of annotators.

    Returns:
        The comparisons with other annotators' answers, and the comparisons of repeated answers with
        the same annotator's first answers.
    """
    pair = votes.pair[votes.first]
    n_shared, n_same = _comparisons_with_others(votes)
    repeated_votes, first_votes = votes.repeated()
    compared_pairs = np.union1d(pair[n_shared > 0], votes.pair[repeated_votes])
    expected_share = _expected_agreement(votes, posterior, compared_pairs)
    shared = _Agreements.summed(
        votes.annotator[votes.first],
        compared=n_shared,
        same=n_same,
        expected_share=expected_share[pair],
        n=n,
    )
    weight = votes.weight[repeated_votes]
    is_same = votes.better[repeated_votes] == votes.better[first_votes]
    repeats = _Agreements.summed(
        votes.annotator[repeated_votes],
        compared=weight,
        same=weight * is_same,
        expected_share=expected_share[votes.pair[repeated_votes]],
        n=n,
    )
    return shared, repeats


def _comparisons_with_others(votes: SharedVotes) -> tuple[F64, F64]:
    """Compare each annotator's answers to a pair with other annotators' answers to the pair.

    For each combination of a pair and an annotator, let l and h be the numbers of the annotator's
    answers for the item with the lower and with the higher number, L and H the numbers of the other
    annotators' answers, and w the weight:

        number of comparisons = w (l + h) (L + H)
        number of comparisons in which both prefer the same item = w (l L + h H)

    The weight is 1, or 1 / n if n comparisons follow from the same answer about a set.

    Returns:
        Both numbers for each combination, in the order of the votes that `votes.first` marks.
    """
    combination = np.cumsum(votes.first) - 1  # of each vote, numbered from 0
    pair = votes.pair[votes.first]  # of each combination
    # The first two columns count answers for the item with the lower number, and answers for the
    # item with the higher number. Ties, in the third column, are left out.
    own = counted(combination, votes.better)[:, :2]
    counts_of_pair = counted(votes.pair, votes.better)[:, :2]
    others = counts_of_pair[pair] - own
    weight = votes.weight[votes.first]
    n_compared = weight * own.sum(axis=1) * others.sum(axis=1)
    n_same = weight * (own * others).sum(axis=1)
    return n_compared, n_same


def _expected_agreement(votes: SharedVotes, posterior: Posterior, pairs: I64) -> F64:
    """Compute the probability that two average annotators give the same answer about a pair.

    The probability is E[p² + (1 - p)²] with p = Φ(s_i - s_j), where the expectation is over the
    scores s of the two items. It is computed by Gauss-Hermite quadrature.

    Args:
        votes: all votes.
        posterior: posterior of the scores.
        pairs: numbers of the pairs whose probability is computed.

    Returns:
        (p,) the probability for each pair of the votes; 0 for pairs that are not in `pairs`.
    """
    expected = np.zeros(len(votes.starts))
    n_blocks = len(pairs) // _PAIRS_AT_ONCE + 1  # to save memory
    for block in np.array_split(pairs, n_blocks):
        starts = votes.starts[block]
        mean, variance = posterior.difference(votes.low[starts], votes.high[starts])
        # The differences of scores at which the probability is evaluated, (pairs, nodes).
        difference = mean[:, None] + np.sqrt(variance)[:, None] * _NODES
        p = ndtr(difference)
        expected[block] = (p**2 + (1 - p) ** 2) @ _WEIGHTS / _WEIGHTS.sum()
    return expected


def _count_gold_answers(votes: SharedVotes, study: Study, n: int) -> tuple[F64, F64]:
    """Count each annotator's answers to gold pairs, and the answers that are right.

    Args:
        votes: all votes.
        study: present state of the study, which has the gold pairs.
        n: number of annotators.

    Returns:
        (n,) the number of answers to gold pairs, (n,) the number of right answers.
    """
    better_item = _better_of_gold(votes, study)
    is_gold = better_item >= 0
    # `votes.better` is 1 for the item with the lower number. It is ½ for a tie, which is never
    # right.
    right_vote = np.where(better_item == votes.low, 1.0, 0.0)
    is_right = is_gold & (votes.better == right_vote)
    n_gold = _sum_by_annotator(votes.annotator, is_gold, n)
    n_right = _sum_by_annotator(votes.annotator, is_right, n)
    return n_gold, n_right


def _better_of_gold(votes: SharedVotes, study: Study) -> I64:
    """Look up the better item of the gold pair that each vote is about.

    Returns:
        (m,) the number of the better item; -1 if the vote is not about a gold pair.
    """
    better_item_of = {pair: decision.item for pair, decision in study.gold.items()}
    gold_pairs = np.array([*better_item_of], np.int64).reshape(-1, 2)
    # Few votes are about gold pairs, so only votes with items of gold pairs are looked up.
    may_be_gold = np.isin(votes.low, gold_pairs[:, 0]) & np.isin(votes.high, gold_pairs[:, 1])
    rows = np.flatnonzero(may_be_gold)
    pairs = zip(votes.low[rows].tolist(), votes.high[rows].tolist(), strict=True)
    better_item = np.full(len(votes.rows), -1)
    better_item[rows] = [better_item_of.get(pair, -1) for pair in pairs]
    return better_item


def _is_informed(table: Judgements, n: int, study: Study, features: bool) -> Bool:
    """Find the annotators who share an item with another annotator, who is not excluded.

    Args:
        table: the judgements.
        n: number of annotators.
        study: present state of the study.
        features: whether items have features. Then an answer about any item counts.

    Returns:
        (n,) whether another annotator has answered about one of the annotator's items.
    """
    rows = np.flatnonzero(table.is_answer)
    items = table.items[rows]
    answer, place = np.nonzero(items >= 0)  # -1 is an empty place
    item = items[answer, place]
    annotator = table.annotator[rows[answer]]
    if features:
        item = np.zeros_like(item)  # as if all answers were about the same item
    excluded_numbers = [table.annotators.get(name, -1) for name in study.excluded]
    is_counted = ~np.isin(annotator, excluded_numbers)
    has_other = _has_other_annotator(item, annotator, is_counted, n)
    is_informed: Bool = np.bincount(annotator, has_other, n) > 0
    return is_informed


def _has_other_annotator(item: I64, annotator: I64, is_counted: Bool, n: int) -> Bool:
    """Tell for each pair of an item and an annotator whether another annotator has the item, too.

    Args:
        item: (m,) the items that are answered about.
        annotator: (m,) the annotator who answers about each item.
        is_counted: (m,) whether the annotator counts as another annotator.
        n: number of annotators.

    Returns:
        (m,) whether another annotator, who counts, has answered about the item.
    """
    # Another annotator has a lower or a higher number. So it is enough to know the lowest and the
    # highest number of the annotators who count and have answered about each item.
    n_items = item.max(initial=0) + 1
    lowest = np.full(n_items, n)
    highest = np.full(n_items, -1)
    np.minimum.at(lowest, item[is_counted], annotator[is_counted])
    np.maximum.at(highest, item[is_counted], annotator[is_counted])
    has_other: Bool = (lowest[item] < annotator) | (highest[item] > annotator)
    return has_other


def _sum_by_annotator(annotator: I64, values: F64 | Bool, n: int) -> F64:
    """Sum the values of each annotator.

    Args:
        annotator: (m,) the number of the annotator of each value.
        values: (m,) the values.
        n: number of annotators.

    Returns:
        (n,) the sums.
    """
    return np.asarray(np.bincount(annotator, values, n), np.float64)
