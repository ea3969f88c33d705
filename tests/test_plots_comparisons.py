"""Plots that compare rankers draw the numbers they are given, and nothing covers anything."""

from __future__ import annotations

import io
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from sortnet.errors import DataError
from store.plots import critical_difference_diagram, curves, p_value_matrix
from store.plots.comparisons import indistinguishable_runs

RNG = np.random.default_rng(4)


@pytest.fixture(autouse=True)
def same_numbers(monkeypatch):
    """Whichever tests of this file ran before, in this process."""
    monkeypatch.setitem(globals(), "RNG", np.random.default_rng(4))


def names_of(k: int) -> list[str]:
    return [f"directranker-neighbours {number}" for number in range(k)]


def p_values(k: int) -> np.ndarray:
    p = RNG.random((k, k)) ** 3
    return np.triu(p, 1) + np.triu(p, 1).T + np.eye(k)


def study(groups: int = 3) -> pd.DataFrame:
    return pd.DataFrame(
        [
            (f"ranker {group}", size, 0.5 + 0.01 * group + 1e-4 * size, 0.01 * (group + 1))
            for group in range(groups)
            for size in (100, 10, 1000)
        ],
        columns=["ranker", "documents", "ndcg@20", "ndcg@20_error"],
    )


def drawn_lines(figure: Figure) -> dict[str, list[list[float]]]:
    return {str(line.get_gid()): line.get_xydata().tolist() for line in figure.axes[0].lines}


def p_texts(figure: Figure) -> dict[tuple[int, int], str]:
    """{(row, column): what is written}."""
    texts = {text.get_position()[::-1]: text.get_text() for text in figure.axes[0].texts}
    return {(int(row), int(column)): text for (row, column), text in texts.items()}


def test_a_matrix_writes_every_p_value_once_and_points_to_the_better_one():
    p = np.array([[1, 0.0004, 0.2], [0.0004, 1, 0.03], [0.2, 0.03, 1]])
    figure = p_value_matrix(p, ["a", "b", "c"], [0.5, 0.7, 0.6])
    # left of the row is the row's name, below the column the column's
    assert p_texts(figure) == {(1, 0): "←\n<.001", (2, 0): ".200", (2, 1): "↓\n.030"}
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b  0.700", "c  0.600"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a  0.500", "b  0.700"]
    assert axes.yaxis_inverted()


def test_colour_and_weight_say_how_certain_a_difference_is():
    levels = [0.0005, 0.005, 0.03, 0.05, 0.9, np.nan]
    colours, weights = [], []
    for p in levels:
        axes = p_value_matrix([[1, p], [p, 1]], ["a", "b"], [1, 0]).axes[0]
        colours.append(axes.patches[0].get_facecolor())
        weights.append(axes.texts[0].get_fontweight())
    assert weights == ["bold"] * 3 + ["normal"] * 3
    assert len(set(colours)) == 4 and len(set(colours[3:])) == 1
    assert axes.texts[0].get_text() == "–"


def test_a_diagram_draws_each_ranker_from_its_mean_rank_to_its_name():
    figure = critical_difference_diagram([2.5, 1.2, 2.3, 4.0], list("abcd"), 1.25)
    drawn = drawn_lines(figure)
    for name, rank in zip("abcd", [2.5, 1.2, 2.3, 4.0], strict=True):
        (top, corner, side) = drawn[name]
        assert top == [rank, 0.0] and corner[0] == rank and corner[1] == side[1]
        assert (side[0] < 1) == (name in "bc")  # the better half on the left
    assert drawn["b"][1][1] < drawn["c"][1][1]  # so that no line crosses another's name
    assert drawn["d"][1][1] < drawn["a"][1][1]
    texts = {text.get_text() for text in figure.axes[0].texts}
    assert {"b  1.20", "c  2.30", "2.50  a", "4.00  d", "CD 1.25"} <= texts


def test_bars_join_the_rankers_that_do_not_differ():
    figure = critical_difference_diagram([2.5, 1.2, 2.3, 4.0], list("abcd"), 1.2)
    bars = [line for line in figure.axes[0].lines if line.get_gid() == "alike"]
    ends = [line.get_xdata() for line in bars]
    assert [(round(low, 2), round(high, 2)) for low, high in ends] == [(1.16, 2.34), (2.26, 2.54)]
    assert len({line.get_ydata()[0] for line in bars}) == 2


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
    figure = curves(frame, "documents", "ndcg@20", "ranker", log=True)
    drawn = drawn_lines(figure)
    for group, points in frame.groupby("ranker"):
        in_order = points.sort_values("documents")
        assert drawn[group] == in_order[["documents", "ndcg@20"]].to_numpy().tolist()
    (axes,) = figure.axes
    assert [band.get_gid() for band in axes.collections] == ["ranker 0", "ranker 1", "ranker 2"]
    heights = axes.collections[1].get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx(0.511 - 0.02)
    assert heights.max() == pytest.approx(0.61 + 0.02)
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(drawn)


