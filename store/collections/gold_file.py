"""Read gold pairs, whose answer is known, from a file."""

from __future__ import annotations

from pathlib import Path

from sortnet.errors import DataError
from sortnet.items import Items
from sortnet.preference.study import Decision
from store.collections.judgement_lines import read_lines


def read_gold(path: str | Path, items: Items, *, remove: bool = False) -> list[Decision]:
    """Read the gold pairs of a file, and return decisions that add or remove the pairs.

    Each line names two items by their ids: `winner` and `loser`, or `left`, `right` and `answer`.

    Args:
        path: the file.
        items: the items of the collection.
        remove: whether the decisions remove the pairs.

    Raises:
        DataError: on the first line with an error; the message names the line.
    """
    kind = "no-gold" if remove else "gold"
    decisions: dict[tuple[int, int], Decision] = {}
    for line in read_lines(Path(path), items, annotator="gold"):
        judgement = line.judgement
        if judgement.word not in ("left", "right"):
            raise DataError(
                f"{line.where}: the answer of a gold pair is left or right, not {judgement.word!r}"
            )
        better = judgement.best
        worse = judgement.right if better == judgement.left else judgement.left
        decision = Decision(kind, item=better, other=worse)
        first_decision = decisions.setdefault(judgement.pair, decision)
        if first_decision.item != better:
            raise DataError(f"{line.where}: an earlier line has the other answer to this pair")
    return list(decisions.values())
