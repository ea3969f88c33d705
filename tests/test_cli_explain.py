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

from cli.printing.models import importance_result
from sortnet.data import read_queries
from sortnet.explanation.attribution import explain_pair
from sortnet.explanation.permutation import permutation_importance
from sortnet.rankers.sortnet import Model
from store.report.feature_importance import FeatureImportance

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
    *features, others = lines[at + 1 :]
    signed = [re.findall(r"[+-]\d[\d.e+-]*", line)[-1] for line in lines[at + 1 :]]
    numbers = [float(number) for number in signed]
    assert len(features) == 2 and others.startswith("the 2 others")
    summary = value_of(done("explain", "m", TEST, "d1-0", "d1-3", "--json"))
    assert sum(numbers) == pytest.approx(summary["margin"], rel=0.01)
    for line, number in zip(features, numbers, strict=False):
        bar = line.split()[-1]
        assert set(bar) == {"+" if number > 0 else "-"}


def test_a_missing_value_is_null_and_a_long_name_is_cut_in_a_terminal(
    tmp_path, queries, monkeypatch
):
    long = "a_name_that_is_much_longer_than_a_column_of_the_table"
    frame = pd.DataFrame(queries.features, columns=[long, "b", "c", "d"])
    frame["qid"] = queries.qids[queries.query_of_docs()]
    frame.loc[0, long] = np.nan
    frame.to_csv(tmp_path / "new.csv", index=False)
    summary = value_of(done("explain", "m", tmp_path / "new.csv", "row:0", "row:1", "--json"))
    assert {row["feature"]: row["a"] for row in summary["features"]}[long] is None
    args = ("explain", "m", tmp_path / "new.csv", "row:0", "row:1")
    assert long in done(*args)
    monkeypatch.setenv("COLUMNS", "80")
    rows = [line for line in done(*args).splitlines() if line.startswith(long[:20])]
    assert rows and max(map(len, rows)) <= 80 and long not in rows[0]


def test_the_answer_comes_first_then_what_decides_and_what_is_against_it():
    summary = value_of(done("explain", "m", TEST, "d1-0", "d1-3", "--json"))
    first, last = ("a", "b") if summary["margin"] > 0 else ("b", "a")
    higher, lower = summary[first], summary[last]
    answer, *sides, blank = done("explain", "m", TEST, "d1-0", "d1-3").splitlines()[:4]
    assert answer.startswith(
        f"{higher['docid']} is ranked above {lower['docid']} by a margin of "
        f"{abs(summary['margin']):.4g}: ranks {higher['rank']} and {lower['rank']} of 6 in "
    )
    sign = 1 if first == "a" else -1
    values = {row["feature"]: sign * row["value"] for row in summary["features"]}
    for line, side in zip(sides, (1, -1), strict=True):
        names = [name for name, value in values.items() if side * value > 0][:3]
        assert line.split()[2::2] == names
    assert blank == ""


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


def test_the_columns_that_matter_are_shown_and_the_others_counted():
    drops = {"text": 0.3, "price": 0.2, "age": 0.1, "size": 0.0, "noise": -0.01}
    rows = [{"feature": name, "mean": drop, "std": 0.0} for name, drop in drops.items()]
    words = [{"feature": f"text: w{k}", "mean": 0.01, "std": 0.0, "of": "text"} for k in range(9)]
    rows[1:1] = words
    facts = {"metric": "map", "quality": 0.5, "data": "new.csv", "repeats": 1}
    result = importance_result(FeatureImportance(facts, rows, ["skip"]), top=2)
    title, _, *lines = result.lines()
    assert title == "map 0.5000 on new.csv"
    assert [line.split()[0] for line in lines] == ["text", "w0", "w1", "w2", "w3", "w4", "price"]
    assert result.notes == [
        "1 more column: --top 3 shows them",
        "2 columns without a drop: --json and --output have all",
        "drop of map where a feature is shuffled within its queries, once",
        "skip",
    ]
    assert result.value["features"] == rows


def test_importance_is_written_in_the_format_of_the_file_s_name(tmp_path):
    args = ("importance", "m", TEST, "--repeats", 1, "--output")
    done(*args, tmp_path / "i.json")
    rows = value_of((tmp_path / "i.json").read_text(), "importance")["features"]
    assert rows == value_of(done(*args[:-1], "--json"))["features"]
    assert "i.parquet': the formats are csv, json" in fault(*args, tmp_path / "i.parquet")


def test_importance_refuses_what_it_cannot_measure():
    assert "unknown metric 'er'" in fault("importance", "m", TEST, "--metric", "er")
    assert "one of them" in fault("importance", "m", TEST, "--json", "--output", "-")
    assert "--repeats" in fault("importance", "m", TEST, "--repeats", "0")
