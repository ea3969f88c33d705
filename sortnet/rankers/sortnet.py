"""SortNet as a ranker: scale, run Algorithm 3.1, keep the best comparator, sort with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from sortnet import __version__
from sortnet.comparators import (
    Learner,
    Make,
    MakeFor,
    Margin,
    SoftTrees,
    kind_of,
    make_comparator,
    margin_of,
)
from sortnet.comparators.make import least_numbers
from sortnet.config import Config, choose_quality
from sortnet.data.scaling import Scaler, fit_scaler
from sortnet.errors import DataError, ModelError
from sortnet.learning.distributed import broadcast
from sortnet.learning.iterations import Callback, Iteration, State
from sortnet.learning.loop import learn_to_sort
from sortnet.metrics import measured
from sortnet.rankers.base import Ranker, check_same_features, load_ranker, name_of
from sortnet.rankers.choose_defaults import choose
from sortnet.rankers.folder import Saved
from sortnet.rankers.from_model import checked_settings, first_comparator, with_epochs
from sortnet.rankers.weights import filled, refuse_few, take_scaler, tensors_of
from sortnet.sorting import sort
from sortnet.sorting.sort import arrangement
from sortnet.types import F32, F64, I64, Comparator, PairSink, Progress, Queries, Sorting
from sortnet.types.memory import return_freed, runs_of_queries
from sortnet.types.shard import Alone, Group, sharded

ALONE = Alone()
_PAIRS = 1 << 17  # compared at a time, so that the hidden units of a pair stay small
OWN = "own"  # a comparator that is neither of ours


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
    comparator: Learner

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
        each = [net.score(net.prepare(X)) for net in self.comparator.members]
        found = [g.cpu().numpy() for g in each if g is not None]
        if len(found) < len(each):
            return self.mean_margins(queries)
        total: F32 = np.sum(found, axis=0, dtype=np.float32)
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
        nets = self.comparator.members
        return [verdict for net in nets for verdict in net.verdicts(net.prepare(X), 0, 1)]

    def split_shares(self) -> F64 | None:
        net = self.comparator.members[0]
        if not isinstance(net, SoftTrees):
            return None
        shares = net.feature_shares().double().cpu().numpy()
        return np.bincount(self.scaler.sources, shares, self.n_features).astype(np.float64)

    def differentiable(self) -> Margin:
        return margin_of(self.comparator)

    def repeatable(self, queries: Queries) -> tuple[Queries, Callable[[Queries], I64], I64]:
        # Scaled once for all: every scaling commutes with shuffling a feature within a query.
        scaled = self.scaler(queries)
        start = arrangement(scaled)

        def order(changed: Queries) -> I64:
            return sort(self.comparator, changed, start=start).order

        return scaled, order, self.scaler.sources

    def untrained(self) -> Model:
        """C0, the comparator of random weights that the first iteration sorted with."""
        make = make_comparator(self.config, self.scaler.n_columns)
        return replace(self, comparator=make(self.config.seed))

    def order_before(self, queries: Queries) -> I64:
        return self.untrained().order(queries)

    def learned(self) -> dict[str, Tensor]:
        return tensors_of(self.comparator, "comparator")

    def facts(self) -> dict[str, Any]:
        comparator = kind_of(self.comparator) or OWN
        return {"comparator": comparator, **super().facts()}

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
    if make_for is None:
        if saved.about.get("comparator") == OWN:
            raise ModelError(f"{saved.path}: its comparator is somebody's own: give it as make=")
        refuse_few(saved.tensors, least_numbers(config, scaler.n_columns), saved.weights)
    make = (make_for or make_comparator)(config, scaler.n_columns)
    learner = filled(make, "comparator", saved.tensors, saved.weights)
    return Model(config, scaler, learner, feature_names=saved.feature_names, info=saved.info)


def fit(
    train: Queries,
    vali: Queries,
    config: Config | None = None,
    *,
    make_for: MakeFor | None = None,
    sink: PairSink | None = None,
    others: Mapping[str, Queries] | None = None,
    metrics: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
    save: Callable[[Model], None] | None = None,
    progress: Progress = lambda text: None,
    state: State | None = None,
    info: Mapping[str, Any] | None = None,
    group: Group = ALONE,
    from_model: Model | None = None,
) -> Model:
    """Learn to sort the queries of `train`; `vali` chooses epoch and iteration.

    Args:
        train: labelled queries; scaling and pairs are learned from them.
        vali: labelled queries with the same features.
        config: settings; what they leave open is chosen first, see `choose_quality` and
            `choose_defaults`.
        make_for: the settings and the scaling's number of columns -> what makes the comparator
            from a seed, for one of the caller's own.
        sink: where mis-compared pairs go; in memory when left out.
        others: more queries, measured in every iteration by these names.
        metrics: more measures, besides RankQuality and `sortnet.metrics.measured`.
        callbacks: see `learn_to_sort`.
        save: called with the model whenever an iteration found a better one, before `callbacks`.
        state: go on from here.
        info: what the model should remember of its origin.
        group: the processes that share the work; all call this with the same arguments, of which
            the first one's `save` alone is called.
        from_model: begin with the weights and the scaling of this model in place of random
            weights: for new queries, new answers or more training. The model itself is iteration 0,
            which is kept if no later one is better on `vali`. The settings must fit the model:
            `settings_from_model` gives such settings.

    Raises:
        DataError: if the parts have different features, there is nothing to learn, RankQuality
            scores every ranking of `vali` alike, or the settings do not fit `from_model`.
        ModelError: if the features are not those of `from_model`.

    >>> X = np.arange(12, dtype=np.float32)[:, None]
    >>> q = Queries.from_arrays(X, X[:, 0] % 6, group=[6, 6])
    >>> model = fit(q, q, Config(scaling="query", max_iter=2))
    >>> model.scores(q)[:6]
    array([0., 1., 2., 3., 4., 5.], dtype=float32)

    Cost: see `learn_to_sort`; one scaled copy of the features is kept, of a byte for each value
    where the training part's would take more than 256 MiB, see `Scaler.codebook`.
    """
    if from_model is not None:
        config = checked_settings(from_model.config, config)
        for part in (train, vali):
            from_model.check_features(part)
    config = Config() if config is None else config
    check_same_features(train, vali)
    config = choose_quality(train, vali, config)
    if group.rank == 0:
        config = choose(train, vali, config, make_for=make_for, progress=progress)[0]
    if group.size > 1:
        config = Config.from_json(broadcast(group, config.to_json()))
    if from_model is None:
        scaler = fit_scaler(str(config.scaling), train, seed=config.seed)
    else:
        config = with_epochs(train, config)
        scaler = from_model.scaler
        state = state or State(0, first_comparator(from_model.comparator, config), is_trained=True)
        info = {"from": {"run": from_model.info.get("run")}, **(info or {})}

    model_of = partial(_model_of, config=config, scaler=scaler, train=train, info=info)

    def save_better(record: Iteration, state: State) -> None:
        if save is not None and record.best and group.rank == 0:
            save(model_of(state))

    # Of the whole training part, so that the bins do not depend on the number of processes.
    codebook = scaler.codebook(train, seed=config.seed)
    if codebook is not None:
        return_freed()

    def part_of(queries: Queries) -> Queries:
        return scaler(sharded(queries, group), codebook)

    state = learn_to_sort(
        part_of(train),
        part_of(vali),
        (make_for or make_comparator)(config, scaler.n_columns),
        config,
        metrics=[config.metric(name) for name in (*measured(config.rank_quality), *metrics)],
        sink=sink,
        others={name: part_of(part) for name, part in (others or {}).items()},
        callbacks=[save_better, *callbacks],
        progress=progress,
        state=state,
    )
    return model_of(state)


def _model_of(
    state: State, config: Config, scaler: Scaler, train: Queries, info: Mapping[str, Any] | None
) -> Model:
    if state.best is None:
        raise DataError("no iteration has a RankQuality: does the validation part have grades?")
    found = {
        "sortnet": __version__,
        "iteration": state.best_iteration,
        "iterations": state.iteration,
        "quality": state.best_quality,
        "answers": len(state.asked),
    }
    about = {**found, **(info or {})}
    return Model(
        config,
        scaler,
        state.best,
        feature_names=train.feature_names,
        describer=train.describer,
        columns=train.columns,
        info=about,
    )
