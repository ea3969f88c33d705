"""explain and importance by column: levels added up, dates as dates, texts by column and words."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_helpers import done
from item_helpers import FAST, essays, ranker_of
from result_helpers import value_of

from sortnet.config import Config
from sortnet.data import read_queries
from sortnet.explanation.attribution import explain_pair
from sortnet.explanation.columns import Column, columns_of, permutation_importance
from sortnet.items import Describer, readable_names
from sortnet.items.texts import SURFACE
from sortnet.metrics import evaluate
from sortnet.rankers.load_ranker import load_ranker
from sortnet.rankers.sortnet import fit
from sortnet.tables.values import date_text

COLOURS = ["red", "green", "blue"]


def bikes() -> pd.DataFrame:
    """Bicycles whose grade depends on colour and price; the last one's colour is missing."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "qid": np.repeat(np.arange(6), 8),
            "docid": [f"bike-{k}" for k in range(48)],
            "colour": rng.choice(COLOURS, 48),
            "launched": pd.Timestamp("2024-02-28") + pd.to_timedelta(np.arange(48), "D"),
            "price": rng.normal(size=48).round(3),
        }
    )
    frame["label"] = (frame["price"] > 0).astype(int) + (frame["colour"] == "red")
    frame["launched"] = frame["launched"].dt.strftime("%Y-%m-%d")
    frame.loc[47, "colour"] = None
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with a table of bicycles and a model learned from it."""
    folder = tmp_path_factory.mktemp("columns")
    bikes().to_csv(folder / "bikes.csv", index=False)
    queries = read_queries(folder / "bikes.csv")
    fit(queries, queries, Config(**FAST)).save(folder / "model")
    return folder


@pytest.fixture
def learned(folder, monkeypatch):
    """The model and its queries; the folder is the working directory."""
    monkeypatch.chdir(folder)
    model = load_ranker("model")
    return model, read_queries("bikes.csv", like=model)


def test_the_levels_of_a_category_are_one_column_whose_value_is_their_sum(learned):
    model, queries = learned
    assert model.feature_names == (
        *("launched", "price"),
        *("colour=blue", "colour=green", "colour=red"),
    )
    explained = explain_pair(model, queries, 40, 47)
    by_name = {part.column.name: part for part in explained.by_column()}
    assert sorted(by_name) == ["colour", "launched", "price"]
    assert by_name["colour"].value == pytest.approx(explained.values[2:].sum())
    assert by_name["colour"].a == bikes()["colour"][40] and by_name["colour"].b is None
    total = sum(part.value for part in by_name.values())
    assert total == pytest.approx(explained.margin - explained.baseline, abs=explained.error + 1e-6)
    sizes = [abs(part.value) for part in explained.by_column()]
    assert sizes == sorted(sizes, reverse=True)


def test_importance_shuffles_the_levels_of_a_category_together(learned):
    model, queries = learned
    found = permutation_importance(model, queries, "ndcg@10", repeats=1, seed=5)
    assert found.names == ("launched", "price", "colour")
    order = np.lexsort((np.random.default_rng(5).random(queries.n_docs), queries.query_of_docs()))
    documents = queries.features.copy()
    documents[:, 2:] = documents[order, 2:]
    shuffled = queries.with_features(documents)
    quality = evaluate(shuffled, model.order(shuffled), "ndcg@10")["ndcg@10"]
    assert found.drops[2, 0] == pytest.approx(found.quality - quality)


def test_numbers_that_are_named_like_levels_stay_columns_of_their_own(learned):
    model, queries = learned
    documents = queries.features.copy()
    documents[0, 2:] = 1  # of two levels at once
    names = [c.name for c in columns_of(model, queries.with_features(documents))]
    assert names == [*model.feature_names]


def test_a_value_of_a_column_is_what_the_data_have():
    document = np.float32([np.nan, 0, 1, 19_782])
    assert Column("a", (0,)).value(document) is None
    assert Column("b", (1, 2), ("x", "y")).value(document) == "y"
    assert Column("b", (1,), ("x",)).value(document) is None
    assert Column("c", (3,), is_date=True).value(document) == "2024-02-29"
    half_past_two = (pd.Timestamp("2024-02-29 14:30") - pd.Timestamp(0)) / pd.Timedelta(days=1)
    assert date_text(float(np.float32(half_past_two))) == "2024-02-29 14:30"


def test_features_of_texts_are_named_by_their_column_and_by_whole_words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    items = essays(30)
    ranker_of(items, id="name", text="description").save("m")
    pd.DataFrame({"name": items.ids, "description": items.texts}).to_csv("new.csv", index=False)
    (column,) = value_of(done("explain", "m", "new.csv", "i0", "i1", "--json"))["features"]
    assert column["feature"] == "description" and column["a"] is None
    assert column["value"] == pytest.approx(sum(part["value"] for part in column["parts"]))
    shown = done("explain", "m", "new.csv", "i0", "i1")
    (rest,) = re.findall(r"^  the (\d+) others +- +- +(\S+)", shown, re.MULTILINE)
    assert int(rest[0]) == len(column["parts"]) - 5
    largest = sum(part["value"] for part in column["parts"][:5])
    assert largest + float(rest[1]) == pytest.approx(column["value"], abs=1e-3)
    words = {word for text in items.texts for word in text.lower().split()}
    described = {part["feature"].removeprefix("description: ") for part in column["parts"]}
    assert described & words and described <= words | {*SURFACE} | {
        f"{first} {second}" for first in words for second in words
    }


def test_importance_of_texts_is_that_of_their_column_and_below_it_of_each_word(tmp_path):
    rng = np.random.default_rng(1)
    words = ["oak", "pine", "elm", "ash", "fir", "yew"]
    texts = [" ".join(rng.choice(words, 4)) for _ in range(240)]
    frame = pd.DataFrame({"qid": np.repeat(range(24), 10), "note": texts})
    frame["size"] = rng.normal(size=240)
    frame["label"] = [2 * ("elm" in text) + ("fir" in text) for text in texts]
    frame.to_csv(tmp_path / "trees.csv", index=False)
    queries = read_queries(tmp_path / "trees.csv")
    fit(queries, queries, Config(**FAST)).save(tmp_path / "model")
    args = ("importance", tmp_path / "model", tmp_path / "trees.csv")
    rows = value_of(done(*args, "--json"), "importance")["features"]
    assert [row["feature"] for row in rows if "of" not in row] == ["note", "size"]
    drops = [row["mean"] for row in rows if row.get("of") == "note"]
    assert drops == sorted(drops, reverse=True)
    assert rows[0]["mean"] > rows[1]["mean"] and rows[1]["feature"] == "note: elm"


def test_two_features_never_get_one_name():
    names = ("text: rare ship", "image: rare ship", "text: slow", "t: log words")
    columns = {"text": "t", "image": "t"}
    assert readable_names(names, columns) == (*names[:2], "t: slow", "t: log words")
    assert readable_names(("text: log words", "t: log words"), columns)[0] == "text: log words"
    of_folder = {"id": "files", "text": "files"}
    assert readable_names(("text: log words",), of_folder) == ("text: log words",)
    assert Describer(("a",)).readable_names() == ("a",)
