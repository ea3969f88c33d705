"""sortnet rank, evaluate and compare: what a model says of documents."""

from __future__ import annotations

import csv
import io
import json
import os
import stat
import threading
from pathlib import Path

import ir_measures
import numpy as np
import pandas as pd
import pytest
from cli_helpers import FAST, done, fault, invoke, letor
from result_helpers import notes_of, value_of

from sortnet.data import read_queries
from sortnet.rankers.sortnet import Model


@pytest.fixture(scope="module")
def made(copy_of_trained) -> Path:
    """A folder with a fold and models learned from it."""
    folder = copy_of_trained
    fold, store = folder / "fold", ("--store", folder / "s.db")
    done(
        "train",
        fold,
        "--out",
        folder / "three",
        *store,
        *FAST,
        "--set",
        "committee=3",
        "--set",
        "start=warm",
    )
    settings = ("--comparator", "directranker", "--set", "committee=2", "--set", "relevant_from=2")
    done("train", fold, "--out", folder / "dr", *store, *FAST, *settings)
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


def test_trec_is_six_columns_with_the_models_ranks(test_queries):
    lines = [line.split(" ") for line in done("rank", "m", "fold/test.txt").splitlines()]
    assert {(len(x), x[1], x[5]) for x in lines} == {(6, "Q0", "sortnet")}
    assert {(x[0], x[2]): int(x[3]) for x in lines} == ranks_of("m", test_queries)


def test_trec_is_what_ir_measures_reads_and_measures_the_same():
    Path("run").write_text(done("rank", "three", "fold/test.txt"))
    queries = read_queries("fold/test.txt")
    names = zip(queries.qids[queries.query_of_docs()], queries.docids, queries.grades, strict=True)
    qrels = [ir_measures.Qrel(qid, docid, int(grade)) for qid, docid, grade in names]
    run = list(ir_measures.read_trec_run("run"))
    measures = [ir_measures.AP, ir_measures.RR]
    theirs = ir_measures.calc_aggregate(measures, qrels, run)
    ours = value_of(done("evaluate", "three", "fold/test.txt", "--json"))["measures"]
    assert ours["map"] == pytest.approx(theirs[ir_measures.AP], abs=1e-9)
    assert ours["mrr"] == pytest.approx(theirs[ir_measures.RR], abs=1e-9)


def test_csv_jsonl_and_trec_say_the_same(test_queries):
    text = done("rank", "m", "fold/test.txt", "--format", "csv")
    for _, query in pd.read_csv(io.StringIO(text)).groupby("qid"):
        assert query["rank"].tolist() == list(range(1, len(query) + 1))
        assert np.all(np.diff(query["score"]) == -1) and query["score"].iloc[-1] == 0
    table = list(csv.DictReader(io.StringIO(text)))
    lines = done("rank", "m", "fold/test.txt", "--format", "jsonl").splitlines()
    objects = [json.loads(line) for line in lines]
    assert [{k: str(v) for k, v in o.items()} for o in objects] == table
    assert {(o["qid"], o["docid"]): o["rank"] for o in objects} == ranks_of("m", test_queries)
    row = {name: at for at, name in enumerate(test_queries.docids)}
    assert all(o["row"] == row[o["docid"]] for o in objects)


def test_a_table_without_labels_and_ids_is_ranked_by_row_numbers(tmp_path, test_queries):
    frame = pd.DataFrame(test_queries.features)
    frame["qid"] = test_queries.qids[test_queries.query_of_docs()]
    frame.sample(frac=1, random_state=0).to_csv(tmp_path / "new.csv", index=False)
    shuffled = frame.sample(frac=1, random_state=0).index.to_numpy()
    by_name = ranks_of("m", test_queries)
    for line in done("rank", "m", tmp_path / "new.csv").splitlines()[1:]:  # CSV, as of a table
        qid, _, row, rank, _ = line.split(",")
        assert by_name[qid, test_queries.docids[shuffled[int(row)]]] == int(rank)


def test_a_file_is_written_with_the_tag_that_is_asked_for(tmp_path):
    assert done("rank", "m", "fold/test.txt", "--output", tmp_path / "r", "--tag", "mine") == ""
    written = (tmp_path / "r").read_text()
    assert written == done("rank", "m", "fold/test.txt").replace(" sortnet\n", " mine\n")
    assert [p.name for p in tmp_path.iterdir()] == ["r"]


