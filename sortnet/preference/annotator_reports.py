"""Reports on annotators: reliability, side bias, agreement, gold score, a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri

from sortnet.core import F64, I64, Bool
from sortnet.preference.annotator_agreement import counted
from sortnet.preference.base import ANSWERS, Judgement
from sortnet.preference.intervals import LEVEL
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.posterior import Posterior
from sortnet.preference.reliability import Annotators, reliabilities
from sortnet.preference.shared_votes import SharedVotes
from sortnet.preference.study import Study
from sortnet.preference.vote_arrays import Votes

FEW = 20  # with fewer answers there is no verdict on an annotator
TOO_FAST = 0.7  # seconds; if half of the answers are faster, they can hardly have read
_ENOUGH_TIMES = 5  # measured times needed to say "too fast"
# Bounds of the verdicts. Each compares the end of an interval that is in the annotator's favour.
ONE_SIDE = 0.8  # the share of one side is above it: "always left" or "always right"
INVERTED = -0.5  # reliability is below 0, and its interval begins below this: "inverted"
UNRELIABLE = 0.5  # reliability is below it: "unreliable"
BELOW = 0.95  # reliability is below it: "below average: counts less", which is no fault
RANDOM = 0.2  # and its interval also begins below this: "answers at random"
BELOW_AVERAGE = "below average: counts less"
FINE = ("", "no answers", "too few answers", "too fast", BELOW_AVERAGE)  # a program may be fast
HALF = 0.5  # the gold score is below it: "wrong on gold pairs"
_EDGES = np.array([(1 - LEVEL) / 2, (1 + LEVEL) / 2])
_MOST_ANSWERS = 400  # of an annotator, the newest, to estimate the reliability from
_PAIRS_AT_ONCE = 100_000
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)


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
        reliability: c in Φ(c (s_left - s_right) + b): 1 for the average annotator, 0 for coin
            tosses, negative if the worse item is preferred. None without an answer, and while
            no answer of others says anything about the items.
        side_bias: b, positive towards the left.
        agreement: share of others' answers to the same pairs that agree; None without such answers.
        expected_agreement: the share if both were average annotators: even reliable people differ
            on pairs of close items.
        shared: number of others' answers to the same pairs.
        consistency, expected_consistency, repeats: as the three before, for the annotator's own
            answers to pairs that were asked again.
        gold, gold_answers: share of gold pairs answered right, None without gold answers; number of
            gold answers.
        skipped, cant_say, undone: number of skips, can't-says and undos.
        median_seconds: median time from showing a question to its answer.
        too_fast: whether half of a person's answers took less than 0.7 seconds.
        state, reason: `active`, `excluded`, `paused` or `revoked`; the reason of the exclusion.
        verdict: the annotator's fault, in words; empty without a fault.
        model: whether it is a model, which is measured by people's answers and gold pairs.
        probabilities: what the annotator's probabilities count as: `measurement`, `share`,
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
    """One report per annotator.

    Args:
        numbers: {name: number in the posterior}, None for annotators who are not in it.
        judgements: all judgements, including undos, and judgements of excluded annotators.
        posterior: posterior of the scores, without the excluded annotators.
        study: present state of the study.
        features: whether items have features: then answers about some items inform the scores of
            all items.

    Cost: a sort of the judgements, and about 30 ms per excluded annotator with 400 answers or more.
    """
    counts = _Counts(Judgements.of(judgements), posterior, study, features)
    return [_report(name, number, counts, posterior, study) for name, number in numbers.items()]


class _Counts:
    """Counts of the judgements by annotator; the last row is zero, for names without judgements.

    Attributes:
        table: the judgements.
        votes: the rows of each annotator's answers about the order.
        replies: (a, r) number of each answer.
        shared, repeats: (a,) pairs answered by others, too, and pairs answered again.
        gold: (a,) number of answers to gold pairs.
        right: (a,) number of answers to gold pairs that are right.
        is_informed: (a,) whether others' answers that count say something about the items.
    """

    def __init__(
        self, table: Judgements, posterior: Posterior, study: Study, features: bool
    ) -> None:
        n = int(table.annotator.max(initial=-1)) + 2
        self.table = table
        rows = np.flatnonzero(table.is_answer)
        rows = rows[np.argsort(table.annotator[rows], kind="stable")]
        self.votes = np.split(rows, np.searchsorted(table.annotator[rows], np.arange(1, n)))
        reply = len(ANSWERS) * table.annotator + table.answer
        replies = np.bincount(reply[table.live], minlength=len(ANSWERS) * n)
        self.replies = replies.reshape(n, len(ANSWERS))
        votes = SharedVotes.of(table, sets=True)
        self.shared, self.repeats = _agreements(votes, posterior, n)
        better = _better_of_gold(votes, study)
        is_gold = better >= 0
        is_right = is_gold & (votes.better == (better == votes.low))
        self.gold = _summed(votes.annotator, is_gold, n)
        self.right = _summed(votes.annotator, is_right, n)
        self.is_informed = _is_informed(table, rows, n, study, features)

    def row(self, name: str) -> int:
        """The row of an annotator in all counts; the last row, of zeros, for an unknown name."""
        last_row = len(self.votes) - 1
        return min(self.table.annotators.get(name, last_row), last_row)


class _Agreements(NamedTuple):
    """(a,) numbers of an annotator's pairs of answers to the same pair of items, without ties.

    Attributes:
        compared: all pairs of answers.
        same: pairs of equal answers.
        expected_same: the expected number of pairs of equal answers, if average annotators answer.
    """

    compared: F64
    same: F64
    expected_same: F64

    @classmethod
    def summed(cls, annotator: I64, compared: F64, same: F64, expected: F64, n: int) -> _Agreements:
        """Sums over the answers of each of n annotators.

        Args:
            annotator: (m,) who gave each answer.
            compared, same: (m,) numbers of other answers that each is compared with, and equals.
            expected: (m,) the expected share of equal answers.
            n: number of annotators.
        """
        return cls(
            _summed(annotator, compared, n),
            _summed(annotator, same, n),
            _summed(annotator, compared * expected, n),
        )

    def share(self, row: int) -> float | None:
        """The share of equal answers of an annotator; None if there are no pairs of answers."""
        return float(self.same[row] / self.compared[row]) if self.compared[row] else None

    def expected_share(self, row: int) -> float | None:
        """The share of equal answers that is expected of average annotators; None without pairs."""
        return float(self.expected_same[row] / self.compared[row]) if self.compared[row] else None


def _report(
    name: str, number: int | None, counts: _Counts, posterior: Posterior, study: Study
) -> AnnotatorReport:
    table = counts.table
    row = counts.row(name)
    votes = counts.votes[row]
    reliability: Measured | None = None
    side_bias: Measured | None = None
    if len(votes):
        reliability, side_bias = _reliability_and_bias(posterior, table, votes, number)
    if not counts.is_informed[row]:
        reliability = None
    n_gold = int(counts.gold[row])
    gold = _share(int(counts.right[row]), n_gold) if n_gold else None
    times = table.milliseconds[votes]
    times = times[times >= 0]
    median_seconds = float(np.median(times)) / 1000 if len(times) else None
    is_model = name in study.models
    too_fast = (
        not is_model
        and median_seconds is not None
        and median_seconds < TOO_FAST
        and len(times) >= _ENOUGH_TIMES
    )
    excluded = study.excluded.get(name)
    replies = dict(zip(ANSWERS, counts.replies[row].tolist(), strict=True))
    return AnnotatorReport(
        name=name,
        answers=len(votes),
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
        skipped=replies["skip"],
        cant_say=replies["cant-say"],
        undone=replies["undo"],
        median_seconds=median_seconds,
        too_fast=too_fast,
        state=study.state(name),
        reason=None if excluded is None else excluded.reason,
        verdict=_verdict(replies, reliability, gold, too_fast),
        model=is_model,
        probabilities=_probabilities(name, number, table.p[votes], posterior, study),
    )


def _probabilities(
    name: str, number: int | None, p: F64, posterior: Posterior, study: Study
) -> str:
    """The field `probabilities` of a report, given the annotator's probabilities, NaN for none."""
    if np.isnan(p).all():
        return ""
    kind = study.probabilities.get(name, "share")
    says_nothing = number is not None and posterior.annotators.scale[number] == 0
    return "words" if kind == "measurement" and says_nothing else kind


