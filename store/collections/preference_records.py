"""Write records of chosen and rejected texts, as tools for preference tuning read them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sortnet.errors import DataError
from sortnet.items import Items
from sortnet.preference import Judgement
from sortnet.preference.base import Pair


def preference_records(
    judgements: Sequence[Judgement],
    items: Items,
    *,
    prompt: str = "",
    weights: Mapping[str, float] | None = None,
    conversational: bool = False,
) -> Iterator[dict[str, Any]]:
    """Yield a record for each pair with a majority of annotators, in the order of first answers.

    `prompt`, `chosen` and `rejected` are the columns of TRL's preference type with an explicit
    prompt, in its standard or conversational format
    (https://huggingface.co/docs/trl/dataset_formats). `weight` is the sum of the weights of the
    annotators who prefer the chosen item, minus the weights of the annotators who prefer the
    rejected item. A tied pair, or a pair whose weight is not above 0, is left out. An annotator who
    answered a pair several times has one vote. An answer about more than two items counts for each
    pair of items that it ranks.

    Args:
        judgements: judgements with undos, and without the judgements of excluded annotators.
        items: the items.
        prompt: the prompt of every record. If empty, the context of the group, and the name of the
            group if it has no context.
        weights: {annotator: weight}, 1 for an average annotator. Annotators without a weight do not
            count. If None, all weights are 1.
        conversational: whether the records have the conversational format.

    Raises:
        DataError: if an item has no text, or a conversation no prompt.
    """
    for (low, high), votes in _votes_of_pairs(judgements).items():
        majority = np.sign(sum(votes.values()))  # 1: low, -1: high, 0: the pair is tied
        weight_of = Counter(votes.keys()) if weights is None else weights
        weighted_votes = [vote * weight_of.get(annotator, 0) for annotator, vote in votes.items()]
        weight = round(float(majority * sum(weighted_votes)), 4)
        if weight <= 0:
            continue  # the weight of a tied pair is 0
        chosen, rejected = (low, high) if majority == 1 else (high, low)
        group = "" if items.groups is None else items.groups[low]
        record: dict[str, Any] = {
            "prompt": prompt or items.context(low) or group,
            "chosen": _text(items, chosen),
            "rejected": _text(items, rejected),
        }
        if conversational:
            record = _as_conversations(record)
        ids = {"chosen_id": items.ids[chosen], "rejected_id": items.ids[rejected]}
        yield {**record, "weight": weight, **ids}


def _votes_of_pairs(judgements: Sequence[Judgement]) -> dict[Pair, dict[str, int]]:
    """Return {pair: {annotator: vote}} of all judgements that were not undone.

    A vote is 1 for the item with the lower number, and -1 for the item with the higher number. It
    is 0 if the annotator has preferred both items equally often.
    """
    undone = {judgement.undoes for judgement in judgements}
    balances: defaultdict[Pair, Counter[str]] = defaultdict(Counter)
    for judgement in judgements:
        if judgement.number in undone:
            continue
        for low, high in judgement.pairs:
            better = judgement.better_of(low, high)
            if better is not None:
                balances[low, high][judgement.annotator] += 1 if better == low else -1
    return {
        pair: {annotator: int(np.sign(votes)) for annotator, votes in balance.items()}
        for pair, balance in balances.items()
    }


def _as_conversations(texts: Mapping[str, str]) -> dict[str, Any]:
    """Replace each text of a record by a conversation of one message.

    The prompt is a message of the user, and every other text is a message of the assistant.

    Raises:
        DataError: if the prompt is empty.
    """
    if not texts["prompt"]:
        raise DataError("a conversation needs a prompt: give one with --prompt TEXT")
    return {
        name: [{"role": "user" if name == "prompt" else "assistant", "content": text}]
        for name, text in texts.items()
    }


def _text(items: Items, number: int) -> str:
    """Return the text of an item; raise a DataError if it has no text."""
    text = items.texts[number]
    if text is None:
        raise DataError(f"item {str(items.ids[number])!r} has no text to be chosen or rejected")
    return text
