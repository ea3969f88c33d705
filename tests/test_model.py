"""Model folders: what is saved comes back, and nothing else is taken for a model."""

import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save

from sortnet.comparators import CmpNN, DirectRanker
from sortnet.config import Config, Training
from sortnet.errors import DataError, ModelError, SortNetError
from sortnet.learn import learn
from sortnet.loop import State
from sortnet.model import Model, load_state, save_state
from sortnet.types import Queries


def made(seed: int, names: list[str] | None = None) -> Queries:
    rng = np.random.default_rng(seed)
    X = rng.normal(0, 1, (60, 3)).astype(np.float32)
    y = np.digitize(X[:, 0] - X[:, 2], [0, 1])
    return Queries.from_arrays(X, y, group=[10] * 6, feature_names=names, source="made.csv")


def learned(**settings) -> Model:
    config = Config(
        **{
            "max_iter": 3,
            "committee": 1,
            "training": Training(epochs=2, weight_decay=0.01),
            **settings,
        }
    )
    return learn(made(1, ["a", "b", "c"]), made(2, ["a", "b", "c"]), config)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"committee": 3, "hidden": (4,), "units": "sigmoid"},
        {"hidden": (5, 3), "scaling": "quantile"},
        {"comparator": "directranker", "hidden": (6, 2), "tau": "sigmoid", "scaling": "none"},
    ],
)
def test_a_loaded_model_ranks_like_the_one_that_was_saved(tmp_path, settings):
    model = learned(**settings)
    model.save(tmp_path / "m")
    loaded = Model.load(tmp_path / "m")
    test = made(3)
    np.testing.assert_array_equal(model.sort(test).margin, loaded.sort(test).margin)
    np.testing.assert_array_equal(model.scores(test), loaded.scores(test))
    i, j = np.triu_indices(10, 1)
    np.testing.assert_array_equal(model.margins(test, i, j), loaded.margins(test, i, j))
    assert loaded.feature_names == ("a", "b", "c")
    assert loaded.info["quality"] == model.info["quality"]
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == [
        "model.json",
        "weights.safetensors",
    ]


def test_scores_count_the_documents_below():
    model, test = learned(), made(3)
    scores = model.scores(test)
    order = model.sort(test).order
    for k in range(len(test)):
        ranked = order[test.offsets[k] : test.offsets[k + 1]]
        assert scores[ranked].tolist() == list(range(9, -1, -1))


def test_a_model_of_ones_own_network_is_loaded_with_what_makes_it(tmp_path):
    def make(seed: int) -> DirectRanker:
        torch.manual_seed(seed)
        return DirectRanker(3, feature_part=torch.nn.Sequential(torch.nn.Linear(3, 2)), seed=seed)

    model = learn(made(1), made(2), Config(max_iter=2), make=make)
    model.save(tmp_path)
    loaded = Model.load(tmp_path, make=make)
    np.testing.assert_array_equal(model.scores(made(3)), loaded.scores(made(3)))
    with pytest.raises(ModelError, match="weights of"):
        Model.load(tmp_path)


def test_other_features_are_refused(tmp_path):
    model = learned()
    with pytest.raises(ModelError, match=r"x\.txt: 2 features, but the model was trained on 3"):
        model.sort(Queries.from_arrays(np.zeros((1, 2)), source="x.txt"))
    with pytest.raises(ModelError, match=r"feature 2 is 'z'.*with 'b' there"):
        model.scores(made(3, ["a", "z", "c"]))
    with pytest.raises(DataError, match=r"made\.csv has 3 features, x\.txt 2"):
        learn(made(1), Queries.from_arrays(np.zeros((2, 2)), [0, 1], source="x.txt"))


def damaged(path, change):
    change(path)
    return path.parent


def cut(path):
    path.write_bytes(path.read_bytes()[:-7])


def edited(**changes):
    def edit(path):
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return edit


@pytest.mark.parametrize(
    ("file", "change", "text"),
    [
        ("weights.safetensors", cut, "not a readable safetensors file"),
        ("weights.safetensors", lambda p: p.write_bytes(b"PK\x03\x04 a zip"), "not a readable"),
        ("weights.safetensors", lambda p: p.unlink(), "not a readable"),
        ("model.json", cut, "not JSON"),
        ("model.json", lambda p: p.unlink(), "no model there"),
        ("model.json", lambda p: p.write_text("[1]"), "not a SortNet model"),
        ("model.json", lambda p: p.write_text('{"format": "other"}'), "not a SortNet model"),
        ("model.json", edited(format_version=99), "format version 99"),
        ("model.json", edited(n_features="x"), "damaged"),
        ("model.json", edited(n_features=4), "not of 4 features"),
        ("model.json", edited(config={"hidden": [3]}), "not the settings of a run"),
        ("model.json", edited(weights_sha256="0"), "not the weights that model.json"),
    ],
)
def test_a_damaged_or_foreign_folder_is_refused(tmp_path, file, change, text):
    learned().save(tmp_path)
    with pytest.raises(ModelError, match=text):
        Model.load(damaged(tmp_path / file, change))


def test_weights_of_another_architecture_are_refused(tmp_path):
    learned().save(tmp_path / "m")
    learned(hidden=(7,)).save(tmp_path / "other")
    (tmp_path / "other" / "weights.safetensors").replace(tmp_path / "m" / "weights.safetensors")
    about = tmp_path / "m" / "model.json"
    other = json.loads((tmp_path / "other" / "model.json").read_text())
    edited(weights_sha256=other["weights_sha256"])(about)
    with pytest.raises(ModelError, match="not the weights of this comparator"):
        Model.load(tmp_path / "m")


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SortNetError, match=r"cannot write .*weights"):
        learned().save(tmp_path / "file" / "m")


def test_a_state_of_version_0_1_is_read_and_keeps_the_first_of_equals(tmp_path):
    path, net = tmp_path / "state.safetensors", CmpNN(3, seed=0)
    save_state(path, State(1, net, net, 0, 0.5))
    with safe_open(path, "pt") as file:
        about = json.loads(file.metadata()["state"])
    del about["best_right"]
    path.write_bytes(save(load_file(path), {"state": json.dumps(about)}))
    state = load_state(path, lambda seed: CmpNN(3, seed=seed))
    assert (state.best_quality, state.best_right) == (0.5, 1.0)  # no share is above it


def test_a_state_comes_back_and_a_damaged_one_is_refused(tmp_path):
    states = []
    config = Config(max_iter=3, committee=1, training=Training(epochs=2, weight_decay=0.01))
    learn(made(1), made(2), config, callbacks=[lambda record, state: states.append(state)])

    def make(seed: int) -> CmpNN:
        return CmpNN(3, hidden=config.hidden, seed=seed)

    path = tmp_path / "state.safetensors"
    save_state(path, states[1])
    state = load_state(path, make)
    assert torch.equal(state.comparator.v_x, states[1].comparator.v_x)
    assert torch.equal(state.best.v_x, states[1].best.v_x)
    assert (state.iteration, state.finished) == (2, False)
    assert state.best_quality == states[1].best_quality
    assert state.best_right == states[1].best_right > 0
    with pytest.raises(ModelError, match="not the weights of this comparator"):
        load_state(path, lambda seed: CmpNN(4, seed=seed))
    cut(path)
    with pytest.raises(ModelError, match="not a readable"):
        load_state(path, make)
