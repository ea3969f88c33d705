"""From labelled queries to a model: scale, run Algorithm 3.1, keep the best comparator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sortnet import __version__
from sortnet.comparators import Make, make_comparator
from sortnet.config import Config, settle_quality
from sortnet.data.scaling import Scaler, fit_scaler
from sortnet.errors import DataError
from sortnet.learning.loop import Callback, Iteration, State, learn_to_sort
from sortnet.learning.weight_decay import settle_weight_decay
from sortnet.metrics import MEASURED
from sortnet.rankers.model import Model
from sortnet.types import PairSink, Progress, Queries


def learn(
    train: Queries,
    vali: Queries,
    config: Config | None = None,
    *,
    make: Make | None = None,
    sink: PairSink | None = None,
    callbacks: Sequence[Callback] = (),
    save: Callable[[Model], None] | None = None,
    progress: Progress = lambda text: None,
    state: State | None = None,
    info: Mapping[str, Any] | None = None,
) -> Model:
    """Learn to sort the queries of `train`; `vali` chooses epoch and iteration.

    Args:
        train: labelled queries; scaling and pairs are learned from them.
        vali: labelled queries with the same features.
        config: settings; RankQuality and weight decay, left open, are chosen first, see
            `settle_quality` and `settle_weight_decay`.
        make: makes the comparator from a seed, for one of the caller's own.
        sink: where mis-compared pairs go; in memory when left out.
        callbacks: see `learn_to_sort`.
        save: called with the model whenever an iteration found a better one, before `callbacks`.
        progress: told what is going on, as text.
        state: go on from here.
        info: what the model should remember of its origin.

    Raises:
        DataError: if the parts have different features, there is nothing to learn, or RankQuality
            scores every ranking of `vali` alike.

    >>> import numpy as np
    >>> X = np.arange(12, dtype=np.float32)[:, None]
    >>> q = Queries.from_arrays(X, X[:, 0] % 6, group=[6, 6])
    >>> model = learn(q, q, Config(quality="ndcg@10"))
    >>> model.scores(q)[:6]
    array([0., 1., 2., 3., 4., 5.], dtype=float32)

    Cost: see `learn_to_sort`; one scaled copy of the features is kept.
    """
    config = Config() if config is None else config
    check_same_features(train, vali)
    config = settle_quality(train, vali, config)
    config = settle_weight_decay(train, vali, config, make=make, progress=progress)
    scaler = fit_scaler(config.scaling, train, seed=config.seed)

    def model_of(state: State) -> Model:
        return _model_of(state, config, scaler, train.feature_names, info)

    def save_better(record: Iteration, state: State) -> None:
        if save is not None and record.best:
            save(model_of(state))

    state = learn_to_sort(
        scaler(train),
        scaler(vali),
        make or make_comparator(config, train.n_features),
        quality=config.rank_quality,
        metrics=[config.metric(name) for name in MEASURED],
        empty=config.empty,
        training=config.training,
        max_iter=config.max_iter,
        max_stale=config.max_stale,
        warm_start=config.warm_start,
        sink=sink,
        callbacks=[save_better, *callbacks],
        progress=progress,
        state=state,
        seed=config.seed,
    )
    return model_of(state)


def check_same_features(train: Queries, vali: Queries) -> None:
    """Refuse two parts whose features differ."""
    if train.n_features != vali.n_features:
        raise DataError(
            f"{train.source} has {train.n_features} features, {vali.source} {vali.n_features}"
        )
    if None not in (train.feature_names, vali.feature_names) and (
        train.feature_names != vali.feature_names
    ):
        raise DataError(f"{train.source} and {vali.source} name their features differently")


def _model_of(
    state: State,
    config: Config,
    scaler: Scaler,
    feature_names: tuple[str, ...] | None,
    info: Mapping[str, Any] | None,
) -> Model:
    if state.best is None:
        raise DataError("no iteration has a RankQuality: does the validation part have grades?")
    found = {
        "sortnet": __version__,
        "iteration": state.best_iteration,
        "iterations": state.iteration,
        "quality": state.best_quality,
    }
    return Model(config, scaler, state.best, feature_names, {**found, **(info or {})})
