"""Sum up the calls, tokens and costs that are stored with the answers of a collection."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from sortnet.core import I64
from sortnet.judges.prices import LONGEST_CURRENCY, amount
from sortnet.preference.judgement_table import Judgements

CALL_COUNTS = ("calls", "tokens_in", "tokens_out")


def sum_up_costs(all_judgements: Judgements, rows: I64) -> dict[str, Any]:
    """Sum up the calls, tokens and cost of the judgements in the given rows."""
    counts = dict.fromkeys(CALL_COUNTS, 0)
    costs: dict[str, float] = {}
    for row, cost in zip(rows.tolist(), all_judgements.cost[rows].tolist(), strict=True):
        text = all_judgements.meta[row]
        meta = _parse_meta(text) if text is not None else {}
        if "model" in meta:  # people and programs make no calls
            for name, number in _call_counts(meta).items():
                counts[name] += number
        if not math.isnan(cost):
            currency = str(meta.get("currency", ""))[:LONGEST_CURRENCY]
            costs[currency] = costs.get(currency, 0.0) + cost
    return {**counts, **cost_facts(costs)}


def cost_facts(costs: dict[str, float]) -> dict[str, Any]:
    """Return the costs by currency; with a single currency also this currency and its cost.

    Args:
        costs: the cost in each currency; an empty key means that the currency is unknown.
    """
    if len(costs) != 1:
        return {"cost": None, "currency": None, "costs": costs}
    [(currency, cost)] = costs.items()
    return {"cost": cost, "currency": currency or None, "costs": costs}


def _call_counts(meta: dict[str, Any]) -> dict[str, int]:
    """Read the numbers of calls and tokens from the facts stored with a model's answer.

    The number of calls is 1 if the meta has no number.
    """
    tokens_in = 0
    tokens_out = 0
    tokens = meta.get("tokens")
    if isinstance(tokens, list) and len(tokens) == 2:
        tokens_in, tokens_out = tokens
    return {
        "calls": _count_or_0(meta.get("calls", 1)),
        "tokens_in": _count_or_0(tokens_in),
        "tokens_out": _count_or_0(tokens_out),
    }


def _count_or_0(value: Any) -> int:
    """Return the value if it is a count, a whole number of at least 0; else 0."""
    return value if isinstance(value, int) and value >= 0 else 0


def _parse_meta(text: str) -> dict[str, Any]:
    """Parse the JSON facts stored with an answer; return {} if they are no JSON object."""
    try:
        meta = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return meta if isinstance(meta, dict) else {}


def amounts(costs: Mapping[str, float]) -> str:
    """Write the costs in all currencies as a text, which is empty if there are no costs."""
    return ", ".join(amount(cost, currency) for currency, cost in costs.items())
