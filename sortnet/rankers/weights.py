"""Read and write the weights of comparators, and the state of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from sortnet.comparators import Make, SoftTrees, TrainableComparator
from sortnet.errors import ModelError
from sortnet.files import check_fields, parse_json, shown, write_atomically
from sortnet.learning.iterations import State
from sortnet.rankers.model_folder import (
    Array,
    Tensors,
    read_bytes,
    tensors_as_bytes,
)

# Types of the values of a `State` that every file has, by name.
_VALUE_TYPES = {"iteration": int, "best_iteration": int, "best_right": float, "finished": bool}
# Names of the arrays that an optimiser keeps for a weight: AdamW of trees, Adam, SGD with momentum.
_MOMENTS = ({"mean", "square"}, {"step", "exp_avg", "exp_avg_sq"}, {"momentum_buffer"})


def save_state(path: str | Path, state: State) -> None:
    """Write to a file the state from which a run can be resumed.

    The file has the state's arrays by name, and its other values as JSON. It appears complete or
    not at all.
    """
    arrays = weights_of(state.comparator, "current") | {"asked": state.asked}
    if state.best is not None:
        arrays |= weights_of(state.best, "best")
    # The name of a moment of an optimiser is `optimiser.NUMBER_OF_NET.WEIGHT:MOMENT`.
    for number, moments_of_net in enumerate(state.moments):
        for name, moment in moments_of_net.items():
            arrays[f"optimiser.{number}.{name}"] = moment
    values = {
        "iteration": state.iteration,
        "best_iteration": state.best_iteration,
        "best_right": state.best_right,
        "finished": state.finished,
        "best_quality": state.best_quality,
        "has_best": state.best is not None,
    }
    content = tensors_as_bytes(arrays, {"state": json.dumps(values)})
    write_atomically(Path(path), lambda file: file.write_bytes(content))


def load_state(path: str | Path, make: Make, *, least: int = 0, raw: bytes | None = None) -> State:
    """Read a state that `save_state` wrote.

    Args:
        path: the file.
        make: makes the comparator of the run from a seed.
        least: the least number of weights; a file with fewer numbers is refused.
        raw: the content of the file, if it has been read already; None: the file is read.

    Raises:
        ModelError: if the file is missing, damaged, or of another comparator.
    """
    path = Path(path)
    raw = read_bytes(path) if raw is None else raw
    tensors = Tensors.parse(raw, path)
    saved = saved_values(raw, path)
    tensors.refuse_few(least)
    asked_pairs = tensors.take("asked", np.int64, None)
    current = take_comparator(make, "current", tensors)
    values = {name: saved[name] for name in _VALUE_TYPES}
    best = None
    if saved["has_best"]:
        best = take_comparator(make, "best", tensors)
        values["best_quality"] = saved["best_quality"]
    moments: list[dict[str, Array]] = []
    if any(name.startswith("optimiser.") for name in tensors.arrays):
        moments = [
            _take_moments(member, f"optimiser.{number}.", tensors)
            for number, member in enumerate(current.members)
        ]
    tensors.refuse_rest()
    return State(comparator=current, best=best, asked=asked_pairs, moments=tuple(moments), **values)


def saved_values(raw: bytes, path: Path) -> dict[str, Any]:
    """Read the values of a state that are no arrays, from the header of the safetensors file."""
    # The file begins with the length of the header in 8 bytes, and continues with the header, in
    # which `__metadata__` has the texts that were saved with the arrays.
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    metadata = header.get("__metadata__") or {}
    values = parse_json(metadata.get("state", "null"), path)
    if not isinstance(values, dict):
        raise ModelError(f"{path}: not the state of a run")
    check_fields(values, {**_VALUE_TYPES, "has_best": bool}, path)
    if values["has_best"]:
        check_fields(values, {"best_quality": float}, path)
    # Before the first iteration, the best iteration is -1.
    if not -1 <= values["best_iteration"] <= values["iteration"]:
        raise ModelError(f"{path}: iteration cannot be {shown(values['iteration'])}")
    return values


def _take_moments(member: Any, prefix: str, tensors: Tensors) -> dict[str, Array]:
    """Take the moments that an optimiser keeps for a member's weights out of the tensors.

    Args:
        member: a net of the comparator.
        prefix: beginning of the tensors' names, which continue with `WEIGHT:MOMENT`, or with `step`
            for the number of steps of trees.
        tensors: the arrays of the file.

    Raises:
        ModelError: if a weight is unknown, or its moments are not the moments of an optimiser.
    """
    keys = [name.removeprefix(prefix) for name in tensors.arrays if name.startswith(prefix)]
    moments = {}
    names_of_weight: dict[str, set[str]] = {}
    if isinstance(member, SoftTrees):
        moments["step"] = tensors.take(f"{prefix}step", np.int64)
        keys.remove("step")
    weights = member.arrays()
    for key in keys:
        weight, _, name = key.rpartition(":")
        if weight not in weights:
            raise ModelError(f"{tensors.path}: not the state of an optimiser: {shown(weight)}")
        names_of_weight.setdefault(weight, set()).add(name)
        # The step is a single number, any other moment has the shape of its weight.
        shape = () if name == "step" else weights[weight].shape
        moments[key] = tensors.take(f"{prefix}{key}", np.float32, *shape)
    for weight, names in names_of_weight.items():
        if names not in _MOMENTS:
            raise ModelError(f"{tensors.path}: not the state of an optimiser: {shown(weight)}")
    return moments


def weights_of(comparator: TrainableComparator, prefix: str) -> dict[str, Array]:
    """List the weights of all nets of a comparator.

    The keys are `PREFIX.NUMBER_OF_NET.NAME_OF_WEIGHT`.
    """
    weights = {}
    members: tuple[Any, ...] = comparator.members
    for k, member in enumerate(members):
        for name, array in member.arrays().items():
            weights[f"{prefix}.{k}.{name}"] = array
    return weights


def take_comparator(make: Make, prefix: str, tensors: Tensors) -> TrainableComparator:
    """Make a comparator, and move the arrays with its weights out of the tensors into it.

    Args:
        make: makes the comparator from a seed.
        prefix: beginning of the names of the arrays, see `weights_of`.
        tensors: the arrays of the file.
    """
    comparator = make(0)  # with random weights, which are replaced
    for k, member in enumerate(comparator.members):
        load_weights(member, f"{prefix}.{k}.", tensors)
    return comparator


def load_weights(net: Any, prefix: str, tensors: Tensors) -> None:
    """Move the arrays whose names begin with `prefix` out of the tensors into a net.

    Raises:
        ModelError: if a weight of the net is missing or has another shape.
    """
    net.load_arrays(
        {
            name: tensors.take(f"{prefix}{name}", random.dtype, *random.shape).copy()
            for name, random in net.arrays().items()
        }
    )
