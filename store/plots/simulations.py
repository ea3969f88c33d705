"""Draw how good a ranking by simulated annotators is, by the number of questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

from store.plots.drawing import legend, new_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def simulation_figure(frame: pd.DataFrame, measures: Mapping[str, str], title: str) -> Figure:
    """Draw a panel for each measure, with a line and a 95 % interval for each strategy.

    Args:
        frame: a row for each `strategy` and number of `questions`. Each measure has a column of its
            name, and columns `<measure>_low` and `<measure>_high` with the ends of the interval.
        measures: {name of the measure: title of its panel}.
        title: title of the figure.
    """
    width = 3.4 * len(measures) + 1
    figure, panels = new_figure(width, 3.7, rows=1, columns=len(measures), title=title)
    for axes, (measure, measure_title) in zip(panels, measures.items(), strict=True):
        for number, (strategy, rows) in enumerate(frame.groupby("strategy", sort=False)):
            style = _STYLES[number % len(_STYLES)]
            n_questions = rows["questions"]
            axes.plot(
                n_questions, rows[measure], label=strategy, markersize=4, linewidth=1.4, **style
            )
            axes.fill_between(
                n_questions,
                rows[f"{measure}_low"],
                rows[f"{measure}_high"],
                color=style["color"],
                alpha=0.15,
                linewidth=0,
            )
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(sorted(frame["questions"].unique())))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.set(xlabel="questions", ylabel=measure_title)
    legend(figure, panels[0])
    return figure


# Most colours are from the palette of Okabe and Ito, which colour-blind readers can tell apart. In
# grey print, markers and dashes tell the lines apart.
_STYLES: tuple[dict[str, Any], ...] = tuple(
    {"color": color, "marker": marker, "linestyle": dash}
    for color, marker, dash in (
        ("#0072B2", "o", "-"), ("#D55E00", "s", "--"), ("#009E73", "^", "-."),
        ("#CC79A7", "D", ":"), ("#222222", "v", "-"), ("#E69F00", "P", "--"),
        ("#56B4E9", "X", "-."), ("#767676", "*", ":"), ("#8C510A", "<", "-"),
    )
)  # fmt: skip
