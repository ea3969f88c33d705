"""What is known of each annotator: reliability, side bias, agreement, gold score, a verdict."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri

from sortnet.preference.agreement_measures import repeated
from sortnet.preference.base import TARGETS, Judgement, Pair
from sortnet.preference.intervals import LEVEL
from sortnet.preference.posterior import Posterior
from sortnet.preference.reliability import Annotators, reliabilities
from sortnet.preference.study import Study
from sortnet.preference.vote_arrays import Votes

FEW = 20  # answers below which nothing is said of an annotator
TOO_FAST = 0.7  # seconds; if half of the answers are faster, they can hardly have read
_TIMED = 5  # measured times below which nothing is said of them
ONE_SIDE = 0.8  # the share of one side is above it: "always left" or "always right"
INVERTED = -0.5  # reliability is below 0, and its interval begins below this: "inverted"
UNRELIABLE = 0.95  # reliability is below it: "unreliable"
RANDOM = 0.2  # and its interval also begins below this: "answers at random"
HALF = 0.5  # the gold score is below it: "wrong on gold pairs"
_EDGES = np.array([(1 - LEVEL) / 2, (1 + LEVEL) / 2])
_MOST = 400  # answers of an annotator, the newest, that reliability is estimated from
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
        answers: left, right and tie, not undone.
        reliability: c in Φ(c (s_left - s_right) + b): 1 for the average annotator, 0 for coin
            tosses, negative if the worse item is preferred. None without an answer.
        side_bias: b, positive towards the left.
        agreement, expected_agreement: share of others' answers to the same pairs that are the
            same, and the share if both were average annotators: on pairs of close items even
            reliable people differ. None without shared pairs.
        shared: number of such answers.
        consistency, expected_consistency, repeats: the same for pairs asked again.
        gold: share of the gold pairs answered right; None without an answer to one.
        gold_answers: their number.
        skipped, cant_say, undone: counts of other replies.
        median_seconds: from showing to answering.
        too_fast: whether half of their answers took less than 0.7 seconds.
        state: `active`, `excluded`, `paused` or `revoked`.
        reason: given for the exclusion.
        verdict: what is wrong, in words; empty if nothing was found.
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


def annotator_reports(
    numbers: Mapping[str, int | None],
    judgements: Sequence[Judgement],
    posterior: Posterior,
    study: Study,
) -> list[AnnotatorReport]:
    """One report per annotator.

    Args:
        numbers: {name: number in the posterior}, None for those who are not in it.
        judgements: all of them, including undos and those of excluded annotators.
        posterior: of the scores, without the excluded annotators.
        study: the present state of the study.

    Cost: a pass over the judgements, and about 30 ms per annotator with 400 answers or more.
    """
    undone = {judgement.undoes for judgement in judgements if judgement.undoes}
    votes: dict[str, list[Judgement]] = defaultdict(list)
    of_pair: dict[Pair, list[Judgement]] = defaultdict(list)
    others: Counter[tuple[str, str]] = Counter()
    for judgement in judgements:
        if judgement.number in undone:
            continue
        if judgement.answer in TARGETS:
            votes[judgement.annotator].append(judgement)
            of_pair[judgement.pair].append(judgement)
        else:
            others[judgement.annotator, judgement.answer] += 1
    measured = {
        name: _reliability(posterior, Votes.of_judgements(votes[name][-_MOST:]), number)
        for name, number in numbers.items()
        if votes[name]
    }
    return [
        _report(name, measured.get(name), others, votes[name], of_pair, posterior, study)
        for name in numbers
    ]


def _report(
    name: str,
    measured: tuple[Measured, Measured] | None,
    others: Counter[tuple[str, str]],
    own: Sequence[Judgement],
    of_pair: dict[Pair, list[Judgement]],
    posterior: Posterior,
    study: Study,
) -> AnnotatorReport:
    reliability, bias = measured or (None, None)
    shared = [(a, b) for a in own for b in of_pair[a.pair] if b.annotator != name]
    same, expected = _alike(shared, posterior)
    alike, expected_alike = _alike(repeated(own), posterior)
    gold = [
        judgement.answer == ("left" if judgement.left == pair.item else "right")
        for judgement in own
        if (pair := study.gold.get(judgement.pair)) is not None
    ]
    score = _share(sum(gold), len(gold)) if gold else None
    times = [j.milliseconds for j in own if j.milliseconds is not None]
    seconds = median(times) / 1000 if times else None
    too_fast = seconds is not None and len(times) >= _TIMED and seconds < TOO_FAST
    excluded = study.excluded.get(name)
    return AnnotatorReport(
        name,
        len(own),
        reliability,
        bias,
        _mean(same),
        _mean(expected),
        len(same),
        _mean(alike),
        _mean(expected_alike),
        len(alike),
        score,
        len(gold),
        others[name, "skip"],
        others[name, "cant-say"],
        others[name, "undo"],
        seconds,
        too_fast,
        study.state(name),
        None if excluded is None else excluded.reason,
        _verdict(own, reliability, score, too_fast),
    )


def _verdict(
    own: Sequence[Judgement], reliability: Measured | None, gold: Measured | None, too_fast: bool
) -> str:
    """What is wrong: the first that the intervals show."""
    if len(own) < FEW or reliability is None:
        return "too few answers" if own else "no answers"
    decided = [judgement.answer for judgement in own if judgement.answer != "tie"]
    for side in ("left", "right"):
        if _share(decided.count(side), len(decided)).low > ONE_SIDE:
            return f"always {side}"
    if reliability.high < 0 and reliability.low < INVERTED:
        return "inverted"
    if reliability.high < UNRELIABLE:
        return "answers at random" if reliability.low < RANDOM else "unreliable"
    if gold is not None and gold.high < HALF:
        return "wrong on gold pairs"
    return "too fast" if too_fast else ""


def _reliability(
    posterior: Posterior, votes: Votes, number: int | None
) -> tuple[Measured, Measured]:
    """Reliability c and side bias b of one annotator, with intervals of ± 1.64 standard deviations.

    By the model that was fitted to all answers; by its scores for those who are not in it.
    """
    people = posterior.annotators
    if number is None:
        number, gap = 0, posterior.difference(votes.left, votes.right)
        known, nobody = np.zeros(len(votes)), Annotators.average(1)
        people = reliabilities(nobody, *gap, known, votes, posterior.tie, posterior.ties)
    c = people.reliability[number], people.reliability_sd[number]
    b = people.side[number], people.side_sd[number]
    return _normal(*c), _normal(*b)


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


def _alike(
    answers: Sequence[tuple[Judgement, Judgement]], posterior: Posterior
) -> tuple[list[bool], list[float]]:
    """Whether two answers to a pair are the same, and the probability; ties are left out.

    P = E[p² + (1 - p)²] with p = Φ(s_i - s_j), over the posterior.
    """
    decided = [(a, b) for a, b in answers if "tie" not in (a.answer, b.answer)]
    same = [(a.answer == b.answer) == (a.left == b.left) for a, b in decided]
    if not decided:
        return [], []
    low, high = np.array([a.pair for a, _ in decided]).T
    mean, variance = posterior.difference(low, high)
    p = ndtr(mean[:, None] + np.sqrt(variance)[:, None] * _NODES)
    expected = (p**2 + (1 - p) ** 2) @ _WEIGHTS / _WEIGHTS.sum()
    return same, expected.tolist()


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
