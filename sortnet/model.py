"""A model: a scaling and a comparator that were learned together, and the folder they live in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save

from sortnet._version import __version__
from sortnet.comparators import Committee, NeuralComparator
from sortnet.config import Config, make_comparator
from sortnet.data.scaling import Scaler
from sortnet.errors import ModelError
from sortnet.files import write_atomically
from sortnet.loop import Learner, State
from sortnet.sorting import sort
from sortnet.types import F32, Comparator, Queries, Sorting

FORMAT = "sortnet-model"
FORMAT_VERSION = 1
_JSON, _WEIGHTS = "model.json", "weights.safetensors"
_SCALER = "scaler"

Make: TypeAlias = Callable[[int], Learner]


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
        """Write `model.json` and `weights.safetensors`, each in one step.

        Raises:
            SortNetError: if the folder cannot be written.
        """
        folder = Path(folder)
        tensors = _tensors(self.comparator, "comparator")
        tensors[_SCALER] = torch.from_numpy(np.ascontiguousarray(self.scaler.table))
        write_atomically(folder / _WEIGHTS, lambda path: path.write_bytes(save(tensors)))
        about = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "sortnet": __version__,
            "n_features": self.n_features,
            "feature_names": self.feature_names,
            # Of no concern to whoever loads it, perhaps on a machine without a GPU.
            "config": self.config.to_json() | {"device": "auto"},
            "info": dict(self.info),
            "weights_sha256": _sha256(folder / _WEIGHTS),
        }
        text = json.dumps(about, indent=2) + "\n"
        write_atomically(folder / _JSON, lambda path: path.write_text(text, encoding="utf-8"))

    @classmethod
    def load(cls, folder: str | Path, *, make: Make | None = None) -> Model:
        """Read a model folder.

        Args:
            folder: what `save` wrote.
            make: makes the comparator from a seed, where its architecture is the caller's own.

        Raises:
            ModelError: if a file is missing, damaged, foreign, or of another format version.
        """
        folder = Path(folder)
        about = _read_json(folder / _JSON)
        config, n_features = read_config(folder)
        try:
            names = about["feature_names"]
            digest, info = str(about["weights_sha256"]), dict(about["info"])
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"{folder / _JSON}: damaged, {error!r}") from None
        tensors = _read_tensors(folder / _WEIGHTS)
        if _sha256(folder / _WEIGHTS) != digest:
            raise ModelError(f"{folder / _WEIGHTS}: not the weights that {_JSON} was written with")
        table = tensors.pop(_SCALER, torch.empty(0, n_features, dtype=torch.float64)).numpy()
        if table.ndim != 2 or table.shape[1] != n_features:
            raise ModelError(f"{folder / _WEIGHTS}: the scaling is not of {n_features} features")
        learner = (make or make_comparator(config, n_features))(config.seed)
        _fill(learner, "comparator", tensors, folder / _WEIGHTS)
        return cls(
            config,
            Scaler(config.scaling, table),
            learner,
            None if names is None else tuple(map(str, names)),
            info,
        )


def read_config(folder: str | Path) -> tuple[Config, int]:
    """The settings of the model in a folder, and the number of its features.

    Raises:
        ModelError: as `Model.load`.
    """
    path = Path(folder) / _JSON
    about = _read_json(path)
    try:
        return Config.from_json(about["config"]), int(about["n_features"])
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{path}: damaged, {error!r}") from None


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


def load_state(path: str | Path, make: Make) -> State:
    """Read what `save_state` wrote; `make` makes the comparator it was a state of.

    Raises:
        ModelError: if the file is missing, damaged, or of another comparator.
    """
    path = Path(path)
    tensors = _read_tensors(path)
    with safe_open(path, "pt") as file:
        about = json.loads((file.metadata() or {}).get("state", "null"))
    if about is None:
        raise ModelError(f"{path}: not the state of a run")
    current, best = make(0), make(0) if about["has_best"] else None
    _fill(current, "current", tensors, path)
    if best is not None:
        _fill(best, "best", tensors, path)
    return State(
        about["iteration"],
        current,
        best,
        about["best_iteration"],
        about["best_quality"],
        about["finished"],
        about.get("best_right", 1.0),  # version 0.1 did not break ties: the first was kept
    )


def _members(learner: Learner) -> tuple[NeuralComparator, ...]:
    return learner.members if isinstance(learner, Committee) else (learner,)


def _tensors(learner: Learner, prefix: str) -> dict[str, torch.Tensor]:
    return {
        f"{prefix}.{k}.{name}": value.detach().cpu().contiguous().clone()
        for k, member in enumerate(_members(learner))
        for name, value in member.state_dict().items()
    }


def _fill(learner: Learner, prefix: str, tensors: dict[str, torch.Tensor], path: Path) -> None:
    """Put the tensors of one comparator into it; all of them must be there and fit."""
    for k, member in enumerate(_members(learner)):
        start = f"{prefix}.{k}."
        own = {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}
        try:
            member.load_state_dict(own)
        except RuntimeError as error:
            reason = str(error).splitlines()[-1].strip()
            raise ModelError(f"{path}: not the weights of this comparator: {reason}") from None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"{path}: no model there: {error.strerror}") from None
    except ValueError as error:
        raise ModelError(f"{path}: not JSON: {error}") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise ModelError(f"{path}: not a SortNet model")
    if about.get("format_version") != FORMAT_VERSION:
        raise ModelError(
            f"{path}: format version {about.get('format_version')!r}, this SortNet reads "
            f"{FORMAT_VERSION}: upgrade SortNet or train again"
        )
    return about


def _read_tensors(path: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path}: not a readable safetensors file: {error}") from None


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
