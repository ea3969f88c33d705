"""The weights of nets as arrays: of a model, and of a run that can be resumed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import nn

from sortnet.comparators import Committee, Make, TrainableComparator
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
_MOMENTS = ({"step", "exp_avg", "exp_avg_sq"}, {"momentum_buffer"})  # of Adam, of SGD


def save_state(path: str | Path, state: State) -> None:
    """Write what a run needs to go on into one file, in one step."""
    tensors = weights_of(state.comparator, "current") | {_ASKED: state.asked}
    if state.best is not None:
        tensors |= weights_of(state.best, "best")
    for member, moments in enumerate(state.optimiser.moments):
        tensors |= {f"{_OPTIMISER}.{member}.{k}": _array(value) for k, value in moments.items()}
    about = {name: getattr(state, name) for name in (*_STATE, "best_quality")}
    about |= {"has_best": state.best is not None, "steps": state.optimiser.steps}
    metadata = {"state": json.dumps(about)}
    write_atomically(Path(path), lambda file: file.write_bytes(tensors_as_bytes(tensors, metadata)))


def load_state(path: str | Path, make: Make, *, least: int = 0, raw: bytes | None = None) -> State:
    """Read what `save_state` wrote; `make` makes the comparator it was a state of.

    A file of fewer than `least` numbers is refused; `raw` is its content, if it has been read.

    Raises:
        ModelError: if the file is missing, damaged, or of another comparator.
    """
    path = Path(path)
    raw = read_bytes(path) if raw is None else raw
    tensors = parse_tensors(raw, path)
    # What stands beside the tensors in the header of a safetensors file that could be parsed.
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    about = parse_json((header.get("__metadata__") or {}).get("state", "null"), path)
    if not isinstance(about, dict):
        raise ModelError(f"{path}: not the state of a run")
    # Version 0.1 did not break ties: the first was kept.
    about = {"best_right": 1.0, "steps": 0, **about}
    check_fields(about, _STATE | {"has_best": bool, "steps": int}, path)
    if about["has_best"]:
        check_fields(about, {"best_quality": float}, path)
    if not -1 <= about["best_iteration"] <= about["iteration"]:
        raise ModelError(f"{path}: iteration cannot be {shown(about['iteration'])}")
    refuse_few(tensors, least, path)
    n_asked = tensors.setdefault(_ASKED, np.empty(0, np.int64)).size
    asked = take(tensors, _ASKED, np.int64, [n_asked], path)
    current = filled(make, "current", tensors, path)
    best = filled(make, "best", tensors, path) if about["has_best"] else None
    optimiser = _optimiser_state(current, about["steps"], tensors, path)
    refuse_rest(tensors, path)
    known = {name: about[name] for name in (*_STATE, *(["best_quality"] if best else []))}
    return State(comparator=current, best=best, asked=asked, optimiser=optimiser, **known)


def _optimiser_state(
    learner: TrainableComparator, steps: int, tensors: dict[str, Array], path: Path
) -> OptimiserState:
    """The state of each member's optimiser, taken out of the tensors."""
    if steps < 0:
        raise ModelError(f"{path}: steps cannot be {shown(steps)}")
    if not any(name.startswith(f"{_OPTIMISER}.") for name in tensors):
        return OptimiserState(steps)
    moments = []
    for number, member in enumerate(learner.members):
        prefix = f"{_OPTIMISER}.{number}."
        weights = dict(member.named_parameters())
        names = [name.removeprefix(prefix) for name in tensors if name.startswith(prefix)]
        member_moments = {}
        for parameter in {name.rpartition(":")[0] for name in names}:
            own = {name.rpartition(":")[2] for name in names if name.startswith(f"{parameter}:")}
            if parameter not in weights or own not in _MOMENTS:
                raise ModelError(f"{path}: not the state of an optimiser: {shown(parameter)}")
        for name in names:
            parameter, _, moment = name.rpartition(":")
            shape = [] if moment == "step" else list(weights[parameter].shape)
            array = take(tensors, prefix + name, np.float32, shape, path)
            member_moments[name] = torch.from_numpy(array.copy())
        moments.append(member_moments)
    return OptimiserState(steps, tuple(moments))


def weights_of(learner: TrainableComparator, prefix: str) -> dict[str, Array]:
    """The weights of each net, by `prefix`, its number and their names."""
    return {
        f"{prefix}.{k}.{name}": array
        for k, member in enumerate(learner.members)
        for name, array in arrays_of(member).items()
    }


def arrays_of(net: nn.Module) -> dict[str, Array]:
    """A copy of the weights of a net, by their names."""
    return {name: _array(value) for name, value in net.state_dict().items()}


def _array(tensor: torch.Tensor) -> Array:
    array: Array = tensor.detach().cpu().numpy().copy()
    return array


def filled(make: Make, prefix: str, tensors: dict[str, Array], path: Path) -> TrainableComparator:
    """A comparator of as many members as the tensors are of, with these weights."""
    learner = make(0)
    count = len({name.split(".")[1] for name in tensors if name.startswith(f"{prefix}.")})
    if count > 1 == len(learner.members):  # version 0.2 added nets to a committee
        learner = Committee([make(k).members[0] for k in range(count)])
    for k, member in enumerate(learner.members):
        load_weights(member, f"{prefix}.{k}.", tensors, path)
    return learner


def load_weights(net: nn.Module, prefix: str, tensors: dict[str, Array], path: Path) -> None:
    """Move arrays into a net; all of them must be there and fit."""
    weights = {
        name: take(tensors, prefix + name, own.dtype, own.shape, path)
        for name, own in arrays_of(net).items()
    }
    net.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in weights.items()})


def refuse_few(tensors: Mapping[str, Array], least: int, path: Path) -> None:
    """Refuse weights too few for the comparator, before memory is taken for it."""
    numbers = sum(tensor.size for tensor in tensors.values())
    if numbers < least:
        raise ModelError(
            f"{path}: not the weights of this comparator: {numbers:,} numbers, "
            f"and it has {least:,} or more"
        )
