"""What is known of each annotator: reliability, side bias, agreement, gold score, a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
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

FEW = 20  # answers below which nothing is said of an annotator
TOO_FAST = 0.7  # seconds; if half of the answers are faster, they can hardly have read
_TIMED = 5  # measured times below which nothing is said of them
ONE_SIDE = 0.8  # the share of one side is above it: "always left" or "always right"
INVERTED = -0.5  # reliability is below 0, and its interval begins below this: "inverted"
UNRELIABLE = 0.5  # reliability is below it: "unreliable"
BELOW = 0.95  # reliability is below it: "below average: counts less", which is no fault
RANDOM = 0.2  # and its interval also begins below this: "answers at random"
BELOW_AVERAGE = "below average: counts less"
FINE = ("", "no answers", "too few answers", "too fast", BELOW_AVERAGE)  # a program may be fast
HALF = 0.5  # the gold score is below it: "wrong on gold pairs"
_EDGES = np.array([(1 - LEVEL) / 2, (1 + LEVEL) / 2])
_MOST = 400  # answers of an annotator, the newest, that reliability is estimated from
_PAIRS = 100_000  # whose expected agreement is computed at once
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)


@dataclass(frozen=True)
class Measured:
    """A value with its 90 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class AnnotatorReport:
    """What is known of one annotator.

    Attributes:
        name: of the annotator.
        answers: those about the order, not undone; one about a set is one.
        reliability: c in Φ(c (s_left - s_right) + b): 1 for the average annotator, 0 for coin
            tosses, negative if the worse item is preferred. None without an answer, and while
            no answer of others says anything of their items.
        side_bias: b, positive towards the left.
        agreement, expected_agreement: share of others' answers to the same pairs, asked as such,
            that are the same, and the share if both were average annotators: on pairs of close
            items even reliable people differ. None without shared pairs.
        shared: number of such answers.
        consistency, expected_consistency, repeats: the same for pairs asked again.
        gold, gold_answers: share of the gold pairs answered right, None without any; their number.
        skipped, cant_say, undone: counts of other replies.
        median_seconds: from showing to answering.
        too_fast: whether half of a person's answers took less than 0.7 seconds.
        state, reason: `active`, `excluded`, `paused` or `revoked`; the reason of the exclusion.
        verdict: what is wrong, in words; empty if nothing was found.
        model: whether it is a model, which is measured by people's answers and gold pairs.
        probabilities: as what the probabilities count that were given: `measurement`, `share`,
            `ignored`; `words` of measurements that say nothing of the errors. Empty without any.
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
        numbers: {name: number in the posterior}, None for those who are not in it.
        judgements: all of them, including undos and those of excluded annotators.
        posterior: of the scores, without the excluded annotators.
        study: its present state.
        features: whether items have any: then answers about some items inform the scores of all.

    Cost: a sort of the judgements, and about 30 ms per excluded annotator with 400 answers or more.
    """
    found = _Counted(Judgements.of(judgements), posterior, study, features)
    return [_report(name, found, number, posterior, study) for name, number in numbers.items()]


