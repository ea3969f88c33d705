"""Figures of frames."""

from store.plots.comparisons import critical_difference_diagram, curves, p_value_matrix
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
    "critical_difference_diagram",
    "curves",
    "cycles",
    "hard_queries",
    "margins",
    "measures",
    "mistakes_by_rank",
    "p_value_matrix",
    "pair_growth",
    "seconds",
]
