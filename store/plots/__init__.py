"""Draw figures of frames."""

from store.plots.figures import (
    bars,
    calibration_curves,
    certainty_growth,
    critical_difference_diagram,
    curves,
    learning,
    measures,
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
    "learning",
    "measures",
    "pair_growth",
    "ranking_intervals",
    "simulation_figure",
]
