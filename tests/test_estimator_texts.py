"""Texts, ids and categories of frames: the estimator learns what the command line learns."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_helpers import done
from item_helpers import photo
from test_tables import goods

from sortnet import SortNetRanker
from sortnet.errors import DataError
from sortnet.explanation.columns import feature_names
from sortnet.rankers.load_ranker import load_ranker

SETTINGS = {"max_iter": 2, "epochs": 2, "committee": 1, "comparator": "directranker"}
OPTIONS = ("--max-iter", "2", "--set", "epochs=2", "--set", "committee=1")
OPTIONS = (*OPTIONS, "--comparator", "directranker", "--seed", "0")


def small(**changes) -> SortNetRanker:
    return SortNetRanker(**{**SETTINGS, "random_state": 0, **changes})


def xy(frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    return frame.drop(columns="label"), frame["label"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A table `all.csv`, the model that the command line makes of it, and new rows."""
    folder = tmp_path_factory.mktemp("texts")
    goods(144).to_csv(folder / "all.csv", index=False)
    goods(36, seed=5).drop(columns="label").to_csv(folder / "new.csv", index=False)
    done("train", folder / "all.csv", "--out", folder / "model", *OPTIONS)
    return folder


@pytest.fixture(scope="module")
def fitted(folder) -> SortNetRanker:
    """The estimator fitted on the same parts of the table."""
    table = pd.read_csv(folder / "all.csv")
    facts = load_ranker(folder / "model").info["data"]
    parts = [table[table["qid"].astype(str).isin(facts[part]["queries"])] for part in
             ("train", "vali")]  # fmt: skip
    assert all(len(part) for part in parts)
    return small().fit(*xy(parts[0]), eval_set=xy(parts[1]))


def ranks(model: Path, table: Path) -> list[int]:
    """The rank of each row, by the command line."""
    rows = list(csv.DictReader(io.StringIO(done("rank", model, table, "--format", "csv"))))
    return [int(row["rank"]) for row in sorted(rows, key=lambda row: int(row["row"]))]


def test_the_estimator_makes_the_model_of_the_command_line(folder, fitted):
    model = load_ranker(folder / "model")
    assert any(name.startswith("text: ") for name in model.feature_names)
    assert "colour=red" in model.feature_names
    assert fitted.model_.feature_names == model.feature_names
    assert fitted.model_.weights_sha256() == model.weights_sha256()
    assert fitted.best_score_ == model.info["quality"]
    assert fitted.model_.describer.columns == model.describer.columns


def test_models_go_from_the_command_line_to_the_estimator_and_back(folder, fitted, tmp_path):
    new = pd.read_csv(folder / "new.csv")
    expected = ranks(folder / "model", folder / "new.csv")
    assert fitted.rank(new).tolist() == expected
    loaded = SortNetRanker.load(folder / "model")
    assert loaded.rank(new).tolist() == expected
    scores = loaded.predict(new, kind="score")
    np.testing.assert_array_equal(scores, fitted.predict(new, kind="score"))
    turned = new[[*reversed(new.columns)]]
    np.testing.assert_array_equal(loaded.predict(turned, kind="score"), scores)
    for ranker, name in ((fitted, "fitted"), (loaded, "loaded")):
        ranker.save(tmp_path / name)
        assert ranks(tmp_path / name, folder / "new.csv") == expected
        again = SortNetRanker.load(tmp_path / name)
        np.testing.assert_array_equal(again.predict(new, kind="score"), scores)


def test_columns_are_counted_named_and_their_features_added_up(fitted):
    columns = ["docid", "size", "made", "new", "colour", "text"]
    assert fitted.feature_names_in_.tolist() == columns and fitted.n_features_in_ == 6
    shares = dict(zip(columns, fitted.feature_importances_, strict=True))
    assert shares["docid"] == 0 and shares["text"] > 0 and shares["colour"] > 0
    assert sum(shares.values()) == pytest.approx(1)
    names = feature_names(fitted.model_, fitted._queries(goods(12).drop(columns="label"), None))
    assert any(name.startswith("text: ") for name in names) and "colour=blue" in names


@pytest.mark.filterwarnings("ignore:two rows without their query")
def test_rows_without_texts_and_no_rows_are_ranked(fitted):
    new = goods(12, seed=7).drop(columns="label")
    assert sorted(fitted.rank(new.assign(text=None))) == [*range(1, 13)]
    assert fitted.predict(new.head(0)).shape == (0,)
    pair = new.drop(columns="qid")
    margins = fitted.compare(pair[:4], pair[4:8])
    assert margins.shape == (4,) and np.isfinite(margins).all()


def test_a_loaded_model_takes_further_columns_and_lacks_none(folder):
    new = pd.read_csv(folder / "new.csv")
    loaded = SortNetRanker.load(folder / "model")
    np.testing.assert_array_equal(loaded.predict(new.assign(note="x")), loaded.predict(new))
    with pytest.raises(DataError, match="there is no column 'text'"):
        loaded.predict(new.drop(columns="text"))
    with pytest.raises(DataError, match="must be a DataFrame"):
        loaded.predict(np.zeros((2, 6)), qid=[1, 1])


def test_a_model_of_texts_is_trained_further(folder, fitted):
    X, y = xy(goods(60, seed=9))
    for first in (folder / "model", fitted):
        ranker = SortNetRanker(epochs=1, max_iter=1).fit(X, y, init_model=first)
        assert ranker.model_.feature_names == fitted.model_.feature_names
        assert ranker.model_.describer is not None
        assert ranker.predict(X).shape == (60,)


def test_image_files_are_columns_of_features(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = [photo(tmp_path, f"{k}.png", seed=k, light=k / 24) for k in range(24)]
    frame = pd.DataFrame({"qid": np.arange(24) // 8, "picture": names})
    ranker = small().fit(frame, np.arange(24) // 6 % 3)
    assert all(name.startswith("image: ") for name in ranker.model_.feature_names)
    assert ranker.feature_names_in_.tolist() == ["picture"]
    assert ranker.feature_importances_.tolist() == pytest.approx([1.0])
    with pytest.raises(DataError, match=r"missing\.png"):
        ranker.predict(frame.assign(picture=["missing.png", *names[1:]]))
