"""How many pairs a strategy of `pairs` needs: cells of budgets of answers, and where it is enough.

Each strategy learns within budgets of answers that double; the reference learns from all pairs.
Shares: of answers, of all pairs of documents of one query, as any of them could have been asked
about; of pairs, of those with a better document, as only they can be learned from. Scaling, weight
decay and the weights of pairs are fixed, and the comparator is the default one, so that nothing but
the pairs differs.
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
    given = {name: value for name, value in changes.items() if value is not None}
    return Cell(ENTRIES["sortnet"].changed(**given), split, seed, observe=learned_pairs)


def budgets_of(train: Queries, step: int = 2) -> list[int]:
    """Growing by a factor from the first, which is always there."""
    largest = LAST * countable(train)[0]
    more = (FIRST * step**k for k in range(1, 64))
    return [FIRST, *(budget for budget in more if budget <= largest)]


def countable(queries: Queries) -> tuple[int, int]:
    """All pairs of documents of one query, and those of different grades.

    >>> q = Queries.from_arrays([[0.0]] * 5, [0, 0, 1, 0, 1], group=[3, 2])
    >>> countable(q)
    (4, 3)
    """
    key = packed(queries.query_of_docs(), queries.grades)
    alike = np.unique(key, return_counts=True)[1]
    every = int((queries.sizes * (queries.sizes - 1) // 2).sum())
    return every, every - int((alike * (alike - 1) // 2).sum())


def learned_pairs(ranker: Ranker, fold: Fold, history: Sequence[Iteration]) -> dict[str, float]:
    """The shares of answers, of all pairs, and of pairs, of those that can be learned from.

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
    enough = REACHED * reference
    above = np.flatnonzero(quality >= enough)
    if not len(above):
        return np.nan, np.nan
    k = int(above[0])
    if k == 0:
        return float(pairs[0]), float(answers[0])
    part = (enough - quality[k - 1]) / (quality[k] - quality[k - 1])
    shares = (np.exp(np.log(s[k - 1]) + part * np.log(s[k] / s[k - 1])) for s in (pairs, answers))
    ours, peer = (float(share) for share in shares)
    return ours, peer
