"""What version 0.3.0 wrote opens: model folders, runs, a store and its collections, cells.

The folder `data/0.3.0` was written by `data/make_0_3.py`; `expected.json` says what is in it.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from cli_helpers import done, invoke
from optional_extras import needs
from result_helpers import value_of

from sortnet import SortNetRanker, load_ranker, read_queries
from sortnet.comparators import DirectRanker
from sortnet.rankers.registry import name_of
from store import open_store
from store.database.upgrade import NEWEST
from store.lab.cell_rows import kept_cells

OLD = Path(__file__).parent / "data" / "0.3.0"
EXPECTED = json.loads((OLD / "expected.json").read_text())
SCORES: dict[str, dict[str, Any]] = EXPECTED["scores"]
RUNS: dict[str, dict[str, Any]] = EXPECTED["runs"]
COLLECTIONS: dict[str, dict[str, Any]] = EXPECTED["collections"]
STORE = "store.sqlite"
OF_LABELS = [id for id, run in RUNS.items() if run["pairs"]]  # the others are of `sortnet label`
ASKED = [name for name in COLLECTIONS if name != "answers"]  # which has criteria
# Commands that read the store and name a run or a collection at their end.
OF_A_RUN = (("show",), ("show", "--follow"), ("pairs",))
OF_A_COLLECTION = (
    *(("items", "show"), ("ask",), ("annotators",), ("annotators", "agreement"), ("ranking",)),
    *(("judgements", "list"), ("judgements", "export"), ("report", "--json")),
)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A copy of the folder as the working folder; commands take its store."""
    copy = shutil.copytree(OLD, tmp_path / "0.3.0")
    for path in copy.glob("runs/*/run.json"):
        path.write_text(path.read_text().replace("/FOLDER", str(copy)))
    monkeypatch.chdir(copy)
    monkeypatch.setenv("SORTNET_STORE", STORE)
    return copy


def assert_close(values: Any, expected: list[float]) -> None:
    np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in SCORES if not name.startswith("estimators/")])
def test_a_model_folder_gives_the_scores_and_the_order_that_it_gave(folder, name):
    expected = SCORES[name]
    if "library" in json.loads(Path(name, "model.json").read_text())["config"]:
        needs("xgboost" if name.endswith("xgboost") else "lightgbm")
    ranker = load_ranker(name)
    data = expected["data"]
    queries = read_queries(data, n_features=ranker.n_features, labelled=False, like=ranker)
    first = np.arange(queries.n_docs - 1)
    first = first[queries.query_of_docs()[first] == queries.query_of_docs()[first + 1]]
    assert_close(ranker.scores(queries), expected["scores"])
    assert_close(ranker.real_scores(queries), expected["real_scores"])
    assert_close(ranker.margins(queries, first, first + 1), expected["margins"])
    assert ranker.order(queries).tolist() == expected["order"]


def test_there_is_a_folder_of_every_kind_of_ranker_and_variant_of_0_3_0():
    kinds = """adarank-map adarank-ndcg cmaes-rank directranker directranker-neighbours
        directranker-random err es-rank fate feta frank iesr-rank iesvm-rank lambdamart lambdarank
        listnet listnet-star posterior rankboost ranknet ranksvm set-transformer setrank sortnet
        xendcg xgboost"""
    folders = {Path(name).name for name in SCORES if name.startswith("models/")}
    assert folders >= set(kinds.split())
    names = {name_of(load_ranker(OLD / "models" / kind).config) for kind in kinds.split()}
    assert names == set(kinds.split())


def own_comparator(n_columns: int, seed: int) -> DirectRanker:
    return DirectRanker(n_columns, feature_part=torch.nn.Linear(n_columns, 2), seed=seed)


@pytest.mark.parametrize("name", ["categories", "own"])
def test_a_folder_of_the_estimator_predicts_as_it_did(folder, name):
    frame = pd.read_csv("frame.csv").drop(columns="grade")
    frame["size"] = pd.Categorical(frame["size"], ["small", "medium", "large"], ordered=True)
    frame["made"] = pd.to_datetime(frame["made"])
    X = frame if name == "categories" else frame[["qid", "price"]]
    comparator = own_comparator if name == "own" else None
    ranker = SortNetRanker.load(f"estimators/{name}", comparator=comparator)
    expected = SCORES[f"estimators/{name}"]
    assert ranker.predict(X).tolist() == expected["places"]
    assert_close(ranker.predict(X, kind="score"), expected["real_scores"])
    assert_close(ranker.feature_importances_, expected["importances"])


