"""What questions about two items and about more have bought: comparisons, time, calls, cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sortnet.core import I64, Bool
from sortnet.preference.base import HOLDOUT
from sortnet.preference.judgement_table import UNDO, Judgements
from sortnet.preference.shared_votes import SharedVotes
from sortnet.preference.study import Study

_PER_COMPARISON = ("calls", "tokens_in", "tokens_out", "cost")


def facts_of_sizes(
    judgements: Judgements, study: Study, spent: Callable[[I64], dict[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """The facts of each number of items that answers are about, the lowest number first.

    An answer counts once, and so do its time and cost. `accuracy` is the share of its comparisons
    that are as in gold pairs, or as most answers of others to the same pair in the hold-out;
    `checked` is the number of such comparisons. Answers of the hold-out are not checked.

    Args:
        judgements: all of them, including undos.
        spent: the calls, tokens and cost of some rows, those undone too; None: these facts are
            left out.

    Cost: a sort of the judgements.
    """
    n_items = 2 + np.count_nonzero(judgements.further >= 0, axis=1)
    votes = SharedVotes.of(judgements, sets=True)
    right, is_checked = _right(votes, judgements, study)
    size_of_vote = n_items[votes.rows]
    facts: list[dict[str, Any]] = []
    for size in np.unique(n_items[judgements.answer != UNDO]).tolist():
        of_size = n_items == size
        is_answer = of_size & judgements.is_answer
        milliseconds = judgements.milliseconds[is_answer]
        times = milliseconds[milliseconds >= 0]
        n_comparisons = int(np.count_nonzero(size_of_vote == size))
        checked = is_checked & (size_of_vote == size)
        n_checked = int(np.count_nonzero(checked))
        of_questions: dict[str, Any] = {
            "items": size,
            "answers": int(np.count_nonzero(is_answer)),
            "comparisons": n_comparisons,
            "seconds": float(np.median(times)) / 1000 if len(times) else None,
            "accuracy": float(right[checked].mean()) if n_checked else None,
            "checked": n_checked,
        }
        if spent is not None:
            costs = spent(np.flatnonzero(of_size & (judgements.answer != UNDO)))
            of_questions |= {**costs, **_per_comparison(costs, n_comparisons)}
        facts.append(of_questions)
    return facts


def _per_comparison(costs: dict[str, Any], n_comparisons: int) -> dict[str, float | None]:
    """Calls, tokens and cost a comparison; None where there are none."""
    per: dict[str, float | None] = {}
    for name in _PER_COMPARISON:
        is_known = bool(n_comparisons) and costs[name] is not None
        per[f"{name}_a_comparison"] = costs[name] / n_comparisons if is_known else None
    return per


def _right(votes: SharedVotes, judgements: Judgements, study: Study) -> tuple[Bool, Bool]:
    """(m,), (m,) whether each vote is as it is known to be, and whether that is known at all."""
    holdout = judgements.strategies.get(HOLDOUT, -1)
    is_holdout = judgements.strategy[votes.rows] == holdout
    side = np.sign(votes.better - 0.5)
    of_holdout = np.where(is_holdout, side, 0.0)
    of_annotator = np.cumsum(votes.first) - 1
    own = np.bincount(of_annotator, of_holdout, 1)[of_annotator]
    known = np.sign(np.bincount(votes.pair, of_holdout, 1)[votes.pair] - own)
    better = {pair: decision.item for pair, decision in study.gold.items()}
    if better:
        pairs = zip(votes.low.tolist(), votes.high.tolist(), strict=True)
        for k, pair in enumerate(pairs):
            if pair in better:
                known[k] = 1.0 if better[pair] == pair[0] else -1.0
    is_checked = ~is_holdout & (side != 0) & (known != 0)
    return side == known, is_checked
