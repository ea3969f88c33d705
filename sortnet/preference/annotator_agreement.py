"""How much annotators agree, computed from the answers alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sortnet.preference.base import TARGETS, Judgement, Pair

_MOST_TRIPLES = 200_000


@dataclass(frozen=True)
class Agreement:
    """How much the annotators agree with each other, with themselves, and with any order.

    Attributes:
        krippendorff_alpha: nominal, of pairs with two annotators or more; 1 is perfect, 0 is
            chance; None if there are none, or all answers are the same.
        shared_pairs: number of pairs with two annotators or more.
        cycles: share of cyclic triples among the triples with all three pairs answered.
        triples: number of such triples checked.
        consistency: share of the repeated answers that are those given first; ties are left out.
        repeats: number of such answers.
    """

    krippendorff_alpha: float | None
    shared_pairs: int
    cycles: float | None
    triples: int
    consistency: float | None
    repeats: int


def agreement(judgements: Sequence[Judgement]) -> Agreement:
    """Measure agreement over the judgements that were not undone.

    Krippendorff's alpha is over the hold-out and all other pairs together: annotators disagree more
    on pairs of close items, which active learning asks for. Each pair counts both ways round, since
    nothing says which of its items is the first.

    Cost: a pass over the judgements, and one over at most 200,000 triples.

    >>> judgements = [Judgement("ana", 0, 1, "left"), Judgement("ben", 1, 0, "right")]
    >>> agreement(judgements).shared_pairs
    1
    """
    answers = _votes(judgements)
    of_pair: dict[Pair, dict[str, float]] = defaultdict(dict)
    for judgement in answers:  # the first answer of each annotator counts
        of_pair[judgement.pair].setdefault(judgement.annotator, first_better(judgement))
    shared = [votes for votes in of_pair.values() if len(votes) > 1]
    cycles, triples = _cycles(answers)
    units = [list(votes.values()) for votes in shared]
    alpha = krippendorff_alpha([*units, *([1 - vote for vote in unit] for unit in units)])
    same = [first_better(a) == first_better(b) for a, b in repeated(answers) if not _tied(a, b)]
    consistency = sum(same) / len(same) if same else None
    return Agreement(alpha, len(shared), cycles, triples, consistency, len(same))


def repeated(answers: Iterable[Judgement]) -> list[tuple[Judgement, Judgement]]:
    """Each answer of an annotator to a pair that they answered before, with the first answer."""
    first: dict[tuple[str, Pair], Judgement] = {}
    again = []
    for judgement in answers:
        earlier = first.setdefault((judgement.annotator, judgement.pair), judgement)
        if earlier is not judgement:
            again.append((earlier, judgement))
    return again


def disputed(judgements: Sequence[Judgement]) -> list[list[Judgement]]:
    """The answers to each pair on which annotators differ, or one of them at two times.

    The most disputed pair first, by Σ (t - mean)² over its answers: t is 1 for one item, 0 for the
    other, ½ for a tie.

    Cost: a pass over the judgements, and a sort of the disputed pairs.

    >>> said = [Judgement("ana", 0, 1, "left"), Judgement("ben", 1, 0, "left")]
    >>> [[judgement.annotator for judgement in pair] for pair in disputed(said)]
    [['ana', 'ben']]
    """
    of_pair: dict[Pair, list[Judgement]] = defaultdict(list)
    for judgement in _votes(judgements):
        of_pair[judgement.pair].append(judgement)
    found = [pair for pair in of_pair.values() if _spread(pair)]
    return sorted(found, key=_spread, reverse=True)


def _spread(answers: Sequence[Judgement]) -> float:
    targets = [first_better(judgement) for judgement in answers]
    mean = sum(targets) / len(targets)
    return sum((target - mean) ** 2 for target in targets)


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


def _tied(a: Judgement, b: Judgement) -> bool:
    return "tie" in (a.answer, b.answer)


def _votes(judgements: Sequence[Judgement]) -> list[Judgement]:
    """The answers about the order that are not undone."""
    undone = {judgement.undoes for judgement in judgements if judgement.undoes}
    return [j for j in judgements if j.answer in TARGETS and j.number not in undone]


def first_better(judgement: Judgement) -> float:
    """1 if the item with the lower number was preferred, 0 if the other was, ½ for a tie."""
    target = TARGETS[judgement.answer]
    return target if judgement.left < judgement.right else 1 - target


def _cycles(answers: Sequence[Judgement]) -> tuple[float | None, int]:
    """Share of cyclic triples, all pairs decided by majority; and the number of triples."""
    balance: Counter[Pair] = Counter()
    for judgement in answers:
        balance[judgement.pair] += round(2 * first_better(judgement) - 1)
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
