"""Every figure draws the numbers of its frame: they are read back from what was drawn."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from sortnet.core import SPLITS
from sortnet.errors import DataError, SortNetError
from store import plots
from store.database.schema import IterationRow
from store.frames import iterations_frame


def rows(n: int = 5) -> list[SimpleNamespace]:
    """Rows of iterations as the database gives them."""
    missing = dict.fromkeys(column.name for column in IterationRow.__table__.columns)
    found, rng = [], np.random.default_rng(5)
    for k in range(n):
        counts = {"tp": 10 * k + 3, "vp": 7 * k + 1, "iteration": k, "best": k in (0, 2)}
        for split in SPLITS:
            counts |= {f"comparisons_{split}": 200 + k, f"miscompared_{split}": 60 - 10 * k}
        measures = {split: {"map": rng.random(), "p@10": rng.random()} for split in SPLITS}
        found.append(SimpleNamespace(**{**missing, **counts, "measures": measures}))
    return found


@pytest.fixture
def iterations() -> pd.DataFrame:
    frame = iterations_frame(rows())
    frame.attrs["kept"] = 2  # as `Run.iterations_frame` says
    return frame


def lines(figure: Figure) -> dict[str, list[list[float]]]:
    """{what a line was drawn of: its points' numbers}."""
    drawn = [line for axes in figure.axes for line in axes.lines if line.get_gid()]
    return {str(d.get_gid()): np.asarray(d.get_xydata()).tolist() for d in drawn}


def points(frame: pd.DataFrame, column: str) -> list[list[float]]:
    return [[float(i), float(v)] for i, v in zip(frame["iteration"], frame[column], strict=True)]


def test_learning_draws_pairs_wrong_comparisons_and_rank_quality_and_marks_the_kept(iterations):
    figures = plots.learning(iterations)
    assert list(figures) == ["Pairs kept", "Comparisons that were wrong", "map"]
    drawn = {name: line for figure in figures.values() for name, line in lines(figure).items()}
    assert drawn == lines(plots.pair_growth(iterations))
    for column in ("tp", "vp", "train_map", "vali_map"):
        assert drawn[column] == points(iterations, column)
    for split in SPLITS:
        share = iterations[f"miscompared_{split}"] / iterations[f"comparisons_{split}"]
        assert drawn[f"wrong_{split}"] == [[float(k), value] for k, value in enumerate(share)]
    assert [x for x, _ in drawn["kept"]] == [2, 2]


def test_measures_draws_each_on_both_parts_under_their_conventions(iterations):
    iterations.loc[1, "vali_map"] = np.nan
    iterations.attrs["conventions"] = "P@10 divides by 10; relevant from grade 1"
    figure = plots.measures(iterations)
    drawn = lines(figure)
    for name in ("train_map", "train_p@10", "vali_p@10"):
        assert drawn[name] == points(iterations, name)
    assert np.isnan(drawn["vali_map"][1][1])
    assert [axes.get_title() for axes in figure.axes] == ["map", "p@10"]
    assert figure.get_suptitle().endswith("P@10 divides by 10; relevant from grade 1")


def study(groups: int = 3) -> pd.DataFrame:
    return pd.DataFrame(
        [
            (f"ranker {group}", size, 0.5 + 0.01 * group + 1e-4 * size, 0.01 * (group + 1))
            for group in range(groups)
            for size in (100, 10, 1000)
        ],
        columns=["ranker", "documents", "ndcg@20", "ndcg@20_error"],
    )


def draw(plot: Any, frame: pd.DataFrame) -> Figure:
    columns = ("documents", "ndcg@20", "ranker") if plot is plots.curves else ()
    return plot(frame, *columns)


DRAWN = {
    plots.pair_growth: lambda: iterations_frame(rows()),
    plots.measures: lambda: iterations_frame(rows()),
    plots.curves: study,
}


def test_intervals_draw_each_item_and_of_many_one_of_several():
    rank = np.arange(1, 1001)
    low, high = np.maximum(rank - 7, 1), np.minimum(rank + 9, 1000)
    many = pd.DataFrame({"rank": rank, "id": rank, "low": low, "high": high})
    (axes,) = plots.ranking_intervals(many.head(3)).axes
    (drawn,) = axes.collections
    ends = [[path[0][0], path[1][0]] for path in drawn.get_segments()]
    assert ends == [[1, 10], [1, 11], [1, 12]]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "2", "3"]
    figure = plots.ranking_intervals(many)
    assert "one item of 5" in figure.get_suptitle()
    assert lines(figure)["rank"] == [[k, k] for k in range(1, 1000, 5)]