class _Counted:
    """What is counted of the judgements, by the annotators' numbers; the last row is of nobody.

    Attributes:
        table: the judgements.
        votes: the rows of each one's answers about the order.
        replies: (a, r) numbers of each answer.
        others: (a, 3) number of others' answers to the same pairs, how many of them are the same,
            and how many are expected to be; without ties.
        again: (a, 3) the same of answers to pairs that they answered before.
        gold: (a, 2) number of answers to gold pairs, and how many of them are right.
        informed: (a,) whether others' answers that count say something of the items.
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
        self.others, self.again = _alike(votes, posterior, n)
        better = _better_of(votes, study)
        right = votes.better == (better == votes.low)
        self.gold = _summed(votes.annotator, n, better >= 0, (better >= 0) & right)
        self.informed = _informed(table, rows, n, study, features)

    def number(self, name: str) -> int:
        return min(self.table.annotators.get(name, len(self.votes)), len(self.votes) - 1)


def _report(
    name: str, found: _Counted, number: int | None, posterior: Posterior, study: Study
) -> AnnotatorReport:
    who, table = found.number(name), found.table
    own = found.votes[who]
    reliability, bias = _reliability(posterior, table, own, number) if len(own) else (None, None)
    reliability = reliability if found.informed[who] else None
    gold, right = found.gold[who].tolist()
    score = _share(right, gold) if gold else None
    times = table.milliseconds[own]
    times = times[times >= 0]
    seconds = float(np.median(times)) / 1000 if len(times) else None
    model = name in study.models
    too_fast = not model and seconds is not None and len(times) >= _TIMED and seconds < TOO_FAST
    excluded = study.excluded.get(name)
    (shared, same, expected), (repeats, alike, expected_alike) = found.others[who], found.again[who]
    replies = dict(zip(ANSWERS, found.replies[who].tolist(), strict=True))
    return AnnotatorReport(
        name,
        len(own),
        reliability,
        bias,
        _mean(same, shared),
        _mean(expected, shared),
        round(shared),
        _mean(alike, repeats),
        _mean(expected_alike, repeats),
        round(repeats),
        score,
        int(gold),
        replies["skip"],
        replies["cant-say"],
        replies["undo"],
        seconds,
        too_fast,
        study.state(name),
        None if excluded is None else excluded.reason,
        _verdict(replies, reliability, score, too_fast),
        model,
        _probabilities(name, table, own, number, posterior, study),
    )


def _probabilities(
    name: str, table: Judgements, own: I64, number: int | None, posterior: Posterior, study: Study
) -> str:
    """As what an annotator's probabilities count; empty if none were given."""
    if np.isnan(table.p[own]).all():
        return ""
    kind = study.probabilities.get(name, "share")
    is_silent = number is not None and posterior.annotators.scale[number] == 0
    return "words" if kind == "measurement" and is_silent else kind


def _verdict(
    replies: Mapping[str, int], reliability: Measured | None, gold: Measured | None, too_fast: bool
) -> str:
    """What is wrong: the first that the intervals show."""
    decided = replies["left"] + replies["right"]
    answers = decided + replies["tie"] + replies["best"] + replies["same"]
    if answers < FEW:
        return "too few answers" if answers else "no answers"
    for side in ("left", "right"):
        if _share(replies[side], decided).low > ONE_SIDE:
            return f"always {side}"
    c = reliability or Measured(1, np.inf, np.inf)
    found = {
        "inverted": c.high < 0 and c.low < INVERTED,
        "answers at random": c.high < BELOW and c.low < RANDOM,
        "unreliable": c.high < UNRELIABLE,
        "wrong on gold pairs": gold is not None and gold.high < HALF,
        "too fast": too_fast,
        BELOW_AVERAGE: c.high < BELOW,
    }
    return next((verdict for verdict, holds in found.items() if holds), "")


def _reliability(
    posterior: Posterior, table: Judgements, own: I64, number: int | None
) -> tuple[Measured, Measured]:
    """Reliability c and side bias b of one annotator, by the model that was fitted to all answers;
    by its scores for those who are not in it.
    """
    people = posterior.annotators
    if number is None:
        votes = _votes_of_one(table, own[-_MOST:])
        number, gap = 0, posterior.difference(votes.left, votes.right)
        known, nobody = np.zeros(len(votes)), Annotators.average(1)
        people = reliabilities(nobody, *gap, known, votes, posterior.tie, posterior.ties)
    c = people.reliability[number], people.reliability_sd[number]
    b = people.side[number], people.side_sd[number]
    return _normal(*c), _normal(*b)


def _votes_of_one(table: Judgements, rows: I64) -> Votes:
    """The answers in these rows as those of one annotator."""
    pairs, sets = rows[~table.is_set[rows]], rows[table.is_set[rows]]
    votes = Votes.of_one(table.left[pairs], table.right[pairs], table.targets(pairs))
    if not len(sets):
        return votes
    votes = votes.with_sets(table, sets)
    return replace(votes, annotator=np.zeros(len(votes), np.int64))


