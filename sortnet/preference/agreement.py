"""Do people agree, with each other and with themselves? Figures of the answers alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from sortnet.preference.base import TARGETS, Judgement, Pair

TOO_FAST_MS = 700  # half of a person's answers given sooner: they can hardly have read
_FEW = 5  # answers that a share of one person takes
_MOST_TRIPLES = 200_000


@dataclass(frozen=True)
class Person:
    """What one annotator's answers look like.

    Attributes:
        name: who.
        answers: left, right and tie.
        skipped, cant_say, undone: how often.
        left_share: of the answers that are no tie, those for the left; None of few.
        consistency: of the pairs they were asked again, sides swapped, the share answered alike.
        repeats: how many pairs those were.
        agreement: of their answers to pairs that others answered too, the share of others' answers
            that say the same.
        median_ms: from showing to answering.
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
    """How far the answers go together.

    Attributes:
        krippendorff_alpha: nominal, of pairs that two people or more answered; 1 is perfect, 0 is
            chance; None where there are none, or nobody ever said anything else.
        shared_pairs: how many pairs two people or more answered.
        cycles: share of the triples of items, all three pairs answered, that go in a circle.
        triples: how many such triples were looked at.
        people: one by one, in the order they came.
    """

    krippendorff_alpha: float | None
    shared_pairs: int
    cycles: float | None
    triples: int
    people: tuple[Person, ...]


def agreement(judgements: Sequence[Judgement]) -> Agreement:
    """Figures of agreement, over what was not undone.

    Krippendorff's alpha is that of the random arm's pairs and all others together: a pair of
    close items, which active choice asks for, is one that people differ about.

    Cost: a pass over the judgements, and one over at most 200,000 triples.

    >>> said = [Judgement("ana", 0, 1, "left"), Judgement("ben", 1, 0, "right")]
    >>> agreement(said).shared_pairs, agreement(said).people[0].agreement
    (1, 1.0)
    """
    undone = {judgement.undoes for judgement in judgements if judgement.undoes}
    alive = [j for j in judgements if j.answer != "undo" and j.number not in undone]
    answers = [j for j in alive if j.answer in TARGETS]
    of_pair: dict[Pair, dict[str, float]] = defaultdict(dict)
    for judgement in answers:  # one voice a person: their first
        of_pair[judgement.pair].setdefault(judgement.annotator, _of_low(judgement))
    shared = [votes for votes in of_pair.values() if len(votes) > 1]
    cycles, triples = _cycles(answers)
    of_person: dict[str, list[Judgement]] = {judgement.annotator: [] for judgement in judgements}
    for judgement in alive:
        of_person[judgement.annotator].append(judgement)
    undos = Counter(judgement.annotator for judgement in judgements if judgement.undoes)
    people = tuple(_person(name, of, undos[name], of_pair) for name, of in of_person.items())
    alpha = krippendorff_alpha([list(votes.values()) for votes in shared])
    return Agreement(alpha, len(shared), cycles, triples, people)


def krippendorff_alpha(units: Iterable[Sequence[float]]) -> float | None:
    """Krippendorff's alpha of nominal values, 1 - observed / expected disagreement.

    Args:
        units: the values that each unit was given, by two or more people; others say nothing.

    Returns:
        alpha, or None where nothing could differ.

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
    """1 where the item of the lower number was preferred."""
    target = TARGETS[judgement.answer]
    return target if judgement.left < judgement.right else 1 - target


def _person(
    name: str, mine: Sequence[Judgement], undone: int, of_pair: dict[Pair, dict[str, float]]
) -> Person:
    answers = [judgement for judgement in mine if judgement.answer in TARGETS]
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
    return Person(
        name,
        len(answers),
        sum(judgement.answer == "skip" for judgement in mine),
        sum(judgement.answer == "cant-say" for judgement in mine),
        undone,
        float(np.mean(decided)) if len(decided) >= _FEW else None,
        float(np.mean(alike)) if alike else None,
        len(alike),
        float(np.mean(same)) if same else None,
        middle,
        middle is not None and len(times) >= _FEW and middle < TOO_FAST_MS,
    )


def _alike(answers: Sequence[Judgement]) -> list[bool]:
    """Of each pair answered again, whether the answer is the first one's."""
    first: dict[Pair, float] = {}
    alike = []
    for judgement in answers:
        value = _of_low(judgement)
        if judgement.pair in first:
            alike.append(value == first[judgement.pair])
        first.setdefault(judgement.pair, value)
    return alike


def _cycles(answers: Sequence[Judgement]) -> tuple[float | None, int]:
    """Share of triples, all pairs decided by majority, that go in a circle; and how many."""
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
