"""Model folders: what is saved comes back, and nothing else is taken for a model."""

import hashlib
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import safetensors.torch
import torch
from cli_helpers import weights_of
from graded_queries import graded

import sortnet.rankers.model_folder
from sortnet.comparators import CmpNN, make_comparator
from sortnet.config import SCALINGS, Config
from sortnet.core import Queries
from sortnet.errors import ModelError, SortNetError
from sortnet.learning.iterations import State
from sortnet.rankers.model import Model, load_state, save_state
from sortnet.rankers.sortnet import fit


def made(seed: int, **facts) -> Queries:
    return replace(graded(seed, 6, size=10), **facts)


FIXED = Config(max_iter=2, scaling="query")


def learned(**settings) -> Model:
    plain = Config(max_iter=3, committee=1, hidden=(20,), scaling="query")
    config = plain.changed(**{"epochs": 2, "weight_decay": 0.01} | settings)
    names = ("a", "b", "c")
    return fit(made(1, feature_names=names), made(2, feature_names=names), config)


@pytest.mark.parametrize(
    "settings",
    [
        {"committee": 3, "hidden": (4,), "units": "sigmoid"},
        {"scaling": "+".join(part for part in SCALINGS if part != "missing")},
        {"comparator": "directranker", "hidden": (6, 2), "tau": "sigmoid", "scaling": "none"},
    ],
)
def test_a_loaded_model_ranks_like_the_one_that_was_saved(tmp_path, settings):
    model = learned(**settings)
    model.save(tmp_path / "m")
    loaded = Model.load(tmp_path / "m")
    test = made(3)
    i, j = np.triu_indices(10, 1)
    np.testing.assert_array_equal(model.margins(test, i, j), loaded.margins(test, i, j))
    assert loaded.feature_names == ("a", "b", "c")
    assert loaded.info["quality"] == model.info["quality"]
    assert {path.name for path in (tmp_path / "m").iterdir()} == {
        "model.json",
        weights_of(tmp_path / "m").name,
    }


def test_a_subclass_of_ours_is_not_loaded_as_ours(tmp_path):
    class Opposite(CmpNN):
        def margin(self, e_i, e_j):
            return -super().margin(e_i, e_j)

    fit(made(1), made(2), FIXED, make_for=lambda config, n: lambda s: Opposite(n)).save(tmp_path)
    with pytest.raises(ModelError, match=r"somebody's own: give it as make="):
        Model.load(tmp_path)


def cut(path):
    path.write_bytes(path.read_bytes()[:-7])


def write(path, tensors):
    """Put tensors in the place of a model's weights, and name them in its model.json."""
    raw = safetensors.torch.save(tensors)
    digest = hashlib.sha256(raw).hexdigest()
    path.unlink()
    (path.parent / f"weights-{digest[:16]}.safetensors").write_bytes(raw)
    edited(weights_sha256=digest)(path.parent / "model.json")


def edited(**changes):
    def edit(path):
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return edit


def settings(**changes):
    def edit(path):
        config = json.loads(path.read_text())["config"]
        edited(config={**config, **changes})(path)

    return edit


def tensors(**changes):
    """Change tensors of the weights: the scaling's table, or the first member's."""

    def edit(path):
        known = safetensors.torch.load(path.read_bytes())
        for name, change in changes.items():
            name = "scaler.query" if name == "scaler" else f"comparator.0.{name}"
            known[name] = change(known.get(name))
        write(path, {name: tensor for name, tensor in known.items() if tensor is not None})

    return edit


DAMAGES = [
    ("weights", cut, "not a readable safetensors file"),
    ("weights", lambda p: p.unlink(), "No such file"),
    ("weights", lambda p: p.write_bytes(p.read_bytes()[:-1] + b"x"), "not the weights that"),
    ("weights", tensors(v=lambda t: t[:2]), "0.v is float32 2x40, not float32 3x40"),
    ("weights", tensors(b=lambda t: t * torch.nan), "0.b has NaN or infinity"),
    ("weights", tensors(b=lambda t: None), "0.b is missing"),
    ("weights", tensors(z=lambda t: torch.ones(1)), r"'comparator\.0\.z' is none of its own"),
    ("weights", tensors(scaler=lambda t: t.float()), "scaler.query is float32 0x3"),
    ("model", cut, "not JSON"),
    ("model", lambda p: p.unlink(), "no model there"),
    ("model", lambda p: p.write_text('{"format": ' * 99999), "nested too deeply"),
    ("model", lambda p: p.write_text('{"format": "other"}'), "not a SortNet model"),
    ("model", edited(format_version=99), "format version 99, this SortNet reads 3"),
    ("model", edited(n_features=10**400), "n_features cannot be 1000"),
    ("model", edited(feature_names=["a"]), "1 feature names of 3 features"),
    ("model", edited(info=[]), r"info cannot be \[\]"),
    ("model", settings(training={"lr": math.nan}), "lr cannot be nan"),
    ("model", settings(comparator="elo"), r"model\.json: unknown comparator 'elo'"),
    ("model", settings(committee=10_000), "and it has 600,000 or more"),
    ("model", edited(weights_sha256="../" * 20), "weights_sha256 cannot be"),
]


@pytest.fixture(scope="module")
def saved():
    return learned()


@pytest.fixture
def folder(saved, tmp_path):
    saved.save(tmp_path / "m")
    return tmp_path / "m"


