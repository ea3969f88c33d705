"""A run that begins with a model's weights: what it keeps of the model, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_helpers import copy_run, done, fault, letor, make_fold, weights_of
from collection_helpers import made_items
from graded_queries import graded
from result_helpers import value_of
from test_cli_resume import killed_at

from sortnet.config import Config
from sortnet.data import read_fold
from sortnet.errors import DataError, ModelError
from sortnet.estimator import SortNetRanker
from sortnet.metrics import evaluate
from sortnet.preference import Judgement
from sortnet.rankers.model import Model
from sortnet.rankers.sortnet import fit, settings_from_model
from store import open_store
from store.training import training_run
from store.training.run_folder import Folder

SMALL = ("--set", "committee=2", "--set", "trees=2", "--set", "depth=3", "--scaling", "query")
FEW = ("--epochs", "6", "--set", "threads=1", "--set", "batch_size=64")


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A folder with the model `old`, learned from the fold `few`, and a larger fold, `more`."""
    folder = tmp_path_factory.mktemp("trained")
    make_fold(folder / "few")
    make_fold(folder / "more")
    (folder / "more/train.txt").write_text(letor(60, 9))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done("train", "few", "--out", "old", "--store", "s.db", "--seed", "3", *SMALL, *FEW)
    return folder


@pytest.fixture(autouse=True)
def _there(trained, tmp_path, monkeypatch):
    copy_run(trained, tmp_path, "old")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")


def train_on(*more: str) -> list[str]:
    return ["train", "more", "--from", "old", "--out", "new", *FEW, *more]


def same_weights(a: Model, b: Model) -> bool:
    return a.weights_sha256() == b.weights_sha256()


def test_iteration_0_is_the_model_and_the_new_model_has_its_scaling_and_comparator():
    old = Model.load("old")
    shown = value_of(done(*train_on("--json")))
    few, more = read_fold("few"), read_fold("more")
    first = shown["iterations"][0]
    for part, queries in (("train", more.train), ("vali", few.vali)):
        expected = evaluate(queries, old.order(queries), old.config.rank_quality)
        assert first[f"{part}_ndcg@10"] == pytest.approx(expected["ndcg@10"])
    new = Model.load("new")
    ours, theirs = new.config.flat(), old.config.flat()
    for name in ("comparator", "committee", "trees", "depth", "scaling", "seed", "weight_decay"):
        assert ours[name] == theirs[name], name
    assert (new.scaler.varying == old.scaler.varying).all()


@pytest.mark.parametrize("comparator", ["cmpnn", "directranker"])
def test_nets_are_trained_further_too(comparator):
    T, V = graded(1), graded(2)
    config = Config(comparator=comparator, committee=2, hidden=(5,), scaling="query")
    old = fit(T, V, config.changed(epochs=3))
    new = fit(T, V, settings_from_model(old.config, epochs=3), from_model=old)
    assert new.config.flat()["hidden"] == (5,) and len(new.comparator.members) == 2
    assert new.info["quality"] >= old.info["quality"]
    assert same_weights(old, fit(T, V, config.changed(epochs=3))), "the old model was changed"


def test_dropout_is_that_of_the_model():
    learned = Config(comparator="cmpnn", dropout=0.3)
    assert settings_from_model(learned, epochs=2).dropout == 0.3
    assert settings_from_model(learned, dropout=0.3).dropout == 0.3
    with pytest.raises(DataError, match=r"dropout 0\.1 does not fit .*, which has dropout 0\.3"):
        settings_from_model(learned, dropout=0.1)
    with pytest.raises(DataError, match=r"dropout 0\.0 does not fit"):
        fit(graded(1), graded(2), Config(comparator="cmpnn"), from_model=untrained(learned))


def untrained(config: Config) -> Model:
    T = graded(1)
    return fit(T, T, config.changed(epochs=1, scaling="query"))


# Where the run is killed, before and after its folder knows of it; test_cli_resume.py has more.
PLACES = {
    "after the folder has the model": (Model, "save", 1, True),
    "before the store has the run": (Folder, "write_run", 1, True),
    "before the first state": (training_run, "save_state", 1, False),
    "after the third state": (training_run, "save_state", 3, True),
}