def _verdict(
    replies: Mapping[str, int], reliability: Measured | None, gold: Measured | None, too_fast: bool
) -> str:
    """The first fault that the intervals show; empty without a fault."""
    decided = replies["left"] + replies["right"]
    answers = decided + replies["tie"] + replies["best"] + replies["same"]
    if not answers:
        return "no answers"
    if answers < FEW:
        return "too few answers"
    for side in ("left", "right"):
        if _share(replies[side], decided).low > ONE_SIDE:
            return f"always {side}"
    c = reliability or Measured(1, np.inf, np.inf)
    faults = {
        "inverted": c.high < 0 and c.low < INVERTED,
        "answers at random": c.high < BELOW and c.low < RANDOM,
        "unreliable": c.high < UNRELIABLE,
        "wrong on gold pairs": gold is not None and gold.high < HALF,
        "too fast": too_fast,
        BELOW_AVERAGE: c.high < BELOW,
    }
    return next((fault for fault, is_shown in faults.items() if is_shown), "")


def _reliability_and_bias(
    posterior: Posterior, table: Judgements, rows: I64, number: int | None
) -> tuple[Measured, Measured]:
    """Reliability c and side bias b of one annotator, by the posterior.

    An annotator who is not in the posterior is measured by its scores.

    Args:
        posterior: posterior of the scores.
        table: the judgements.
        rows: rows of the annotator's answers.
        number: the annotator's number in the posterior; None if the posterior lacks the annotator.
    """
    annotators = posterior.annotators
    if number is None:
        votes = _votes_of_one(table, rows[-_MOST_ANSWERS:])
        mean, variance = posterior.difference(votes.left, votes.right)
        annotators = reliabilities(
            Annotators.average(1),
            mean,
            variance,
            np.zeros(len(votes)),
            votes,
            posterior.tie,
            posterior.ties,
        )
        number = 0
    return (
        _normal(annotators.reliability[number], annotators.reliability_sd[number]),
        _normal(annotators.side[number], annotators.side_sd[number]),
    )


