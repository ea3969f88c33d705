"""Let several language models answer the questions of one labelling in turn."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

ROUND = 20  # answers of a model before the next model is asked
_SUMMED = ("answered", "failed")  # facts that are added up over all rounds

Facts: TypeAlias = dict[str, Any]


def label_in_turn(
    annotators: Sequence[str], number: int | None, label: Callable[[str, int], Facts]
) -> list[Facts]:
    """Let the annotators answer in rounds, a few answers each, until nobody has more to give.

    A model that fails, has spent its budget or has no question left is not asked again, and the
    other models continue. The goal or an interrupt ends the labelling for all models.

    Args:
        annotators: the names of the models.
        number: answers of all annotators together; None: until the goal is reached.
        label: asks an annotator for at most the given number of answers; returns the facts of this
            round.

    Returns:
        The facts of each annotator who was asked, added up over the rounds.
    """
    active = [*annotators]
    facts_of: dict[str, Facts] = {}
    n_left = number
    while active:
        round_size = _size_of_round(n_left, len(active))
        for annotator in tuple(active):
            size = round_size if n_left is None else min(round_size, n_left)
            facts = label(annotator, size)
            facts_of[annotator] = _add_round(facts_of.get(annotator), facts)
            is_over = facts["enough"] or facts["end"] == "interrupted"
            if facts["end"] != "number":
                active.remove(annotator)
            if n_left is not None:
                n_left -= size if facts["end"] == "number" else facts["answered"]
                is_over = is_over or n_left <= 0
            if is_over:
                active.clear()
                break
    return [facts_of[annotator] for annotator in annotators if annotator in facts_of]


def _size_of_round(n_left: int | None, n_annotators: int) -> int:
    """Number of answers of each annotator in a round: 20, or an equal share if few are left.

    >>> _size_of_round(None, 3), _size_of_round(10, 3), _size_of_round(500, 2)
    (20, 4, 20)
    """
    return ROUND if n_left is None else min(ROUND, math.ceil(n_left / n_annotators))


def _add_round(earlier: Facts | None, facts: Facts) -> Facts:
    """Combine the facts of a round with those of earlier rounds: add up the numbers of answers."""
    if earlier is None:
        return facts
    return {**facts, **{name: earlier[name] + facts[name] for name in _SUMMED}}
