"""`sortnet demo`: what it learns, writes and says."""

from __future__ import annotations

import click
import numpy as np
import pytest
from cli_helpers import fault, invoke, quick_training
from result_helpers import value_of
from scipy.stats import spearmanr

from sortnet import Model, read_queries
from store import open_store


def run_demo(tmp_path, *args: str) -> click.testing.Result:
    typed = ["--out", str(tmp_path / "demo"), "--store", str(tmp_path / "s.db"), *args]
    result = invoke("demo", *typed)
    assert result.exit_code == 0, result.stderr
    return result


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """As anybody runs it, but for its later iterations."""
    folder = tmp_path_factory.mktemp("whole")
    typed = ("--max-iter", "2")
    with quick_training():
        first = run_demo(folder, *typed, "--json")  # which a second one replaces
    assert len(value_of(first.stdout, "demo")["spearman"]["iterations"]) == 3
    return folder, run_demo(folder, *typed).stdout


def correlation(folder) -> float:
    """Of what the model in a folder makes of the demo's test file."""
    test = read_queries(folder / "demo/test.txt", n_features=64)
    scores = Model.load(folder / "demo").scores(test)
    parts = zip(test.offsets, test.offsets[1:], strict=False)
    return float(np.mean([spearmanr(scores[a:b], test.grades[a:b]).statistic for a, b in parts]))


@pytest.mark.slow
def test_it_says_what_it_did_where_all_is_and_what_comes_next(whole):
    folder, said = whole
    with open_store(folder / "s.db") as store:
        run = store.run("last")
        frame = run.iterations_frame()
        assert run.status == "done"
    shown = [int(line.split()[0]) for line in said.splitlines() if line.endswith("*")]
    assert shown == frame["iteration"][frame["best"]].tolist() and shown[0] == 0
    for name in ("demo", "demo/sorted.png", "demo/test.txt", "s.db"):
        assert str(folder / name) in said and (folder / name).exists()
    assert f"to learn from\nin {len(frame) - 1} iteration" in said
    assert f"sortnet show last --store {folder / 's.db'}" in said


@pytest.mark.slow
def test_unseen_digits_are_sorted_with_a_correlation_of_95_percent_as_it_says(whole):
    folder, said = whole
    assert said.split("after training")[1].split()[0] == f"{correlation(folder):.3f}"
    assert correlation(folder) >= 0.95
    assert abs(float(said.split("before training")[1].split()[0])) < 0.3


def test_a_model_that_is_not_the_demos_is_left_alone(tmp_path):
    (tmp_path / "model.json").write_text("{}")
    said = fault("demo", "--out", tmp_path, "--store", tmp_path / "s.db")
    assert "has a model that is not the demo's" in said
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]