def _votes_of_one(table: Judgements, rows: I64) -> Votes:
    """The answers in these rows as votes of one annotator, who has number 0."""
    is_set = table.is_set[rows]
    pairs = rows[~is_set]
    votes = Votes.of_one(table.left[pairs], table.right[pairs], table.targets(pairs))
    if not is_set.any():
        return votes
    votes = votes.with_sets(table, rows[is_set])
    return replace(votes, annotator=np.zeros(len(votes), np.int64))


def _normal(mean: float, sd: float) -> Measured:
    """The mean of a normal distribution with the interval."""
    low, high = (mean + sd * ndtri(edge) for edge in _EDGES)
    return Measured(float(mean), float(low), float(high))


def _share(k: int, n: int) -> Measured:
    """A share k / n with the interval of Jeffreys' prior; ½ from 0 to 1 if n is 0.

    >>> _share(9, 10)  # doctest: +ELLIPSIS
    Measured(value=0.9, low=0.6..., high=0.98...)
    """
    if not n:
        return Measured(0.5, 0.0, 1.0)
    low, high = betaincinv(k + 0.5, n - k + 0.5, _EDGES).tolist()
    return Measured(k / n, low, high)


def _agreements(
    votes: SharedVotes, posterior: Posterior, n: int
) -> tuple[_Agreements, _Agreements]:
    """The agreement of each of n annotators with others, and with their own first answers."""
    first = votes.first  # of a pair and an annotator
    pair = votes.pair[first]
    own = counted(np.cumsum(first) - 1, votes.better)[:, :2]
    others = counted(votes.pair, votes.better)[pair, :2] - own
    # The pairs of an answer about a set count for one answer together.
    weight = votes.weight[first]
    n_shared = weight * own.sum(axis=1) * others.sum(axis=1)
    n_same = weight * (own * others).sum(axis=1)
    again, before = votes.repeated()
    n_repeats = votes.weight[again]
    is_repeated = votes.better[again] == votes.better[before]
    pairs = np.union1d(pair[n_shared > 0], votes.pair[again])
    expected = _expected_agreement(votes, posterior, pairs)
    shared = _Agreements.summed(votes.annotator[first], n_shared, n_same, expected[pair], n)
    repeats = _Agreements.summed(
        votes.annotator[again],
        n_repeats,
        n_repeats * is_repeated,
        expected[votes.pair[again]],
        n,
    )
    return shared, repeats


