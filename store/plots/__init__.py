"""Figures of frames."""

from store.plots.figures import (
    before_after,
    cycles,
    hard_queries,
    margins,
    measures,
    mistakes_by_rank,
    pair_growth,
    seconds,
)

__all__ = [
    "before_after",
    "cycles",
    "hard_queries",
    "margins",
    "measures",
    "mistakes_by_rank",
    "pair_growth",
    "seconds",
]
