"""sortnet train COLLECTION: what people said as the judge, from the store to a report."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import FAST, done, fault, invoke, make_fold
from collection_helpers import made_items
from result_helpers import value_of

from sortnet.core import Queries
from sortnet.errors import SortNetError
from sortnet.items import Describer
from sortnet.preference import Judgement
from sortnet.preference.session import Session
from sortnet.preference.study import Decision
from sortnet.rankers.load_ranker import load_ranker
from sortnet.rankers.posterior_ranker import PosteriorRanker
from store import open_store
from store.service.judged_queries import JudgedData, Source, read_judged

N = 40


def better(items, rng: np.random.Generator, who: str, n: int, *, upside_down: bool = False):
    """n answers by the first feature."""
    for _ in range(n):
        a, b = (int(k) for k in rng.permutation(N)[:2])
        left = (items.features[a, 0] > items.features[b, 0]) != upside_down
        yield Judgement.of(who, (a, b), "left" if left else "right")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with the collection `c` of a store, a model learned from it and what was said."""
    folder = tmp_path_factory.mktemp("judged")
    items, rng = made_items(N, d=3), np.random.default_rng(0)
    with open_store(folder / "s.db") as store:
        collection = store.add_items("c", items)
        said = [j for who in ("ana", "bo") for j in better(items, rng, who, 80)]
        collection.append(
            [*said, Judgement.of("ana", (0, 1), "tie"), Judgement.of("bo", (0, 1), "skip")]
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("said.txt").write_text(done("train", "c", "--out", "m", "--store", "s.db", *FAST))
    return folder


@pytest.fixture(autouse=True)
def _there(made, monkeypatch):
    monkeypatch.chdir(made)
    monkeypatch.setenv("SORTNET_STORE", "s.db")


def test_a_model_is_learned_that_orders_new_items_as_the_people_do():
    said = Path("said.txt").read_text()
    assert "judged pairs with items that are held out" in said and "accuracy" in said
    found = re.search(r"accuracy on \d+ judged pairs .* 95 % interval ([\d.]+) to ([\d.]+)", said)
    quality = json.loads(Path("m/model.json").read_text())["info"]["kept"]["figures"]["sortnet"]

    rounding = 0.005
    assert float(found[1]) - rounding <= quality <= float(found[2]) + rounding
    model = load_ranker("m")
    new = np.random.default_rng(9).normal(size=(50, 3)).astype(np.float32)
    order = model.order(Queries.from_arrays(new, feature_names=["f0", "f1", "f2"]))
    assert np.corrcoef(new[order, 0], np.arange(50))[0, 1] < -0.8


# The net of iteration 0 has random weights: the posterior, which has learned something, is better.
UNTRAINED = (*FAST, "--max-iter", "1")


def test_what_was_kept_is_told_alike_by_the_folder_the_store_and_every_command(
    tmp_path, monkeypatch
):
    shutil.copy("s.db", tmp_path)
    monkeypatch.chdir(tmp_path)
    output = done("train", "c", "--out", "m", *UNTRAINED)
    record = json.loads(Path("m/model.json").read_text())["info"]["kept"]
    figures = record["figures"]
    assert record["kind"] == "posterior" and figures["posterior"] > figures["sortnet"]
    assert value_of(done("show", "last", "--json"))["kept"] == record
    assert value_of(done("runs", "--json"))[0]["kept"] == record
    line = f"the posterior: accuracy {figures['posterior']:.4f}, the comparator's is"
    assert line in output and line in done("show", "last")
    assert f"posterior  accuracy {figures['posterior']:.4f}" in done("runs")
    done("report", "last", "--output", "kept.html")
    assert f"{figures['posterior']:.4f}" in Path("kept.html").read_text()


def test_what_was_kept_is_stored_with_the_model_or_not_at_all(tmp_path, monkeypatch):
    """A full disk keeps the old model: then the run does not say that another one was kept."""

    def full(ranker, folder):
        raise SortNetError("disk is full")

    shutil.copy("s.db", tmp_path)
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(PosteriorRanker, "save", full)
        assert "disk is full" in invoke("train", "c", "--out", "m", *UNTRAINED).stderr
    run = value_of(done("show", "last", "--json"))
    assert (run["status"], run["kept"]) == ("failed", None)
    done("train", "--resume", "--out", "m")
    assert json.loads(Path("m/model.json").read_text())["kind"] == "posterior"
    assert value_of(done("show", "last", "--json"))["kept"]["kind"] == "posterior"


def test_later_answers_do_not_disturb_a_run_that_is_resumed(tmp_path):
    with open_store("s.db") as store:
        collection = store.collection("c")
        before = [read_judged(collection, 162)]
        collection.append(list(better(collection.items(), np.random.default_rng(4), "cleo", 5)))
        before.append(read_judged(collection, 162))
        assert len(read_judged(collection).train.judged) != len(before[0].train.judged)
    first, again = (
        [(p.judged.key.tolist(), p.judged.weight.tolist()) for p in b[:2]] for b in before
    )
    assert first == again
    assert "has finished already" in invoke("train", "--resume", "--out", "m").stderr


@pytest.fixture
def facts(tmp_path):
    """A collection of its own that two people have judged, and its items."""
    items, rng = made_items(N, d=3), np.random.default_rng(2)
    with open_store(tmp_path / "f.db") as store:
        collection = store.add_items("f", items)
        for who in ("ana", "bo"):
            collection.append(list(better(items, rng, who, 80)))
        yield store, collection, items


def marks(found: JudgedData) -> set[str]:
    return {found.fingerprint(part) for part in (found.train, found.vali)}


def test_a_part_is_recognised_whatever_the_last_bits_of_fits(facts, monkeypatch):
    _, collection, _ = facts
    first = read_judged(collection)
    weighted, fit_apply = Session.weighted, Describer.fit_apply

    def weighted_otherwise(session):
        votes, weights = weighted(session)
        return votes, {name: weight * 1.001 for name, weight in weights.items()}

    def described_otherwise(items, **more):
        describer, described = fit_apply(items, **more)
        return describer, replace(described, features=described.features * 1.001)

    monkeypatch.setattr(Session, "weighted", weighted_otherwise)
    monkeypatch.setattr(Describer, "fit_apply", described_otherwise)
    again = read_judged(collection)
    assert (again.train.judged.weight != first.train.judged.weight).all()
    assert (again.train.features != first.train.features).all()
    assert marks(again) == marks(first)


def test_other_items_judgements_or_decisions_are_other_data(facts):
    store, collection, items = facts
    known = marks(read_judged(collection))
    changes = (
        lambda: collection.append([Judgement.of("ana", (0, 1), "left")]),
        lambda: collection.decide(Decision("exclude", annotator="bo")),
        lambda: store.add_items(
            "f", replace(items, texts=("other", *items.texts[1:])), update=True
        ),
        lambda: store.add_items("f", replace(items, features=-items.features), update=True),
    )
    for k, change in enumerate(changes, start=2):
        change()
        known |= marks(read_judged(collection))
        assert len(known) == 2 * k


@pytest.mark.parametrize(
    ("name", "more", "said"),
    [
        ("empty", (), "of two items is better, excluded annotators aside: sortnet label empty\n"),
        ("pair", (), "#1: too few judged pairs (1 with a better document): holding some"),
        ("plain", (), "the items have no features to learn from"),
        ("c", ("--quality", "ndcg@10"), "judged pairs are measured by accuracy, not by ndcg@10"),
        ("nothing", (), "nothing: no such file or folder, and no collection of the store"),
        ("collection:nothing", (), "no collection 'nothing'; collections: c, empty"),
    ],
)
def test_what_cannot_be_learned_from_is_refused_in_one_line(name, more, said):
    with open_store("s.db") as store:
        if "empty" not in store.collections_frame()["name"].tolist():
            store.add_items("empty", made_items(4))
            store.add_items("pair", made_items(4)).append([Judgement.of("ana", (0, 1), "left")])
            none = np.empty((4, 0), np.float32)
            plain = replace(made_items(4), features=none, feature_names=())
            store.add_items("plain", plain).append([Judgement.of("ana", (0, 1), "left")])
    assert said in fault("train", name, "--out", "x", *FAST, *more)
    assert not Path("x").exists()


def test_an_existing_path_goes_before_a_collection_of_its_name(made, tmp_path, monkeypatch):
    monkeypatch.setenv("SORTNET_STORE", str(made / "s.db"))
    monkeypatch.chdir(tmp_path)
    Path("c").mkdir()
    line = fault("train", "c", "--out", "x", *FAST)
    assert line.startswith("sortnet: c: there is no train.txt")
    assert line.endswith("; the collection of that name is collection:c\n")
    make_fold(Path("c"))
    done("train", "c", "--ranker", "err", "--out", "x")
    assert load_ranker("x").n_features == 4


def test_a_source_is_read_as_it_is_written():
    for source in (Source("essays"), Source("a#b", 3), Source("12", 0)):
        assert Source.parse(str(source)) == source
    assert Source.parse("train.txt") is None
