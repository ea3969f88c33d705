"""Read and write records of chosen and rejected texts, as tools for preference tuning use them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sortnet.errors import DataError
from sortnet.items import Items
from sortnet.preference import Judgement
from sortnet.preference.base import Pair
from store.collections.formats.item_finder import ItemFinder, Record, text_of

COLUMNS = ("chosen", "rejected")


def read_record(finder: ItemFinder, place: str, record: Record) -> Iterator[dict[str, Any]]:
    """Yield the vote of a record for its chosen text and against its rejected text.

    The items are recognised by the ids that our export writes, or else by the two texts.
    """
    winner = record.get("chosen_id")
    loser = record.get("rejected_id")
    if not {winner, loser} <= finder.ids:
        chosen = record["chosen"]
        prompt = record.get("prompt")
        if prompt is None and isinstance(chosen, list):
            prompt = chosen  # both conversations begin with the prompt
        group = {"prompt": text_of(prompt, role="user"), "group": record.get("group")}
        winner, loser = finder.pair(place, chosen, record["rejected"], group)
    yield {"winner": winner, "loser": loser, "annotator": record.get("annotator")}


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
        weights: {annotator: weight}, 1 for an average annotator. If None, all weights are 1.
        conversational: whether the records have the conversational format.

    Raises:
        DataError: if an item has no text, or a conversation no prompt.
    """
    for (low, high), votes in _votes_of_pairs(judgements).items():
        preferred_side = _sign(sum(votes.values()))  # 1: low, -1: high, 0: the pair is tied
        weight = round(preferred_side * _sum_of_votes(votes, weights), 4)
        if weight <= 0:
            continue  # the weight of a tied pair is 0
        chosen, rejected = (low, high) if preferred_side == 1 else (high, low)
        record: dict[str, Any] = {
            "prompt": prompt or _prompt_of_group(items, low),
            "chosen": _text(items, chosen),
            "rejected": _text(items, rejected),
        }
        if conversational:
            record = _as_conversations(record)
        record["weight"] = weight
        record["chosen_id"] = items.ids[chosen]
        record["rejected_id"] = items.ids[rejected]
        yield record


def _sum_of_votes(votes: Mapping[str, int], weights: Mapping[str, float] | None) -> float:
    """Return the weighted sum of {annotator: vote}; annotators without a weight do not count.

    Without `weights`, all annotators have the weight 1.
    """
    if weights is None:
        return float(sum(votes.values()))
    return float(sum(vote * weights.get(annotator, 0) for annotator, vote in votes.items()))


def _votes_of_pairs(judgements: Sequence[Judgement]) -> dict[Pair, dict[str, int]]:
    """Return {pair: {annotator: vote}} of all judgements that were not undone.

    A vote is 1 for the item with the lower number, and -1 for the item with the higher number. It
    is 0 if the annotator has preferred both items equally often.
    """
    undone = {judgement.undoes for judgement in judgements}
    balances: dict[Pair, Counter[str]] = {}
    for judgement in judgements:
        if judgement.number in undone:
            continue
        for low, high in judgement.pairs:
            better = judgement.better_of(low, high)
            if better is not None:
                balance = balances.setdefault((low, high), Counter())
                balance[judgement.annotator] += 1 if better == low else -1
    return {
        pair: {annotator: _sign(difference) for annotator, difference in balance.items()}
        for pair, balance in balances.items()
    }


def _sign(number: int) -> int:
    """Return 1, 0 or -1 for a positive number, 0, or a negative number."""
    if number == 0:
        return 0
    return 1 if number > 0 else -1


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


def _prompt_of_group(items: Items, number: int) -> str:
    """Return the context of an item's group, else the group's name; empty without groups."""
    context = items.context(number)
    if context:
        return context
    return "" if items.groups is None else items.groups[number]


def _text(items: Items, number: int) -> str:
    """Return the text of an item; raise a DataError if it has no text."""
    text = items.texts[number]
    if text is None:
        raise DataError(f"item {str(items.ids[number])!r} has no text to be chosen or rejected")
    return text
