"""Every figure draws the numbers of its frame: they are read back from what was drawn."""

from __future__ import annotations

import io
import subprocess
import sys
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from sortnet.core import SPLITS
from sortnet.errors import DataError, SortNetError
from sortnet.sorting.diagnostics import MARGIN_EDGES, RANK_BINS
from store import plots
from store.frames import OUTCOMES, cycles_frame, iterations_frame, margins_frame, mistakes_frame
from store.plots.figures import indistinguishable_runs

RNG = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def same_numbers(monkeypatch):
    """Whichever tests of this file ran before, in this process."""
    monkeypatch.setitem(globals(), "RNG", np.random.default_rng(5))


class Row:
    """An iteration's row as the database gives it: what is not set is missing."""

    measures = observed = created = None

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


def rows(n: int = 5) -> list[Row]:
    def facts() -> dict[str, Any]:
        margins = {name: RNG.integers(0, 90, 20).tolist() for name in OUTCOMES}
        compared = np.triu(RNG.integers(0, 40, (10, 10)))
        ranks = {"compared": compared.tolist(), "wrong": (compared // 2).tolist()}
        return {"margins": margins, "ranks": ranks, "cycles": {"share": RNG.random(), "sampled": 9}}

    return [
        Row(
            iteration=k,
            tp=10 * k + 3,
            vp=7 * k + 1,
            new_train=50 - k,
            new_vali=20 - k,
            comparisons_train=200 + k,
            comparisons_vali=80 + k,
            miscompared_train=60 - 10 * k,
            miscompared_vali=40 - k,
            best=k in (0, 2),
            measures={split: {"map": RNG.random(), "p@10": RNG.random()} for split in SPLITS},
            seconds_sort=0.25 * k,
            seconds_train=1.5,
            observed={split: facts() for split in SPLITS},
        )
        for k in range(n)
    ]


@pytest.fixture
def iterations() -> pd.DataFrame:
    frame = iterations_frame(rows())
    frame.attrs["kept"] = 2  # as `Run.iterations_frame` says
    return frame


def pairs(n: int = 60) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "split": pd.Categorical(RNG.choice(SPLITS, n), categories=SPLITS),
            "qid": pd.Categorical(RNG.choice(["q1", "q2", "q3", "q4"], n)),
            "winner_place": np.arange(n),
            "loser_place": np.arange(n) + 1,
            "first_wrong": RNG.integers(0, 3, n),
            "last_wrong": RNG.integers(8, 10, n),
            "times": RNG.integers(1, 9, n),
        }
    )


def lines(figure: Figure) -> dict[str, list[list[float]]]:
    """{what a line was drawn of: its points' numbers}."""
    drawn = [line for axes in figure.axes for line in axes.lines if line.get_gid()]
    return {str(d.get_gid()): np.asarray(d.get_xydata()).tolist() for d in drawn}


def points(frame: pd.DataFrame, column: str) -> list[list[float]]:
    return [[float(i), float(v)] for i, v in zip(frame["iteration"], frame[column], strict=True)]


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_the_word_that_marks_the_kept_iteration_is_above_every_line(iterations):
    iterations["tp"] = 276  # as high behind the kept iteration as at it
    figure = plots.pair_growth(iterations)
    FigureCanvasAgg(figure).draw()
    for axes in figure.axes:
        (word,) = axes.texts
        lowest = word.get_window_extent().y0
        drawn = [line for line in axes.lines if line.get_gid() != "kept"]
        tops = [axes.transData.transform(line.get_xydata())[:, 1].max() for line in drawn]
        assert len(tops) == 2 and max(tops) + 3 < lowest  # pixels, half of a point's mark


def test_learning_draws_pairs_wrong_comparisons_and_rank_quality_and_marks_the_kept(iterations):
    figures = plots.learning(iterations)
    assert list(figures) == ["Pairs kept", "Comparisons that were wrong", "map"]
    together = lines(plots.pair_growth(iterations))
    drawn = {name: line for figure in figures.values() for name, line in lines(figure).items()}
    assert drawn == together
    for column in ("tp", "vp", "train_map", "vali_map"):
        assert drawn[column] == points(iterations, column)
    for split in SPLITS:
        share = iterations[f"miscompared_{split}"] / iterations[f"comparisons_{split}"]
        assert drawn[f"wrong_{split}"] == [[float(k), value] for k, value in enumerate(share)]
    assert [x for x, _ in drawn["kept"]] == [2, 2]
    assert [texts(figure) for figure in figures.values()] == [["kept"]] * 3


