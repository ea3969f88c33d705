"""Measure how many judged pairs each strategy of choosing pairs (setting `pairs`) needs.

Each strategy is trained within growing budgets of answers; the reference is trained on grades,
which answer about every pair that its sorts compare.
The share of answers is relative to all pairs of documents of a query, because any pair can be asked
about. The share of pairs is relative to the pairs of different grades, because only such pairs can
be learned from. Scaling, weight decay, pair weights and the comparator are the same in all cells,
so that only the choice of pairs differs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sortnet.config import DEFAULTS, PAIRS
from sortnet.core import F64, Queries
from sortnet.core.pairs import packed
from sortnet.data.read import Fold
from sortnet.lab.cells import Cell
from sortnet.lab.entries import ENTRIES
from sortnet.lab.splits import Split
from sortnet.learning.iterations import Iteration
from sortnet.rankers.base import Ranker

FIRST = 250  # the smallest budget of answers
LAST = 0.5  # the largest budget, as a share of all pairs
REACHED = 0.99  # share of the quality of training on grades that counts as reached
STRATEGIES = PAIRS
REFERENCE = "grades"  # name of the series that is trained on grades
_NEVER = 1_000_000  # iterations without improvement after which training would stop


def cell_of(
    split: Split,
    strategy: str,
    budget: int | None,
    *,
    scaling: str,
    seed: int = 0,
    empty: str = "zero",
    epochs: int | None = None,
) -> Cell:
    """Make a cell of SortNet that learns from the pairs of a strategy within a budget of answers.

    Args:
        split: the data.
        strategy: value of the setting `pairs`.
        budget: largest number of answers; None for no limit.
        scaling: scaling of the features.
        seed: seed of the ranker.
        empty: what RankQuality counts for a query without a relevant document.
        epochs: number of epochs of each training; None for the default.
    """
    # All settings but the pairs are the same for all strategies. By default the weights of pairs
    # and the weight decay depend on the judgements, and training may stop before all are used.
    settings = {
        "pairs": strategy,
        "judgements": budget,
        "scaling": scaling,
        "pair_weight": "none",
        "weight_decay": DEFAULTS["trees"]["weight_decay"],
        "max_stale": _NEVER,
        "empty": empty,
        "epochs": epochs,
    }
    settings = {name: value for name, value in settings.items() if value is not None}
    return Cell(ENTRIES["sortnet"].changed(**settings), split, seed, observe=learned_pairs)


def budgets_of(train: Queries, step: int = 2) -> list[int]:
    """List budgets of answers: 250, and then each `step` times the budget before it.

    The last budget is at most half of all pairs, unless it is also the first.
    """
    n_pairs, _ = countable(train)
    budgets = [FIRST]
    while budgets[-1] * step <= LAST * n_pairs:
        budgets.append(budgets[-1] * step)
    return budgets


def countable(queries: Queries) -> tuple[int, int]:
    """Count all pairs of documents of a query, and the pairs whose documents differ in grade.

    >>> q = Queries.from_arrays([[0.0]] * 5, [0, 0, 1, 0, 1], group=[3, 2])
    >>> countable(q)
    (4, 3)
    """
    query_and_grade = packed(queries.query_of_docs(), queries.grades)
    _, n_docs_of_grade = np.unique(query_and_grade, return_counts=True)
    n_pairs = int((queries.sizes * (queries.sizes - 1) // 2).sum())
    n_equal = int((n_docs_of_grade * (n_docs_of_grade - 1) // 2).sum())
    return n_pairs, n_pairs - n_equal


def learned_pairs(ranker: Ranker, fold: Fold, history: Sequence[Iteration]) -> dict[str, float]:
    """Compute the share of the pairs that a ranker learned from, and the share it asked about.

    Args:
        ranker: the fitted ranker.
        fold: the data.
        history: the iterations of the training, one or more.

    Returns:
        `pairs`: learned pairs / pairs of different grades; `answers`: answers / all pairs.
    """
    n_pairs, n_learnable = countable(fold.train)
    # The last iteration only sorts; nothing is learned from its comparisons.
    learned = history[-2] if len(history) > 1 else history[-1]
    n_learned = learned.tp
    n_answers = learned.observed["train"]["answers"]
    return {"pairs": n_learned / n_learnable, "answers": n_answers / n_pairs}


def crossing(curve: F64, reference: float) -> tuple[float, float]:
    """Find the smallest shares of pairs and of answers with which the quality is good enough.

    Good enough is 99 % of the reference. Between two budgets the quality is taken as linear in the
    logarithm of the share.

    Args:
        curve: (n_budgets, 3) the share of pairs, the share of answers and the quality.
        reference: the quality of a ranker that was trained on grades.

    Returns:
        The share of pairs and the share of answers; NaN if the quality is nowhere good enough.

    >>> curve = np.array([[0.1, 0.2, 0.5], [0.4, 0.8, 1.0]])
    >>> np.round(crossing(curve, 0.75 / REACHED), 9)  # half-way: the geometric means
    array([0.2, 0.4])
    """
    quality = curve[:, 2]
    least_quality = REACHED * reference
    budgets_that_suffice = np.flatnonzero(quality >= least_quality)
    if not len(budgets_that_suffice):
        return np.nan, np.nan
    k = int(budgets_that_suffice[0])
    # The wanted quality is reached at the first budget, or between the budgets k - 1 and k.
    around = slice(max(k - 1, 0), k + 1)
    share_of_pairs, share_of_answers = (
        float(np.exp(np.interp(least_quality, quality[around], np.log(shares[around]))))
        for shares in (curve[:, 0], curve[:, 1])
    )
    return share_of_pairs, share_of_answers
