"""Convert the weights of nets to arrays and back, for models and for runs to be resumed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from sortnet.comparators import Make, TrainableComparator
from sortnet.errors import ModelError
from sortnet.files import check_fields, parse_json, shown, write_atomically
from sortnet.learning.iterations import State
from sortnet.learning.training import OptimiserState
from sortnet.rankers.model_folder import (
    Array,
    parse_tensors,
    read_bytes,
    refuse_rest,
    take,
    tensors_as_bytes,
)

_ASKED = "asked"
_STATE = {"iteration": int, "best_iteration": int, "best_right": float, "finished": bool}
_OPTIMISER = "optimiser"
_MOMENTS = ({"step", "exp_avg", "exp_avg_sq"}, {"momentum_buffer"})  # torch's names, Adam and SGD


def save_state(path: str | Path, state: State) -> None:
    """Write the state from which a run can be resumed to a file, in one step."""
    tensors = weights_of(state.comparator, "current") | {_ASKED: state.asked}
    if state.best is not None:
        tensors |= weights_of(state.best, "best")
    for member, moments in enumerate(state.optimiser.moments):
        tensors |= {f"{_OPTIMISER}.{member}.{k}": _array(value) for k, value in moments.items()}
    fields = {name: getattr(state, name) for name in (*_STATE, "best_quality")}
    fields["has_best"] = state.best is not None
    fields["steps"] = state.optimiser.steps
    metadata = {"state": json.dumps(fields)}
    write_atomically(Path(path), lambda file: file.write_bytes(tensors_as_bytes(tensors, metadata)))


def load_state(path: str | Path, make: Make, *, least: int = 0, raw: bytes | None = None) -> State:
    """Read a state that `save_state` wrote.

    Args:
        path: the file.
        make: makes the comparator of the run.
        least: the least number of weights; a file with fewer numbers is refused.
        raw: the content of the file, if it has been read already.

    Raises:
        ModelError: if the file is missing, damaged, or of another comparator.
    """
    path = Path(path)
    raw = read_bytes(path) if raw is None else raw
    tensors = parse_tensors(raw, path)
    fields = _state_fields(raw, path)
    refuse_few(tensors, least, path)
    n_asked = tensors.setdefault(_ASKED, np.empty(0, np.int64)).size
    asked_pairs = take(tensors, _ASKED, np.int64, [n_asked], path)
    current = filled(make, "current", tensors, path)
    names = list(_STATE)
    best = None
    if fields["has_best"]:
        best = filled(make, "best", tensors, path)
        names.append("best_quality")
    optimiser = _optimiser_state(current, fields["steps"], tensors, path)
    refuse_rest(tensors, path)
    values = {name: fields[name] for name in names}
    return State(comparator=current, best=best, asked=asked_pairs, optimiser=optimiser, **values)


def _state_fields(raw: bytes, path: Path) -> dict[str, Any]:
    """Read the fields of a state that are no arrays, from the header of the safetensors file."""
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    metadata = header.get("__metadata__") or {}
    fields = parse_json(metadata.get("state", "null"), path)
    if not isinstance(fields, dict):
        raise ModelError(f"{path}: not the state of a run")
    # A state that version 0.3 wrote has no `steps`.
    fields = {"steps": 0, **fields}
    check_fields(fields, {**_STATE, "has_best": bool, "steps": int}, path)
    if fields["has_best"]:
        check_fields(fields, {"best_quality": float}, path)
    if not -1 <= fields["best_iteration"] <= fields["iteration"]:
        raise ModelError(f"{path}: iteration cannot be {shown(fields['iteration'])}")
    return fields


def _optimiser_state(
    learner: TrainableComparator, steps: int, tensors: dict[str, Array], path: Path
) -> OptimiserState:
    """Restore the state of the optimiser of every member from the tensors."""
    if steps < 0:
        raise ModelError(f"{path}: steps cannot be {shown(steps)}")
    if not any(name.startswith(f"{_OPTIMISER}.") for name in tensors):
        return OptimiserState(steps)
    moments = [
        _take_moments(member, f"{_OPTIMISER}.{number}.", tensors, path)
        for number, member in enumerate(learner.members)
    ]
    return OptimiserState(steps, tuple(moments))


def _take_moments(
    member: nn.Module, prefix: str, tensors: dict[str, Array], path: Path
) -> dict[str, torch.Tensor]:
    """Take the moments of a member's weights out of the tensors; the keys are `WEIGHT:MOMENT`."""
    weights = dict(member.named_parameters())
    names = [name.removeprefix(prefix) for name in tensors if name.startswith(prefix)]
    moments_of_weights: dict[str, set[str]] = {}
    for name in names:
        weight, _, moment = name.rpartition(":")
        moments_of_weights.setdefault(weight, set()).add(moment)
    for weight, moments_of_weight in moments_of_weights.items():
        if weight not in weights or moments_of_weight not in _MOMENTS:
            raise ModelError(f"{path}: not the state of an optimiser: {shown(weight)}")
    moments = {}
    for name in names:
        weight, _, moment = name.rpartition(":")
        shape = [] if moment == "step" else list(weights[weight].shape)
        array = take(tensors, prefix + name, np.float32, shape, path)
        moments[name] = torch.from_numpy(array.copy())
    return moments


def weights_of(learner: TrainableComparator, prefix: str) -> dict[str, Array]:
    """Copy the weights of all nets; the keys are `PREFIX.NUMBER_OF_NET.NAME_OF_WEIGHT`."""
    return {
        f"{prefix}.{k}.{name}": array
        for k, member in enumerate(learner.members)
        for name, array in arrays_of(member).items()
    }


def arrays_of(net: nn.Module) -> dict[str, Array]:
    """Copy the weights of a net to arrays, by name."""
    return {name: _array(value) for name, value in net.state_dict().items()}


def _array(tensor: torch.Tensor) -> Array:
    array: Array = tensor.detach().cpu().numpy().copy()
    return array


def filled(make: Make, prefix: str, tensors: dict[str, Array], path: Path) -> TrainableComparator:
    """Make a comparator and load its weights, whose names begin with `prefix`."""
    learner = make(0)
    for k, member in enumerate(learner.members):
        load_weights(member, f"{prefix}.{k}.", tensors, path)
    return learner


def load_weights(net: nn.Module, prefix: str, tensors: dict[str, Array], path: Path) -> None:
    """Move the arrays whose names begin with `prefix` into a net; every weight must be there."""
    weights = {
        name: take(tensors, prefix + name, random_weights.dtype, random_weights.shape, path)
        for name, random_weights in arrays_of(net).items()
    }
    net.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in weights.items()})


def refuse_few(tensors: Mapping[str, Array], least: int, path: Path) -> None:
    """Raise a ModelError if there are fewer weights than the comparator has at least.

    The check comes first, so that a small file cannot make a comparator of any size.
    """
    n_numbers = sum(tensor.size for tensor in tensors.values())
    if n_numbers < least:
        raise ModelError(
            f"{path}: not the weights of this comparator: {n_numbers:,} numbers, "
            f"and it has {least:,} or more"
        )
