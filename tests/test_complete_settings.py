"""What the settings leave open is completed by the training data, without a trial."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import done, make_fold
from hypothesis import given
from hypothesis import strategies as st

from sortnet.config import DEFAULTS, Config
from sortnet.core import Queries
from sortnet.data import read_fold
from sortnet.rankers.model import Model
from sortnet.rankers.sortnet import are_scaled_within_queries, complete_settings

MQ2008 = Path(__file__).resolve().parents[2] / "shared" / "data" / "mq2008"
FAST = ("--epochs", "4", "--set", "committee=1", "--set", "trees=2", "--set", "depth=3")


def raw(seed: int, n_queries: int = 30, size: int = 12, features: int = 4) -> Queries:
    """Features of many kinds of distributions, which nothing has scaled."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * size, features))
    X[:, 0] = np.exp(X[:, 0])
    X[:, -1] += np.repeat(rng.normal(0, 9, n_queries), size)
    return Queries.from_arrays(X, np.arange(len(X)) % 3, group=[size] * n_queries)


def within(queries: Queries, how: str) -> Queries:
    """The same queries, each feature scaled within each query, and rounded as in a file."""
    X = queries.features.astype(np.float64).copy()
    for docs in map(slice, queries.offsets[:-1], queries.offsets[1:]):
        if how == "range":
            X[docs] -= X[docs].min(axis=0)
            X[docs] /= np.maximum(X[docs].max(axis=0), 1e-9)
        else:
            X[docs] -= X[docs].mean(axis=0)
            X[docs] /= np.maximum(X[docs].std(axis=0), 1e-9)
    return queries.with_features(X.round(6).astype(np.float32))


@given(st.integers(0, 99), st.sampled_from(["range", "deviation"]))
def test_features_that_were_scaled_within_each_query_are_found(seed, how):
    queries = raw(seed)
    assert not are_scaled_within_queries(queries)
    scaled = within(queries, how)
    assert are_scaled_within_queries(scaled)
    constant = scaled.features.copy()  # in some queries a feature does not vary: LETOR has 0
    constant[: 5 * 12, 0] = 0
    assert are_scaled_within_queries(scaled.with_features(constant))
    assert complete_settings(Config(), scaled).scaling == "query+rank"
    assert complete_settings(Config(), queries).scaling == "query+rank+normal"


def test_a_single_query_indicators_and_features_of_few_values_tell_nothing():
    assert not are_scaled_within_queries(within(raw(0, n_queries=1, size=300), "range"))
    few = raw(0)
    assert not are_scaled_within_queries(few.with_features((few.features > 0).astype(np.float32)))
    assert not are_scaled_within_queries(few.with_features(few.features[:, :0]))


@pytest.mark.parametrize("missing", [0, 1])
def test_missing_values_get_a_column(missing):
    X = raw(1).features.copy()
    X[3, 1] = np.nan if missing else X[3, 1]
    scaling = complete_settings(Config(), raw(1).with_features(X)).scaling
    assert scaling == "query+rank+normal" + "+missing" * missing


def test_what_is_given_stays_and_nothing_is_left_open():
    assert complete_settings(Config(scaling="zscore"), raw(1)).scaling == "zscore"
    for config in (Config(), Config(comparator="cmpnn"), Config(judgements=50)):
        completed = complete_settings(config, raw(1)).flat()
        assert None not in [completed[name] for name in ("scaling", "weight_decay", "pairs")]
    judged = raw(1).with_judgements([0, 1], [1, 2])
    assert complete_settings(Config(), judged).training.weight_decay > 0.01
    weight_decay = complete_settings(Config().changed(weight_decay=0.5), judged)
    assert weight_decay.training.weight_decay == 0.5
    default = DEFAULTS["trees"]["weight_decay"]
    assert complete_settings(Config(), raw(1)).training.weight_decay == default


@pytest.mark.skipif(not MQ2008.exists(), reason="needs MQ2008")
@pytest.mark.parametrize("fold", range(1, 6))
def test_letor_is_scaled_within_its_queries(fold):
    assert are_scaled_within_queries(read_fold(MQ2008 / f"Fold{fold}").train)


def test_the_inputs_are_shown_kept_and_learned_with(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_fold(tmp_path / "fold")
    out = done("train", "fold", "--out", "m", "--store", "s.db", *FAST)
    assert "inputs: query+rank+normal\n" in out
    assert Model.load("m").config.scaling == "query+rank+normal"
    record = json.loads(Path("m/run.json").read_text())
    assert record["config"]["scaling"] == "query+rank+normal"
    assert record["asked"]["scaling"] is None
