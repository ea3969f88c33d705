"""A model: a feature scaling and a comparator, which sort documents; the state of a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from sortnet.comparators import SoftTrees
from sortnet.comparators.make import (
    Make,
    MakeFor,
    TrainableComparator,
    kind_of,
    least_weights,
    make_comparator,
)
from sortnet.config import Config
from sortnet.core import F32, F64, I64, Array, Comparator, Margin, Queries, Sorting
from sortnet.errors import ComparatorError, ModelError
from sortnet.files import check_fields, parse_json, shown, write_atomically
from sortnet.learning.iterations import State
from sortnet.rankers.base import Ranker
from sortnet.rankers.load_ranker import load_ranker
from sortnet.rankers.model_folder import (
    Saved,
    Tensors,
    read_bytes,
    tensors_as_bytes,
)
from sortnet.rankers.registry import name_of
from sortnet.sorting import sort
from sortnet.sorting.sort import arrangement

_PAIRS_AT_ONCE = 1 << 17  # pairs that are compared together, which limits the memory
OWN = "own"  # kind of a comparator that the caller has written
# Types of the values of a `State` that every file has, by name.
_VALUE_TYPES = {"iteration": int, "best_iteration": int, "best_right": float, "finished": bool}
# Names of the arrays that an optimiser keeps for a weight: AdamW of trees, Adam, SGD with momentum.
_MOMENTS = ({"mean", "square"}, {"step", "exp_avg", "exp_avg_sq"}, {"momentum_buffer"})


@dataclass(frozen=True, eq=False)
class Model(Ranker):
    """Ranker that scales the features of documents, then sorts the documents by a comparator.

    Attributes:
        config: the settings of the training.
        scaler: the scaling of features, fitted on the training part.
        comparator: the best comparator of the training.
        feature_names: names of the features, if the training data had names.
        info: record of the training (iteration, RankQuality, seed, versions, data), as JSON values.
    """

    config: Config
    comparator: TrainableComparator

    def sort(self, queries: Queries) -> Sorting:
        """Sort every query; return the order of the documents and all comparisons of the sort.

        Raises:
            ModelError: if the features are not the features that the model was trained on.
        """
        self.check_features(queries)
        return sort(self.comparator, self.scaler.scale_lazily(queries))

    def order(self, queries: Queries) -> I64:
        """Sort each query; return document numbers (n_docs,), query by query, the best first."""
        return self.sort(queries).order

    def scores(self, queries: Queries) -> F32:
        """Count the documents below each document in its query, (n_docs,); 0 for the last document.

        A comparator gives an order and need not have scores, so these counts serve as scores.
        """
        ranks = queries.ranks(self.order(queries))
        return (np.repeat(queries.sizes, queries.sizes) - ranks).astype(np.float32)

    def real_scores(self, queries: Queries) -> F32:
        """Sum the scores g(x) that all members of the comparator give a document x, (n_docs,).

        If a member has no scores g(x), the result is `mean_margins`. The sum can be compared across
        queries if the scaling does not depend on the query. A committee of nets sorts by margins,
        so its order may differ from the order by the sum.

        Cost: a pass over the documents; without g see `mean_margins`.
        """
        X = self.scaled(queries).features
        scores = []
        for member in self.comparator.members:
            member_scores = member.scores(X)
            if member_scores is None:
                return self.mean_margins(queries)
            scores.append(member_scores)
        total: F32 = np.sum(scores, axis=0, dtype=np.float32)
        return total

    def mean_margins(self, queries: Queries) -> F32:
        """Average the margins of each document over the rest of its query, (n_docs,).

        The mean is 0 for the only document of a query. Mean margins cannot be compared across
        queries. If a margin is the difference of two scores, the mean margins order documents as
        the comparator does; an intransitive comparator may order them in another way.

        Cost: n^2 comparisons for a query of n documents; 2^17 or n comparisons are in memory.
        """
        comparator: Comparator = self.comparator
        prepared = comparator.prepare(self.scaled(queries).features)
        means = np.zeros(queries.n_docs, np.float32)
        for start, stop in pairwise(queries.offsets):
            docs = np.arange(start, stop)
            n_runs = min(len(docs), 1 + len(docs) ** 2 // _PAIRS_AT_ONCE)
            for run in np.array_split(docs, n_runs) if n_runs else ():
                # A document is compared with all documents of its query, also with itself.
                i = run.repeat(len(docs))
                j = np.tile(docs, len(run))
                margins = np.where(i == j, 0.0, comparator.prefer(prepared, i, j))
                sums = margins.reshape(len(run), len(docs)).sum(axis=1)
                means[run] = sums / max(len(docs) - 1, 1)
        return means

    def margins(self, queries: Queries, i: ArrayLike, j: ArrayLike) -> F32:
        """Compute the margins (m,) of document i[k] over document j[k]: above 0, i[k] is better.

        With a scaling by query (`query`, `zscore`, `rank`) a margin depends on all documents of the
        query, see `depends_on_query`.
        """
        comparator: Comparator = self.comparator
        prepared = comparator.prepare(self.scaled(queries).features)
        return comparator.prefer(prepared, np.asarray(i), np.asarray(j))

    def votes(self, queries: Queries, i: int, j: int) -> list[dict[str, float]]:
        """Compute the outputs of every member for documents i and j, {name of the output: value}.

        A net has one dict with its margin and, for a CmpNN, two more outputs. Trees have a dict for
        each head.
        """
        X = self.scaler(queries).features[[i, j]]  # row 0 is document i, row 1 is document j
        members: tuple[Any, ...] = self.comparator.members
        votes: list[dict[str, float]] = []
        for member in members:
            prepared = member.prepare(X)
            votes += member.verdicts(prepared, 0, 1)
        return votes

    def split_shares(self) -> F64 | None:
        """Compute the share of the trees' splits that use each feature; None without soft trees.

        The shares of the columns that the scaling makes of a feature are added up.
        """
        shares_of_columns = self.comparator.members[0].feature_shares()
        if shares_of_columns is None:
            return None
        shares = np.bincount(self.scaler.sources, shares_of_columns, self.n_features)
        return shares.astype(np.float64)

    def differentiable(self) -> Margin:
        """Return the comparator's margin of two scaled documents, with its gradients."""
        margins: list[Margin] = []
        comparator: Any = self.comparator
        for member in getattr(comparator, "members", (comparator,)):  # a custom one has no members
            if not hasattr(member, "differentiable"):
                raise ComparatorError(
                    f"{type(member).__name__} has no gradients: only trees, a NeuralComparator, or "
                    "a Committee of them is explained"
                )
            margins.append(member.differentiable())

        def summed(x: F64, y: F64) -> tuple[F64, F64, F64]:
            """Add up the members' margins of documents x over y, and the gradients."""
            results = zip(*(margin(x, y) for margin in margins), strict=True)
            total, gradient_in_x, gradient_in_y = (np.sum(parts, axis=0) for parts in results)
            return total, gradient_in_x, gradient_in_y

        return summed

    def repeatable(self, queries: Queries) -> tuple[Queries, Callable[[Queries], I64], I64]:
        """Prepare to sort the same documents many times, with other scaled columns each time."""
        # The features are scaled once, before they are shuffled within a query. With every scaling
        # the result is the same as if they were shuffled first.
        scaled = self.scaler(queries)
        start = arrangement(scaled)

        def order(changed: Queries) -> I64:
            """Rank the documents by features of which some columns were changed."""
            return sort(self.comparator, changed, start=start).order

        return scaled, order, self.scaler.sources

    def untrained(self) -> Model:
        """Copy the model with random weights: the comparator that the training began with."""
        make = make_comparator(self.config, self.scaler.n_columns)
        return replace(self, comparator=make(self.config.seed))

    def learned(self) -> dict[str, Array]:
        """List the weights of the comparator by name, such as `comparator.0.choices`."""
        return weights_of(self.comparator, "comparator")

    def facts(self) -> dict[str, Any]:
        """List the entries of model.json that depend on the ranker: the kind of its comparator."""
        return {"comparator": kind_of(self.comparator) or OWN, **super().facts()}

    @classmethod
    def load(cls, folder: str | Path, *, make: Make | None = None) -> Model:
        """Read a model folder.

        Args:
            folder: folder that `save` wrote.
            make: makes the comparator from a seed; needed if the comparator is the caller's own.

        Raises:
            ModelError: if a file is missing, damaged, foreign or of another format version, or if
                the ranker is of another kind, which `load_ranker` reads.
        """
        arguments = {"make_for": lambda config, n_columns: make} if make else {}
        ranker = load_ranker(folder, **arguments)
        if ranker.config.kind != Config.kind:
            raise ModelError(
                f"{folder}: a ranker of kind {ranker.config.kind!r}, "
                "which sortnet.load_ranker reads"
            )
        return cast(Model, ranker)