@pytest.fixture(scope="module")
def unkilled(trained, tmp_path_factory) -> tuple[bytes, bytes]:
    """The weights and the last state of a run that begins with `old`, which nothing killed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(copy_run(trained, tmp_path_factory.mktemp("unkilled"), "old"))
        done(*train_on("--store", "s.db"))
        return bytes_of("new")


def bytes_of(name: str) -> tuple[bytes, bytes]:
    return weights_of(name).read_bytes(), Path(name, "state.safetensors").read_bytes()


@pytest.mark.parametrize("place", PLACES)
def test_a_killed_run_ends_the_same_although_the_model_is_gone(place, unkilled):
    owner, name, call, after = PLACES[place]
    killed_at(owner, name, call, train_on(), after=after)
    is_known = Path("new/run.json").exists()
    assert is_known == (owner is not Model)
    if is_known:
        shutil.rmtree("old")
        done("train", "--resume", "--out", "new")
    else:
        done(*train_on("--resume"))
    assert bytes_of("new") == unkilled


def test_a_larger_budget_of_the_same_run_is_refused_and_names_from():
    assert fault("train", "--resume", "--out", "old", "--max-iter", "20").endswith(
        "max_iter 20, not the default; train on: sortnet train DATA --from old --out NEW\n"
    )


def test_resuming_from_another_model_is_refused():
    done(*train_on())
    done(*train_on("--resume"))  # of the same model
    done("train", "few", "--out", "other", *SMALL, *FEW, "--seed", "8")
    line = fault("train", "--resume", "--out", "new", "--from", "other")
    assert "cannot resume the run in new from other: it began with other weights, of old" in line
    line = fault("train", "--resume", "--out", "other", "--from", "old")
    assert "it began with random weights" in line
    other = Path("new/from")
    shutil.rmtree(other)
    shutil.copytree("other", other)
    assert fault("train", "--resume", "--out", "new") == (
        "sortnet: new/from: not the model that the run began with\n"
    )


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("--set", "committee=8"), "committee 8 does not fit the model to begin with, which has"),
        (("--scaling", "rank"), "scaling rank does not fit"),
        (("--comparator", "cmpnn"), "comparator cmpnn does not fit"),
        (("--set", "hidden=5"), "which has no hidden: leave hidden out"),
        (("--set", "start=fresh"), "start=fresh begins each training from random weights"),
        (("--out", "old"), "give another folder with --out"),
        (("--out", "./old/", "--overwrite"), "give another folder with --out"),
        (("--ranker", "ranksvm"), "are for --ranker sortnet only"),
        (("--from", "nothing"), "no model there"),
    ],
)
def test_what_does_not_fit_the_model_is_refused_in_a_line(typed, said):
    assert said in fault(*train_on(*typed))
    assert not Path("new").exists()


@pytest.mark.parametrize("kind", ["ranksvm", "listnet"])  # of listnet is a net of other settings
def test_a_ranker_of_another_kind_is_refused(kind):
    done("train", "few", "--ranker", kind, "--out", kind)
    assert fault(*train_on("--from", kind)) == (
        f"sortnet: {kind}: a ranker of kind {kind} cannot be trained further; a model of kind "
        "sortnet can (trees, cmpnn, directranker, and committees of them)\n"
    )


def test_other_features_are_refused():
    wide = graded(0, d=5)
    with pytest.raises(ModelError, match="5 features, but the model was trained on 4"):
        fit(wide, wide, from_model=Model.load("old"))


def answers(items, n: int, seed: int) -> list[Judgement]:
    rng = np.random.default_rng(seed)
    pairs = [rng.permutation(len(items))[:2] for _ in range(n)]
    better = [items.features[a, 0] > items.features[b, 0] for a, b in pairs]
    return [
        Judgement.of("ana", (int(a), int(b)), "left" if left else "right")
        for (a, b), left in zip(pairs, better, strict=True)
    ]


def test_a_collection_with_new_answers_is_tested_on_items_that_the_model_never_learned():
    items = made_items(40, d=3)
    with open_store("s.db") as store:
        collection = store.add_items("c", items)
        collection.append(answers(items, 80, 1))
    done("train", "c", "--out", "net", *SMALL, *FEW)
    kept = json.loads(Path("net/model.json").read_text())
    facts = kept["info"]["data"]["vali"]["held_out"]
    if kept["kind"] != "sortnet":
        pytest.fail("the posterior was kept: these answers say nothing of nets")
    with open_store("s.db") as store:
        store.collection("c").append(answers(items, 150, 2))
    output = done("train", "c", "--from", "net", "--out", "newer", *FEW)
    assert "from   net (run " in output
    run = json.loads(Path("newer/run.json").read_text())
    assert run["data"]["vali"]["held_out"] == facts
    assert (
        "posterior" in json.loads(Path("newer/model.json").read_text())["info"]["kept"]["figures"]
    )
    report = done("pairs", "last", "--split", "train")
    held = set(facts["documents"])
    assert held and not any(set(line.split(",")) & held for line in report.splitlines()[1:])


def frame(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    size, colour = rng.normal(size=n), rng.choice(["red", "blue"], n)
    stars = np.digitize(size + (colour == "red"), [-0.5, 0.5, 1.5])
    return pd.DataFrame({"qid": np.arange(n) // 10, "size": size, "colour": colour}), stars


def small(**changes) -> SortNetRanker:
    return SortNetRanker(**{"committee": 2, "trees": 2, "depth": 3, "epochs": 4, **changes})


def test_the_estimator_refuses_what_does_not_fit():
    X, y = frame(200, 0)
    old = small().fit(X, y)
    refused = [
        (small(trees=5), X, old, "trees 5 does not fit"),
        (SortNetRanker(ranker="ranksvm"), X, old, "takes no init_model"),
        (SortNetRanker(tune=True), X, old, "tune chooses settings"),
        (small(), X, SortNetRanker(ranker="ranksvm").fit(X, y), "of kind ranksvm cannot be"),
        (small(), X, ["saved"], "init_model is a fitted estimator, a Model or a model folder"),
        (small(), X.rename(columns={"size": "width"}), old, "feature names"),
    ]
    for ranker, features, first, why in refused:
        with pytest.raises((DataError, ModelError), match=why):
            ranker.fit(features, y, init_model=first)
