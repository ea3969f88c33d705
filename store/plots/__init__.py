"""Draw figures of frames."""

from store.plots.figures import (
    bars,
    calibration_curves,
    certainty_growth,
    critical_difference_diagram,
    curves,
    cycles,
    hard_queries,
    learning,
    margins,
    measures,
    mistakes_by_rank,
    pair_growth,
    ranking_intervals,
    simulation_figure,
)

__all__ = [
    "bars",
    "calibration_curves",
    "certainty_growth",
    "critical_difference_diagram",
    "curves",
    "cycles",
    "hard_queries",
    "learning",
    "margins",
    "measures",
    "mistakes_by_rank",
    "pair_growth",
    "ranking_intervals",
    "simulation_figure",
]
