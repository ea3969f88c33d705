"""Damaged model folders, states and runs: what is read is good, or refused in one line."""

from __future__ import annotations

import hashlib
import json
import math
import random
import shutil
from pathlib import Path

import pytest
import safetensors.torch
import torch
from cli_helpers import invoke, letor, weights_of
from fuzz_helpers import changed_json, damaged, replace_by_other_kind, rounds

from sortnet.comparators import make_comparator
from sortnet.config import Config, LoopTraining
from sortnet.core import Queries
from sortnet.errors import ModelError, SortNetError
from sortnet.estimator import SortNetRanker
from sortnet.learning.iterations import State
from sortnet.rankers.model import Model, load_state, save_state
from sortnet.rankers.model_folder import Tensors
from sortnet.rankers.sortnet import fit
from store.training.run_folder import Folder

FEATURES = 4
STRANGE = [
    *(None, True, False, 0, 1, -1, 2, 3, 7, 1.5, -0.0, 2**31, 2**63, 10**18, -(10**18), 10**4000),
    *(float("nan"), float("inf"), float("-inf"), 1e308, 1e-320),
    *("", "x", "\0", "\ud800", "../../etc/passwd", "x" * 100_000, "1", "nan", "map", "ndcg@10"),
    *([], [[]], [0], [1, 2], [1e9], [10**9], [10**5, 10**4], [1] * 100_000, [None], ["a"] * 4),
    *({}, {"": {}}, {"training": {}}, {"x": 1}),
]


@pytest.fixture(scope="module")
def originals(tmp_path_factory) -> list[Path]:
    """Folders as `save` leaves them, with a state and a run."""
    home = tmp_path_factory.mktemp("originals")
    (home / "test.txt").write_text(letor(3, 1))
    rng = random.Random(0)
    X = [[rng.random() for _ in range(FEATURES)] for _ in range(20)]
    queries = Queries.from_arrays(X, [k % 3 for k in range(20)], group=[10, 10],
                                  feature_names=list("abcd"))  # fmt: skip
    kinds = [
        {"committee": 2, "hidden": (3,)},
        {"committee": 1, "comparator": "directranker", "hidden": (2,), "scaling": "none"},
        {"committee": 2, "trees": 2, "depth": 2, "scaling": "normal"},
    ]
    return [made(home / str(k), queries, kind) for k, kind in enumerate(kinds)]


def made(folder: Path, queries: Queries, kind: dict) -> Path:
    config = Config(max_iter=1, training=LoopTraining(epochs=1, weight_decay=0.1), **kind)
    fit(queries, queries, config).save(folder)
    make = make_comparator(config, FEATURES)
    save_state(folder / "state.safetensors", State(1, make(1), make(2), 0, 0.5, finished=False))
    shutil.copy(folder / "state.safetensors", folder / "state")
    facts = {"path": "train.txt", "fingerprint": "f"}
    about = {
        **{"run": "0" * 12, "store": "s.db", "command": "sortnet train", "threads": 1},
        **{"asked": config.to_json(), "config": config.to_json()},
        "data": {"train": facts, "vali": facts},
    }
    Folder(folder).write_run(about)
    return folder


def mutate_bytes(raw: bytes, rng) -> bytes:
    """Flip bytes, half of the time in the header, damage more, or put something else."""
    kind = rng.randrange(5)
    if kind == 0:
        return rng.choice([b"", b"\0" * 8, b"\xff" * 99, b"[" * 99_999, b'{"a":' * 99_999, b"{}"])
    if kind == 1:
        return damaged(raw, rng)
    at = rng.randrange(min(len(raw), rng.choice([300, 10**9])))
    end = at + rng.choice([1, 1, 8])
    return raw[:at] + bytes(byte ^ 1 << rng.randrange(8) for byte in raw[at:end]) + raw[end:]


def mutate_tensors(raw: bytes, rng, metadata=None) -> bytes:
    """Change tensors as such: another type, another shape, no number, missing, one more."""
    tensors = safetensors.torch.load(raw)
    name = rng.choice(list(tensors))
    tensor = tensors[name]
    changes = [
        lambda: tensor.to(rng.choice([torch.float16, torch.float64, torch.int64, torch.bool])),
        lambda: tensor.flatten(),
        lambda: tensor.repeat(2, *[1] * max(tensor.dim() - 1, 0)),
        lambda: torch.zeros(*tensor.shape, 0, dtype=tensor.dtype),
        lambda: torch.full_like(
            tensor,
            rng.choice([float("nan"), float("inf"), 1e38]) if tensor.is_floating_point() else -1,
        ),
        lambda: torch.empty(0),
    ]
    kind = rng.randrange(len(changes) + 2)
    if kind < len(changes):
        tensors[name] = changes[kind]().contiguous()
    elif kind == len(changes):
        del tensors[name]
    else:
        tensors[rng.choice(["scaler", "x", "comparator.9.v", "comparator.0.v", "best.0.b"])] = (
            torch.zeros(rng.randrange(5), FEATURES)
        )
    return safetensors.torch.save(tensors, metadata)


def text_of(about) -> bytes:
    return json.dumps(about).encode()


