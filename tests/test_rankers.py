"""Rankers: whatever takes one takes any; a new kind is one file and one row."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import done, fault, make_fold, weights_of
from linear_ranker import SETTINGS, Linear
from optional_extras import needs
from result_helpers import value_of

from sortnet import Model, SortNetRanker, load_ranker, read_queries
from sortnet.config import Config
from sortnet.core import Queries
from sortnet.errors import DataError, ModelError
from sortnet.metrics import evaluate
from sortnet.rankers.base import Ranker
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.rankers.model_folder import write_folder
from sortnet.rankers.registry import KINDS, VARIANTS, name_of, settings_for

TEST = "fold/test.txt"
UNKNOWN = f"unknown kind of ranker 'elo'; known are {', '.join(KINDS)[:40]}"
PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "rankers.md"


@pytest.fixture(autouse=True)
def _known(monkeypatch):
    monkeypatch.setitem(KINDS, "linear", "linear_ranker:SETTINGS")


@pytest.fixture
def parts(tmp_path, monkeypatch) -> list[Queries]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", str(tmp_path / "s.db"))
    make_fold(tmp_path / "fold")
    return [read_queries(f"fold/{part}.txt") for part in ("train", "vali", "test")]


@pytest.fixture
def linear(parts) -> Linear:
    """A ranker in the folder `m`."""
    ranker = fit_ranker(*parts[:2], SETTINGS())
    ranker.save("m")
    return ranker


def test_every_kind_and_its_own_settings_are_on_the_page_of_rankers():
    rows = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    named = [row[1].strip(" `") for row in rows]
    assert {*named} == {*KINDS, *VARIANTS} - {"linear"}
    for kind, row in zip(named, rows, strict=True):
        own = settings_for(kind).flat().keys() - Config().flat().keys()
        own |= {"trees"} if kind == "lambdamart" else set()  # which boosting has otherwise
        if kind in VARIANTS:
            of, changes = VARIANTS[kind]
            assert f"`{of}`" in row[2] and all(f"{k}={v}" in row[4] for k, v in changes.items())
        else:
            assert own == set(re.findall(r"`(\w+)`", row[4])), kind


def test_evaluate_rank_and_importance_take_any_ranker(linear, parts):
    test = parts[2]
    order = linear.order(test)
    summary = value_of(done("evaluate", "m", TEST, "-m", "ndcg@5", "--json"))
    assert summary["measures"] == pytest.approx(evaluate(test, order, ["ndcg@5"]))
    rows = list(csv.DictReader(done("rank", "m", TEST, "--format", "csv").splitlines()))
    assert [row["docid"] for row in rows] == test.docids[order].tolist()
    features = value_of(done("importance", "m", TEST, "--json", "--repeats", 1))["features"]
    assert len(features) == test.n_features
    unknown = replace(linear, w=np.full(4, np.nan))
    with pytest.raises(ModelError, match=r"row \d+: the score is not a number"):
        unknown.order(test)


def test_explain_says_in_one_line_that_it_has_no_gradients(linear):
    said = done("explain", "m", TEST, "d1-0", "d1-3").splitlines()[-1]
    assert "a ranker of kind linear has no gradients" in said
    assert "sortnet importance" in said


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"ranker": "linear", "hidden": (3,)}, "of kind linear has no setting 'hidden'"),
        ({"ranker": "elo"}, UNKNOWN),
        ({"ranker": ["x" * 99]}, "unknown kind of ranker"),
    ],
)
def test_the_estimator_refuses_what_a_kind_has_not(params, said):
    with pytest.raises((DataError, ModelError), match=said):
        SortNetRanker(**params).fit([[1.0], [2.0]], [0, 1], qid=[1, 1])


def edit(**changes) -> None:
    path = Path("m/model.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "elo"}, UNKNOWN),
        ({"kind": ["linear"]}, r"kind cannot be \['linear'\]"),
        ({"n_features": 5}, "w is float64 4, not float64 5"),
        ({"n_features": 10**30}, "n_features cannot be 10{30}"),
        ({"config": {"hidden": [3]}}, "not the settings of a run"),
        ({"config": {"ridge": "x"}}, "ridge cannot be 'x'"),
    ],
)
def test_a_damaged_folder_of_any_kind_is_refused_in_one_line(linear, change, said):
    edit(**change)
    with pytest.raises(ModelError, match=said):
        load_ranker("m")
    assert weights_of("m").name in fault("rank", "m", TEST) or "model.json" in fault(
        "rank", "m", TEST
    )


def test_model_load_says_what_reads_another_kind(linear):
    with pytest.raises(ModelError, match=r"a ranker of kind 'linear', which sortnet\.load_ranker"):
        Model.load("m")


# What every kind keeps to.
QUICK = {
    "epochs": 3, "max_iter": 2, "committee": 1, "scaling": "query",
    "trees": 5, "rounds": 5, "generations": 5,
}  # fmt: skip
NAMES = [kind for kind in (*KINDS, *VARIANTS) if kind != "linear"]
GRADED = [kind for kind in NAMES if kind != "posterior"]
# A variant has the class of its kind: what the class decides is not tested for each variant again.
CLASSES = [kind for kind in KINDS if kind != "linear"]
GRADED_CLASSES = [kind for kind in CLASSES if kind != "posterior"]


def quick(kind: str, **changes):
    """Settings of the kind that take a moment."""
    settings = settings_for(kind)
    own = {name: value for name, value in QUICK.items() if name in settings.flat()}
    return settings.changed(**own, **changes)


def uneven(seed: int = 0) -> Queries:
    """Graded queries, one of a single document and one of a single grade among them."""
    rng = np.random.default_rng(seed)
    sizes = [1, 4, *rng.integers(2, 9, 12)]
    X = rng.normal(size=(sum(sizes), 4)).astype(np.float32)
    grades = np.clip(np.round(X[:, 0] + 0.5 * X[:, 1] + 0.8), 0, 2).astype(int)
    grades[1:5] = 1
    return Queries.from_arrays(X, grades, group=sizes, feature_names=["a", "b", "c", "d"])


def judged(seed: int = 0) -> Queries:
    queries = uneven(seed)
    i = np.arange(queries.n_docs - 1)
    i = i[queries.query_of_docs()[i] == queries.query_of_docs()[i + 1]]
    first = queries.features[i, 0] > queries.features[i + 1, 0]
    return replace(
        queries.with_judgements(np.where(first, i, i + 1), np.where(first, i + 1, i)),
        grades=np.zeros_like(queries.grades),
    )


def skip_without_library(kind: str) -> None:
    library = getattr(settings_for(kind), "library", None)
    if library:
        needs(library)


@cache
def fitted_once(kind: str) -> Ranker:
    skip_without_library(kind)
    parts = uneven if kind in GRADED else judged
    return fit_ranker(parts(0), parts(1), quick(kind))


@pytest.fixture
def fitted(kind) -> Ranker:
    return fitted_once(kind)


@pytest.mark.parametrize("kind", NAMES)
def test_a_ranker_of_any_kind_comes_back_from_its_folder_and_from_its_seed(kind, fitted, tmp_path):
    fitted.save(tmp_path)
    loaded, test = load_ranker(tmp_path), uneven(2)
    assert type(loaded) is type(fitted) and loaded.feature_names == ("a", "b", "c", "d")
    assert (loaded.config, loaded.info, loaded.n_features) == (fitted.config, fitted.info, 4)
    again = fitted_once.__wrapped__(kind)
    for method in ("scores", "order"):
        expected = getattr(fitted, method)(test)
        np.testing.assert_array_equal(getattr(loaded, method)(test), expected)
        np.testing.assert_array_equal(getattr(again, method)(test), expected)


@pytest.mark.parametrize("kind", NAMES)
def test_a_ranker_of_any_kind_orders_by_scores_of_the_features_it_was_fitted_on(kind, fitted):
    test = uneven(2)
    scores, order, query = fitted.scores(test), fitted.order(test), test.query_of_docs()
    assert sorted(order) == list(range(test.n_docs))
    same_query = query[order][1:] == query[order][:-1]
    assert (np.diff(scores[order])[same_query] <= 0).all()
    turned = Queries.from_arrays(test.features[::-1], qid=query[::-1])
    found = turned.in_row_order(fitted.scores(turned))[::-1]
    np.testing.assert_allclose(found, scores, rtol=1e-4, atol=1e-5)
    with pytest.raises(ModelError, match="2 features, but the model was trained on 4"):
        fitted.scores(test.with_features(test.features[:, :2]))
    with pytest.raises(ModelError, match="feature 1 is 'x', but the model was trained with 'a'"):
        fitted.order(replace(test, feature_names=("x", "b", "c", "d")))


@pytest.mark.parametrize("kind", CLASSES)
def test_a_kind_learns_from_judged_pairs_or_refuses_them_in_one_line(kind):
    skip_without_library(kind)
    if settings_for(kind).takes_judged:
        assert fit_ranker(judged(0), judged(1), quick(kind)).info["quality"] > 0.5
        return
    alike = replace(uneven(0), grades=np.ones_like(uneven(0).grades))
    refused = {f"of kind {kind} is learned from grades, not": judged(0), "nothing to learn": alike}
    for said, train in refused.items():
        with pytest.raises(DataError, match=said):
            fit_ranker(train, uneven(1), quick(kind))


@pytest.mark.parametrize("kind", CLASSES)
def test_a_kind_learns_by_weights_or_refuses_them_in_one_line(kind, fitted):
    train, vali = (uneven(0), uneven(1)) if kind in GRADED else (judged(0), judged(1))
    weighted = replace(train, weights=np.where(np.arange(train.n_docs) % 3, 1, 9).astype("f4"))
    if settings_for(kind).takes_weights:
        by_weights = fit_ranker(weighted, vali, quick(kind))
        margins = [ranker.margins(vali, [1, 2], [2, 3]) for ranker in (fitted, by_weights)]
        assert not np.allclose(*margins)
        return
    with pytest.raises(DataError, match=f"of kind {kind} takes no weights") as refused:
        fit_ranker(weighted, vali, quick(kind))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", CLASSES)
def test_weights_of_any_kind_that_are_damaged_are_refused(kind, fitted, tmp_path):
    fitted.save(tmp_path)
    about = json.loads((tmp_path / "model.json").read_text())
    whole = fitted.tensors()
    for name in {min(whole), max(whole)}:
        array, rest = whole[name], {k: t for k, t in whole.items() if k != name}
        bad = [rest, rest | {name: array.astype(np.float16)}]
        if array.dtype.kind == "f" and array.size:
            bad.append(rest | {name: np.full_like(array, np.nan)})
        for tensors in bad:
            write_folder(tmp_path, about, tensors)
            with pytest.raises(ModelError, match=r"safetensors: "):
                load_ranker(tmp_path)


@pytest.mark.parametrize("kind", NAMES)
def test_the_grids_of_any_kind_are_of_its_settings(kind):
    settings = settings_for(kind)
    for grid in settings.grids:
        for name, values in grid.items():
            assert len({settings.changed(**{name: value}) for value in values}) == len(values)


@pytest.mark.parametrize("kind", GRADED_CLASSES)
def test_the_estimator_fits_every_kind(kind):
    skip_without_library(kind)
    train, vali = uneven(0), uneven(1)
    own = {name: value for name, value in QUICK.items() if name in quick(kind).flat()}
    own = {name: value for name, value in own.items() if name in Config().flat()}
    ranker = SortNetRanker(ranker=kind, **own)
    ranker.fit(train.features, train.grades, qid=train.query_of_docs(),
               eval_set=(vali.features, vali.grades), eval_qid=vali.query_of_docs())  # fmt: skip
    assert name_of(ranker.model_.config) == kind
    assert ranker.score(vali.features, vali.grades, qid=vali.query_of_docs()) > 0.5


def test_train_fits_a_ranker_of_another_kind_and_stores_no_run(parts):
    said = done("train", "fold", "--ranker", "ranksvm", "--out", "k", "--quality", "ndcg@5")
    train, vali, test = parts
    fitted = fit_ranker(train, vali, settings_for("ranksvm").changed(quality="ndcg@5"))
    np.testing.assert_array_equal(load_ranker("k").scores(test), fitted.scores(test))
    assert f"{evaluate(vali, fitted.order(vali), 'ndcg@5')['ndcg@5']:.4f}" in said
    assert not list(Path().glob("*.db"))


def test_train_takes_settings_of_the_other_kind(parts):
    command = ["train", "fold/train.txt", "fold/vali.txt", "--ranker", "ranknet", "--out", "k"]
    args = [*command, "--epochs", 2, "--set", "queries=4", "--set", "hidden=5,3", "--json"]
    summary = value_of(done(*args), "training")
    config = load_ranker("k").config.flat()
    assert (config["epochs"], config["queries"], config["hidden"]) == (2, 4, (5, 3))
    assert (summary["kind"], summary["config"]["queries"]) == ("ranknet", 4)
    assert "has a model already" in fault(*args)
    done(*args, "--overwrite")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--ranker", "elo"), UNKNOWN),
        (("--ranker", "ranksvm", "--set", "hidden=3"), "of kind ranksvm has no setting 'hidden'"),
        (("--ranker", "ranksvm", "--set", "C=x"), "C must be a number above 0, got 'x'"),
        (("--ranker", "ranksvm", "--set", "C"), "--set takes NAME=VALUE, got 'C'"),
        (("--ranker", "ranksvm", "--resume"), "are for --ranker sortnet only"),
        (("--set", "C=1"), "of kind sortnet has no setting 'C'"),
    ],
)
def test_train_refuses_what_another_kind_has_not_in_one_line(parts, args, said):
    assert said in fault("train", "fold", "--out", "k", *args)
    assert not Path("k").exists()