def test_growth_draws_what_is_known_and_the_goal():
    fits = pd.DataFrame(
        {"answers": [5, 9, 12], "expected": [0.6, 0.7, 0.9], "holdout": [None, 0.5, 0.75]}
    )
    drawn = lines(plots.certainty_growth(fits, goal=0.95))
    assert drawn["expected"] == [[5, 0.6], [9, 0.7], [12, 0.9]]
    assert drawn["hold-out predicted"] == [[9, 0.5], [12, 0.75]]
    assert [y for _, y in drawn["goal"]] == [0.95, 0.95]
    with pytest.raises(SortNetError, match="one fit is no growth"):
        plots.certainty_growth(fits.head(1))


def test_bars_of_mean_ranks_that_do_not_differ_overlap_and_the_best_is_first():
    figure = plots.critical_difference_diagram([2.5, 1.2, 2.3, 4.0], list("abcd"), 1.2)
    (axes,) = figure.axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["b  1.20", "c  2.30", "a  2.50", "d  4.00"]
    (bars,) = axes.collections
    ends = [(low, high) for (low, _), (high, _) in bars.get_segments()]
    assert np.allclose(ends, [(0.6, 1.8), (1.7, 2.9), (1.9, 3.1), (3.4, 4.6)])
    with pytest.raises(DataError, match="3 names of rankers and 2 mean ranks"):
        plots.critical_difference_diagram([1, 2], list("abc"), 1)


def test_curves_draw_the_points_of_each_group_in_order_with_their_band():
    frame = study(21)
    figure = plots.curves(frame, "documents", "ndcg@20", "ranker", log=True)
    drawn = lines(figure)
    for group, of_group in frame.groupby("ranker"):
        in_order = of_group.sort_values("documents")
        assert drawn[group] == in_order[["documents", "ndcg@20"]].to_numpy().tolist()
    (axes,) = figure.axes
    heights = axes.collections[1].get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx(0.511 - 0.02)
    assert heights.max() == pytest.approx(0.61 + 0.02)
    assert axes.get_xscale() == "log"
    grey = {(line.get_marker(), line.get_linestyle()) for line in axes.lines}
    assert len(grey) == 21, "they are distinct without colour"


def test_bars_have_a_label_behind_their_error():
    figure = plots.bars(["a", "b"], [2.0, 1.0], ["two", "one"], errors=[0.5, 0.0], title="t",
                        xlabel="x")  # fmt: skip
    (axes,) = figure.axes
    assert [bar.get_width() for bar in axes.patches] == [2, 1]
    assert {text.get_text(): text.xy for text in axes.texts} == {"two": (2.5, 0), "one": (1, 1)}
    with pytest.raises(DataError, match="no bars"):
        plots.bars([], [], [], title="t", xlabel="x")


@pytest.mark.parametrize("plot", DRAWN, ids=lambda plot: plot.__name__)
def test_a_figure_leaves_the_frame_alone_and_needs_a_row(plot):
    frame = DRAWN[plot]()
    before = frame.copy(deep=True)
    first = frame["iteration"] == 0 if "iteration" in frame else frame.index == 0
    for rows in (frame, frame[first]):
        draw(plot, rows).savefig(io.BytesIO())
    pd.testing.assert_frame_equal(frame, before)
    with pytest.raises(SortNetError, match=r"nothing to draw, the frame has no rows: \w+"):
        draw(plot, frame.iloc[:0])
    with pytest.raises(SortNetError, match="the frame has no column"):
        draw(plot, frame[[]])


def test_names_and_titles_of_data_are_no_formulas():
    frame = study().assign(ranker=lambda rows: "$a_{" + rows["ranker"])
    for figure in (
        plots.curves(frame, "documents", "ndcg@20", "ranker", title="$x_{$", remark="a $ b"),
        plots.critical_difference_diagram([1, 2], ["$a_{"] * 2, 1.5),
    ):
        figure.savefig(io.BytesIO(), format="svg")
