"""Inter- and intra-annotator agreement, computed from the answers alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from sortnet.preference.base import TARGETS, Judgement, Pair
from sortnet.preference.posterior import Posterior
from sortnet.preference.vote_arrays import Votes
from sortnet.types import F64, I64

TOO_FAST_MS = 700  # if half of an annotator's answers are faster, they can hardly have read
_FEW = 5  # answers needed for a share of one annotator
_MOST_TRIPLES = 200_000


@dataclass(frozen=True)
class AnnotatorStats:
    """Statistics of one annotator's answers.

    Attributes:
        name: of the annotator.
        answers: left, right and tie.
        skipped, cant_say, undone: counts.
        left_share: share of left among the answers that are not a tie; None if there are few.
        consistency: share of the repeated pairs, sides swapped, that were answered alike.
        repeats: number of repeated pairs.
        agreement: share of others' answers to the same pairs that are the same.
        median_ms: median time from showing to answering.
        too_fast: whether half of their answers took less than 0.7 seconds.
    """

    name: str
    answers: int
    skipped: int
    cant_say: int
    undone: int
    left_share: float | None
    consistency: float | None
    repeats: int
    agreement: float | None
    median_ms: float | None
    too_fast: bool


@dataclass(frozen=True)
class Agreement:
    """How much the annotators agree.

    Attributes:
        krippendorff_alpha: nominal, of pairs with two annotators or more; 1 is perfect, 0 is
            chance; None if there are none, or all answers are the same.
        shared_pairs: number of pairs with two annotators or more.
        cycles: share of cyclic triples among the triples with all three pairs answered.
        triples: number of such triples checked.
        people: one entry per annotator, in order of appearance.
    """

    krippendorff_alpha: float | None
    shared_pairs: int
    cycles: float | None
    triples: int
    people: tuple[AnnotatorStats, ...]


def agreement(judgements: Sequence[Judgement]) -> Agreement:
    """Measure agreement over the judgements that were not undone.

    Krippendorff's alpha is over the hold-out and all other pairs together: annotators disagree more
    on pairs of close items, which active learning asks for.

    Cost: a pass over the judgements, and one over at most 200,000 triples.

    >>> judgements = [Judgement("ana", 0, 1, "left"), Judgement("ben", 1, 0, "right")]
    >>> agreement(judgements).shared_pairs, agreement(judgements).people[0].agreement
    (1, 1.0)
    """
    undone = {judgement.undoes for judgement in judgements if judgement.undoes}
    alive = [j for j in judgements if j.answer != "undo" and j.number not in undone]
    answers = [j for j in alive if j.answer in TARGETS]
    of_pair: dict[Pair, dict[str, float]] = defaultdict(dict)
    for judgement in answers:  # the first answer of each annotator counts
        of_pair[judgement.pair].setdefault(judgement.annotator, _of_low(judgement))
    shared = [votes for votes in of_pair.values() if len(votes) > 1]
    cycles, triples = _cycles(answers)
    of_annotator: dict[str, list[Judgement]] = {judgement.annotator: [] for judgement in judgements}
    for judgement in alive:
        of_annotator[judgement.annotator].append(judgement)
    undos = Counter(judgement.annotator for judgement in judgements if judgement.undoes)
    people = tuple(_stats(name, of, undos[name], of_pair) for name, of in of_annotator.items())
    alpha = krippendorff_alpha([list(votes.values()) for votes in shared])
    return Agreement(alpha, len(shared), cycles, triples, people)


def agreement_with_ranking(
    posterior: Posterior, votes: Votes, n_annotators: int
) -> tuple[F64, F64, I64]:
    """How often each annotator agrees with the ranking by all other answers, and how often they
    should: the raw share says little, as hard pairs are asked.

    Args:
        posterior: the model fitted to the votes.
        votes: the answers; ties are left out.
        n_annotators: a.

    Returns:
        (a,) observed share, (a,) mean probability that an average annotator agrees, given the
        pairs that this one was asked, and (a,) number of answers; NaN without any.

    >>> zero, one, target = np.zeros(20, np.int64), np.ones(20, np.int64), np.ones(20)
    >>> target[:4] = 0
    >>> votes = Votes.of_one(zero, one, target)
    >>> from sortnet.preference.laplace import fit
    >>> posterior = fit(np.empty((2, 0)), votes, 1).posterior
    >>> observed, expected, count = agreement_with_ranking(posterior, votes, 1)
    >>> observed.round(2), bool(expected[0] > 0.5), count
    (array([0.8]), True, array([20]))
    """
    votes = votes.where(votes.target != 0.5)
    expected, agrees = posterior.agreeing(votes)
    count = np.bincount(votes.annotator, minlength=n_annotators)
    with np.errstate(invalid="ignore"):
        shares = [np.bincount(votes.annotator, x, n_annotators) / count for x in (agrees, expected)]
    return shares[0], shares[1], count


def krippendorff_alpha(units: Iterable[Sequence[float]]) -> float | None:
    """Krippendorff's alpha of nominal values, 1 - observed / expected disagreement.

    Args:
        units: the values that each unit was given; units with a single value do not count.

    Returns:
        alpha, or None if all values are the same.

    >>> krippendorff_alpha([[1, 1], [0, 0], [1, 0]])  # 1 - (1/3) / (3·3·2 / (6·5))
    0.4444444444444444
    """
    values: Counter[float] = Counter()
    differing = 0.0
    for unit in units:
        counts, m = Counter(unit), len(unit)
        if m > 1:
            values.update(counts)
            differing += (m * m - sum(c * c for c in counts.values())) / (m - 1)
    n = sum(values.values())
    expected = n * n - sum(c * c for c in values.values())
    return 1 - (n - 1) * differing / expected if expected else None


def _of_low(judgement: Judgement) -> float:
    """1 if the item with the lower number was preferred."""
    target = TARGETS[judgement.answer]
    return target if judgement.left < judgement.right else 1 - target


def _stats(
    name: str, own: Sequence[Judgement], undone: int, of_pair: dict[Pair, dict[str, float]]
) -> AnnotatorStats:
    answers = [judgement for judgement in own if judgement.answer in TARGETS]
    decided = [judgement.answer == "left" for judgement in answers if judgement.answer != "tie"]
    times = [j.milliseconds for j in answers if j.milliseconds is not None]
    alike = _alike(answers)
    same = [
        value == _of_low(judgement)
        for judgement in answers
        for other, value in of_pair[judgement.pair].items()
        if other != name
    ]
    middle = median(times) if times else None
    return AnnotatorStats(
        name,
        len(answers),
        sum(judgement.answer == "skip" for judgement in own),
        sum(judgement.answer == "cant-say" for judgement in own),
        undone,
        float(np.mean(decided)) if len(decided) >= _FEW else None,
        float(np.mean(alike)) if alike else None,
        len(alike),
        float(np.mean(same)) if same else None,
        middle,
        middle is not None and len(times) >= _FEW and middle < TOO_FAST_MS,
    )


def _alike(answers: Sequence[Judgement]) -> list[bool]:
    """For each repeated pair, whether the answer is the same as the first."""
    first: dict[Pair, float] = {}
    alike = []
    for judgement in answers:
        value = _of_low(judgement)
        if judgement.pair in first:
            alike.append(value == first[judgement.pair])
        first.setdefault(judgement.pair, value)
    return alike


def _cycles(answers: Sequence[Judgement]) -> tuple[float | None, int]:
    """Share of cyclic triples, all pairs decided by majority; and the number of triples."""
    balance: Counter[Pair] = Counter()
    for judgement in answers:
        balance[judgement.pair] += round(2 * _of_low(judgement) - 1)
    beats: dict[int, dict[int, bool]] = defaultdict(dict)
    for (low, high), votes in balance.items():
        if votes:
            beats[low][high] = votes > 0
    circular = triples = 0
    for of_a in beats.values():
        for b in of_a:
            for c in beats.get(b, {}):
                if c in of_a:
                    triples += 1
                    circular += of_a[b] == beats[b][c] != of_a[c]
                    if triples == _MOST_TRIPLES:
                        return circular / triples, triples
    return (circular / triples if triples else None), triples
