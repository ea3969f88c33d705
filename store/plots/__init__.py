"""Draw figures of frames."""

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
from store.plots.labelling import answers_by_annotator, certainty_growth, ranking_intervals

__all__ = [
    "answers_by_annotator",
    "before_after",
    "certainty_growth",
    "critical_difference_diagram",
    "curves",
    "cycles",
    "hard_queries",
    "margins",
    "measures",
    "mistakes_by_rank",
    "p_value_matrix",
    "pair_growth",
    "ranking_intervals",
    "seconds",
]