def test_measures_draws_each_on_both_parts_under_their_conventions(iterations):
    iterations.attrs["conventions"] = "P@10 divides by 10; relevant from grade 1"
    figure = plots.measures(iterations)
    drawn = lines(figure)
    for name in ("train_map", "vali_map", "train_p@10", "vali_p@10"):
        assert drawn[name] == points(iterations, name)
    assert [axes.get_title() for axes in figure.axes] == ["map", "p@10"]
    assert figure.get_suptitle().endswith("P@10 divides by 10; relevant from grade 1")
    assert "of a friend" in plots.measures(iterations, conventions="of a friend").get_suptitle()


def test_a_measure_that_is_missing_in_an_iteration_leaves_a_gap(iterations):
    iterations.loc[1, "vali_map"] = np.nan
    assert np.isnan(lines(plots.measures(iterations))["vali_map"][1][1])


@pytest.mark.parametrize("split", SPLITS)
def test_margins_draws_the_counts_of_every_bin(split):
    frame = margins_frame(rows())
    figure = plots.margins(frame, split=split)
    assert len(figure.axes) == 5
    for iteration, axes in enumerate(figure.axes):
        for steps in axes.patches:
            of = (frame["iteration"] == iteration) & (frame["split"] == split)
            expected = frame[of & (frame["outcome"] == steps.get_gid())]["pairs"].tolist()
            assert steps.get_data().values.tolist() == expected
            assert len(expected) == len(MARGIN_EDGES) + 1
        assert {steps.get_gid() for steps in axes.patches} == set(OUTCOMES)
        labels = [label.get_text().partition("/") for label in axes.get_xticklabels()]
        at = [float(top) / float(bottom or 1) for top, _, bottom in labels]
        assert at == [MARGIN_EDGES[int(place) - 1] for place in axes.get_xticks()]


def test_many_iterations_are_thinned_out_to_the_first_and_the_last():
    titles = [axes.get_title() for axes in plots.margins(margins_frame(rows(20)), most=4).axes]
    assert titles == [f"iteration {number}" for number in (0, 6, 13, 19)]


def test_mistakes_by_rank_draws_shares_and_writes_the_counts():
    frame = mistakes_frame(rows())
    for iteration, shown in ((None, 4), (1, 1)):
        axes = plots.mistakes_by_rank(frame, iteration=iteration).axes[0]
        (image,) = axes.images
        one = frame[(frame["iteration"] == shown) & (frame["split"] == "vali")]
        drawn = np.ma.filled(image.get_array().astype(float), np.nan)
        counts = {(t.get_position()[1], t.get_position()[0]): t.get_text() for t in axes.texts}
        for row in one.itertuples():
            at = RANK_BINS.index(row.upper), RANK_BINS.index(row.lower)
            if row.compared:
                assert drawn[at] == row.wrong / row.compared
                assert counts.pop(at) == str(row.wrong)
            else:
                assert np.isnan(drawn[at])
        assert counts == {}
        assert [t.get_text() for t in axes.get_xticklabels()] == list(RANK_BINS)


def test_the_kept_iteration_is_shown_unless_another_is_asked_for():
    frame = mistakes_frame(rows())
    frame.attrs["kept"] = 2
    assert "iteration 2" in plots.mistakes_by_rank(frame).get_suptitle()
    with pytest.raises(SortNetError, match="no iteration 9 to draw; there are 0 to 4"):
        plots.mistakes_by_rank(frame, iteration=9)


def test_hard_queries_sums_the_mistakes_of_each_query_after_iteration_0():
    frame = pairs()
    summed: dict[tuple[str, str], int] = {}
    for row in frame.itertuples():
        times = row.times - (row.first_wrong == 0)  # iteration 0 is not counted
        summed[row.split, row.qid] = summed.get((row.split, row.qid), 0) + times
    figure = plots.hard_queries(frame, top=5)
    (axes,) = figure.axes
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == sorted(summed.values(), reverse=True)[:5]
    names = [label.get_text() for label in axes.get_yticklabels()]
    for name, width, text in zip(names, widths, texts(figure), strict=True):
        split = "vali" if text.endswith("validation") else "train"
        assert summed[split, name] == width and text.startswith(f"{width:.0f} × in ")
    last = frame["last_wrong"].max()
    assert f"in the {last} iterations from 1 on" in figure.get_suptitle()
    first_only = frame.assign(first_wrong=0, last_wrong=0, times=1)
    with pytest.raises(DataError, match="no pair was wrong after iteration 0"):
        plots.hard_queries(first_only)


