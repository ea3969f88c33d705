"""A model: a feature scaling and a comparator, which sort documents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from sortnet.comparators.make import (
    Make,
    MakeFor,
    TrainableComparator,
    kind_of,
    least_numbers,
    make_comparator,
)
from sortnet.config import Config
from sortnet.core import F32, F64, I64, Comparator, Margin, Queries, Sorting
from sortnet.errors import ComparatorError, ModelError
from sortnet.rankers.base import Ranker
from sortnet.rankers.load_ranker import load_ranker
from sortnet.rankers.model_folder import Array, Saved
from sortnet.rankers.registry import name_of
from sortnet.rankers.weights import take_comparator, weights_of
from sortnet.sorting import sort
from sortnet.sorting.sort import arrangement

_PAIRS_AT_ONCE = 1 << 17  # pairs that are compared together, which limits the memory
OWN = "own"  # kind of a comparator that the caller has written


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
        order = self.order(queries)
        scores = np.empty(queries.n_docs, np.float32)
        last_of_query = np.repeat(queries.offsets[1:], queries.sizes) - 1
        scores[order] = last_of_query - np.arange(queries.n_docs)
        return scores

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
        """Prepare sorting the same documents many times with changed columns of scaled features."""
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

    def order_before(self, queries: Queries) -> I64:
        """Sort the documents by the comparator with random weights."""
        return self.untrained().order(queries)

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
        saved.tensors.refuse_few(least_numbers(config, n_columns))
        make_for = make_comparator
    make = make_for(config, n_columns)
    return take_comparator(make, "comparator", saved.tensors)
