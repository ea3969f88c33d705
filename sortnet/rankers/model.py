"""A model: a scaling and a comparator, which sorts with or without torch.

Trees are kept as arrays, `FittedTrees`; torch is loaded by what needs a net or a gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union, cast

import numpy as np
from numpy.typing import ArrayLike

from sortnet.comparators.fitted_trees import FittedTrees, weight_shapes
from sortnet.config import Config
from sortnet.core import F32, F64, I64, Comparator, Queries, Sorting
from sortnet.core.large_arrays import runs_of_queries
from sortnet.errors import ModelError
from sortnet.rankers.base import Ranker, load_ranker, name_of
from sortnet.rankers.model_folder import Array, Saved, take
from sortnet.rankers.saved_scaler import take_scaler
from sortnet.sorting import sort
from sortnet.sorting.sort import arrangement

if TYPE_CHECKING:
    from sortnet.comparators.base import Margin
    from sortnet.comparators.make import Make, MakeFor, TrainableComparator

Learned: TypeAlias = Union["TrainableComparator", FittedTrees]  # a comparator that a model has

_PAIRS = 1 << 17  # compared at a time, so that the hidden units of a pair stay small
OWN = "own"  # a comparator that is neither of ours
_TREES = "comparator.0."  # what the names of the weights of trees begin with


@dataclass(frozen=True, eq=False)
class Model(Ranker):
    """Ranks documents: scales their features, then sorts with the comparator.

    Attributes:
        config: the settings it was learned with.
        scaler: fitted on the training part.
        comparator: C*.
        feature_names: where the training data had them.
        info: how it came about (iteration, RankQuality, seed, versions, data), as JSON.
    """

    config: Config
    comparator: Learned

    def sort(self, queries: Queries) -> Sorting:
        """The ranking of every query, and the comparisons made on the way.

        Raises:
            ModelError: if the features are not those the model was trained on.
        """
        self.check_features(queries)
        return sort(self.comparator, self.scaler.when_read(queries))

    def order(self, queries: Queries) -> I64:
        """(n_docs,) document numbers query by query, the best first; as `sort` gives them."""
        return self.sort(queries).order

    def scores(self, queries: Queries) -> F32:
        """(n_docs,) the documents of a lower rank in the same query: n - 1 for the first, 0 last.

        A comparator need not come from a score; what it gives is an order, so this is the order.
        """
        order = self.order(queries)
        scores = np.empty(queries.n_docs, np.float32)
        last = np.repeat(queries.offsets[1:], queries.sizes) - 1
        scores[order] = last - np.arange(queries.n_docs)
        return scores

    def real_scores(self, queries: Queries) -> F32:
        """(n_docs,) the sum of g(x) where each comparator has one, else the mean margins.

        A sum of g(x) can be compared across queries where the scaling does not depend on the
        query. The order of a committee of nets is by margins, and may differ from that by the sum.

        Cost: one pass over the documents; see `mean_margins` for the others.
        """
        X = self.scaled(queries).features
        each = [net.scores(X) for net in self.comparator.members]
        scores = [g for g in each if g is not None]
        if len(scores) < len(each):
            return self.mean_margins(queries)
        total: F32 = np.sum(scores, axis=0, dtype=np.float32)
        return total

    def mean_margins(self, queries: Queries) -> F32:
        """(n_docs,) mean over the other documents j of its query of margin(i, j); 0 without others.

        They say nothing across queries. The order by them is that of the margins' signs where a
        margin is the difference of two scores; an intransitive comparator may sort otherwise.

        Cost: n^2 comparisons a query, 2^17 or n at a time.
        """
        comparator: Comparator = self.comparator
        prepared = comparator.prepare(self.scaled(queries).features)
        sizes = np.repeat(queries.sizes, queries.sizes)
        first = np.repeat(queries.offsets[:-1], queries.sizes)
        ends = np.append(0, np.cumsum(sizes))  # of each document's pairs
        means = np.zeros(queries.n_docs)
        for start, stop in runs_of_queries(ends, _PAIRS):
            begin, n = ends[start:stop] - ends[start], sizes[start:stop]
            i = np.repeat(np.arange(start, stop), n)
            j = np.arange(len(i)) + np.repeat(first[start:stop] - begin, n)
            margins = comparator.prefer(prepared, i, j).astype(np.float64)
            margins[i == j] = 0
            means[start:stop] = np.add.reduceat(margins, begin) / np.maximum(n - 1, 1)
        return means.astype(np.float32)

    def margins(self, queries: Queries, i: ArrayLike, j: ArrayLike) -> F32:
        """(m,) margins of documents i over documents j (document numbers): above 0, i goes first.

        With a scaling by the query (`query`, `zscore`, `rank`) a margin depends on the other
        documents of the query, see `depends_on_query`.
        """
        comparator: Comparator = self.comparator
        prepared = comparator.prepare(self.scaled(queries).features)
        return comparator.prefer(prepared, np.asarray(i), np.asarray(j))

    def votes(self, queries: Queries, i: int, j: int) -> list[dict[str, float]]:
        """What every comparator of the model says; CmpNN has two outputs besides its margin."""
        X = self.scaler(queries).features[[i, j]]
        nets: tuple[Any, ...] = self.comparator.members
        return [verdict for net in nets for verdict in net.verdicts(net.prepare(X), 0, 1)]

    def split_shares(self) -> F64 | None:
        shares = self.comparator.members[0].feature_shares()
        if shares is None:
            return None
        return np.bincount(self.scaler.sources, shares, self.n_features).astype(np.float64)

    def differentiable(self) -> Margin:
        from sortnet.comparators.base import margin_of
        from sortnet.comparators.make import trainable

        return margin_of(trainable(self.comparator))

    def repeatable(self, queries: Queries) -> tuple[Queries, Callable[[Queries], I64], I64]:
        # Scaled once for all: every scaling commutes with shuffling a feature within a query.
        scaled = self.scaler(queries)
        start = arrangement(scaled)

        def order(changed: Queries) -> I64:
            return sort(self.comparator, changed, start=start).order

        return scaled, order, self.scaler.sources

    def untrained(self) -> Model:
        """C0, the comparator of random weights that the first iteration sorted with."""
        from sortnet.comparators.make import make_comparator

        make = make_comparator(self.config, self.scaler.n_columns)
        return replace(self, comparator=make(self.config.seed))

    def order_before(self, queries: Queries) -> I64:
        return self.untrained().order(queries)

    def learned(self) -> dict[str, Array]:
        if isinstance(self.comparator, FittedTrees):
            return {f"{_TREES}{name}": array for name, array in self.comparator.weights.items()}
        from sortnet.rankers.weights import weights_of

        return weights_of(self.comparator, "comparator")

    def facts(self) -> dict[str, Any]:
        return {"comparator": self._kind_of_comparator(), **super().facts()}

    def _kind_of_comparator(self) -> str:
        if isinstance(self.comparator, FittedTrees):
            return "trees"
        from sortnet.comparators.make import kind_of

        return kind_of(self.comparator) or OWN

    @classmethod
    def load(cls, folder: str | Path, *, make: Make | None = None) -> Model:
        """Read a model folder.

        Args:
            folder: what `save` wrote.
            make: makes the comparator from a seed, where its architecture is the caller's own.

        Raises:
            ModelError: if a file is missing, damaged, foreign, of another kind of ranker (which
                `load_ranker` reads) or of another format version.
        """
        own: dict[str, Any] = {} if make is None else {"make_for": lambda config, n: make}
        found = load_ranker(folder, **own)
        if found.config.kind != Config.kind:
            raise ModelError(
                f"{folder}: a ranker of kind {found.config.kind!r}, which sortnet.load_ranker reads"
            )
        return cast(Model, found)


def as_model(ranker: Ranker, source: object) -> Model:
    """The ranker as a model that a run can begin with, see `fit`.

    Raises:
        ModelError: if it is of another kind than SortNet.
    """
    if not (isinstance(ranker, Model) and isinstance(ranker.config, Config)):
        # Nets that other losses train are models, too, of settings of their own.
        raise ModelError(
            f"{source}: a ranker of kind {name_of(ranker.config)} cannot be trained further; a "
            "model of kind sortnet can (trees, cmpnn, directranker, and committees of them)"
        )
    return ranker


def load(saved: Saved, *, make_for: MakeFor | None = None) -> Model:
    """The model in a folder, of a comparator of its settings, or of `make_for` as in `fit`."""
    config = saved.settings(Config)
    scaler = take_scaler(saved, str(config.scaling))
    comparator = _comparator(saved, config, scaler.n_columns, make_for)
    return Model(config, scaler, comparator, feature_names=saved.feature_names, info=saved.info)


def _comparator(saved: Saved, config: Config, n_columns: int, make_for: MakeFor | None) -> Learned:
    """The comparator in a folder: trees as arrays, else a net.

    Raises:
        ModelError: if its weights do not fit, or it is somebody's own and there is no `make_for`.
    """
    if make_for is None:
        if saved.about.get("comparator") == OWN:
            raise ModelError(f"{saved.path}: its comparator is somebody's own: give it as make=")
        if config.with_defaults.comparator == "trees" and not _has_several(saved):
            return _take_trees(saved, config, n_columns)
    from sortnet.comparators.make import least_numbers, make_comparator
    from sortnet.rankers.weights import filled, refuse_few

    if make_for is None:
        refuse_few(saved.tensors, least_numbers(config, n_columns), saved.weights)
    make = (make_for or make_comparator)(config, n_columns)
    return filled(make, "comparator", saved.tensors, saved.weights)


def _has_several(saved: Saved) -> bool:
    """Whether the folder has the weights of several nets, as version 0.2 saved a committee."""
    return any(name.startswith("comparator.1.") for name in saved.tensors)


def _take_trees(saved: Saved, config: Config, n_columns: int) -> FittedTrees:
    flat = config.with_defaults.flat()
    committee = int(flat["committee"])
    weights = {
        name: take(saved.tensors, f"{_TREES}{name}", np.float32, shape, saved.weights)
        for name, shape in weight_shapes(
            n_columns, committee, int(flat["trees"]), int(flat["depth"])
        ).items()
    }
    return FittedTrees(committee, weights)