def as_model(ranker: Ranker, source: object) -> Model:
    """Check that a run can begin with the weights of a ranker, and return the ranker as a `Model`.

    Args:
        ranker: a ranker of any kind.
        source: name of the ranker in messages.

    Raises:
        ModelError: if the ranker is of another kind than SortNet.
    """
    if not (isinstance(ranker, Model) and isinstance(ranker.config, Config)):
        # DirectRanker, RankNet and similar rankers are also a `Model`, but without a `Config`.
        raise ModelError(
            f"{source}: a ranker of kind {name_of(ranker.config)} cannot be trained further; a "
            "model of kind sortnet can (trees, cmpnn, directranker, and committees of them)"
        )
    return ranker


def read_comparator(
    saved: Saved, config: Config, n_columns: int, *, make_for: MakeFor | None = None
) -> TrainableComparator:
    """Make the comparator of a saved model; `make_for` makes a custom comparator.

    Raises:
        ModelError: if the saved weights do not fit, or a custom comparator has no `make_for`.
    """
    if make_for is None:
        if saved.about.get("comparator") == OWN:
            raise ModelError(f"{saved.path}: its comparator is somebody's own: give it as make=")
        saved.tensors.refuse_few(least_weights(config, n_columns))
        make_for = make_comparator
    make = make_for(config, n_columns)
    return take_comparator(make, "comparator", saved.tensors)


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
    """Read the values of a state that are not arrays from the header of the safetensors file."""
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
