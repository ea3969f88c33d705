"""Records of chosen and rejected texts, as tools for preference tuning read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sortnet.errors import DataError
from sortnet.items import Items
from sortnet.preference import Judgement
from sortnet.preference.base import Pair, unordered_pair


def preference_records(
    judgements: Sequence[Judgement],
    items: Items,
    *,
    prompt: str = "",
    weights: Mapping[str, float] | None = None,
    conversational: bool = False,
) -> Iterator[dict[str, Any]]:
    """One record per pair on which the annotators have a majority, in the order of first answers.

    `prompt`, `chosen` and `rejected` are those of TRL's preference type with an explicit prompt, in
    its standard or conversational format (https://huggingface.co/docs/trl/dataset_formats).
    `weight` is the sum of the annotators' weights (None: 1 each), those who prefer the rejected
    item subtracted: 1 is one average annotator. A pair whose weight is not above 0 is left out, as
    are ties. An annotator who answered a pair several times has one vote. An answer about more than
    two items counts for each pair of which it says which item is better.

    The judgements come with undos, without those of excluded annotators. Without a prompt, it is
    the context of the group, else its name. A DataError if an item has no text, or a conversation
    no prompt.
    """
    for (low, high), votes in _votes(judgements).items():
        surplus = sum(votes.values())
        weight = sum(
            vote * (1 if weights is None else weights.get(who, 0)) for who, vote in votes.items()
        )
        weight = round(float(weight if surplus > 0 else -weight), 4)
        if not surplus or weight <= 0:
            continue
        better, worse = (low, high) if surplus > 0 else (high, low)
        asked = prompt or _prompt(items, low)
        record: dict[str, Any] = {
            "prompt": asked,
            "chosen": _text(items, better),
            "rejected": _text(items, worse),
        }
        if conversational:
            if not asked:
                raise DataError("a conversation needs a prompt: give one with --prompt TEXT")
            record = {
                name: [{"role": "user" if name == "prompt" else "assistant", "content": text}]
                for name, text in record.items()
            }
        ids = {"chosen_id": items.ids[better], "rejected_id": items.ids[worse]}
        yield record | {"weight": weight} | ids


def _votes(judgements: Sequence[Judgement]) -> dict[Pair, dict[str, int]]:
    """{pair: {annotator: 1 for the item with the lower number, -1 for the other}}, no ties."""
    undone = {judgement.undoes for judgement in judgements}
    balances: dict[Pair, Counter[str]] = {}
    for judgement in judgements:
        if judgement.number in undone:
            continue
        for better, worse in judgement.comparisons():
            balance = balances.setdefault(unordered_pair(better, worse), Counter())
            balance[judgement.annotator] += 1 if better < worse else -1
    return {pair: _votes_on(balance) for pair, balance in balances.items()}


def _votes_on(balance: Mapping[str, int]) -> dict[str, int]:
    """One vote of each annotator on a pair: 1, -1, or 0 if their answers cancel out."""
    return {annotator: (n > 0) - (n < 0) for annotator, n in balance.items()}


def _prompt(items: Items, number: int) -> str:
    return items.context(number) or ("" if items.groups is None else items.groups[number])


def _text(items: Items, number: int) -> str:
    text = items.texts[number]
    if text is None:
        raise DataError(f"item {items.ids[number]!r} has no text to be chosen or rejected")
    return text
