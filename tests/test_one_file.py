"""One file of labelled queries: named columns, division, bins, and what a model remembers."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from cli_helpers import FAST, done, fault, invoke, letor
from result_helpers import notes_of, value_of
from sklearn.base import clone

from sortnet import SortNetRanker, load_ranker
from sortnet.core import NamedColumns, Queries
from sortnet.data import fingerprint, read_queries
from sortnet.data.grades import (
    features_near_grades,
    features_near_model,
    in_which_bin,
    quantile_edges,
)
from sortnet.data.parts import by_hash, facts_of, read_divided, take_part
from sortnet.errors import DataError, ModelError
from sortnet.metrics import Metric, evaluate
from store import open_store
from store.report.sources import find_sources, read_part

PARTS = ("train", "vali", "test")
NAMES = NamedColumns(query="search", grade="stars", id="product")
TYPED = ("--query", "search", "--grade", "stars", "--id", "product")


def shop(n_queries: int = 25, n_products: int = 5) -> pd.DataFrame:
    """Searches of a shop; the stars follow from price and age, as far as noise lets them."""
    generator = np.random.default_rng(0)
    n = n_queries * n_products
    price, age = generator.normal(size=(2, n)).round(3)
    return pd.DataFrame(
        {
            "search": np.repeat([f"search {k}" for k in range(n_queries)], n_products),
            "product": [f"p{k}" for k in range(n)],
            "price": price,
            "age": age,
            "colour": np.where(generator.random(n) < 0.5, "red", "blue"),
            "stars": np.clip(np.round(price - age + 1 + generator.normal(size=n) / 3), 0, 3),
        }
    ).astype({"stars": int})


@pytest.fixture(autouse=True)
def _at_home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SORTNET_STORE", raising=False)
    shop().to_csv("all.csv", index=False)


@pytest.fixture(scope="session")
def shop_model(tmp_path_factory) -> Path:
    """A folder with `all.csv`, the model `m` learned from it, its store `s.db`, and `said.txt`."""
    folder = tmp_path_factory.mktemp("shop")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        shop().to_csv("all.csv", index=False)
        result = invoke("train", "all.csv", *TYPED, "--out", "m", "--store", "s.db", *FAST)
        Path("said.txt").write_text(result.stdout + result.stderr)
    return folder


def part_by_hand(name: str, seed: int = 0) -> str:
    """The part of a query, from the definition: 60, 20, 20 % of the hashes."""
    digest = hashlib.blake2b(f"{seed}\0{name}".encode(), digest_size=8).hexdigest()
    share = int(digest, 16) / 16**16
    return "train" if share < 0.6 else "vali" if share < 0.8 else "test"


def members(fold) -> dict[str, set[str]]:
    return {part: {*getattr(fold, part).qids.tolist()} for part in PARTS}


# ---------------------------------------------------------------------------------- the division


@pytest.mark.parametrize(("file", "columns"), [("all.csv", NAMES), ("all.txt", None)])
def test_the_part_of_a_query_follows_from_a_hash_of_seed_and_query(file, columns):
    Path("all.txt").write_text(letor(30, 0))
    names = read_queries(file, columns=columns).qids.tolist()
    for seed in (0, 7):
        fold = read_divided(file, by_hash(seed), columns=columns)
        expected = {part: {n for n in names if part_by_hand(n, seed) == part} for part in PARTS}
        assert members(fold) == expected
    assert members(read_divided(file, by_hash(0), columns=columns)) != expected


def test_the_training_part_alone_decides_which_values_are_features():
    frame = shop()
    of_training = frame["search"].map(part_by_hand) == "train"
    frame.loc[~of_training, "colour"] = "green"
    frame.to_csv("all.csv", index=False)
    fold = read_divided("all.csv", columns=NAMES)
    names = ("price", "age", "colour=blue", "colour=red")
    assert fold.train.feature_names == fold.test.feature_names == names
    assert not fold.test.features[:, 2:].any()


def test_other_formats_and_several_files_divide_alike():
    frame = shop()
    frame.to_parquet("a.parquet")
    frame[:61].to_csv("part-0.csv", index=False)
    frame[61:].to_csv("part-1.csv", index=False)
    for name in ("a.parquet", "part-*.csv"):
        expected = members(read_divided("all.csv", columns=NAMES))
        assert members(read_divided(name, columns=NAMES)) == expected
    # The last row of the first file, which is not the last of its part.
    frame[:61].replace({"price": {frame["price"][60]: "x"}}).to_csv("part-0.csv", index=False)
    with pytest.raises(DataError, match=r"part-0\.csv, line 62: column 'price': 'x'"):
        read_divided("part-*.csv", columns=NAMES)


def test_a_part_is_found_again_in_the_whole_file_with_the_same_numbers():
    for columns in (NAMES, NamedColumns(query="none", grade="stars", id="product")):
        fold = read_divided("all.csv", columns=columns)
        whole = read_queries("all.csv", like=fold.train)
        for part in PARTS:
            queries = getattr(fold, part)
            again = take_part(whole, json.loads(json.dumps(facts_of(queries))), part)
            for name in ("features", "grades", "offsets", "qids", "rows", "docids"):
                expected = getattr(queries, name)
                np.testing.assert_array_equal(getattr(again, name), expected)


def graded_in(n_queries: int, n_graded: int) -> pd.DataFrame:
    """A shop whose grades differ in the first searches alone."""
    frame = shop(n_queries)
    alike = frame["search"].isin(frame["search"].unique()[n_graded:])
    frame.loc[alike, "stars"] = 2
    return frame


ONE_QUERY = ("--query", "none", "--grade", "stars")


@pytest.mark.parametrize(
    ("frame", "typed", "said"),
    [
        (shop(1), TYPED, "has 1 different queries, and dividing takes 6 at least"),
        (shop(5), TYPED, "has 5 different queries, and dividing takes 6 at least"),
        (shop(1), ONE_QUERY, "has 5 different rows, and dividing takes 6 at least"),
        (graded_in(20, 2), TYPED, "no two documents of a query in the "),
        (
            shop(),
            ("--query", "product", "--grade", "stars"),
            "every query has one document, which cannot be sorted: column 'product' differs in "
            "every row: with --query none all rows are one query",
        ),
    ],
)
def test_what_cannot_be_divided_is_refused_in_one_line(frame, typed, said):
    frame.to_csv("few.csv", index=False)
    assert f"few.csv: {said}" in fault("train", "few.csv", *typed)


@pytest.mark.parametrize("n_queries", [6, 8, 20])
def test_a_part_without_a_query_of_two_grades_gets_one(n_queries):
    graded_in(n_queries, 3).to_csv("few.csv", index=False)
    for seed in range(30):
        fold = read_divided("few.csv", by_hash(seed), columns=NAMES)
        parts = {part: getattr(fold, part) for part in PARTS}
        assert all(np.ptp(queries.grades) > 0 for queries in parts.values())
        moved = [
            qid
            for part, queries in parts.items()
            for qid in queries.qids
            if part_by_hand(qid, seed) != part
        ]
        assert len(moved) <= 2


def test_an_id_in_queries_of_two_parts_is_told():
    frame = shop()
    assert "ids are in queries" not in invoke("train", "all.csv", *TYPED, *FAST).stderr
    frame["product"] = [f"p{k % 7}" for k in range(len(frame))]
    frame.to_csv("shared.csv", index=False)
    said = invoke("train", "shared.csv", *TYPED, "--out", "shared", *FAST).stderr
    ids = {p: {*frame[frame["search"].map(part_by_hand) == p]["product"]} for p in PARTS}
    shared = {x for a, b in combinations(PARTS, 2) for x in ids[a] & ids[b]}
    assert f"{len(shared)} of 7 ids are in queries of two parts, such as 'p0': what" in said


@pytest.mark.parametrize(
    ("columns", "nearest"),
    [
        (replace(NAMES, query="serach"), "search"),
        (replace(NAMES, query="Search"), "search"),
        (replace(NAMES, grade="star"), "stars"),
        (replace(NAMES, id="prodcut"), "product"),
        (replace(NAMES, ignore=("colur",)), "colour"),
    ],
)
def test_a_misspelt_column_is_refused_with_the_nearest_one(columns, nearest):
    with pytest.raises(DataError, match=rf": did you mean '{nearest}'\?$"):
        read_queries("all.csv", columns=columns)


# ------------------------------------------------------------------------------- all rows one query


def test_with_query_none_and_no_id_the_content_of_a_row_decides():
    columns = NamedColumns(query="none", grade="stars")
    frame = shop().drop(columns=["search", "product"])
    frame.to_csv("rows.csv", index=False)
    before = read_divided("rows.csv", columns=columns)
    mixed = frame.sample(frac=1, random_state=2)[["stars", "colour", "age", "price"]]
    mixed.to_csv("rows.csv", index=False)
    after = read_divided("rows.csv", columns=columns)
    for part in PARTS:
        rows = [frame.iloc[getattr(before, part).rows], mixed.iloc[getattr(after, part).rows]]
        assert sorted(rows[0]["price"]) == sorted(rows[1]["price"])


# ------------------------------------------------------------------------------------------- bins


def test_bins_are_quantiles_of_the_training_part_and_hold_for_the_others():
    frame = shop()
    frame["points"] = np.random.default_rng(5).normal(size=len(frame)).round(6)
    frame.drop(columns="stars").to_csv("points.csv", index=False)
    fold = read_divided("points.csv", columns=replace(NAMES, grade="points", bins=4))
    of_training = frame[frame["search"].map(part_by_hand) == "train"]["points"]
    edges = np.quantile(of_training, [0.25, 0.5, 0.75])
    np.testing.assert_allclose(fold.train.columns.edges, edges)
    for part in PARTS:
        queries = getattr(fold, part)
        points = frame["points"].to_numpy()[queries.rows]
        assert queries.grades.tolist() == [sum(p >= edge for edge in edges) for p in points]
        assert queries.columns.edges == fold.train.columns.edges
    counts = np.bincount(fold.train.grades)
    assert len(counts) == 4 and counts.max() - counts.min() <= 1


# ----------------------------------------------------------------------------- names of columns


def test_a_named_column_that_is_not_there_or_twice_named_is_refused():
    with pytest.raises(DataError, match=r"all\.csv: there is no column 'seek' .*stars$"):
        read_queries("all.csv", columns=NamedColumns(query="seek", grade="stars"))
    with pytest.raises(DataError, match="column 'stars' cannot be two of query, grade and id"):
        NamedColumns(query="stars", grade="stars")
    with pytest.raises(DataError, match="bins must be a whole number from 2 to 31, got 1"):
        NamedColumns(bins=1)


def test_names_come_back_from_json_and_damage_is_refused():
    columns = NamedColumns("q", "g", "i", ("x", "y"), 3, (0.5, 2.0))
    assert NamedColumns.from_json(json.loads(json.dumps(columns.to_json())), "x") == columns
    for damage in (
        {"query": 3}, {"edges": [1, 0]}, {"edges": ["a"]}, {"edges": None}, {"ignore": "abc"},
        {"bins": 2.5}, {"bins": 10**9}, {"other": 1}, {"query": "a", "id": "a"}, [],
        {"edges": [float("nan")]}, {"edges": [10**400]},
    ):  # fmt: skip
        with pytest.raises(ModelError, match=r"^model\.json: "):
            NamedColumns.from_json(damage, "model.json")


def test_damaged_parts_in_a_model_folder_are_refused_in_one_line(shop_model, tmp_path):
    for damage in ({"queries": [1, 2]}, {"queries": ["nothing"]}, {"fingerprint": 7}):
        folder = shutil.copytree(shop_model / "m", tmp_path / "m", dirs_exist_ok=True)
        about = json.loads((folder / "model.json").read_text())
        about["info"]["data"]["test"] |= damage
        (folder / "model.json").write_text(json.dumps(about))
        assert "test part" in fault("evaluate", folder, "all.csv", "--part", "test")


# --------------------------------------------------------------------------- the command and after


def test_a_column_that_is_nearly_the_grade_is_warned_of():
    frame = shop()
    generator = np.random.default_rng(1)
    frame["rating"] = frame["stars"] * 2.0 + generator.random(len(frame))
    frame["place"] = -frame["rating"]
    frame.to_csv("leak.csv", index=False)
    run = invoke("train", "leak.csv", *TYPED, "--out", "m", *FAST, "--json")
    warnings = [line for line in run.stderr.splitlines() if line.startswith("warning: ")]
    assert warnings == notes_of(run.stdout)[: len(warnings)]
    assert [line.split()[1] for line in warnings] == ["rating", "place"]
    assert "is nearly the grade (rank correlation 1.000)" in warnings[0]
    assert "is nearly the grade (rank correlation -1.000)" in warnings[1]
    assert "warning" not in invoke("train", "all.csv", *TYPED, "--out", "n", *FAST).stderr
    ignoring = ("--ignore", "rating", "--ignore", "place", "--out", "o")
    assert "warning" not in invoke("train", "leak.csv", *TYPED, *ignoring, *FAST).stderr


def test_a_feature_that_is_nearly_as_good_by_the_chance_of_few_queries_is_passed_over():
    grades = np.tile(np.arange(6), (6, 1))
    by_chance = grades.copy()
    by_chance[0] = by_chance[0, ::-1]  # the reverse in one query of six
    X = np.stack([by_chance.ravel(), grades.ravel(), np.zeros(36)], axis=1)
    few = Queries.from_arrays(X, grades.ravel(), group=[6] * 6)
    measured = evaluate(few, np.lexsort((-X[:, 0], few.query_of_docs())), "ndcg")["ndcg"]
    assert list(features_near_model(few, measured, Metric("ndcg"), "zero")) == [1]
    many = Queries.from_arrays(np.tile(X, (40, 1)), np.tile(grades.ravel(), 40), group=[6] * 240)
    assert list(features_near_model(many, measured, Metric("ndcg"), "zero")) == [0, 1]


def test_the_rank_correlation_is_that_of_all_pairs_of_a_query():
    generator = np.random.default_rng(4)
    grades, qid = generator.integers(4, size=60), generator.integers(5, size=60)
    X = generator.integers(6, size=(60, 3)) + grades[:, None] * [[0, 2, 9]]
    X = np.where(generator.random(X.shape) < 0.1, np.nan, X)
    queries = Queries.from_arrays(X, grades, qid=qid)
    found = features_near_grades(queries, nearly=0.0)
    for k in range(3):
        signs = [
            np.nan_to_num(np.sign(X[i, k] - X[j, k]))
            for i in range(60)
            for j in range(60)
            if qid[i] == qid[j] and grades[i] > grades[j]
        ]
        assert found[k] == pytest.approx(np.mean(signs))


def test_run_and_model_hold_the_queries_of_each_part_beside_the_fingerprint(shop_model):
    fold = read_divided("all.csv", columns=NAMES)
    expected = {
        part: {"fingerprint": fingerprint("all.csv"), "queries": getattr(fold, part).qids.tolist()}
        for part in PARTS
    }
    of_model = load_ranker(shop_model / "m").info["data"]
    of_folder = json.loads((shop_model / "m/run.json").read_text())["data"]
    with open_store(shop_model / "s.db") as store:
        of_store = store.run("last").data
    for data in (of_model, of_folder, of_store):
        held = {p: {name: data[p][name] for name in expected[p]} for p in PARTS}
        assert held == expected
        assert NamedColumns.from_json(data["train"]["columns"], "run.json") == NAMES


def test_the_model_remembers_names_and_parts_for_every_command(shop_model):
    model = load_ranker(shop_model / "m")
    assert model.columns == NAMES
    test = read_divided("all.csv", columns=NAMES).test
    assert test is not None
    m = shop_model / "m"
    per_query = done("evaluate", m, "all.csv", "--part", "test", "--per-query", "-")
    assert [line.split(",")[0] for line in per_query.splitlines()[1:]] == test.qids.tolist()
    ranked = done("rank", m, "all.csv", "--part", "test").splitlines()
    names = test.docids[model.order(test)].tolist()
    assert [line.split(",")[1] for line in ranked[1:]] == names
    assert "ndcg@10" in done("importance", m, "all.csv", "--part", "test")
    a, b = test.docids[:2]
    query = test.qids[0]
    assert f"in query {query}" in done("explain", m, "all.csv", a, b, "--part", "test")
    new = shop(2).drop(columns=["stars", "product"])
    new.to_csv("new.csv", index=False)
    lines = done("rank", m, "new.csv").splitlines()
    assert lines[0] == "qid,docid,row,rank,score" and len(lines) == 11
    renamed = new.rename(columns={"search": "looked for"})
    renamed.to_csv("renamed.csv", index=False)
    assert "there is no column 'search'" in fault("rank", m, "renamed.csv")
    assert done("rank", m, "renamed.csv", "--query", "looked for").splitlines() == lines


def test_a_changed_file_is_refused_and_a_moved_one_found(shop_model):
    m = shop_model / "m"
    text = Path("all.csv").read_text()
    Path("elsewhere.csv").write_text(text)
    before = done("evaluate", m, "all.csv", "--part", "test")
    assert done("evaluate", m, "elsewhere.csv", "--part", "test") == before
    Path("all.csv").write_text(text + "search 0,p900,1,1,red,1\n")
    line = fault("evaluate", m, "all.csv", "--part", "test")
    assert "all.csv: its content differs from that of all.csv, which was divided" in line
    with open_store(shop_model / "s.db") as store:
        run = store.run("last")
        changed = {"path": "all.csv", "folder": str(Path.cwd())}
        facts = {name: {**part, **changed} for name, part in run.data.items()}
        with pytest.raises(DataError, match=r"all\.csv: its content differs"):
            read_part(SimpleNamespace(id=run.id, data=facts), "vali")
        sources = find_sources(run, str(m), ["elsewhere.csv"], progress=lambda text: None)
        fold = read_divided("elsewhere.csv", columns=NAMES)
        for part in ("train", "vali"):
            np.testing.assert_array_equal(sources.data[part].features, getattr(fold, part).features)
            assert sources.data[part].qids.tolist() == getattr(fold, part).qids.tolist()
        without_model = read_part(run, "vali", "elsewhere.csv")
        np.testing.assert_array_equal(without_model.grades, fold.vali.grades)


def test_the_whole_file_is_measured_with_a_warning_and_a_foreign_part_refused(shop_model):
    m = shop_model / "m"
    run = invoke("evaluate", m, "all.csv", "--json")
    assert run.exit_code == 0
    warning = notes_of(run.stdout)[0]
    assert "all.csv is the file that the model was trained on, all its parts" in warning
    assert warning in run.stderr
    done("train", "all.csv", "--ranker", "err", *TYPED, "--out", "other")
    assert "ndcg@10" in done("evaluate", "other", "all.csv", "--part", "test")
    shop().rename(columns={"search": "qid", "stars": "label"}).to_csv("t.csv", index=False)
    done("train", "t.csv", "t.csv", "--ranker", "err", "--out", "two")
    line = fault("evaluate", "two", "t.csv", "--part", "test")
    assert "--part: the model was not trained on one file that train divided" in line


@pytest.mark.slow
def test_a_run_on_one_file_is_resumed_without_naming_anything_again(shop_model, tmp_path):
    done("train", "all.csv", *TYPED, "--out", "m", "--store", "s.db", *FAST)
    before = Path("m/model.json").read_bytes()
    done("train", "--resume", "--out", "m", "--store", "s.db")
    assert Path("m/model.json").read_bytes() == before
    assert "Not in the report" not in invoke("report", "m", "--output", "r.html").stderr
    Path("all.csv").rename("moved.csv")
    lacking = invoke("report", "m", "--output", "r.html")
    assert lacking.exit_code == 0
    assert "Not in the report is what needs all.csv: no such file" in lacking.stderr
    assert "--data names the file" in lacking.stderr
    done("train", "moved.csv", "--resume", "--out", "m", "--store", "s.db")
    line = fault("train", "moved.csv", "--resume", "--out", "m", "--store", "s.db", "--query",
                 "none", "--grade", "stars")  # fmt: skip
    assert "other columns are named" in line
    shop(26).to_csv("moved.csv", index=False)
    line = fault("train", "moved.csv", "--resume", "--out", "m", "--store", "s.db")
    assert line.count("its content differs from all.csv") == 1


def test_names_are_refused_for_a_collection_and_for_letor_text():
    Path("all.txt").write_text(letor(30, 0))
    assert "all.txt: is LETOR text" in fault("train", "all.txt", "--query", "q")
    done("items", "add", "goods", "all.csv", "--ignore", "stars")
    line = fault("train", "goods", "--grade", "stars")
    assert "a collection has its judgements and columns already" in line


# ------------------------------------------------------------------- experiments and the estimator


def test_the_estimator_takes_the_names_and_learns_what_it_learns_without_them():
    frame = shop()
    small = {"epochs": 2, "max_iter": 1, "committee": 1, "scaling": "query", "hidden": 4}
    ranker = SortNetRanker(**small, query="search", grade="stars", id="product").fit(frame)
    X, qid = frame[["price", "age", "colour"]], frame["search"]
    plain = SortNetRanker(**small).fit(X, frame["stars"], qid=qid)
    assert ranker.feature_names_in_.tolist() == ["price", "age", "colour"]
    expected = plain.predict(X, qid=qid)
    np.testing.assert_array_equal(ranker.predict(frame), expected)
    np.testing.assert_array_equal(
        ranker.predict(frame.drop(columns=["stars", "product"])), expected
    )
    assert ranker.score(frame) == plain.score(X, frame["stars"], qid=qid)
    with pytest.raises(DataError, match="X has no column 'search', which names the queries"):
        ranker.predict(frame.drop(columns="search"))
    with pytest.raises(DataError, match="there is no column 'stars' in search"):
        ranker.score(frame.drop(columns="stars"))
    misspelled = clone(ranker).set_params(grade="star")
    with pytest.raises(DataError, match=r"no column 'star' in .*: did you mean 'stars'"):
        misspelled.fit(frame)
    with pytest.raises(DataError, match="has a column 'search', so give no qid besides"):
        ranker.predict(frame, qid=qid)


def test_a_name_without_its_quotes_is_a_missing_file_not_letor_text():
    line = fault("train", "--query", "Search", "No", "all.csv")
    assert "No: no such file or folder; a name with spaces needs quotes" in line


def test_with_query_none_rows_are_divided_by_their_id_in_any_order():
    columns = NamedColumns(query="none", grade="stars", id="product")
    frame = shop().drop(columns="search").sample(frac=1, random_state=1)
    frame.to_csv("rows.csv", index=False)
    fold = read_divided("rows.csv", columns=columns)
    for part in PARTS:
        queries = getattr(fold, part)
        assert queries.qids.tolist() == ["0"]
        expected = {name for name in frame["product"] if part_by_hand(name) == part}
        assert {*queries.docids.tolist()} == expected


def test_numbers_that_repeat_make_fewer_bins_and_one_number_none():
    assert quantile_edges([0, 0, 0, 0, 4, 6, 8, 9], 4) == (2.0, 6.5)  # of the quantiles 0, 2, 6.5
    assert in_which_bin([0, 2, 6, 6.5, 9], [2.0, 6.5]).tolist() == [0, 1, 1, 2, 2]
    with pytest.raises(DataError, match="there is nothing to divide in bins"):
        quantile_edges([2.0, 2.0], 3)


def test_as_many_bins_as_different_numbers_or_more_are_one_of_each():
    edges = quantile_edges([1.5] * 50 + [2.5] * 2 + [4.0], 4)  # most of the quantiles are 1.5
    assert in_which_bin([1.5, 2.5, 4.0], edges).tolist() == [0, 1, 2]
    assert quantile_edges([0] * 9 + [7], 3) == (7.0,)


def test_bins_are_proposed_for_grades_whose_gain_is_huge():
    frame = shop()
    frame["stars"] *= 100
    frame.to_csv("large.csv", index=False)
    run = invoke("train", "large.csv", *TYPED, "--ranker", "err", "--out", "m")
    assert ": --bins 5 divides stars into 5 grades" in run.stderr
    run = invoke("train", "large.csv", *TYPED, "--bins", "5", "--ranker", "err", "--out", "n")
    assert run.exit_code == 0 and "--bins 5 divides" not in run.stderr


def test_bins_are_kept_with_the_model_and_used_by_evaluate():
    frame = shop()
    frame["stars"] = frame["stars"] + frame["age"].rank() / 1000
    frame.to_csv("points.csv", index=False)
    done("train", "points.csv", *TYPED, "--bins", "3", "--out", "m", *FAST)
    assert load_ranker("m").columns.bins == 3 and len(load_ranker("m").columns.edges) == 2
    printed = value_of(done("evaluate", "m", "points.csv", "--part", "test", "--json"))
    test = read_divided("points.csv", columns=replace(NAMES, bins=3)).test
    measured = evaluate(test, load_ranker("m").order(test), "ndcg@10")["ndcg@10"]
    assert printed["measures"]["ndcg@10"] == measured
    whole = read_queries("points.csv", like=load_ranker("m"))
    quality = load_ranker("m").config.quality_of(whole, load_ranker("m").order(whole))
    assert SortNetRanker.load("m").score(frame) == pytest.approx(quality)
