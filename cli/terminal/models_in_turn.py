"""Let several language models answer the questions of one labelling in turn."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

ROUND = 20  # number of answers of a model before the next model is asked
_SUMMED = ("answered", "failed")  # facts that are added up over all rounds

Facts: TypeAlias = dict[str, Any]


def label_in_turn(
    annotators: Sequence[str], number: int | None, label: Callable[[str, int], Facts]
) -> list[Facts]:
    """Let several models answer in rounds, so that each model gives a few answers in a round.

    A model that fails, has spent its budget or has no question left is not asked again, and the
    other models continue. The goal or an interrupt ends the labelling for all models.

    Args:
        annotators: names of the models.
        number: number of answers of all models together; None: until the goal is reached.
        label: function that asks a model for at most the given number of answers, and returns facts
            about this round.

    Returns:
        Facts about each model that was asked; numbers of answers are added up over the rounds.
    """
    active = [*annotators]  # the models that are asked in the next round
    facts_by_annotator: dict[str, Facts] = {}
    n_left = math.inf if number is None else number
    while active:
        round_size = _size_of_round(n_left, len(active))
        for annotator in tuple(active):
            size = int(min(round_size, n_left))
            facts = label(annotator, size)
            earlier_facts = facts_by_annotator.get(annotator)
            facts_by_annotator[annotator] = _add_round(earlier_facts, facts)
            gave_all_answers = facts["end"] == "number"
            if not gave_all_answers:
                active.remove(annotator)
            # `answered` leaves out skips, which count in the size of a round.
            n_left -= size if gave_all_answers else facts["answered"]
            is_interrupted = facts["end"] == "interrupted"
            if n_left <= 0 or facts["enough"] or is_interrupted:
                return list(facts_by_annotator.values())
    return list(facts_by_annotator.values())


def _size_of_round(n_left: float, n_annotators: int) -> int:
    """Choose the number of answers of a model in a round: 20, or an equal share of the rest.

    Args:
        n_left: number of answers that all models together are still to give; may be infinite.
        n_annotators: number of models.

    >>> _size_of_round(math.inf, 3), _size_of_round(10, 3), _size_of_round(500, 2)
    (20, 4, 20)
    """
    return math.ceil(min(ROUND, n_left / n_annotators))


def _add_round(earlier: Facts | None, facts: Facts) -> Facts:
    """Add the numbers of answers in earlier rounds to the facts about a round."""
    if earlier is None:
        return facts
    sums: Facts = {name: earlier[name] + facts[name] for name in _SUMMED}
    skipped: Counter[str] = Counter(earlier.get("skipped")) + Counter(facts.get("skipped"))
    sums["skipped"] = dict(skipped)
    return {**facts, **sums}
