"""Compare questions about two, three or more items: accuracy, time, calls and cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sortnet.core import I64, Bool
from sortnet.preference.comparisons import ByPair, Comparisons, gold_targets
from sortnet.preference.judgement_table import UNDO, Judgements
from sortnet.preference.study import Study

_PER_COMPARISON = ("calls", "tokens_in", "tokens_out", "cost")


def facts_of_sizes(
    judgements: Judgements, study: Study, spent: Callable[[I64], dict[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """Return facts of the questions about each number of items, the lowest number first.

    An answer about several items counts once, with its time and cost. `checked` is the number of
    comparisons whose order is known from gold pairs, or from the majority of the other annotators'
    hold-out answers; hold-out answers themselves are not checked. `accuracy` is the share of the
    checked comparisons that are right.

    Args:
        judgements: all judgements, including undos.
        study: the study, which has the gold pairs.
        spent: a function that returns the calls, tokens and cost of judgements from their rows,
            which include undone judgements. If None, these facts are left out.

    Cost: a sort of the judgements.
    """
    # A row is a judgement. A vote is a comparison of two items, and a row may have several votes.
    size_of_row = judgements.n_items
    votes = ByPair(Comparisons.of_table(judgements))
    size_of_vote = size_of_row[votes.comparisons.row]
    is_right, is_checked = _check_votes(votes, judgements, study)
    is_undo = judgements.answer == UNDO
    facts: list[dict[str, Any]] = []
    for size in np.unique(size_of_row[~is_undo]).tolist():
        row_has_size = size_of_row == size
        vote_has_size = size_of_vote == size
        is_answer = row_has_size & judgements.is_answer
        n_comparisons = int(np.count_nonzero(vote_has_size))
        facts_of_size: dict[str, Any] = {
            "items": size,
            "answers": int(np.count_nonzero(is_answer)),
            "comparisons": n_comparisons,
            "seconds": _median_seconds(judgements.milliseconds[is_answer]),
            **_facts_of_checked(is_right[is_checked & vote_has_size]),
        }
        if spent is not None:
            costs = spent(np.flatnonzero(row_has_size & ~is_undo))
            facts_of_size |= costs
            facts_of_size |= _per_comparison(costs, n_comparisons)
        facts.append(facts_of_size)
    return facts


def _facts_of_checked(is_right: Bool) -> dict[str, Any]:
    """Return the number of checked comparisons, and their accuracy, the share that is right.

    Args:
        is_right: whether each checked comparison is right. If no comparison was checked, the
            accuracy is None.
    """
    n_checked = len(is_right)
    accuracy = float(is_right.mean()) if n_checked > 0 else None
    return {"accuracy": accuracy, "checked": n_checked}


def _median_seconds(milliseconds: I64) -> float | None:
    """Return the median of the measured times in seconds, or None if no time was measured.

    A negative time means that the time was not measured.
    """
    measured = milliseconds[milliseconds >= 0]
    if not len(measured):
        return None
    return float(np.median(measured)) / 1000


def _per_comparison(costs: dict[str, Any], n_comparisons: int) -> dict[str, float | None]:
    """Divide calls, tokens and cost by the number of comparisons.

    A figure is None if it is unknown, or if there are no comparisons.
    """
    figures: dict[str, float | None] = {}
    for name in _PER_COMPARISON:
        is_known = n_comparisons > 0 and costs[name] is not None
        figures[f"{name}_a_comparison"] = costs[name] / n_comparisons if is_known else None
    return figures


def _check_votes(votes: ByPair, judgements: Judgements, study: Study) -> tuple[Bool, Bool]:
    """Compare each vote about a pair with the known order of the pair.

    The order is known from gold pairs, or from the majority of the other annotators' hold-out
    answers.

    Returns:
        Whether each vote is right, and whether the order is known so that the vote is checked.
    """
    # A side is 1 for the item with the lower number, -1 for the other item, 0 for neither.
    side = np.sign(votes.for_low - 0.5)
    is_holdout = judgements.is_holdout[votes.comparisons.row]
    sum_of_group = np.zeros(len(votes.first))
    np.add.at(sum_of_group, votes.group, side * is_holdout)
    majority = votes.others(sum_of_group[:, None])[votes.group, 0]
    of_gold = gold_targets(votes, study.gold_pairs())[votes.pair]
    correct_side = np.sign(np.where(np.isnan(of_gold), majority, of_gold - 0.5))
    is_checked = ~is_holdout & (side != 0) & (correct_side != 0)
    return side == correct_side, is_checked
