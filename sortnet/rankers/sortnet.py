"""SortNet as a ranker: scale the features, run Algorithm 3.1, and keep the best comparator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from sortnet import __version__
from sortnet.comparators.make import MakeFor, make_comparator
from sortnet.config import Config, choose_quality
from sortnet.core import PairSink, Progress, Queries
from sortnet.core.memory import return_freed
from sortnet.core.shard import ALONE, Group
from sortnet.data.scaling import Scaler, fit_scaler
from sortnet.errors import DataError
from sortnet.learning.iterations import Callback, Iteration, State
from sortnet.learning.judges import check_can_be_learned
from sortnet.learning.loop import learn_to_sort
from sortnet.metrics import measured
from sortnet.rankers.complete_settings import complete_settings
from sortnet.rankers.fit_ranker import check_same_features
from sortnet.rankers.from_model import checked_settings, first_comparator, with_epochs
from sortnet.rankers.model import Model, as_model

__all__ = ["ALONE", "Model", "as_model", "checked_config", "fit"]


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
    keep_last: bool = False,
) -> Model:
    """Learn to sort the queries of `train`; the best epoch and iteration are chosen by `vali`.

    Args:
        train: labelled queries; the scaling and the comparator are learned from them.
        vali: labelled queries with the same features.
        config: settings; settings that are None get values first, see `choose_quality` and
            `complete_settings`.
        make_for: makes a custom comparator: function (settings, number of columns of the scaling)
            -> function that makes the comparator from a seed.
        sink: store of mis-compared pairs; None: the pairs are kept in memory.
        extra_parts: {name: queries} that are also measured in every iteration.
        metrics: names of measures, in addition to RankQuality and `sortnet.metrics.measured`.
        callbacks: functions that are called after every iteration, see `learn_to_sort`.
        save: called with the model after every iteration that found a better model, before
            `callbacks`.
        progress: called with a line of text at each step.
        state: state of an interrupted run, which is resumed.
        info: entries to add to the model's `info`.
        group: the processes that share the work. All processes call `fit` with the same arguments;
            only the first process calls `save`.
        from_model: begin with the weights and the scaling of this model in place of random
            weights: for new queries, new answers or more training. The model itself is iteration 0,
            which is kept if no later iteration is better on `vali`. The settings must fit the
            model: `settings_from_model` gives such settings.
        are_checked: whether `checked_config` has already checked these parts and settings.
        keep_last: whether the last iteration is kept, not the best on `vali`: for validation
            queries that are among the training queries.

    Raises:
        DataError: if the parts have different features, if there is nothing to learn, if
            RankQuality gives every ranking of `vali` the same score, or if the settings do not fit
            `from_model`.
        ModelError: if the features are not the features of `from_model`.

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
    config = complete_settings(config, train)

    if from_model is None:
        scaler = fit_scaler(str(config.scaling), train, seed=config.seed)
    else:
        scaler = from_model.scaler
        config = with_epochs(train, config)
        if state is None:
            state = State(0, first_comparator(from_model.comparator, config), is_trained=True)
        info = {"from": {"run": from_model.info.get("run")}, **(info or {})}

    halved = scaler.is_large(train)

    best_model = partial(_best_model, config=config, scaler=scaler, train=train, info=info)

    def iteration_ended(record: Iteration, state: State) -> None:
        """Save the best model so far if the iteration found it; give freed memory back."""
        if save is not None and record.best and group.rank == 0:
            save(best_model(state))
        if halved:
            return_freed()

    metric_names = [*measured(config.rank_quality), *metrics]
    state = learn_to_sort(
        scaler(train, halved=halved),
        scaler(vali, halved=halved),
        (make_for or make_comparator)(config, scaler.n_columns),
        config,
        metrics=[config.metric(name) for name in metric_names],
        sink=sink,
        extra_parts={
            name: scaler(part, halved=halved) for name, part in (extra_parts or {}).items()
        },
        # Saving comes before the user's callbacks, which may read the saved model.
        callbacks=[iteration_ended, *callbacks],
        progress=progress,
        state=state,
        group=group,
        are_checked=True,
        keep_last=keep_last,
    )
    return best_model(state)


def checked_config(train: Queries, vali: Queries, config: Config) -> Config:
    """Check the training and validation queries, and choose the setting `quality` if it is None.

    `quality` names RankQuality, the measure that chooses the best iteration; see `choose_quality`.
    Pairs that a judge will answer are checked later.

    Returns:
        The settings, in which `quality` is not None.

    Raises:
        DataError: if the parts have different features, if there is nothing to learn, or if
            RankQuality gives every ranking of `vali` the same score.
    """
    check_same_features(train, vali)
    if train.judge is None:
        check_can_be_learned(train)
    return choose_quality(train, vali, config)


def _best_model(
    state: State, config: Config, scaler: Scaler, train: Queries, info: Mapping[str, Any] | None
) -> Model:
    """Make a model of the best comparator of a run, with a record of the run.

    Args:
        state: the state of the run, with its best comparator so far.
        config: the settings of the run.
        scaler: the scaling of the features.
        train: the training queries, which name the features.
        info: further entries of the record.

    Raises:
        DataError: if no iteration has a RankQuality.
    """
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
        state.best,
        feature_names=train.feature_names,
        describer=train.describer,
        columns=train.columns,
        info=record,
    )