def test_cycles_draws_the_share_of_both_parts():
    frame = cycles_frame(rows())
    figure = plots.cycles(frame)
    for line, split in zip(figure.axes[0].lines, SPLITS, strict=False):
        part = frame[frame["split"] == split]
        assert np.asarray(line.get_xydata()).tolist() == points(part, "share")


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
    plots.margins: lambda: margins_frame(rows()),
    plots.mistakes_by_rank: lambda: mistakes_frame(rows()),
    plots.hard_queries: pairs,
    plots.cycles: lambda: cycles_frame(rows()),
    plots.curves: study,
}


@pytest.mark.parametrize("plot", DRAWN, ids=lambda plot: plot.__name__)
def test_a_frame_without_rows_is_refused_with_the_next_step(plot):
    frame = DRAWN[plot]()
    with pytest.raises(SortNetError, match=r"nothing to draw, the frame has no rows: \w+") as fault:
        draw(plot, frame.iloc[:0])
    assert "\n" not in str(fault.value)
    with pytest.raises(SortNetError, match="the frame has no column"):
        draw(plot, frame[[]])


@pytest.mark.parametrize("plot", DRAWN, ids=lambda plot: plot.__name__)
def test_every_figure_draws_with_one_row_and_leaves_the_frame_alone(plot):
    frame = DRAWN[plot]()
    before = frame.copy(deep=True)
    draw(plot, frame).savefig(io.BytesIO())
    pd.testing.assert_frame_equal(frame, before)
    first = frame["iteration"] == 0 if "iteration" in frame else frame.index == 0
    draw(plot, frame[first]).savefig(io.BytesIO())


@pytest.mark.parametrize("plot", DRAWN, ids=lambda plot: plot.__name__)
def test_no_label_is_cut_and_the_legend_covers_no_panel(plot):
    fits_on_paper(draw(plot, DRAWN[plot]()))


def test_long_names_of_queries_cut_no_label():
    frame = pairs()
    names = [f"is-the-school-uniform-a-good-idea_{name}" for name in frame["qid"].cat.categories]
    frame["qid"] = frame["qid"].cat.rename_categories(names)
    frame["last_wrong"] += 9  # iteration numbers with two digits
    fits_on_paper(plots.hard_queries(frame))


def fits_on_paper(figure: Figure) -> None:
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    paper = figure.bbox
    for axes in figure.axes:
        box = axes.get_tightbbox(renderer)
        assert box.x0 >= paper.x0 - 1 and box.x1 <= paper.x1 + 1
        assert box.y0 >= paper.y0 - 1 and box.y1 <= paper.y1 + 1
        for legend in figure.legends:
            assert not legend.get_window_extent(renderer).overlaps(box)


def test_intervals_draw_each_item_and_of_many_a_band_of_medians():
    frame = pd.DataFrame({"rank": [1, 2, 3], "id": ["a", "b", "c"], "low": 1, "high": [2, 3, 3]})
    (axes,) = plots.ranking_intervals(frame).axes
    (drawn,) = axes.collections
    assert [path.tolist() for path in drawn.get_segments()] == [
        [[1, 1], [2, 1]], [[1, 2], [3, 2]], [[1, 3], [3, 3]]
    ]  # fmt: skip
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b", "c"]
    rank = np.arange(1, 1001)
    low, high = np.maximum(rank - 7, 1), np.minimum(rank + 9, 1000)
    many = pd.DataFrame({"rank": rank, "id": rank, "low": low, "high": high})
    figure = plots.ranking_intervals(many)
    assert "medians of 5 items" in figure.get_suptitle()
    assert lines(figure)["rank"] == [[k, k] for k in range(3, 1000, 5)]


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


