"""What a session is asked to do, fixed when it starts."""

from __future__ import annotations

from dataclasses import dataclass

from sortnet.preference.askable_pairs import AskablePairs
from sortnet.preference.goal import Goal
from sortnet.preference.groups import Groups
from sortnet.preference.study import Study


@dataclass(frozen=True)
class Plan:
    """What a session is asked to do.

    Attributes:
        groups: the groups of the items.
        pairs: the pairs that may be asked.
        study: excluded annotators, retired items, gold pairs and overlap.
        goal: the goal.
        strategy: `default`, or `random` for random pairs.
        holdout: share of hold-out questions.
        repeats: share of repeated questions.
        set_size: number of items of a question, unless a caller names another size.
        seed: seed of all random choices.
    """

    groups: Groups
    pairs: AskablePairs
    study: Study
    goal: Goal
    strategy: str
    holdout: float
    repeats: float
    set_size: int
    seed: int