def _normal(mean: float, sd: float) -> Measured:
    low, high = (mean + sd * ndtri(edge) for edge in _EDGES)
    return Measured(float(mean), float(low), float(high))


def _share(k: int, n: int) -> Measured:
    """A share k / n with the interval of Jeffreys' prior.

    >>> _share(9, 10)  # doctest: +ELLIPSIS
    Measured(value=0.9, low=0.6..., high=0.98...)
    """
    low, high = betaincinv(k + 0.5, n - k + 0.5, _EDGES).tolist() if n else (0.0, 1.0)
    return Measured(k / n if n else 0.5, low, high)


def _alike(votes: SharedVotes, posterior: Posterior, n: int) -> tuple[F64, F64]:
    """`others` and `again` of `_Counted`, for n annotators.

    Answers to a pair are expected to be the same with E[p² + (1 - p)²], p = Φ(s_i - s_j).
    """
    first = votes.first  # of a pair and an annotator
    own = counted(np.cumsum(first) - 1, votes.better)[:, :2]
    pair, annotator = votes.pair[first], votes.annotator[first]
    theirs = counted(votes.pair, votes.better)[pair, :2] - own
    # The pairs of an answer about a set count for one answer together.
    weight = votes.weight[first]
    shared = weight * own.sum(axis=1) * theirs.sum(axis=1)
    same = weight * (own * theirs).sum(axis=1)
    again, before = votes.repeated()
    pairs = np.union1d(pair[shared > 0], votes.pair[again])
    expected = np.zeros(len(votes.starts))
    for some in np.array_split(pairs, len(pairs) // _PAIRS + 1):
        at = votes.starts[some]
        mean, variance = posterior.difference(votes.low[at], votes.high[at])
        p = ndtr(mean[:, None] + np.sqrt(variance)[:, None] * _NODES)
        expected[some] = (p**2 + (1 - p) ** 2) @ _WEIGHTS / _WEIGHTS.sum()
    alike = votes.better[again] == votes.better[before]
    repeats = votes.weight[again]
    each = repeats, repeats * alike, repeats * expected[votes.pair[again]]
    return (
        _summed(annotator, n, shared, same, shared * expected[pair]),
        _summed(votes.annotator[again], n, *each),
    )


def _better_of(votes: SharedVotes, study: Study) -> I64:
    """The better item of the gold pair that each vote is about; -1 if it is about none."""
    better = np.full(len(votes.rows), -1)
    low, high = votes.low, votes.high
    of = {pair: decision.item for pair, decision in study.gold.items()}
    listed = np.array([*of], np.int64).reshape(-1, 2)
    about = np.flatnonzero(np.isin(low, listed[:, 0]) & np.isin(high, listed[:, 1]))
    pairs = zip(low[about].tolist(), high[about].tolist(), strict=True)
    better[about] = [of.get(pair, -1) for pair in pairs]
    return better


def _informed(table: Judgements, rows: I64, n: int, study: Study, features: bool) -> Bool:
    """(n,) whether another who counts has answered about an item of theirs; with features, any."""
    items = table.items(rows)
    is_item = items >= 0
    who = np.repeat(table.annotator[rows], is_item.sum(axis=1))
    item = items[is_item]
    item = np.zeros_like(item) if features else item
    counts = ~np.isin(who, [table.annotators.get(name, -1) for name in study.excluded])
    first, last = np.full(item.max(initial=0) + 1, n), np.full(item.max(initial=0) + 1, -1)
    np.minimum.at(first, item[counts], who[counts])
    np.maximum.at(last, item[counts], who[counts])
    informed: Bool = np.bincount(who, (first[item] < who) | (last[item] > who), n) > 0
    return informed


def _summed(annotator: I64, n: int, *values: ArrayLike) -> F64:
    """(n, k) sums of k values by annotator."""
    return np.stack([np.bincount(annotator, value, n) for value in values], axis=1)


def _mean(total: float, number: float) -> float | None:
    return float(total / number) if number else None
