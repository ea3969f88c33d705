"""`sortnet experiment context`: table, figure over sizes, what is kept and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from cli_helpers import done, fault, invoke
from result_helpers import value_of

from sortnet.lab import cells as cells_module
from sortnet.lab.set_generators import MEASURES, MadeSets

SMALL = ("--splits", "2", "--train", "60", "--test", "40")


pytestmark = pytest.mark.usefixtures("here")


def test_figures_of_every_set_are_written_and_nothing_is_worked_out_twice(monkeypatch):
    typed = ("experiment", "context", "hypervolume", "--models", "err", *SMALL, "--out", "written")
    first = done(*typed)
    assert "FATE-Net     0.879        0.912  0.486" in first
    assert "queries of a single grade left out: 0 of 80" in first
    results = pd.read_csv("written/results.csv")
    assert len(results) == results["qid"].nunique() == 2 * 40
    assert list(results.columns) == ["ranker", "part", "qid", *MEASURES]
    right = results["concordance"] * 10  # of 10 pairs
    np.testing.assert_allclose(right, right.round())
    monkeypatch.setattr(cells_module, "fit_ranker", None)
    again = invoke(*typed)
    assert "worked out before: 2 of 2 cells" in again.stderr and again.stdout == first
    other = invoke(*typed, "--seed", 1)
    assert other.exit_code == 2 and "no ranker could be fitted" in other.stderr


def test_sizes_have_an_accuracy_of_each_size_from_3_to_24(tmp_path):
    few = ("--models", "ranksvm", "--splits", 2, "--train", 60, "--test", 20)
    shown = done("experiment", "context", "sizes", *few, "--json", "--out", "drawn")
    rows = value_of(shown, "study")["rows"]
    assert [row["objects of a set"] for row in rows] == list(range(3, 25))
    assert all(row["cells"] == 2 and 0 <= row["value"] <= 1 for row in rows)
    assert (tmp_path / "drawn" / "set-sizes.svg").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("medoid", "--models", "ranknett"), "unknown ranker 'ranknett'; there is ranknet"),
        (("medoid", "--models", "ranknet:hiden=3"), "no setting 'hiden'; there is hidden"),
        (("hypervolume", "--models", "err", "--d", "1"), "hypervolume: sets have 2 features"),
        (("sizes", "--models", "err", "--latex"), "sizes has a figure"),
        (("medoid", "--models", "err", "--json", "--latex"), "give one of them"),
    ],
)
def test_what_cannot_be_is_one_line(words, said):
    assert said in fault("experiment", "context", *words)


def test_parts_are_apart_and_the_same_for_every_test_size():
    sets = MadeSets("medoid", 3, n=4, d=3, train=50, test=30, smallest=3, largest=5, seed=8)
    fold = sets.load()
    assert (len(fold.train), len(fold.vali), len(fold.test)) == (45, 5, 90)
    rows = np.concatenate([part.features for part in (fold.train, fold.vali, fold.test)])
    assert len(np.unique(rows, axis=0)) == len(rows)
    alone = MadeSets("medoid", 3, n=4, d=3, train=50, test=30, seed=8).load()
    assert (alone.train.features == fold.train.features).all()
    assert (alone.test.features == fold.test.take(range(30, 60)).features).all()
