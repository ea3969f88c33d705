"""sortnet rank, evaluate, explain and importance: what a model says of documents."""

from __future__ import annotations

import io
import json
import os
import stat
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_helpers import FAST, done, fault, invoke, letor
from result_helpers import notes_of, value_of

from sortnet.data import read_queries
from sortnet.explanation.attribution import explain_pair
from sortnet.explanation.columns import permutation_importance
from sortnet.metrics import evaluate
from sortnet.rankers.model import Model


@pytest.fixture(scope="module")
def made(copy_of_trained) -> Path:
    """A folder with a fold and models learned from it."""
    folder = copy_of_trained
    settings = ("--comparator", "directranker", "--quality", "ndcg@5")
    settings += ("--set", "committee=2", "--set", "relevant_from=2")
    where = ("--out", folder / "dr", "--store", folder / "s.db")
    done("train", folder / "fold", *where, *FAST, *settings)
    return folder


@pytest.fixture(autouse=True)
def _there(made, monkeypatch):
    monkeypatch.chdir(made)


@pytest.fixture
def test_queries():
    return read_queries("fold/test.txt")


def ranks_of(model: str, queries) -> dict[tuple[str, str], int]:
    """(qid, docid) -> rank, from the library's own sort."""
    order = Model.load(model).sort(queries).order
    query = queries.query_of_docs()
    names = zip(queries.qids[query[order]], queries.docids[order], strict=True)
    return {name: at - queries.offsets[query[order[at]]] + 1 for at, name in enumerate(names)}


def test_a_name_with_a_space_is_no_trec(tmp_path, test_queries):
    frame = frame_of(test_queries).assign(qid="q 1")
    frame.to_csv(tmp_path / "new.csv", index=False)
    (tmp_path / "r").write_text("old")
    typed = ("rank", "m", tmp_path / "new.csv", "--format", "trec", "--output", tmp_path / "r")
    assert "'q 1'" in fault(*typed)
    assert (tmp_path / "r").read_text() == "old"
    assert "q 1,," in done("rank", "m", tmp_path / "new.csv", "--format", "csv")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    done("rank", "m", "fold/test.txt", "--output", pipe, "--tag", "mine")
    reader.join(600)
    assert read == [done("rank", "m", "fold/test.txt").replace(" sortnet\n", " mine\n")]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_evaluate_gives_the_mean_of_each_measure_with_its_conventions(test_queries):
    result = invoke("evaluate", "m", "fold/test.txt")
    order = Model.load("m").sort(test_queries).order
    expected = evaluate(test_queries, order, ["map", "ndcg@10", "p@10", "mrr"])
    measures = dict(line.split()[:2] for line in result.stdout.splitlines()[1:5])
    assert measures == {name: f"{value:.4f}" for name, value in expected.items()}
    assert "relevant from grade 1; queries without a relevant document counted" in result.stderr


def test_conventions_are_those_of_the_training_unless_said_otherwise():
    def evaluated(*more):
        printed = done("evaluate", "dr", "fold/test.txt", "--json", *more)
        return value_of(printed), notes_of(printed)

    value, notes = evaluated()
    assert value["relevant_from"] == 2 and "relevant from grade 2" in notes[0]
    linear, notes = evaluated("--gain", "linear", "--empty", "one", "-m", "ndcg@10")
    assert linear["measures"]["ndcg@10"] != value["measures"]["ndcg@10"]
    assert "gain r," in notes[0] and "counted one: " in notes[0]
    assert evaluated("--relevant-from", 1)[0]["relevant_from"] == 1
    assert " queries" in fault("evaluate", "dr", "fold/test.txt", "--empty", "error")


def test_per_query_figures_have_the_printed_means(tmp_path):
    path = tmp_path / "q.csv"
    summary = value_of(done("evaluate", "m", "fold/test.txt", "--per-query", path, "--json"))
    frame = pd.read_csv(path)
    assert frame["n_docs"].sum() == summary["n_docs"] and len(frame) == summary["n_queries"]
    for name, mean in summary["measures"].items():
        assert frame[name].fillna(0).mean() == pytest.approx(mean, abs=1e-12)
    assert done("evaluate", "m", "fold/test.txt", "--per-query", "-") == path.read_text()
    assert "one of them" in fault("evaluate", "m", "fold/test.txt", "--per-query", "-", "--json")