def test_a_name_with_a_space_is_no_trec(tmp_path, test_queries):
    frame = pd.DataFrame(test_queries.features)
    frame["qid"], frame["docid"] = "q 1", [f"d{k}" for k in range(len(frame))]
    frame.to_csv(tmp_path / "new.csv", index=False)
    (tmp_path / "r").write_text("old")
    typed = ("rank", "m", tmp_path / "new.csv", "--format", "trec", "--output", tmp_path / "r")
    assert "'q 1'" in fault(*typed)
    assert (tmp_path / "r").read_text() == "old"
    assert "q 1,d0" in done("rank", "m", tmp_path / "new.csv", "--format", "csv")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    done("rank", "m", "fold/test.txt", "--output", pipe)
    reader.join(600)
    assert read == [done("rank", "m", "fold/test.txt")]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_evaluate_gives_the_mean_of_each_measure_with_its_conventions(test_queries):
    result = invoke("evaluate", "m", "fold/test.txt")
    lines = result.stdout.splitlines()
    order = Model.load("m").sort(test_queries).order
    grades = np.split(test_queries.grades[order], test_queries.offsets[1:-1])
    reciprocal = [1 / (np.argmax(g > 0) + 1) if g.any() else 0 for g in grades]
    assert [line.split()[0] for line in lines[:5]] == ["metric", "map", "ndcg@10", "p@10", "mrr"]
    assert lines[4].split()[1] == f"{np.mean(reciprocal):.4f}"
    empty = sum(not g.any() for g in grades)
    assert result.stderr == (
        "gain 2^r-1, discount log2(1+rank); P@10 divides by 10; relevant from grade 1; "
        f"queries without a relevant document counted zero: {empty} of {len(grades)}\n"
    )


def test_err_is_measured_and_chosen_by_like_any_other(tmp_path):
    where = ("--out", tmp_path / "err", "--store", tmp_path / "err.db")
    said = done("train", "fold", "--quality", "err@10", *where, *FAST)
    assert said.startswith("err@10 chooses the iteration: ") and said.count("err@10") >= 3
    printed = done("evaluate", tmp_path / "err", "fold/test.txt", "-m", "ERR@10", "--json")
    assert list(value_of(printed, "evaluation")["measures"]) == ["err@10"]
    assert "as in gdeval" in notes_of(printed)[0]


def test_a_rule_for_empty_queries_changes_the_mean_and_is_said(tmp_path):
    # No document of the second query is relevant.
    (tmp_path / "e.txt").write_text(letor(1, 1) + letor(1, 2).replace("qid:q0", "qid:none"))
    text = (tmp_path / "e.txt").read_text().splitlines()
    text = [line if "qid:none" not in line else "0" + line[1:] for line in text]
    (tmp_path / "e.txt").write_text("\n".join(text) + "\n")

    def mrr(rule):
        printed = done("evaluate", "m", tmp_path / "e.txt", "--empty", rule, "--json")
        assert notes_of(printed)[0].endswith("1 of 2")
        return value_of(printed)["measures"]["mrr"]

    assert mrr("zero") == mrr("skip") / 2
    assert mrr("one") == (mrr("skip") + 1) / 2
    assert "1 of 2 queries" in fault("evaluate", "m", tmp_path / "e.txt", "--empty", "error")


def test_conventions_are_those_of_the_training_unless_said_otherwise():
    def relevant_from(*more):
        printed = done("evaluate", "dr", "fold/test.txt", "--json", *more)
        return value_of(printed)["relevant_from"], notes_of(printed)

    level, said = relevant_from()
    assert level == 2 and len(said) == 2  # ndcg finds other queries empty than map does
    assert "relevant from grade 2" in said[0]
    assert relevant_from("--relevant-from", 1)[0] == 1
    exp, linear = (
        done("evaluate", "m", "fold/test.txt", "--json", "--gain", g, "-m", "ndcg")
        for g in ("exp", "linear")
    )
    assert value_of(exp)["measures"] != value_of(linear)["measures"]
    assert "gain r," in notes_of(linear)[0]