def test_curves_need_neither_groups_nor_errors():
    frame = study(1)[["documents", "ndcg@20"]]
    figure = curves(frame, "documents", "ndcg@20")
    assert len(figure.axes[0].lines) == 1
    assert not figure.axes[0].collections and not figure.legends
    assert figure.get_suptitle() == "ndcg@20 by documents"


def test_many_curves_are_distinct_with_and_without_colour():
    lines = curves(study(21), "documents", "ndcg@20", "ranker").axes[0].lines
    looks = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in lines}
    grey = {(line.get_marker(), line.get_linestyle()) for line in lines}
    assert len(looks) == len(grey) == 21


def figures(k: int) -> dict[str, Figure]:
    ranks = np.sort(RNG.random(k) * (k - 1) + 1)
    remark = "ndcg@10 of MQ2008, five folds; gain 2^r-1, discount log2(1+rank); p corrected by Holm"
    return {
        "matrix": p_value_matrix(p_values(k), names_of(k), RNG.random(k)),
        "near": critical_difference_diagram(ranks, names_of(k), 0.6 * k),
        "far": critical_difference_diagram(ranks, names_of(k), 0.2),
        "curves": curves(study(k), "documents", "ndcg@20", "ranker", remark=remark),
    }


@pytest.mark.parametrize("k", [2, 3, 21])
def test_no_text_is_cut_and_none_covers_another(k, monkeypatch):
    for name, figure in figures(k).items():
        shown = {text for text in texts_drawn(figure, monkeypatch) if text.get_text().strip()}
        assert len(shown) > k
        paper = figure.bbox
        boxes = [(text.get_text(), Text.get_window_extent(text)) for text in shown]
        for text, box in boxes:
            assert box.x0 >= -1 and box.x1 <= paper.x1 + 1, (name, text)
            assert box.y0 >= -1 and box.y1 <= paper.y1 + 1, (name, text)
        for (one, a), (other, b) in combinations(boxes, 2):
            across = min(a.x1, b.x1) - max(a.x0, b.x0)
            upwards = min(a.y1, b.y1) - max(a.y0, b.y0)
            assert min(across, upwards) <= 1, (name, one, other)


def texts_drawn(figure: Figure, monkeypatch: pytest.MonkeyPatch) -> list[Text]:
    """Those that are seen: not the labels of ticks beyond the limits."""
    drawn, draw = [], Text.draw
    with monkeypatch.context() as patched:
        patched.setattr(
            Text, "draw", lambda self, renderer: (drawn.append(self), draw(self, renderer))
        )
        figure.canvas.draw()
    return drawn


def test_a_name_with_dollars_is_no_formula():
    for figure in (
        p_value_matrix(p_values(2), ["$a$", "b"], [1, 2]),
        critical_difference_diagram([1, 2], ["$a$", "b"], 1),
        curves(study(1).assign(ranker="$a$"), "documents", "ndcg@20", "ranker"),
    ):
        figure.savefig(io.BytesIO())
        assert any(r"\$a\$" in text.get_text() for text in figure.findobj(Text))


def test_what_cannot_be_compared_is_refused_in_one_line():
    with pytest.raises(DataError, match="needs two or more rankers"):
        p_value_matrix([[1.0]], ["a"], [1])
    with pytest.raises(DataError, match="3 names of rankers, and not as many figures"):
        critical_difference_diagram([1, 2], list("abc"), 1)
    with pytest.raises(DataError, match="2 names of rankers, and not as many figures"):
        p_value_matrix(np.ones((3, 3)), list("ab"), [1, 2])
    with pytest.raises(DataError, match="no column 'map'"):
        curves(study(), "documents", "map")
    with pytest.raises(DataError, match="no rows: run the study first"):
        curves(study().iloc[:0], "documents", "ndcg@20", "ranker")


def test_a_frame_is_left_alone():
    frame = study()
    before = frame.copy(deep=True)
    curves(frame, "documents", "ndcg@20", "ranker")
    pd.testing.assert_frame_equal(frame, before)
