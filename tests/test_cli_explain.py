"""sortnet explain and importance: which features decide."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_helpers import FAST, done, fault
from result_helpers import value_of

from sortnet.data import read_queries
from sortnet.explanation.attribution import explain_pair
from sortnet.explanation.columns import permutation_importance
from sortnet.rankers.model import Model

TEST = "fold/test.txt"


@pytest.fixture(scope="module")
def made(copy_of_trained) -> Path:
    """A folder with a fold of four features, and two models learned from it."""
    folder = copy_of_trained
    settings = ("--comparator", "directranker", "--set", "committee=2", "--quality", "ndcg@5")
    where = ("--out", folder / "dr", "--store", folder / "s.db")
    done("train", folder / "fold", *where, *FAST, *settings)
    return folder


@pytest.fixture(autouse=True)
def _there(made, monkeypatch):
    monkeypatch.chdir(made)


@pytest.fixture
def queries():
    return read_queries(TEST)


@pytest.mark.parametrize("model", ["m", "dr"])
def test_the_explanation_is_the_library_s(model, queries):
    summary = value_of(done("explain", model, TEST, "d1-0", "d1-3", "--json"))
    expected = explain_pair(Model.load(model), queries, 6, 9)
    assert summary["margin"] == pytest.approx(expected.margin)
    rows = summary["features"]
    assert [row["number"] - 1 for row in rows] == expected.largest()
    for row in rows:
        k = row["number"] - 1
        assert row["feature"] == str(k + 1)
        assert row["value"] == pytest.approx(expected.values[k])
        assert [row["a"], row["b"]] == queries.features[[6, 9], k].tolist()
    assert sum(row["value"] for row in rows) == pytest.approx(
        summary["margin"] - summary["baseline_margin"], abs=summary["error"] + 1e-9
    )


def test_a_missing_value_is_null(tmp_path, queries):
    frame = pd.DataFrame(queries.features, columns=["a", "b", "c", "d"])
    frame["qid"] = queries.qids[queries.query_of_docs()]
    frame.loc[0, "a"] = np.nan
    frame.to_csv(tmp_path / "new.csv", index=False)
    summary = value_of(done("explain", "m", tmp_path / "new.csv", "row:0", "row:1", "--json"))
    assert {row["feature"]: row["a"] for row in summary["features"]}["a"] is None


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("d1-0", "row:6"), "same document"),
        (("d1-0", "nobody"), "no document 'nobody'; give its id, or its row as row:0"),
        (("d1-0", "d2-0"), "only documents of one query"),
        (("d1-0", "d1-1", "--qid", "none"), "no query 'none'; the first of 8 is 'q0'"),
    ],
)
def test_documents_that_cannot_be_explained_are_named_with_the_next_step(args, message):
    assert message in fault("explain", "m", TEST, *args)


@pytest.mark.parametrize(("model", "metric"), [("m", "ndcg@10"), ("dr", "ndcg@5")])
def test_importance_is_the_library_s_by_the_model_s_rank_quality(model, metric, queries):
    summary = value_of(done("importance", model, TEST, "--json", "--seed", 3))
    expected = permutation_importance(Model.load(model), queries, seed=3)
    assert summary["metric"] == metric == expected.metric.name
    assert summary["quality"] == expected.quality
    assert (summary["repeats"], summary["seed"], summary["data"]) == (5, 3, TEST)
    assert [row["number"] - 1 for row in summary["features"]] == expected.largest()
    for row in summary["features"]:
        k = row["number"] - 1
        assert (row["mean"], row["std"]) == (expected.mean[k], expected.std[k])


def test_importance_as_csv_is_the_same_figures(tmp_path):
    args = ("importance", "m", TEST, "--metric", "p@3", "--repeats", 2)
    summary = value_of(done(*args, "--json"))
    assert summary["metric"] == "p@3"
    done(*args, "--output", tmp_path / "i.csv")
    frame = pd.read_csv(tmp_path / "i.csv")
    expected = pd.DataFrame(summary["features"])
    pd.testing.assert_frame_equal(frame.astype({"feature": str}), expected, check_dtype=False)