@pytest.mark.parametrize(("file", "change", "text"), DAMAGES)
def test_a_damaged_or_foreign_folder_is_refused(folder, file, change, text):
    change(weights_of(folder) if file == "weights" else folder / "model.json")
    with pytest.raises(ModelError, match=text) as raised:
        Model.load(folder)
    assert "\n" not in str(raised.value)


def test_settings_of_a_monster_take_no_memory(folder, monkeypatch):
    settings(hidden=[100_000, 10_000])(folder / "model.json")

    def never(*args):
        raise AssertionError("made before its size was known to be right")

    monkeypatch.setattr("sortnet.rankers.sortnet.make_comparator", never)
    with pytest.raises(ModelError, match="and it has 1,000,300,000 or more"):
        Model.load(folder)


def test_a_model_remembers_which_features_were_constant_in_training(tmp_path):
    learned(scaling="query+none").save(tmp_path)
    known = safetensors.torch.load(weights_of(tmp_path).read_bytes())
    varying = known["scaler.varying"]
    assert varying.tolist() == [[True] * 3] * 2
    varying[:, 0] = False
    test, changed = made(3), made(3)
    changed.features[:, 0] = 7
    write(weights_of(tmp_path), known)
    model = Model.load(tmp_path)
    np.testing.assert_array_equal(model.scaler(test).features, model.scaler(changed).features)


def test_a_model_says_whether_its_margins_depend_on_the_query(tmp_path):
    for scaling, depends in (("none+rank", True), ("quantile+standard", False)):
        model = learned(scaling=scaling, max_iter=1)
        model.save(tmp_path)
        assert Model.load(tmp_path).depends_on_query == depends
        assert json.loads((tmp_path / "model.json").read_text())["depends_on_query"] == depends
        test, pair = made(3), Queries.from_arrays(made(3).features[:2])
        same = np.allclose(model.margins(test, [0], [1]), model.margins(pair, [0], [1]), rtol=1e-4)
        assert same != depends


def test_a_save_between_the_two_reads_of_a_load_is_no_fault(tmp_path, monkeypatch):
    first, second = learned(), learned(seed=1)
    first.save(tmp_path)
    read, saves = sortnet.rankers.model_folder.read_bytes, [second, first, second]

    def beside_a_writer(path):
        if saves and path.suffix == ".safetensors":
            saves.pop(0).save(tmp_path)
        return read(path)

    monkeypatch.setattr(sortnet.rankers.model_folder, "read_bytes", beside_a_writer)
    test = made(3)
    np.testing.assert_array_equal(Model.load(tmp_path).scores(test), second.scores(test))


def test_a_save_removes_what_killed_ones_have_left_and_nothing_else(saved, folder):
    own = {path.name for path in folder.iterdir()}
    ours = ["weights-0123456789abcdef.safetensors", ".model.json.12", ".run.json.7",
            ".state.safetensors.9", ".weights-0123456789abcdef.safetensors.3"]  # fmt: skip
    others = ["weights.safetensors", "weights-mine.safetensors", ".model.json.bak", "notes.txt"]
    for name in (*ours, *others):
        (folder / name).write_text("")
    saved.save(folder)
    assert {path.name for path in folder.iterdir()} == own | set(others)


def test_a_save_that_fails_leaves_the_old_model(folder):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(TypeError):
        replace(learned(seed=1), info={"of no JSON": object()}).save(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_folder_that_cannot_be_written_is_one_clear_error(saved, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SortNetError, match=r"cannot make .*Not a directory"):
        saved.save(tmp_path / "file" / "m")
    with pytest.raises(SortNetError, match=r"cannot make .*: no folder .*no: make it first"):
        saved.save(tmp_path / "no" / "m")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.fixture
def state_file(tmp_path):
    """The state of a run, and what makes its comparators."""
    make = make_comparator(Config(committee=1, hidden=(10,)), 3)
    state = State(2, make(1), make(2), 1, 0.9, finished=False)
    save_state(tmp_path / "state.safetensors", state)
    return tmp_path / "state.safetensors", make, state


def test_a_state_comes_back_and_a_damaged_one_is_refused(state_file):
    path, make, expected = state_file
    state = load_state(path, make)
    assert torch.equal(state.comparator.v, expected.comparator.v)
    assert torch.equal(state.best.v, expected.best.v)
    assert (state.iteration, state.finished) == (2, False)
    assert state.best_quality == expected.best_quality
    assert state.best_right == expected.best_right
    with pytest.raises(ModelError, match="is float32 3x20, not float32 4x40"):
        load_state(path, lambda seed: CmpNN(4, seed=seed))
    with pytest.raises(ModelError, match="182 numbers, and it has 1,000 or more"):
        load_state(path, lambda seed: pytest.fail("made"), least=1000)
    cut(path)
    with pytest.raises(ModelError, match="not a readable"):
        load_state(path, make)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"iteration": "2"}, "iteration cannot be '2'"),
        ({"best_iteration": 3}, "iteration cannot be 2"),
        ({"has_best": False}, "is none of its own"),
        ({}, "not the state of a run"),
    ],
)
def test_a_state_that_says_nonsense_is_refused(state_file, change, text):
    path, make, _ = state_file
    with safetensors.safe_open(path, "pt") as file:
        said = json.loads(file.metadata()["state"])
    metadata = {"state": json.dumps(said | change)} if change else {}
    path.write_bytes(safetensors.torch.save(safetensors.torch.load(path.read_bytes()), metadata))
    with pytest.raises(ModelError, match=text):
        load_state(path, make)
