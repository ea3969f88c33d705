"""Model folders that version 0.4.0 wrote give the scores that it gave, but for topics of texts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from old_version import EXPECTED, unpacked

from sortnet import SortNetRanker, load_ranker, read_queries
from sortnet.comparators import DirectRanker
from sortnet.errors import ModelError

SCORES: dict[str, dict[str, Any]] = EXPECTED["scores"]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("written"))


@pytest.fixture(autouse=True)
def _in_folder(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(written)


def assert_close(values: Any, expected: list[float]) -> None:
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)


# Folders whose features are no topics of texts. All others are refused.
READ = (
    *("models/numbers", "models/numbers-all-scalings", "models/numbers-one"),
    *("models/numbers-warm-even", "models/images", "runs/whole", "runs/posterior", "runs/numbers"),
)
ESTIMATORS = ("estimators/categories", "estimators/own")


@pytest.mark.parametrize("name", READ)
def test_a_model_folder_gives_the_scores_and_the_order_that_it_gave(name: str) -> None:
    expected = SCORES[name]
    ranker = load_ranker(name)
    data = expected["data"]
    queries = read_queries(data, n_features=ranker.n_features, labelled=False, like=ranker)
    first = np.arange(queries.n_docs - 1)
    first = first[queries.query_of_docs()[first] == queries.query_of_docs()[first + 1]]
    assert_close(ranker.scores(queries), expected["scores"])
    assert_close(ranker.real_scores(queries), expected["real_scores"])
    assert_close(ranker.margins(queries, first, first + 1), expected["margins"])
    assert ranker.order(queries).tolist() == expected["order"]


@pytest.mark.parametrize("name", sorted(SCORES.keys() - {*READ, *ESTIMATORS}))
def test_a_folder_with_topics_of_texts_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(ModelError, match="describes texts by topics, as versions"):
        load_ranker(name)


def own(n_columns: int, seed: int) -> DirectRanker:
    return DirectRanker(n_columns, feature_part=torch.nn.Linear(n_columns, 2), seed=seed)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_folder_of_the_estimator_predicts_as_it_did(name: str) -> None:
    frame = pd.read_csv("shop/train.csv").drop(columns="label")
    frame["size"] = pd.Categorical(frame["size"], ["small", "medium", "large"], ordered=True)
    frame["made"] = pd.to_datetime(frame["made"])
    is_own = name.endswith("own")
    X = frame[["qid", "price"]] if is_own else frame.drop(columns="text")
    ranker = SortNetRanker.load(name, comparator=own if is_own else None)
    expected = SCORES[name]
    assert ranker.predict(X).tolist() == expected["places"]
    assert_close(ranker.predict(X, kind="score"), expected["real_scores"])
    assert_close(ranker.feature_importances_, expected["importances"])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"format_version": 1}, "format version 1, this SortNet reads 3: "), ({"kind": None}, "kind")],
)
def test_a_folder_of_an_older_format_is_refused_in_one_line(tmp_path, changes, reason) -> None:
    folder = shutil.copytree("models/numbers", tmp_path / "m")
    document = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**document, **changes}))
    with pytest.raises(ModelError, match=reason) as refused:
        load_ranker(folder)
    assert str(refused.value).startswith(f"{folder}/model.json: ")
