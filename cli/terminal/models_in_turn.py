"""Several language models that answer the questions of one labelling in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

ROUND = 20  # answers of a model before the next one is asked
_SUMMED = ("answered", "failed")  # facts of which those of all rounds are added up

Facts: TypeAlias = dict[str, Any]


def labelled_in_turn(
    annotators: Sequence[str], number: int | None, label: Callable[[str, int], Facts]
) -> list[Facts]:
    """Let each annotator give some answers, then the next one, until none has more to give.

    A model that fails, has spent its budget or has no question left is asked no more; the others
    go on. The goal and an interrupt end all.

    Args:
        number: of all answers together; None: until the goal is reached.
        label: lets an annotator give some answers at most; returns the facts of this round.

    Returns:
        the facts of each annotator who was asked, with those of all rounds added up.
    """
    waiting = [*annotators]
    facts_of: dict[str, Facts] = {}
    n_left = number
    while waiting:
        round_size = _size_of_round(n_left, len(waiting))
        for annotator in tuple(waiting):
            size = round_size if n_left is None else min(round_size, n_left)
            facts = label(annotator, size)
            facts_of[annotator] = _joined(facts_of.get(annotator), facts)
            is_over = facts["enough"] or facts["end"] == "interrupted"
            if facts["end"] != "number":
                waiting.remove(annotator)
            if n_left is not None:
                n_left -= size if facts["end"] == "number" else facts["answered"]
                is_over = is_over or n_left <= 0
            if is_over:
                waiting.clear()
                break
    return [facts_of[annotator] for annotator in annotators if annotator in facts_of]


def _size_of_round(n_left: int | None, n_annotators: int) -> int:
    """Answers of one annotator: of few that are left, each gives its share.

    >>> _size_of_round(None, 3), _size_of_round(10, 3), _size_of_round(500, 2)
    (20, 4, 20)
    """
    return ROUND if n_left is None else min(ROUND, -(-n_left // n_annotators))


def _joined(before: Facts | None, now: Facts) -> Facts:
    if before is None:
        return now
    return now | {name: before[name] + now[name] for name in _SUMMED}
