"""SortNet as a ranker: scale, run Algorithm 3.1, keep the best comparator, sort with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from sortnet import __version__
from sortnet.comparators.make import MakeFor, fitted, make_comparator
from sortnet.config import Config, choose_quality
from sortnet.core import PairSink, Progress, Queries
from sortnet.core.memory import return_freed
from sortnet.core.shard import Alone, Group, sharded
from sortnet.data.scaling import Scaler, fit_scaler
from sortnet.errors import DataError
from sortnet.learning.distributed import broadcast
from sortnet.learning.iterations import Callback, Iteration, State
from sortnet.learning.judges import check_can_be_learned
from sortnet.learning.loop import learn_to_sort
from sortnet.metrics import measured
from sortnet.rankers.choose_inputs import choose
from sortnet.rankers.fit_ranker import check_same_features
from sortnet.rankers.from_model import checked_settings, first_comparator, with_epochs
from sortnet.rankers.model import Model, as_model

__all__ = ["ALONE", "Model", "as_model", "checked_config", "fit"]

ALONE = Alone()


def fit(
    train: Queries,
    vali: Queries,
    config: Config | None = None,
    *,
    make_for: MakeFor | None = None,
    sink: PairSink | None = None,
    extra_parts: Mapping[str, Queries] | None = None,
    metrics: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
    save: Callable[[Model], None] | None = None,
    progress: Progress = lambda text: None,
    state: State | None = None,
    info: Mapping[str, Any] | None = None,
    group: Group = ALONE,
    from_model: Model | None = None,
    are_checked: bool = False,
) -> Model:
    """Learn to sort the queries of `train`; `vali` chooses epoch and iteration.

    Args:
        train: labelled queries; scaling and pairs are learned from them.
        vali: labelled queries with the same features.
        config: settings; settings left open are chosen first, see `choose_quality` and
            `choose_inputs`.
        make_for: for a custom comparator: the settings and the scaling's number of columns -> a
            function that makes the comparator from a seed.
        sink: store of mis-compared pairs; by default in memory.
        extra_parts: more queries, measured in every iteration under these names.
        metrics: more measures, besides RankQuality and `sortnet.metrics.measured`.
        callbacks: see `learn_to_sort`.
        save: called with the model after every iteration that found a better model, before
            `callbacks`.
        state: state of an interrupted run to resume from.
        info: entries to add to the model's `info`.
        group: the processes that share the work. All processes call `fit` with the same arguments;
            only the first process calls `save`.
        from_model: begin with the weights and the scaling of this model in place of random
            weights: for new queries, new answers or more training. The model itself is iteration 0,
            which is kept if no later iteration is better on `vali`. The settings must fit the
            model: `settings_from_model` gives such settings.
        are_checked: whether `checked_config` has already checked these parts and settings.

    Raises:
        DataError: if the parts have different features, there is nothing to learn, RankQuality
            scores every ranking of `vali` alike, or the settings do not fit `from_model`.
        ModelError: if the features are not those of `from_model`.

    >>> import numpy as np
    >>> X = np.arange(12, dtype=np.float32)[:, None]
    >>> q = Queries.from_arrays(X, X[:, 0] % 6, group=[6, 6])
    >>> model = fit(q, q, Config(scaling="query", max_iter=2))
    >>> model.scores(q)[:6]
    array([0., 1., 2., 3., 4., 5.], dtype=float32)

    Cost: see `learn_to_sort`. A scaled copy of the features is kept, in float16 if the training
    part would take more than 256 MiB in float32, see `Scaler.is_large`.
    """
    if from_model is not None:
        config = checked_settings(from_model.config, config)
        for part in (train, vali):
            from_model.check_features(part)
    config = Config() if config is None else config
    if not are_checked:
        config = checked_config(train, vali, config)
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

    # The whole part decides, so that the result does not depend on the number of processes.
    halved = scaler.is_large(train)

    def part_of(queries: Queries) -> Queries:
        return scaler(sharded(queries, group), halved=halved)

    first_callbacks = [save_better, _return_freed_memory] if halved else [save_better]
    state = learn_to_sort(
        part_of(train),
        part_of(vali),
        (make_for or make_comparator)(config, scaler.n_columns),
        config,
        metrics=[config.metric(name) for name in (*measured(config.rank_quality), *metrics)],
        sink=sink,
        extra_parts={name: part_of(part) for name, part in (extra_parts or {}).items()},
        callbacks=[*first_callbacks, *callbacks],
        progress=progress,
        state=state,
        are_checked=True,
    )
    return model_of(state)


def _return_freed_memory(record: Iteration, state: State) -> None:
    return_freed()


def checked_config(train: Queries, vali: Queries, config: Config) -> Config:
    """Check the training and validation queries; return the settings with a RankQuality.

    Raises:
        DataError: if the parts have different features, there is nothing to learn, or RankQuality
            scores every ranking of `vali` alike. Pairs that a judge will answer are checked later.
    """
    check_same_features(train, vali)
    if train.judge is None:
        check_can_be_learned(train)
    return choose_quality(train, vali, config)


def _model_of(
    state: State, config: Config, scaler: Scaler, train: Queries, info: Mapping[str, Any] | None
) -> Model:
    """The best model of a run, with a record of the run."""
    if state.best is None:
        raise DataError("no iteration has a RankQuality: does the validation part have grades?")
    record = {
        "sortnet": __version__,
        "iteration": state.best_iteration,
        "iterations": state.iteration,
        "quality": state.best_quality,
        "answers": len(state.asked),
        **(info or {}),
    }
    return Model(
        config,
        scaler,
        fitted(state.best),
        feature_names=train.feature_names,
        describer=train.describer,
        columns=train.columns,
        info=record,
    )