def table_sizes(path: Path) -> dict[str, int]:
    """The number of rows of each table in a store's file."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        counts = {
            name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
            for name in EXPECTED["tables"]
        }
    return counts


def printed(*args: object) -> Any:
    """The value that a command prints as JSON."""
    return value_of(done(*args, "--json"))


def check_runs() -> None:
    """Compare what commands say of the runs with what is known of them."""
    listed = {run["id"]: run for run in printed("runs")}
    assert listed.keys() == RUNS.keys()
    for id, expected in RUNS.items():
        assert listed[id]["status"] == expected["status"]
        rows = printed("show", id)["iterations"]
        assert [[row["tp"], row["vp"], row["quality"]] for row in rows] == expected["iterations"]
        if not expected["pairs"]:  # of a labelling, which has answers
            assert "has answers and no pairs" in invoke("pairs", id).stderr
            continue
        pairs = [line.partition(",")[0] for line in done("pairs", id).splitlines()[1:]]
        assert Counter(pairs) == expected["pairs"]


def check_collections(more: str = "") -> None:
    """Compare what commands say of the collections with what is known; `more` has a tie more."""
    sizes = {row["name"]: row["items"] for row in printed("items", "list")}
    assert sizes.keys() == COLLECTIONS.keys()
    for name, size in sizes.items():
        asked_about = name.partition(":")[0]  # a criterion has no items of its own
        assert size == COLLECTIONS[asked_about]["items"]
    for name in ASKED:
        expected = COLLECTIONS[name]
        judgements = printed("judgements", "list", name, "--limit", 1000)
        answers = Counter(row["answer"] for row in judgements)
        assert answers == Counter(expected["answers"]) + Counter(["tie"] * (name == more))
        exported = done("judgements", "export", name).splitlines()
        assert len(exported) == answers.total()


def check_cells() -> None:
    """Compare the cells in the store with what is known of them."""
    cells = EXPECTED["cells"]
    with open_store(STORE, write=False) as store:
        results = kept_cells(store.database, list(cells))
    assert results.keys() == cells.keys()
    for key, expected in cells.items():
        assert results[key].order.tolist() == expected["order"]
        assert results[key].about["settings"]["quality"] == "ndcg@10"


@pytest.mark.slow
def test_every_command_that_reads_opens_the_store_and_changes_nothing(folder):
    assert table_sizes(folder / STORE) == EXPECTED["tables"]
    check_runs()
    check_collections()
    check_cells()
    for command in OF_A_RUN:
        for id in OF_LABELS:
            done(*command, id)
    for command in OF_A_COLLECTION:
        for name in ASKED:
            done(*command, name)
    assert (folder / STORE).read_bytes() == (OLD / STORE).read_bytes()
    assert [path.name for path in folder.glob(f"{STORE}*")] == [STORE]


@pytest.mark.slow
def test_a_run_and_a_collection_of_the_store_are_drawn_as_reports(folder):
    for name in (OF_LABELS[0], "essays"):
        page = done("report", name, "--output", "-")
        assert page.startswith("<!doctype html>") and name in page


def test_the_study_of_a_collection_is_as_it_was_decided(folder):
    with open_store(STORE, write=False) as store:
        collection = store.collection("essays")
        study, kinds = collection.study(), Counter(d.kind for d in collection.decisions())
    assert kinds == COLLECTIONS["essays"]["decisions"]
    assert [*study.excluded] == [*study.revoked] == ["eve"]
    assert study.excluded["eve"].reason == "answers at random"
    assert ([*study.models], [*study.retired], [*study.paused]) == (["judge"], [23], [])
    assert sorted(study.gold_pairs()) == [(3, 0), (4, 1)]
    assert (study.quotas, study.overlap, study.gold_rate) == ({"ben": 50}, 2, 0.1)
    assert (study.top, study.goal, study.question) == (5, 0.2, "Which praises more?")
    assert study.instructions == Path("rules.md").read_text().strip()


def test_the_first_command_that_writes_upgrades_the_store_and_loses_nothing(folder):
    Path("more.csv").write_text("left,right,answer\nwine-1,wine-2,tie\n")
    added = invoke("judgements", "import", "wines", "more.csv", "--as", "ana")
    assert added.exit_code == 0, added.stderr
    tables = EXPECTED["tables"]
    assert table_sizes(folder / STORE) == {**tables, "judgements": tables["judgements"] + 1}
    check_runs()
    check_collections(more="wines")
    check_cells()
    copies = [path.name for path in folder.glob(f"{STORE}.*")]
    assert copies == ([] if EXPECTED["schema"] == NEWEST else [f"{STORE}.{EXPECTED['schema']}"])


def test_a_run_that_was_interrupted_is_refused_with_what_to_do(folder):
    resumed = invoke("train", "--resume", "--out", "runs/interrupted")
    assert resumed.exit_code == 2
    assert "begun by version 0.3 or before" in resumed.stderr
    assert "start it again with --overwrite" in resumed.stderr


@pytest.mark.parametrize("name", ["whole", "posterior", "texts"])
def test_a_run_that_was_done_has_the_data_that_it_was_made_of(folder, name):
    resumed = invoke("train", "--resume", "--out", f"runs/{name}")
    assert resumed.exit_code == 0, resumed.stderr
    assert "has finished already" in resumed.stderr


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_exported_judgements_are_imported_into_another_store(folder, form):
    done("items", "add", "essays", "essays.csv", "--store", "new.db")
    file = f"essays-judgements.{form}"
    done("judgements", "import", "essays", file, "--store", "new.db")
    judgements = printed("judgements", "list", "essays", "--limit", 1000, "--store", "new.db")
    assert Counter(row["answer"] for row in judgements) == COLLECTIONS["essays"]["answers"]


def test_no_file_of_the_folder_holds_a_path_of_a_machine():
    path = re.compile(rb"(?<![\w.~*-])/(work|root|home|Users|tmp)(/|\b)")
    files = [file for file in OLD.rglob("*") if file.is_file()]
    assert [file.name for file in files if path.search(file.read_bytes())] == []
