"""The figure of `bench_pairs`: `python benchmarks/draw_pairs.py [RESULTS [PICTURE]]`.

Quality on the test part against the share of answers asked for, a panel for each data set, from
results.json to docs/pair-efficiency.png.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from sortnet.lab.pair_efficiency import REACHED, REFERENCE, STRATEGIES
from store.plots.figures import FAINT, INK, new_figure

FOLDER = Path(__file__).resolve().parent
RESULTS = FOLDER / "results.json"
PICTURE = FOLDER.parent / "docs" / "pair-efficiency.png"
# Colours of Okabe and Ito, markers and dashes, in the order of the strategies.
_LOOKS = (
    ("#D55E00", "s", "--"), ("#E69F00", "D", "--"), ("#0072B2", "o", "-"), ("#555555", "x", ":"),
    ("#CC79A7", "^", "-."), ("#009E73", "v", "-"), ("#56B4E9", "P", "-."), ("#222222", "*", ":"),
)  # fmt: skip
LOOKS = dict(zip(STRATEGIES, _LOOKS, strict=False))
MEASURES = {"ndcg@10": "NDCG@10", "spearman": "Spearman's correlation"}


def main(results: str | Path = RESULTS, picture: str | Path = PICTURE) -> None:
    """Write the picture of the rows of `pairs` in the results."""
    rows = json.loads(Path(results).read_text())["rows"]
    curves = [row["curve"] for row in rows if row["benchmark"] == "pairs" and "curve" in row]
    if not curves:
        sys.exit(f"{results}: no rows of the benchmark pairs; run: make bench ARGS=pairs")
    draw(curves).savefig(picture)


def draw(curves: list[dict[str, Any]]) -> Any:
    """A figure with a panel for each data set; bars are standard errors over the runs."""
    from matplotlib.ticker import PercentFormatter

    names = list(dict.fromkeys(curve["set"] for curve in curves))
    beside = min(2, len(names))
    down = -(-len(names) // beside)
    title = "Quality on the test part against the share of pairs asked about"
    figure, panels = new_figure(4.4 * max(beside, 1.5), 3.1 * down + 0.6, down, beside, title)
    for axes, name in zip(panels, names, strict=False):
        own = {curve["strategy"]: curve for curve in curves if curve["set"] == name}
        best = own.pop(REFERENCE)["points"][0]["quality"]
        for strategy, curve in own.items():
            colour, marker, line = LOOKS[strategy]
            columns = [[p[c] for p in curve["points"]] for c in ("answers", "quality", "error")]
            axes.errorbar(
                *columns, color=colour, marker=marker, linestyle=line, label=strategy,
                markersize=4, linewidth=1.2, elinewidth=0.6,
            )  # fmt: skip
        axes.axhline(best, color=INK, linewidth=0.9, label="all pairs")
        axes.axhline(
            REACHED * best, color=FAINT, linewidth=0.9, linestyle=(0, (2, 2)),
            label=f"{REACHED:.0%} of that",
        )  # fmt: skip
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=None))
        axes.set_title(name, fontsize=9, color=INK)
        axes.set_xlabel("answers, share of all pairs")
        axes.set_ylabel(MEASURES[next(iter(own.values()))["measure"]], fontsize=9)
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return figure


if __name__ == "__main__":
    main(*sys.argv[1:3])
