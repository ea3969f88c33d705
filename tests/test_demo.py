"""`sortnet demo`: what it learns, writes and says."""

from __future__ import annotations

import click
import numpy as np
import pytest
from cli_helpers import fault, invoke
from matplotlib.figure import Figure
from matplotlib.image import imread
from result_helpers import value_of
from scipy.stats import spearmanr

from sortnet import Model, read_queries
from store import open_store
from store.plots.sorted_images import Panel, draw, misplaced


def run_demo(tmp_path, *args: str) -> click.testing.Result:
    typed = ["--out", str(tmp_path / "demo"), "--store", str(tmp_path / "s.db"), *args]
    result = invoke("demo", *typed)
    assert result.exit_code == 0, result.stderr
    return result


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """As anybody runs it, but for its later iterations."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, run_demo(folder, "--max-iter", "2").stdout


def correlation(folder) -> float:
    """Of what the model in a folder makes of the demo's test file."""
    test = read_queries(folder / "demo/test.txt", n_features=64)
    scores = Model.load(folder / "demo").scores(test)
    parts = zip(test.offsets, test.offsets[1:], strict=False)
    return float(np.mean([spearmanr(scores[a:b], test.grades[a:b]).statistic for a, b in parts]))


@pytest.mark.slow
def test_it_says_what_it_did_where_all_is_and_what_comes_next(whole):
    folder, said = whole
    shown = [int(line.split()[0]) for line in said.splitlines() if line.endswith("*")]
    with open_store(folder / "s.db") as store:
        run = store.run("last")
        assert run.status == "done"
        frame = run.iterations_frame()
        assert shown == frame["iteration"][frame["best"]].tolist() and shown[0] == 0
        for split, column in (("train", "tp"), ("vali", "vp")):
            assert len(run.pairs(split)) == frame[column].iloc[-1] > 0
    for name in ("demo", "demo/sorted.png", "demo/test.txt", "s.db"):
        assert str(folder / name) in said
        assert (folder / name).exists()
    assert f"to learn from\nin {len(frame) - 1} iteration" in said
    assert f"sortnet show last --store {folder / 's.db'}" in said
    assert "sortnet pairs last" in said


@pytest.mark.slow
def test_unseen_digits_are_sorted_with_a_correlation_of_95_percent_as_it_says(whole):
    folder, said = whole
    assert said.split("after training")[1].split()[0] == f"{correlation(folder):.3f}"
    assert correlation(folder) >= 0.95
    assert abs(float(said.split("before training")[1].split()[0])) < 0.3


@pytest.mark.slow
def test_a_second_demo_replaces_the_first_and_says_the_same_as_json(whole, quick_training):
    folder, _ = whole
    found = value_of(run_demo(folder, "--max-iter", "2", "--json").stdout, "demo")
    assert found["spearman"]["after"] == pytest.approx(correlation(folder))
    assert found["picture"] == str(folder / "demo/sorted.png")
    with open_store(folder / "s.db") as store:
        assert len(store.runs_frame()) == 2


def test_a_model_that_is_not_the_demos_is_left_alone(tmp_path):
    (tmp_path / "model.json").write_text("{}")
    said = fault("demo", "--out", tmp_path, "--store", tmp_path / "s.db")
    assert "has a model that is not the demo's" in said
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]


def test_an_image_is_in_a_wrong_place_where_another_number_belongs():
    numbers = np.array([2, 0, 2, 1])  # in order: 2 2 1 0
    assert misplaced(numbers, np.array([2, 0, 3, 1])).tolist() == [False] * 4
    assert misplaced(numbers, np.array([0, 3, 2, 1])).tolist() == [False, True, True, False]


@pytest.mark.parametrize("n", [18, 20, 36])
def test_a_picture_holds_every_panel_and_cuts_nothing_off(tmp_path, n):
    generator = np.random.default_rng(0)
    images, numbers = generator.random((n, 8, 8), dtype=np.float32), np.arange(n) % 10
    panels = [Panel("one", "", np.arange(n)), Panel("two", "", np.argsort(-numbers))]
    for k in (1, 2):
        draw(tmp_path / f"{k}.png", images, numbers, panels[:k], title="title")
    strips = [Panel(f"iteration {k}: 999,999 pairs", "Spearman -0.55", np.arange(n)) for k in "abc"]
    draw(tmp_path / "3.png", images, numbers, panels, title="title", strips=strips)
    one, two, three = (imread(tmp_path / f"{k}.png")[..., :3] for k in (1, 2, 3))
    assert three.shape[0] > two.shape[0] > one.shape[0]
    for whole in (two, three):
        for edge in (whole[:5], whole[-5:], whole[:, :5], whole[:, -5:]):
            assert (edge == 1).all()


def test_captions_of_small_images_keep_a_distance_from_them(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *args, **kw: figures.append(figure))
    images, order = np.zeros((36, 8, 8), np.float32), np.arange(36)
    captions = ["iteration 9: 26,461 pairs", "iteration 10: 26,489 pairs"]
    strips = [Panel(caption, "Spearman -0.55", order) for caption in captions]
    panels = [Panel("before", "", order), Panel("after", "", order)]
    draw(tmp_path / "p.png", images, order % 10, panels, title="title", strips=strips)
    (figure,) = figures
    figure.canvas.draw()
    (axes,) = [axes for axes in figure.axes if axes.texts and axes.texts[0].get_text() in captions]
    side = figure.dpi * 0.2  # inches, the width of a small image
    for line, caption, remark in zip(axes.images, axes.texts[::2], axes.texts[1::2], strict=True):
        place = line.get_window_extent()
        assert caption.get_window_extent().x1 + side < place.x0
        assert place.x1 + side < remark.get_window_extent().x0
