"""A model: a scaling and a comparator that were learned together, and the folder they live in."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from safetensors import SafetensorError
from safetensors.torch import load, save

from sortnet import __version__
from sortnet.comparators import Learner, Make, kind_of, make_comparator
from sortnet.config import Config, least_numbers
from sortnet.data.documents import check_fields, parse_document, parse_json, shown
from sortnet.data.scaling import Scaler
from sortnet.errors import ModelError, SortNetError
from sortnet.files import make_folder, write_atomically
from sortnet.learning.loop import State
from sortnet.sorting import sort
from sortnet.types import F32, Comparator, Queries, Sorting

FORMAT = "sortnet-model"
FORMAT_VERSION = 2  # of version 1 the weights are always in weights.safetensors
_JSON = "model.json"
_SCALER = "scaler"
_SHA256 = re.compile("[0-9a-f]{64}")
_FIELDS: dict[str, Any] = {
    "n_features": int,
    "feature_names": list[str] | None,
    "config": dict,
    "info": dict,
    "weights_sha256": str,
}
_STATE: dict[str, Any] = {
    "iteration": int,
    "has_best": bool,
    "best_iteration": int,
    "best_right": float,
    "finished": bool,
}
# What a save or a run that was killed leaves in its folder.
_LEFT = re.compile(
    r"weights-[0-9a-f]{16}\.safetensors"
    r"|\.((model|run|tuning)\.json|(state|weights(-[0-9a-f]{16})?)\.safetensors)\.[0-9]+"
)
OWN = "own"  # a comparator that is neither of ours


@dataclass(frozen=True, eq=False)
class Model:
    """Ranks documents: scales their features, then sorts with the comparator.

    Attributes:
        config: the settings it was learned with.
        scaler: fitted on the training part.
        comparator: C*.
        feature_names: where the training data had them.
        info: how it came about (iteration, RankQuality, seed, versions, data), as JSON.
    """

    config: Config
    scaler: Scaler
    comparator: Learner
    feature_names: tuple[str, ...] | None = None
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_features(self) -> int:
        return int(self.scaler.table.shape[1])

    def sort(self, queries: Queries) -> Sorting:
        """The ranking of every query, and the comparisons made on the way.

        Raises:
            ModelError: if the features are not those the model was trained on.
        """
        self.check_features(queries)
        return sort(self.comparator, self.scaler(queries))

    def scores(self, queries: Queries) -> F32:
        """(n_docs,) the documents of a lower rank in the same query: n - 1 for the first, 0 last.

        A comparator need not come from a score; what it gives is an order, so this is the order.
        """
        order = self.sort(queries).order
        scores = np.empty(queries.n_docs, np.float32)
        last = np.repeat(queries.offsets[1:], queries.sizes) - 1
        scores[order] = last - np.arange(queries.n_docs)
        return scores

    def margins(self, queries: Queries, i: ArrayLike, j: ArrayLike) -> F32:
        """(m,) margins of documents i over documents j (document numbers): above 0, i goes first.

        With the scaling `query` a margin depends on the other documents of the query.
        """
        self.check_features(queries)
        comparator: Comparator = self.comparator
        prepared = comparator.prepare(self.scaler(queries).features)
        return comparator.prefer(prepared, np.asarray(i), np.asarray(j))

    def check_features(self, queries: Queries) -> None:
        """Refuse data with other features than those the model was trained on."""
        if queries.n_features != self.n_features:
            raise ModelError(
                f"{queries.source}: {queries.n_features} features, "
                f"but the model was trained on {self.n_features}"
            )
        ours, theirs = self.feature_names, queries.feature_names
        if ours is not None and theirs is not None and ours != theirs:
            k = next(k for k, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
            raise ModelError(
                f"{queries.source}: feature {k + 1} is {theirs[k]!r}, "
                f"but the model was trained with {ours[k]!r} there"
            )

    def save(self, folder: str | Path) -> None:
        """Write the weights under a name of their own, then `model.json`, which names them.

        So a folder holds the old model or the new one whenever it is read. What a save that was
        killed has left is removed. One process at a time may save into a folder.

        Raises:
            SortNetError: if the folder cannot be written.
        """
        folder = Path(folder)
        make_folder(folder)
        old = _old_weights(folder)
        tensors = _tensors(self.comparator, "comparator")
        tensors[_SCALER] = torch.from_numpy(np.ascontiguousarray(self.scaler.table))
        raw = save(tensors)
        about = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "sortnet": __version__,
            "n_features": self.n_features,
            "feature_names": self.feature_names,
            "comparator": kind_of(self.comparator) or OWN,
            # Of no concern to whoever loads it, perhaps on a machine without a GPU.
            "config": self.config.to_json() | {"device": "auto"},
            "info": dict(self.info),
            "weights_sha256": hashlib.sha256(raw).hexdigest(),
        }
        weights = _weights_of(about, folder)
        text = json.dumps(about, indent=2) + "\n"
        write_atomically(weights, lambda path: path.write_bytes(raw))
        write_atomically(folder / _JSON, lambda path: path.write_text(text, encoding="utf-8"))
        for path in folder.iterdir():
            if path != weights and (path == old or _LEFT.fullmatch(path.name)):
                with suppress(OSError):  # it does no harm
                    path.unlink()

    @classmethod
    def load(cls, folder: str | Path, *, make: Make | None = None) -> Model:
        """Read a model folder.

        Args:
            folder: what `save` wrote.
            make: makes the comparator from a seed, where its architecture is the caller's own.

        Raises:
            ModelError: if a file is missing, damaged, foreign, or of another format version.
        """
        return load_with(folder, lambda config, n_features: make)


def load_with(folder: str | Path, make_for: Callable[[Config, int], Make | None]) -> Model:
    """`Model.load`, with a comparator made for the settings and the number of features.

    Args:
        folder: what `Model.save` wrote.
        make_for: says what makes the comparator; None: what the settings ask for.

    Raises:
        ModelError: as `Model.load`.
    """
    path = Path(folder) / _JSON
    while True:
        raw = _read(path)
        try:
            return _model(raw, path, make_for)
        except ModelError:
            if _read(path) == raw:
                raise
        # A save has just replaced this model, and taken its weights away: read the new one.


def _model(raw: bytes, path: Path, make_for: Callable[[Config, int], Make | None]) -> Model:
    about = parse_document(raw, path, FORMAT, (1, FORMAT_VERSION), _FIELDS)
    try:
        config = Config.from_json(about["config"])
    except SortNetError as error:
        raise ModelError(f"{path}: {error}") from None
    n_features, names = int(about["n_features"]), about["feature_names"]
    if names is not None and len(names) != n_features:
        raise ModelError(f"{path}: {len(names)} feature names of {n_features} features")
    weights = _weights_of(about, path.parent)
    tensors = _read_weights(weights, about["weights_sha256"])
    scaler = _scaler(tensors, config.scaling, n_features, weights)
    make = make_for(config, n_features)
    if make is None:
        if about.get("comparator") == OWN:
            raise ModelError(f"{path}: its comparator is somebody's own: give it as make=")
        _refuse_few(tensors, least_numbers(config, n_features), weights)
        make = make_comparator(config, n_features)
    learner = make(config.seed)
    _fill(learner, "comparator", tensors, weights)
    _refuse_rest(tensors, weights)
    return Model(config, scaler, learner, None if names is None else tuple(names), about["info"])


def _weights_of(about: Mapping[str, Any], folder: Path) -> Path:
    """The file with the weights that a model.json was written with."""
    digest = about["weights_sha256"]
    if not _SHA256.fullmatch(digest):
        raise ModelError(f"{folder / _JSON}: weights_sha256 cannot be {shown(digest)}")
    one = about["format_version"] == 1
    return folder / ("weights.safetensors" if one else f"weights-{digest[:16]}.safetensors")


def _old_weights(folder: Path) -> Path | None:
    """The weights of the model that a folder holds."""
    path = folder / _JSON
    with suppress(ModelError):
        about = parse_document(_read(path), path, FORMAT, (1, FORMAT_VERSION), _FIELDS)
        return _weights_of(about, folder)
    return None


def save_state(path: str | Path, state: State) -> None:
    """Write what a run needs to go on into one file, in one step."""
    tensors = _tensors(state.comparator, "current")
    if state.best is not None:
        tensors |= _tensors(state.best, "best")
    about = {
        "iteration": state.iteration,
        "has_best": state.best is not None,
        "best_iteration": state.best_iteration,
        "best_quality": state.best_quality,
        "best_right": state.best_right,
        "finished": state.finished,
    }
    metadata = {"state": json.dumps(about)}
    write_atomically(Path(path), lambda file: file.write_bytes(save(tensors, metadata)))


def load_state(path: str | Path, make: Make, *, least: int = 0) -> State:
    """Read what `save_state` wrote; `make` makes the comparator it was a state of.

    Args:
        path: the file.
        make: makes a comparator from a seed.
        least: numbers that such a comparator has at least; a file of fewer is refused.

    Raises:
        ModelError: if the file is missing, damaged, or of another comparator.
    """
    path = Path(path)
    raw = _read(path)
    tensors = _parse_tensors(raw, path)
    about = parse_json(_metadata(raw).get("state", "null"), path)
    if not isinstance(about, dict):
        raise ModelError(f"{path}: not the state of a run")
    # Version 0.1 did not break ties: the first was kept.
    about = {"best_right": 1.0, **about}
    check_fields(about, _STATE, path)
    if about["has_best"]:
        check_fields(about, {"best_quality": float}, path)
    if not -1 <= about["best_iteration"] <= about["iteration"]:
        raise ModelError(f"{path}: iteration cannot be {shown(about['iteration'])}")
    _refuse_few(tensors, least, path)
    current, best = make(0), make(0) if about["has_best"] else None
    _fill(current, "current", tensors, path)
    if best is not None:
        _fill(best, "best", tensors, path)
    _refuse_rest(tensors, path)
    return State(
        int(about["iteration"]),
        current,
        best,
        int(about["best_iteration"]),
        about["best_quality"] if best is not None else -np.inf,
        bool(about["finished"]),
        about["best_right"],
    )


def _tensors(learner: Learner, prefix: str) -> dict[str, torch.Tensor]:
    return {
        f"{prefix}.{k}.{name}": value.detach().cpu().contiguous().clone()
        for k, member in enumerate(learner.members)
        for name, value in member.state_dict().items()
    }


def _fill(learner: Learner, prefix: str, tensors: dict[str, torch.Tensor], path: Path) -> None:
    """Move the tensors of one comparator into it; all of them must be there and fit."""
    for k, member in enumerate(learner.members):
        weights, parameters = member.state_dict(), dict(member.named_parameters())
        for name, own in weights.items():
            found = tensors.pop(f"{prefix}.{k}.{name}", None)
            if found is None or (found.dtype, found.shape) != (own.dtype, own.shape):
                raise ModelError(
                    f"{path}: not the weights of this comparator: {name} of member {k} is "
                    f"{_described(found)}, not {_described(own)}"
                )
            if name in parameters and not bool(torch.isfinite(found).all()):
                raise ModelError(f"{path}: {name} of member {k} has NaN or infinity")
            weights[name] = found
        member.load_state_dict(weights)


def _described(tensor: torch.Tensor | None) -> str:
    if tensor is None:
        return "missing"
    return f"{str(tensor.dtype).removeprefix('torch.')} {'x'.join(map(str, tensor.shape)) or '1'}"


def _refuse_few(tensors: Mapping[str, torch.Tensor], least: int, path: Path) -> None:
    """Refuse weights too few for the comparator, before memory is taken for it."""
    numbers = sum(tensor.numel() for tensor in tensors.values())
    if numbers < least:
        raise ModelError(
            f"{path}: not the weights of this comparator: {numbers:,} numbers, "
            f"and it has {least:,} or more"
        )


def _refuse_rest(tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    if tensors:
        raise ModelError(
            f"{path}: not the weights of this comparator: {shown(min(tensors))} is none of its own"
        )


def _scaler(tensors: dict[str, torch.Tensor], kind: str, n_features: int, path: Path) -> Scaler:
    """Take the scaling's table out of the tensors."""
    table = tensors.pop(_SCALER, None)
    low, high = {"query": (0, 0), "none": (1, 1)}.get(kind, (2, math.inf))
    if (
        table is None
        or table.dtype != torch.float64
        or table.dim() != 2
        or not low <= len(table) <= high
        or table.shape[1] != n_features
    ):
        raise ModelError(
            f"{path}: the scaling is not of {n_features} features: {_described(table)}"
        )
    if not bool(torch.isfinite(table).all()):
        raise ModelError(f"{path}: the scaling has NaN or infinity")
    return Scaler(kind, table.numpy())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        what = "no model there" if path.name == _JSON else "cannot be read"
        raise ModelError(f"{path}: {what}: {error.strerror or error}") from None


def _read_weights(path: Path, digest: str) -> dict[str, torch.Tensor]:
    raw = _read(path)
    tensors = _parse_tensors(raw, path)
    if hashlib.sha256(raw).hexdigest() != digest:
        raise ModelError(f"{path}: not the weights that {_JSON} was written with")
    return tensors


def _parse_tensors(raw: bytes, path: Path) -> dict[str, torch.Tensor]:
    try:
        return load(raw)
    # A type that torch has not, a shape too large to be one: safetensors lets them through.
    except (SafetensorError, KeyError, RuntimeError, OverflowError) as error:
        raise ModelError(f"{path}: not a readable safetensors file: {error}") from None


def _metadata(raw: bytes) -> dict[str, str]:
    """What stands beside the tensors in the header of a safetensors file that could be parsed."""
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    metadata: dict[str, str] = header.get("__metadata__") or {}
    return metadata
