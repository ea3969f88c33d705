"""Read votes from Chatbot Arena, where people compare two models, which are items here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sortnet.files import shown
from store.collections.formats.faults import refuse
from store.collections.formats.item_finder import ItemFinder, Record

COLUMNS = ("model_a", "model_b", "winner")
_BOTH_BAD = ("tie (bothbad)", "bothbad", "both_bad")
_N_NAMED = 3  # number of models that a message names


def check_models(path: str, battles: Sequence[Record], finder: ItemFinder) -> None:
    """Raise a DataError if a model in some battle is no item of the collection."""
    models = dict.fromkeys(
        str(battle[side]) for battle in battles for side in ("model_a", "model_b")
    )
    unknown = [model for model in models if model not in finder.ids]
    if not unknown:
        return
    names = ", ".join(map(shown, unknown[:_N_NAMED]))
    if len(unknown) > _N_NAMED:
        names += ", ..."
    fault = f"{len(unknown)} of {len(models)} models are no items of the collection"
    refuse(path, f"{fault}: {names}: add them first (sortnet items add)")


def read_battle(place: str, battle: Record) -> Iterator[dict[str, Any]]:
    """Yield the vote of a battle: its judge is the annotator, and "both bad" is a tie."""
    winner = str(battle["winner"]).strip()
    # Versions of the data set name the judge in different columns.
    names = [battle.get(column) for column in ("judge", "judge_hash", "annotator")]
    annotators = [name for name in names if name]
    yield {
        "left": battle["model_a"],
        "right": battle["model_b"],
        "answer": "tie" if winner in _BOTH_BAD else winner,
        "annotator": annotators[0] if annotators else None,
        "at": battle.get("tstamp"),
    }