def test_per_query_figures_have_the_printed_means(tmp_path):
    summary = value_of(
        done("evaluate", "m", "fold/test.txt", "--per-query", tmp_path / "q.csv", "--json")
    )
    frame = pd.read_csv(tmp_path / "q.csv")
    assert frame["n_docs"].sum() == summary["n_docs"] and len(frame) == summary["n_queries"]
    for name, mean in summary["measures"].items():
        assert frame[name].fillna(0).mean() == pytest.approx(mean, abs=1e-12)
    frame = pd.read_csv(io.StringIO(done("evaluate", "m", "fold/test.txt", "--per-query", "-")))
    assert list(frame.columns) == ["qid", "n_docs", "map", "ndcg@10", "p@10", "mrr"]
    assert "one of them" in fault("evaluate", "m", "fold/test.txt", "--per-query", "-", "--json")


def test_compare_tells_both_outputs_of_a_cmpnn_and_the_ranks(test_queries):
    a, b = test_queries.docids[:2]
    summary = value_of(done("explain", "m", "fold/test.txt", a, b, "--json"))
    turned = value_of(done("explain", "m", "fold/test.txt", b, a, "--json"))
    (vote,), (back,) = summary["members"], turned["members"]
    assert vote["N_>"] == pytest.approx(back["N_<"]) and vote["N_<"] == pytest.approx(back["N_>"])
    assert (vote["N_>"] > vote["N_<"]) == (summary["margin"] > 0)
    ranks = ranks_of("m", test_queries)
    assert summary["a"] == {"docid": a, "row": 0, "rank": ranks["q0", a]}
    assert summary["b"] == {"docid": b, "row": 1, "rank": ranks["q0", b]}


@pytest.mark.parametrize(("model", "members"), [("three", 3), ("dr", 2)])
def test_compare_tells_the_vote_of_every_member(model, members):
    summary = value_of(done("explain", model, "fold/test.txt", "d0-0", "d0-1", "--json"))
    votes = [member["margin"] for member in summary["members"]]
    assert len(votes) == members
    assert sum(votes) == pytest.approx(summary["margin"], rel=1e-5)
    text = done("explain", model, "fold/test.txt", "d0-0", "d0-1").splitlines()
    n_agreeing = sum((vote > 0) == (summary["margin"] > 0) for vote in votes)
    assert text[0].endswith(f"; {n_agreeing} of {members} members agree")


def test_documents_are_named_by_row_where_they_have_no_id(tmp_path, test_queries):
    frame = pd.DataFrame(test_queries.features)
    frame["qid"] = test_queries.qids[test_queries.query_of_docs()]
    frame.to_csv(tmp_path / "new.csv", index=False)
    by_id = value_of(done("explain", "m", "fold/test.txt", "d1-0", "d1-3", "--json"))
    by_row = value_of(done("explain", "m", tmp_path / "new.csv", 6, "row:9", "--json"))
    assert by_row["a"] == by_id["a"] | {"docid": None}
    assert by_row["margin"] == pytest.approx(by_id["margin"], rel=1e-5)
    assert done("explain", "m", tmp_path / "new.csv", 6, 9).startswith("row ")


def test_a_number_is_a_document_id_before_it_is_a_row(tmp_path, test_queries):
    frame = pd.DataFrame(test_queries.features)
    frame["qid"] = test_queries.qids[test_queries.query_of_docs()]
    frame["docid"] = [str(len(frame) - 1 - k) for k in range(len(frame))]
    frame.to_csv(tmp_path / "new.csv", index=False)
    summary = value_of(done("explain", "m", tmp_path / "new.csv", "0", "row:46", "--json"))
    assert (summary["a"]["row"], summary["b"]["row"]) == (47, 46)
    said = "'0' and 'row:47' are the same document (row:47): name two different ones"
    assert said in fault("explain", "m", tmp_path / "new.csv", "0", "row:47")


@pytest.fixture
def twice(tmp_path) -> Path:
    """Two queries with the same document ids; d0-5 is in the second one two times."""
    second = letor(1, 1).replace("qid:q0", "qid:again") + letor(1, 2).splitlines(True)[5].replace(
        "qid:q0", "qid:again"
    )
    (tmp_path / "t.txt").write_text(letor(1, 0) + second)
    return tmp_path / "t.txt"


def test_a_query_is_named_where_documents_are_in_several(twice):
    assert "(q0, again)" in fault("explain", "m", twice, "d0-0", "d0-1")
    summary = value_of(done("explain", "m", twice, "d0-0", "d0-1", "--qid", "again", "--json"))
    assert summary["qid"] == "again" and summary["a"]["row"] == 6
