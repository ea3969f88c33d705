"""sortnet rank, compare, explain, evaluate of items that nobody has seen before."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import done, fault, letor
from item_helpers import essays, goodness, items_of, photo, ranker_of
from scipy.stats import spearmanr

from sortnet.data import read_queries
from sortnet.rankers.load_ranker import load_ranker

LIGHTS = np.linspace(0, 1, 24)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Models of texts, of images and of given features, and items that they have not seen."""
    folder = tmp_path_factory.mktemp("items")
    ranker_of(essays(80), id="slug", text="essay").save(folder / "texts")
    (folder / "old").mkdir()
    names = [photo(folder / "old", f"{k}.png", seed=k, light=x) for k, x in enumerate(LIGHTS)]
    images = items_of(images=names, root=folder / "old")
    columns = {"id": "files", "image": "files"}
    ranker_of(images, np.arange(24) // 4, **columns).save(folder / "images")
    (folder / "photos of May").mkdir()
    for k, x in enumerate((0.5, 0.9, 0.1)):
        photo(folder / "photos of May", f"photo {k}.png", seed=100 + k, light=x)
    sweets = items_of(features=[[k % 5, k] for k in range(30)])
    sweets = replace(sweets, feature_names=("sugar", "price"))
    ranker_of(sweets, np.arange(30) % 5, id="sweet").save(folder / "given")
    rows = [f"{99 - k},essay {k:02},{text}" for k, text in enumerate(essays(40, seed=9).texts)]
    (folder / "new.csv").write_text("\n".join(["stars,slug,essay", *rows]) + "\n")
    return folder


@pytest.fixture(autouse=True)
def _there(made, monkeypatch):
    monkeypatch.chdir(made)


def ranks(*args: object) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(done("rank", *args))))


def test_texts_of_a_new_table_are_ranked_by_what_was_learned():
    found = ranks("texts", "new.csv")
    by_number = sorted(found, key=lambda row: int(row["docid"].removeprefix("essay ")))
    scores = [float(row["score"]) for row in by_number]
    assert spearmanr(scores, goodness(essays(40, seed=9))).statistic > 0.9
    assert {row["qid"] for row in found} == {"0"} and found[0]["rank"] == "1"
    assert [int(row["row"]) for row in by_number] == list(range(40))


def test_a_table_a_folder_and_one_alone_are_described_and_ranked_alike(tmp_path):
    items = essays(40, seed=9)
    by_table = [row["docid"] for row in ranks("texts", "new.csv")]
    (tmp_path / "folder").mkdir()
    for k, text in enumerate(items.texts):
        (tmp_path / "folder" / f"essay {k:02}.txt").write_text(text)
    by_folder = [row["docid"].removesuffix(".txt") for row in ranks("texts", tmp_path / "folder")]
    assert by_folder == by_table
    one = tmp_path / "one.jsonl"
    one.write_text(json.dumps({"slug": "just one", "essay": items.texts[3]}) + "\n")
    alone = {"qid": "0", "docid": "just one", "row": "0", "rank": "1", "score": "0.0"}
    assert ranks("texts", one) == [alone]
    model = load_ranker("texts")
    whole, single = (
        read_queries(path, labelled=False, like=model).features for path in ("new.csv", one)
    )
    np.testing.assert_array_equal(single[0], whole[3])


def test_images_of_a_folder_never_seen_are_ranked():
    found = [row["docid"] for row in ranks("images", "photos of May")]
    assert found == ["photo 1.png", "photo 0.png", "photo 2.png"]


BAD = {
    "images for texts": ("texts", "photos of May", "by text, these have none: they have images"),
    "texts for images": ("images", "new.csv", "by image, these have none: they have texts"),
    "a folder for columns": ("given", "photos of May", "has no column 'sugar': give a table"),
    "no column": ("given", "new.csv", "there is no column 'sugar' in stars, slug, essay"),
    "LETOR": ("texts", "letor.txt", "letor.txt: is none of .csv"),
    "broken": ("images", "broken", "a.png"),
}


@pytest.mark.parametrize("kind", BAD)
def test_other_columns_and_other_kinds_of_items_are_refused_in_one_line(kind):
    Path("letor.txt").write_text(letor(1, 0))
    Path("broken").mkdir(exist_ok=True)
    Path("broken/a.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    model, data, said = BAD[kind]
    assert said in fault("rank", model, data)


def test_items_of_a_model_with_groups_are_ranked_group_by_group(tmp_path):
    ranker_of(essays(40), id="slug", text="essay", group="topic").save(tmp_path / "m")
    rows = ["slug,essay,topic", "a,the bread,x", "b,splendid superb,y", "c,splendid water,x"]
    (tmp_path / "new.csv").write_text("\n".join([*rows, "d,the a,y"]) + "\n")
    found = [(row["qid"], row["docid"]) for row in ranks(tmp_path / "m", tmp_path / "new.csv")]
    assert found == [("x", "c"), ("x", "a"), ("y", "b"), ("y", "d")]
    assert "there is no column 'topic'" in fault("rank", tmp_path / "m", "new.csv")


def test_a_collection_in_place_of_a_model_says_how_to_get_one(tmp_path, monkeypatch):
    monkeypatch.setenv("SORTNET_STORE", str(tmp_path / "s.db"))
    assert "essays/model.json: no model there" in fault("rank", "essays", "new.csv")
    done("items", "add", "essays", "new.csv", "--id", "slug", "--text", "essay")
    said = fault("rank", "essays", "new.csv")
    assert said == (
        "sortnet: essays is a collection, not a model: train one with sortnet train essays --out "
        "MODEL, or rank the collection's own items with sortnet ranking essays\n"
    )
    assert fault("explain", "essays", "new.csv", "a", "b") == said
    (tmp_path / "s.db").write_text("no database")
    assert "essays/model.json: no model there" in fault("rank", "essays", "new.csv")