def test_bars_have_a_label_behind_their_error_and_only_what_is_drawn_is_asked_for():
    figure = plots.bars(["a", "b"], [2.0, 1.0], ["two", "one"], errors=[0.5, 0.0], title="t",
                        xlabel="x")  # fmt: skip
    (axes,) = figure.axes
    assert [bar.get_width() for bar in axes.patches] == [2, 1]
    assert {text.get_text(): text.xy for text in axes.texts} == {"two": (2.5, 0), "one": (1, 1)}
    fits_on_paper(figure)
    with pytest.raises(DataError, match="no bars"):
        plots.bars([], [], [], title="t", xlabel="x")


def test_splits_are_distinct_without_colour(iterations):
    sizes = plots.pair_growth(iterations).axes[0]
    train, vali = (line for line in sizes.lines if line.get_gid() in ("tp", "vp"))
    assert train.get_marker() != vali.get_marker()
    assert train.get_linestyle() != vali.get_linestyle()


def test_drawing_imports_no_pyplot_and_importing_plots_no_matplotlib():
    code = (
        "import sys; from store import plots; assert 'matplotlib' not in sys.modules\n"
        "import pandas as pd\n"
        "frame = pd.DataFrame({'answers': [1, 2], 'right': [0.5, 1]})\n"
        "plots.curves(frame, 'answers', 'right'); print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_diagram_of_mean_ranks_has_the_best_first_and_joins_who_does_not_differ():
    figure = plots.critical_difference_diagram([2.5, 1.2, 2.3, 4.0], list("abcd"), 1.2)
    (axes,) = figure.axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["b  1.20", "c  2.30", "a  2.50", "d  4.00"]
    bars = [line for line in axes.lines if line.get_gid() == "alike"]
    assert [tuple(line.get_ydata().round()) for line in bars] == [(0, 1), (1, 2)]
    assert len({line.get_xdata()[0] for line in bars}) == 2
    assert "1.20" in figure.get_suptitle()
    with pytest.raises(DataError, match="3 names of rankers and 2 mean ranks"):
        plots.critical_difference_diagram([1, 2], list("abc"), 1)


@pytest.mark.parametrize("seed", range(20))
def test_two_rankers_share_a_bar_exactly_if_their_ranks_are_near(seed):
    rng = np.random.default_rng(seed)
    ranks = np.sort(rng.integers(2, 20, 8) / 2)
    bars = indistinguishable_runs(ranks, 2.2)
    for i, j in combinations(range(8), 2):
        joined = any(low <= i and j <= high for low, high in bars)
        assert joined == (ranks[j] - ranks[i] <= 2.2)
    for (a, b), (c, d) in combinations(bars, 2):
        assert not (a <= c and d <= b) and not (c <= a and b <= d)


def test_curves_draw_the_points_of_each_group_in_order_with_their_band():
    frame = study()
    figure = plots.curves(frame, "documents", "ndcg@20", "ranker", log=True)
    drawn = lines(figure)
    for group, of_group in frame.groupby("ranker"):
        in_order = of_group.sort_values("documents")
        assert drawn[group] == in_order[["documents", "ndcg@20"]].to_numpy().tolist()
    (axes,) = figure.axes
    assert [band.get_gid() for band in axes.collections] == ["ranker 0", "ranker 1", "ranker 2"]
    heights = axes.collections[1].get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx(0.511 - 0.02)
    assert heights.max() == pytest.approx(0.61 + 0.02)
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(drawn)
    alone = plots.curves(study(1)[["documents", "ndcg@20"]], "documents", "ndcg@20")
    assert not alone.axes[0].collections and not alone.legends


def test_many_curves_are_distinct_with_and_without_colour():
    drawn = plots.curves(study(21), "documents", "ndcg@20", "ranker").axes[0].lines
    looks = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in drawn}
    grey = {(line.get_marker(), line.get_linestyle()) for line in drawn}
    assert len(looks) == len(grey) == 21


@pytest.mark.parametrize("n_groups", [2, 21])
def test_names_and_titles_of_data_are_no_formulas_and_cover_nothing(n_groups):
    frame = study(n_groups).assign(ranker=lambda rows: "$a_{" + rows["ranker"])
    figure = plots.curves(frame, "documents", "ndcg@20", "ranker", title="$x_{$", remark="a $ b")
    fits_on_paper(figure)
    figure.savefig(io.BytesIO(), format="svg")
    assert any(r"\$a" in text.get_text() for text in figure.findobj(Text))
    figure = plots.critical_difference_diagram(np.arange(n_groups) + 1, ["$a_{"] * n_groups, 1.5)
    fits_on_paper(figure)
