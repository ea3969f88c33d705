"""Every figure draws the numbers of its frame: they are read back from what was drawn."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sortnet.core import SPLITS
from sortnet.errors import DataError, SortNetError
from sortnet.sorting.diagnostics import MARGIN_EDGES, RANK_BINS
from store.frames import OUTCOMES, cycles_frame, iterations_frame, margins_frame, mistakes_frame
from store.plots import figures as plots
from store.plots import labelling
from store.plots.drawing import choose_iterations

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


def order(n: int = 8) -> pd.DataFrame:
    names = [f"d{k}" for k in range(n)]
    before, after = RNG.permutation(n) + 1, RNG.permutation(n) + 1
    return pd.DataFrame(
        {"document": names, "grade": np.arange(n) % 3, "before": before, "after": after}
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


def test_pair_growth_draws_sizes_and_new_pairs_and_marks_the_kept(iterations):
    figure = plots.pair_growth(iterations)
    drawn = lines(figure)
    for column in ("tp", "vp", "new_train", "new_vali"):
        assert drawn[column] == points(iterations, column)
    for split in SPLITS:
        share = iterations[f"miscompared_{split}"] / iterations[f"comparisons_{split}"]
        expected = [[float(k), value] for k, value in enumerate(share)]
        assert drawn[f"wrong_{split}"] == expected
    assert [x for x, _ in drawn["kept"]] == [2, 2]
    assert texts(figure) == ["kept"] * 3
    assert figure.get_suptitle() == "Pairs kept"
    iterations.attrs["pairs"] = "wrong"
    assert plots.pair_growth(iterations).get_suptitle() == "Pairs the comparator got wrong"
    iterations.attrs["pairs"] = "random"
    assert plots.pair_growth(iterations).get_suptitle() == "Pairs learned from (random)"


def test_measures_draws_each_on_both_parts_under_their_conventions(iterations):
    iterations.attrs["conventions"] = "P@10 divides by 10; relevant from grade 1"
    figure = plots.measures(iterations)
    drawn = lines(figure)
    for name in ("train_map", "vali_map", "train_p@10", "vali_p@10"):
        assert drawn[name] == points(iterations, name)
    assert [axes.get_title() for axes in figure.axes] == ["map", "p@10"]
    title = figure.get_suptitle().replace("\N{NO-BREAK SPACE}", " ").replace("\n", " ")
    assert title.endswith("P@10 divides by 10; relevant from grade 1")
    assert "of a friend" in plots.measures(iterations, conventions="of\na friend").get_suptitle(
    ).replace("\N{NO-BREAK SPACE}", " ").replace("\n", " ")  # fmt: skip


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
        if iteration < 2:
            continue  # a panel below it has the labels
        labels = [label.get_text().partition("/") for label in axes.get_xticklabels()]
        at = [float(top) / float(bottom or 1) for top, _, bottom in labels]
        assert at == [MARGIN_EDGES[int(place) - 1] for place in axes.get_xticks()]


def test_many_iterations_are_thinned_out_to_the_first_the_kept_and_the_last():
    frame = margins_frame(rows(20))
    frame.attrs["kept"] = 6
    titles = [axes.get_title() for axes in plots.margins(frame, most=4).axes]
    assert titles == ["iteration 0", "iteration 6 (kept)", "iteration 13", "iteration 19"]
    assert choose_iterations([3, 5, 9], 5, 3) == [3, 5, 9]
    assert choose_iterations(list(range(50)), None, 2) == [0, 49]


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


def bars_of(figure: Figure) -> list[tuple[str, float]]:
    """(name, length) of the bars from the top."""
    (axes,) = figure.axes
    lengths = {
        round(bar.get_y() + bar.get_height() / 2): bar.get_width()
        for container in axes.containers
        for bar in container
    }
    names = [label.get_text() for label in axes.get_yticklabels()]
    return [(names[k], lengths[k]) for k in range(len(names))]


def test_a_convention_longer_than_a_line_is_broken_between_words(iterations):
    said = "accuracy is the share of the judgements predicted, by their weights"
    frame = iterations[["iteration", "train_map", "vali_map"]]
    _, *lines = plots.measures(frame, conventions=said).get_suptitle().splitlines()
    assert len(lines) > 1 and " ".join(lines) == said


def test_hard_queries_sums_the_mistakes_of_each_query():
    frame = pairs()
    summed: dict[tuple[str, str], int] = {}
    for row in frame.itertuples():
        times = row.times - (row.first_wrong == 0)  # iteration 0 is not counted
        summed[row.split, row.qid] = summed.get((row.split, row.qid), 0) + times
    figure = plots.hard_queries(frame, top=5)
    drawn = bars_of(figure)
    assert [length for _, length in drawn] == sorted(summed.values(), reverse=True)[:5]
    for name, length in drawn:
        assert length in [summed.get((split, name)) for split in SPLITS]
    after = frame[(frame["first_wrong"] > 0) | (frame["times"] > 1)]
    sizes = after.groupby(["split", "qid"], observed=True).size()
    most = max(summed.values())
    worst = [f"{most} times, {sizes[key]} pairs" for key, n in summed.items() if n == most]
    assert texts(figure)[0] in worst


def test_hard_queries_says_of_how_many_iterations_and_needs_them_recorded():
    frame = pairs()
    last = frame["last_wrong"].max()
    (axes,) = plots.hard_queries(frame).axes
    assert f"in the {last} iterations from 1 on" in axes.get_xlabel()
    first_only = frame.assign(first_wrong=0, last_wrong=0, times=1)
    with pytest.raises(DataError, match="no pair was wrong after iteration 0"):
        plots.hard_queries(first_only)


def test_cycles_draws_the_share_of_both_parts():
    frame = cycles_frame(rows())
    figure = plots.cycles(frame)
    for line, split in zip(figure.axes[0].lines, SPLITS, strict=False):
        part = frame[frame["split"] == split]
        assert np.asarray(line.get_xydata()).tolist() == points(part, "share")


def test_before_after_joins_the_two_ranks_of_each_document():
    frame = order()
    drawn = lines(plots.before_after(frame))
    for row in frame.itertuples():
        assert drawn[row.document] == [[0, row.before], [1, row.after]]
    assert set(lines(plots.before_after(frame, top=3))) == set(
        frame[frame["after"] <= 3]["document"]
    )


def test_seconds_stacks_sorting_on_training(iterations):
    (axes,) = plots.seconds(iterations).axes
    training, sorting = axes.containers
    assert [bar.get_height() for bar in training] == [1.5] * 5
    assert [bar.get_height() for bar in sorting] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert [bar.get_y() for bar in sorting] == [1.5] * 5


DRAWN = {
    plots.pair_growth: lambda: iterations_frame(rows()),
    plots.measures: lambda: iterations_frame(rows()),
    plots.margins: lambda: margins_frame(rows()),
    plots.mistakes_by_rank: lambda: mistakes_frame(rows()),
    plots.hard_queries: pairs,
    plots.cycles: lambda: cycles_frame(rows()),
    plots.before_after: order,
    plots.seconds: lambda: iterations_frame(rows()),
}


@pytest.mark.parametrize("plot", DRAWN, ids=lambda plot: plot.__name__)
def test_a_frame_without_rows_is_refused_with_the_next_step(plot):
    frame = DRAWN[plot]()
    with pytest.raises(SortNetError, match=r"nothing to draw, the frame has no rows: \w+") as fault:
        plot(frame.iloc[:0])
    assert "\n" not in str(fault.value)
    with pytest.raises(SortNetError, match="the frame has no column"):
        plot(frame[[]])


@pytest.mark.parametrize("plot", DRAWN, ids=lambda plot: plot.__name__)
def test_every_figure_draws_with_one_row_and_leaves_the_frame_alone(plot):
    frame = DRAWN[plot]()
    before = frame.copy(deep=True)
    plot(frame).savefig(io.BytesIO())
    pd.testing.assert_frame_equal(frame, before)
    first = frame["iteration"] == 0 if "iteration" in frame else frame.index == 0
    plot(frame[first]).savefig(io.BytesIO())


@pytest.mark.parametrize("plot", DRAWN, ids=lambda plot: plot.__name__)
def test_no_label_is_cut_and_the_legend_covers_no_panel(plot):
    fits_on_paper(plot(DRAWN[plot]()))


def test_long_names_of_queries_cut_no_label():
    frame = pairs()
    names = [f"is-the-school-uniform-a-good-idea_{name}" for name in frame["qid"].cat.categories]
    frame["qid"] = frame["qid"].cat.rename_categories(names)
    frame["last_wrong"] += 9  # iteration numbers with two digits
    fits_on_paper(plots.hard_queries(frame))


def test_hard_queries_counts_one_in_the_singular():
    frame = pairs(1).assign(first_wrong=1, last_wrong=1, times=1)
    assert texts(plots.hard_queries(frame)) == ["1 time, 1 pair"]


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
    (axes,) = labelling.ranking_intervals(frame).axes
    (drawn,) = axes.collections
    assert [path.tolist() for path in drawn.get_segments()] == [
        [[1, 1], [2, 1]], [[1, 2], [3, 2]], [[1, 3], [3, 3]]
    ]  # fmt: skip
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b", "c"]
    rank = np.arange(1, 1001)
    low, high = np.maximum(rank - 7, 1), np.minimum(rank + 9, 1000)
    many = pd.DataFrame({"rank": rank, "id": rank, "low": low, "high": high})
    figure = labelling.ranking_intervals(many)
    assert "medians of 5 items" in figure.get_suptitle().replace("\N{NO-BREAK SPACE}", " ")
    assert lines(figure)["rank"] == [[k, k] for k in range(3, 1000, 5)]


def test_growth_draws_what_is_known_and_the_goal():
    fits = pd.DataFrame(
        {"answers": [5, 9, 12], "expected": [0.6, 0.7, 0.9], "holdout": [None, 0.5, 0.75]}
    )
    drawn = lines(labelling.certainty_growth(fits, goal=0.95))
    assert drawn["expected"] == [[5, 0.6], [9, 0.7], [12, 0.9]]
    assert drawn["holdout"] == [[9, 0.5], [12, 0.75]]
    assert [y for _, y in drawn["goal"]] == [0.95, 0.95]
    with pytest.raises(SortNetError, match="one fit is no growth"):
        labelling.certainty_growth(fits.head(1))


def test_annotators_have_a_bar_each_and_the_last_of_many_one_together():
    frame = pd.DataFrame({"annotator": [f"p{k}" for k in range(25)], "answers": range(25)})
    (axes,) = labelling.answers_by_annotator(frame).axes
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == [*range(24, 4, -1), 0 + 1 + 2 + 3 + 4]
    assert [label.get_text() for label in axes.get_yticklabels()][-1] == "5 others"


def test_splits_are_distinct_without_colour(iterations):
    sizes = plots.pair_growth(iterations).axes[0]
    train, vali = (line for line in sizes.lines if line.get_gid() in ("tp", "vp"))
    assert train.get_marker() != vali.get_marker()
    assert train.get_linestyle() != vali.get_linestyle()


def test_drawing_imports_no_pyplot_and_importing_plots_no_matplotlib():
    code = (
        "import sys; from store import plots; assert 'matplotlib' not in sys.modules\n"
        "import pandas as pd\n"
        "frame = pd.DataFrame({'iteration': [0], 'seconds_sort': [1.0], 'seconds_train': [2.0]})\n"
        "plots.seconds(frame); print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
