"""Sum up the calls, tokens and costs that are stored with the answers of a collection."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from sortnet.files import Record
from sortnet.preference.judgement_table import Judgements

CALL_COUNTS = ("calls", "tokens_in", "tokens_out")


def sum_up_costs(judgements: Judgements) -> Record:
    """Sum up the calls, tokens and cost of judgements.

    The cost is None if no judgement has a cost.
    """
    counts = dict.fromkeys(CALL_COUNTS, 0)
    for text in judgements.meta:
        meta = parse_meta(text or "{}")
        if "model" in meta:  # people and programs make no calls
            for name, number in _call_counts(meta).items():
                counts[name] += number
    known_costs = judgements.cost[~np.isnan(judgements.cost)]
    return {**counts, "cost": float(known_costs.sum()) if len(known_costs) else None}


def _call_counts(meta: Record) -> dict[str, int]:
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


def parse_meta(text: str) -> Record:
    """Parse the JSON facts stored with an answer; return {} if they are no JSON object."""
    try:
        meta = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return meta if isinstance(meta, dict) else {}
