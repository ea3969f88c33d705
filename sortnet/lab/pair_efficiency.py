"""How many pairs a strategy of `pairs` needs: cells within budgets of answers, and the crossing.

Each strategy learns within budgets of answers that double; the reference learns from all pairs.
A share of answers is one of all pairs of documents of a query, as any pair could have been asked
about. A share of pairs is one of the pairs with a better document, as only such pairs can be
learned from. Scaling, weight decay and the weights of pairs are fixed, and the comparator is the
default one, so that nothing but the pairs differs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sortnet.config import DEFAULTS, PAIRS
from sortnet.core import F64, Queries
from sortnet.core.pairs import packed
from sortnet.data.read import Fold
from sortnet.errors import DataError
from sortnet.lab.cells import Cell
from sortnet.lab.entries import ENTRIES
from sortnet.lab.splits import Split
from sortnet.learning.iterations import Iteration
from sortnet.rankers.base import Ranker

FIRST = 250  # answers
LAST = 0.5  # of all that could be asked: the largest budget is no more
REACHED = 0.99  # of the quality of all pairs
STRATEGIES = tuple(name for name in PAIRS if name != "all")
_NEVER = 1_000_000  # iterations without a better one after which to stop


def cell_of(
    split: Split, strategy: str, budget: int | None, *, scaling: str, seed: int = 0,
    empty: str = "zero", epochs: int | None = None,
) -> Cell:  # fmt: skip
    """SortNet that learns from the pairs of a strategy, within a budget of answers."""
    changes = {
        "pairs": strategy, "judgements": budget, "scaling": scaling, "pair_weight": "none",
        "weight_decay": DEFAULTS["trees"]["weight_decay"], "max_stale": _NEVER, "empty": empty,
        "epochs": epochs,
    }  # fmt: skip
    settings = {name: value for name, value in changes.items() if value is not None}
    return Cell(ENTRIES["sortnet"].changed(**settings), split, seed, observe=learned_pairs)


def budgets_of(train: Queries, step: int = 2) -> list[int]:
    """Budgets of answers that grow by a factor; the first budget is always there."""
    n_pairs, _ = countable(train)
    larger = (FIRST * step**k for k in range(1, 64))
    return [FIRST, *(budget for budget in larger if budget <= LAST * n_pairs)]


def countable(queries: Queries) -> tuple[int, int]:
    """Number of all pairs of documents of a query, and of pairs of different grades.

    >>> q = Queries.from_arrays([[0.0]] * 5, [0, 0, 1, 0, 1], group=[3, 2])
    >>> countable(q)
    (4, 3)
    """
    key = packed(queries.query_of_docs(), queries.grades)
    _, n_of_same_grade = np.unique(key, return_counts=True)
    n_pairs = int((queries.sizes * (queries.sizes - 1) // 2).sum())
    n_of_equal_grades = int((n_of_same_grade * (n_of_same_grade - 1) // 2).sum())
    return n_pairs, n_pairs - n_of_equal_grades


def learned_pairs(ranker: Ranker, fold: Fold, history: Sequence[Iteration]) -> dict[str, float]:
    """The share of the learnable pairs that was learned from, and the share of pairs answered.

    Raises:
        DataError: if the ranker is not learned in iterations.
    """
    if not history:
        raise DataError(f"a ranker of kind {ranker.config.kind} learns in no iterations")
    answerable, learnable = countable(fold.train)
    learned = history[-2] if len(history) > 1 else history[-1]  # the last sort teaches nothing
    answers = learned.observed["train"]["answers"]
    return {"pairs": learned.tp / learnable, "answers": answers / answerable}


def crossing(curve: F64, reference: float) -> tuple[float, float]:
    """Shares of pairs and of answers where a curve first is good enough; NaN: nowhere.

    Between two budgets the quality is taken to grow with the logarithm of the share.

    Args:
        curve: (budgets, 3) shares of pairs and of answers, and the quality.
        reference: the quality of all pairs.

    >>> curve = np.array([[0.1, 0.2, 0.5], [0.4, 0.8, 1.0]])
    >>> np.round(crossing(curve, 0.75 / REACHED), 9)  # half-way: the geometric means
    array([0.2, 0.4])
    """
    pairs, answers, quality = curve.T
    wanted = REACHED * reference
    reaching = np.flatnonzero(quality >= wanted)
    if not len(reaching):
        return np.nan, np.nan
    k = int(reaching[0])
    if k == 0:
        return float(pairs[0]), float(answers[0])
    part = (wanted - quality[k - 1]) / (quality[k] - quality[k - 1])

    def share_between(shares: F64) -> float:
        return float(np.exp(np.log(shares[k - 1]) + part * np.log(shares[k] / shares[k - 1])))

    return share_between(pairs), share_between(answers)
