"""sortnet explain and importance: which features decide."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_helpers import FAST, done, fault
from result_helpers import value_of

from sortnet.data import read_queries
from sortnet.explain.attribution import explain_pair
from sortnet.explain.permutation import permutation_importance
from sortnet.rankers.sortnet import Model

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


def test_the_table_adds_up_to_the_margin():
    lines = done("explain", "m", TEST, "d1-0", "d1-3", "--top", 2).splitlines()
    at = next(k for k, line in enumerate(lines) if line.startswith("feature"))
    *features, others, total = lines[at + 1 : at + 5]
    signed = [re.findall(r"[+-]\d[\d.e+-]*", line)[-1] for line in lines[at + 1 : at + 5]]
    numbers = [float(number) for number in signed]
    assert len(features) == 2 and others.startswith("the 2 others")
    assert total.startswith("margin of A over B")
    assert sum(numbers[:3]) == pytest.approx(numbers[3], rel=0.01)
    for line, number in zip(features, numbers, strict=False):
        bar = line.split()[-1]
        assert set(bar) == {"+" if number > 0 else "-"}
    longest = max(features, key=len).split()[-1]
    assert len(longest) == 20
    assert max(map(len, lines)) <= 80


def test_a_missing_value_is_null_and_a_long_name_is_cut_in_the_table(tmp_path, queries):
    long = "a_name_that_is_much_longer_than_a_column_of_the_table"
    frame = pd.DataFrame(queries.features, columns=[long, "b", "c", "d"])
    frame["qid"] = queries.qids[queries.query_of_docs()]
    frame.loc[0, long] = np.nan
    frame.to_csv(tmp_path / "new.csv", index=False)
    summary = value_of(done("explain", "m", tmp_path / "new.csv", "row:0", "row:1", "--json"))
    assert {row["feature"]: row["a"] for row in summary["features"]}[long] is None
    text = done("explain", "m", tmp_path / "new.csv", "row:0", "row:1")
    assert "missing" in text and long not in text and long[:20] in text
    assert max(map(len, text.splitlines())) <= 80


def test_bars_are_shorter_before_a_name_is_cut(tmp_path, queries):
    names = ["description: bright, fast, rare", "description: ship, good, cheap", "price", "age"]
    frame = pd.DataFrame(queries.features, columns=names)
    frame["qid"] = queries.qids[queries.query_of_docs()]
    frame["label"] = queries.grades
    frame.to_csv(tmp_path / "named.csv", index=False)
    of_pair = done("explain", "m", tmp_path / "named.csv", "row:0", "row:1")
    of_all = done("importance", "m", tmp_path / "named.csv")
    for text in (of_pair, of_all):
        assert all(name in text for name in names)
        rows = [
            line
            for line in text.splitlines()
            if line.startswith((*(f"{name} " for name in names), "feature"))
        ]
        assert max(map(len, rows)) <= 80
        lengths = [len(run) for run in re.findall(r"(?<= )[+-]+$", text, re.MULTILINE)]
        assert 8 <= max(lengths) <= 20
    assert max(len(run) for run in re.findall(r"(?<= )[+-]+$", of_pair, re.MULTILINE)) < 20


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
    rows = list(csv.DictReader(io.StringIO(done(*args, "--output", "-"))))
    typed = [{"feature": r["feature"], "number": int(r["number"]), "mean": float(r["mean"]),
              "std": float(r["std"])} for r in rows]  # fmt: skip
    assert typed == summary["features"]
    text = done(*args, "--output", tmp_path / "i.csv")
    assert text.startswith("p@3 ")
    assert list(csv.DictReader(io.StringIO((tmp_path / "i.csv").read_text()))) == rows


def test_the_table_of_importance_shows_the_top_and_says_what_it_means():
    lines = done("importance", "m", TEST, "--top", 2, "--repeats", 1).splitlines()
    summary = value_of(done("importance", "m", TEST, "--repeats", 1, "--json"))
    assert lines[0] == f"ndcg@10 {summary['quality']:.4f} on {TEST}"
    for line, row in zip(lines[2:4], summary["features"], strict=False):
        assert line.split()[:3] == [row["feature"], f"{row['mean']:.4f}", "0.0000"]
    assert "2 more: --top 4 shows all" in lines
    assert "drop of ndcg@10 where a feature is shuffled within its queries, once" in lines
    assert any("queries without a relevant document" in line for line in lines)


def test_importance_refuses_what_it_cannot_measure():
    assert "unknown metric 'er'" in fault("importance", "m", TEST, "--metric", "er")
    assert "one of them" in fault("importance", "m", TEST, "--json", "--output", "-")
    assert "--repeats" in fault("importance", "m", TEST, "--repeats", "0")