def test_a_query_is_named_where_documents_are_in_several(tmp_path):
    second = letor(1, 1).replace("qid:q0", "qid:again")
    (tmp_path / "t.txt").write_text(letor(1, 0) + second)
    assert "(q0, again)" in fault("explain", "m", tmp_path / "t.txt", "d0-0", "d0-1")
    named = ("d0-0", "d0-1", "--qid", "again", "--json")
    summary = value_of(done("explain", "m", tmp_path / "t.txt", *named))
    assert summary["qid"] == "again" and summary["a"]["row"] == 6


def test_trec_csv_and_jsonl_have_the_ranks_of_the_library(test_queries):
    ranks = ranks_of("m", test_queries)
    lines = [line.split(" ") for line in done("rank", "m", "fold/test.txt").splitlines()]
    assert {(len(x), x[1], x[5]) for x in lines} == {(6, "Q0", "sortnet")}
    assert {(x[0], x[2]): int(x[3]) for x in lines} == ranks
    frame = pd.read_csv(io.StringIO(done("rank", "m", "fold/test.txt", "--format", "csv")))
    lines = done("rank", "m", "fold/test.txt", "--format", "jsonl").splitlines()
    assert [json.loads(line) for line in lines] == frame.to_dict("records")
    assert frame.set_index(["qid", "docid"])["rank"].to_dict() == ranks


def frame_of(queries) -> pd.DataFrame:
    """A table of documents without grades and ids."""
    return pd.DataFrame(queries.features).assign(qid=queries.qids[queries.query_of_docs()])


def test_documents_are_named_by_id_before_they_are_named_by_row(tmp_path, test_queries):
    frame_of(test_queries).to_csv(tmp_path / "new.csv", index=False)
    by_id = value_of(done("explain", "m", "fold/test.txt", "d1-0", "d1-3", "--json"))
    by_row = value_of(done("explain", "m", tmp_path / "new.csv", 6, "row:9", "--json"))
    assert by_row["a"] == by_id["a"] | {"docid": None}
    assert by_row["margin"] == pytest.approx(by_id["margin"], rel=1e-5)
    numbered = frame_of(test_queries).assign(docid=range(len(test_queries.docids))[::-1])
    numbered.to_csv(tmp_path / "ids.csv", index=False)
    summary = value_of(done("explain", "m", tmp_path / "ids.csv", "0", "row:46", "--json"))
    assert (summary["a"]["row"], summary["b"]["row"]) == (47, 46)
    said = "'0' and 'row:47' are the same document (row:47): name two different ones"
    assert said in fault("explain", "m", tmp_path / "ids.csv", "0", "row:47")


@pytest.mark.parametrize("model", ["m", "dr"])
def test_the_explanation_is_the_library_s(model, test_queries):
    summary = value_of(done("explain", model, "fold/test.txt", "d1-0", "d1-3", "--json"))
    expected = explain_pair(Model.load(model), test_queries, 6, 9)
    assert summary["margin"] == pytest.approx(expected.margin)
    rows = summary["features"]
    assert [row["number"] - 1 for row in rows] == expected.largest()
    for row in rows:
        k = row["number"] - 1
        assert row["feature"] == str(k + 1)
        assert row["value"] == pytest.approx(expected.values[k])
        assert [row["a"], row["b"]] == test_queries.features[[6, 9], k].tolist()


def test_a_missing_value_is_null(tmp_path, test_queries):
    frame = frame_of(test_queries)
    frame.loc[0, 2] = np.nan
    frame.to_csv(tmp_path / "new.csv", index=False)
    summary = value_of(done("explain", "m", tmp_path / "new.csv", "row:0", "row:1", "--json"))
    assert {row["feature"]: row["a"] for row in summary["features"]}["2"] is None


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
    assert message in fault("explain", "m", "fold/test.txt", *args)


@pytest.mark.parametrize(
    ("model", "typed", "metric"), [("m", ("--metric", "p@3"), "p@3"), ("dr", (), "ndcg@5")]
)
def test_importance_is_the_library_s_by_the_model_s_rank_quality(
    model, typed, metric, test_queries
):
    summary = value_of(done("importance", model, "fold/test.txt", *typed, "--json", "--seed", 3))
    expected = permutation_importance(Model.load(model), test_queries, metric=metric, seed=3)
    assert summary["metric"] == metric
    assert summary["quality"] == expected.quality
    assert (summary["repeats"], summary["seed"], summary["data"]) == (5, 3, "fold/test.txt")
    assert [row["number"] - 1 for row in summary["features"]] == expected.largest()
    for row in summary["features"]:
        k = row["number"] - 1
        assert (row["mean"], row["std"]) == (expected.mean[k], expected.std[k])