def damage_settings(folder: Path, rng, name: str = "model.json") -> None:
    path = folder / name
    raw = path.read_bytes()
    bytewise = rng.random() < 0.2
    path.write_bytes(
        mutate_bytes(raw, rng) if bytewise else text_of(changed_json(json.loads(raw), rng, STRANGE))
    )


def damage_weights(folder: Path, rng) -> None:
    """Damage the weights; mostly model.json vouches for them, so that the hash is no help."""
    path = weights_of(folder)
    raw = rng.choice([mutate_bytes, mutate_tensors])(path.read_bytes(), rng)
    if rng.random() < 0.2:
        path.write_bytes(raw)
        return
    path.unlink()
    digest = hashlib.sha256(raw).hexdigest()
    (folder / f"weights-{digest[:16]}.safetensors").write_bytes(raw)
    about = json.loads((folder / "model.json").read_text()) | {"weights_sha256": digest}
    (folder / "model.json").write_bytes(text_of(about))


def damage_kind(folder: Path, rng) -> None:
    replace_by_other_kind(rng.choice([folder / "model.json", weights_of(folder)]), rng)


def refused(read) -> bool:
    """Whether it is refused as it should be: in one line."""
    try:
        read()
    except SortNetError as error:
        assert "\n" not in str(error)
        return True
    return False


# Seen only with the data: weights so large that a margin is not a number.
NO_MARGIN = "the comparator's margin is not a number"


def test_a_damaged_model_is_read_or_refused(originals, tmp_path):
    data = originals[0].parent / "test.txt"
    found = {True: 0, False: 0}
    for seed in rounds(50):
        rng = random.Random(seed)
        folder = shutil.copytree(rng.choice(originals), tmp_path / "m")
        damages = rng.choice([[damage_settings], [damage_weights, damage_settings], [damage_kind]])
        for damage in damages:
            damage(folder, rng)
        bad = refused(lambda: Model.load(folder))  # noqa: B023
        found[bad] += 1
        if not bad:
            refused(lambda: SortNetRanker.load(folder))  # noqa: B023
        for command in ("rank", "evaluate"):
            result = invoke(command, folder, data)
            fails = bad or NO_MARGIN in result.stderr
            assert result.exit_code == (2 if fails else 0), (seed, result.output)
            faults = [line for line in result.stderr.splitlines() if line.startswith("sortnet: ")]
            assert len(faults) == fails, (seed, result.stderr)
            assert "Traceback" not in result.stderr
        shutil.rmtree(folder)
    assert min(found.values()) > 0, found


def test_a_damaged_state_is_read_or_refused(originals, tmp_path):
    found = {True: 0, False: 0}
    for seed in rounds(50):
        rng = random.Random(seed)
        folder = rng.choice(originals)
        raw = (folder / "state.safetensors").read_bytes()
        said = json.loads(json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
                          ["__metadata__"]["state"])  # fmt: skip
        if rng.random() < 0.5:
            raw = mutate_bytes(raw, rng)
        else:
            metadata = {"state": json.dumps(changed_json(said, rng, STRANGE))}
            if rng.random() < 0.5:
                raw = mutate_tensors(raw, rng, metadata)
            else:
                raw = safetensors.torch.save(safetensors.torch.load(raw), metadata)
        state = tmp_path / str(seed)
        state.write_bytes(raw)
        if rng.random() < 0.1:
            replace_by_other_kind(state, rng)
        make = make_comparator(Model.load(folder).config, FEATURES)
        found[refused(lambda: load_state(state, make, least=9))] += 1  # noqa: B023
    assert min(found.values()) > 0, found


def test_a_damaged_run_is_read_or_refused(originals, tmp_path):
    found = {True: 0, False: 0}
    for seed in rounds(75):
        rng = random.Random(seed)
        folder = shutil.copytree(rng.choice(originals), tmp_path / "m")
        damage_settings(folder, rng, "run.json")
        if rng.random() < 0.1:
            replace_by_other_kind(folder / "run.json", rng)

        def read(folder=folder):
            known = Folder(folder).run()
            if known is not None:
                Config.from_json(known["asked"])
                Config.from_json(known["config"])

        found[refused(read)] += 1
        shutil.rmtree(folder)
    assert min(found.values()) > 0, found


def test_an_infinite_number_of_the_iteration_is_refused(originals, tmp_path):
    """Found by fuzzing."""
    shutil.copytree(originals[0], tmp_path / "m")
    about = json.loads((tmp_path / "m/model.json").read_text())
    about["info"]["iteration"] = math.inf
    (tmp_path / "m/model.json").write_text(json.dumps(about))
    with pytest.raises(ModelError, match="damaged info: OverflowError"):
        SortNetRanker.load(tmp_path / "m")


@pytest.mark.parametrize("shape", [[0, 2**63], [2**63, 0], [0, 2**62], [2**32, 2**32, 0]])
def test_a_shape_too_large_for_torch_is_refused_though_it_has_no_numbers(shape):
    """Found by fuzzing: a forged header with a forged hash."""
    about = {"x": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}}
    header = json.dumps(about).encode()
    raw = len(header).to_bytes(8, "little") + header
    refused(lambda: Tensors.parse(raw, Path("w.safetensors")))  # or read: that is torch's affair