def _expected_agreement(votes: SharedVotes, posterior: Posterior, pairs: I64) -> F64:
    """(p,) the probability that two answers to a pair are the same; 0 except for `pairs`.

    It is E[p² + (1 - p)²] with p = Φ(s_i - s_j).
    """
    expected = np.zeros(len(votes.starts))
    for block in np.array_split(pairs, len(pairs) // _PAIRS_AT_ONCE + 1):
        starts = votes.starts[block]
        mean, variance = posterior.difference(votes.low[starts], votes.high[starts])
        p = ndtr(mean[:, None] + np.sqrt(variance)[:, None] * _NODES)
        expected[block] = (p**2 + (1 - p) ** 2) @ _WEIGHTS / _WEIGHTS.sum()
    return expected


def _better_of_gold(votes: SharedVotes, study: Study) -> I64:
    """(m,) the better item of the gold pair that each vote is about; -1 if the pair is not gold."""
    better_of_pair = {pair: decision.item for pair, decision in study.gold.items()}
    gold = np.array([*better_of_pair], np.int64).reshape(-1, 2)
    may_be_gold = np.isin(votes.low, gold[:, 0]) & np.isin(votes.high, gold[:, 1])
    rows = np.flatnonzero(may_be_gold)
    pairs = zip(votes.low[rows].tolist(), votes.high[rows].tolist(), strict=True)
    better = np.full(len(votes.rows), -1)
    better[rows] = [better_of_pair.get(pair, -1) for pair in pairs]
    return better


def _is_informed(table: Judgements, rows: I64, n: int, study: Study, features: bool) -> Bool:
    """(n,) whether another annotator, not excluded, has answered about an annotator's items.

    With features any such answer informs. `rows` are the answers about the order.
    """
    items = table.items(rows)
    is_item = items >= 0
    annotator = np.repeat(table.annotator[rows], is_item.sum(axis=1))
    item = items[is_item]
    if features:
        item = np.zeros_like(item)
    excluded = [table.annotators.get(name, -1) for name in study.excluded]
    counts = ~np.isin(annotator, excluded)
    # The lowest and the highest number of those who answered about an item: if either is another's
    # number, somebody else has answered.
    n_items = item.max(initial=0) + 1
    lowest = np.full(n_items, n)
    highest = np.full(n_items, -1)
    np.minimum.at(lowest, item[counts], annotator[counts])
    np.maximum.at(highest, item[counts], annotator[counts])
    has_other = (lowest[item] < annotator) | (highest[item] > annotator)
    is_informed: Bool = np.bincount(annotator, has_other, n) > 0
    return is_informed


def _summed(annotator: I64, values: F64 | Bool, n: int) -> F64:
    """(n,) the sum of the values of each annotator."""
    return np.asarray(np.bincount(annotator, values, n), np.float64)
