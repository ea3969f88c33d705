"""SortNet as a ranker: scale the features, run Algorithm 3.1, and keep the best comparator.

Settings that are None follow from the training data, or from the model that a run begins with. The
weights of a model fit only its inputs and its architecture, so such a run has the model's scaling,
comparator and features. It also has the model's seed and weight decay, unless the caller sets
others.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from sortnet import __version__
from sortnet.comparators import SoftTrees, TrainableComparator
from sortnet.comparators.make import MakeFor, make_comparator, resolve_device
from sortnet.config import COMPARATOR, Config, choose_quality, own_settings
from sortnet.core import F64, Bool, PairSink, Progress, Queries
from sortnet.core.memory import return_freed
from sortnet.core.shard import ALONE, Group
from sortnet.data.scaling import Scaler, any_missing, fit_scaler
from sortnet.errors import DataError
from sortnet.learning.iterations import Callback, Iteration, State
from sortnet.learning.judges import check_can_be_learned
from sortnet.learning.loop import learn_to_sort
from sortnet.learning.step_budget import MOST_OF_RUN, MOST_OF_TRAINING, Budget, default_epochs
from sortnet.metrics import measured
from sortnet.rankers.fit_ranker import check_same_features
from sortnet.rankers.model import Model

# Trained weights fit only a comparator that is made with the same values of these settings. Dropout
# is a part of the comparator, though the help lists dropout among the settings of the training.
_WEIGHT_SETTINGS = (*(s.name for s in own_settings(Config) if s.section == COMPARATOR), "dropout")

_WITHIN_QUERY = "query+rank"
_EVERYTHING = "query+rank+normal"
_WEIGHT_DECAY_OF_JUDGED = 0.1
_MOST_VALUES = 1 << 22  # values of features that are looked at, which bounds memory
_FEWEST_QUERIES = 5  # fewer queries may have the same statistics by chance
_FEWEST_VALUES = 10  # a feature of fewer values may have the same extremes in all queries
_TOLERANCE = 1e-3  # as numbers in files are rounded
_MOST = 0.9  # largest share of the features


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


def settings_from_model(learned: Config, **changes: Any) -> Config:
    """Make the settings of a run that begins with the weights of a model.

    Args:
        learned: the settings of the model to begin with.
        changes: settings of the run by name. The scaling and the settings of the comparator must be
            the settings of the model. All other settings have their usual defaults, but the default
            of the seed and of the weight decay is the model's value.

    Raises:
        DataError: if a setting does not fit the weights of the model, if it begins trainings from
            random weights, or if a name is no setting.
    """
    config = Config().changed(**changes)
    run_settings = config.flat()
    _refuse_unfit({name: run_settings[name] for name in changes}, learned)
    flat = learned.with_defaults.flat()
    defaults = {name: flat[name] for name in ("seed", "weight_decay")}
    model_settings = {name: flat[name] for name in _WEIGHT_SETTINGS}
    return config.changed(**{**defaults, **changes, **model_settings})


def _refuse_unfit(run_settings: Mapping[str, Any], learned: Config) -> None:
    """Raise a DataError if a setting of the run does not fit the weights of the model.

    Args:
        run_settings: settings of the run by name; a setting that is None fits.
        learned: the settings of the model.
    """
    if run_settings.get("start") == "fresh":
        raise DataError(
            "start=fresh begins each training from random weights, and the run is to begin with "
            "those of a model: leave it out"
        )
    model_settings = learned.with_defaults.flat()
    for name in _WEIGHT_SETTINGS:
        value = run_settings.get(name)
        value_of_model = model_settings[name]
        if value is not None and value != value_of_model:
            model_property = f"has {name} {_as_text(value_of_model)}"
            if value_of_model is None:
                model_property = f"has no {name}"
            raise DataError(
                f"{name} {_as_text(value)} does not fit the model to begin with, "
                f"which {model_property}: leave {name} out"
            )


def checked_settings(learned: Config, config: Config | None) -> Config:
    """Check that a run with these settings can begin with a model's weights.

    Args:
        learned: the settings of the model to begin with.
        config: the settings of the run; None: take the settings of `settings_from_model`.

    Returns:
        The settings of the run, with the model's scaling.

    Raises:
        DataError: if the settings are for another comparator or scaling, or begin trainings from
            random weights.
    """
    if config is None:
        return settings_from_model(learned)
    run_settings = config.with_defaults.flat() | {"scaling": config.scaling}
    _refuse_unfit(run_settings, learned)
    return config.changed(scaling=learned.with_defaults.scaling)


def with_share_of_epochs(config: Config, train: Queries, share: float) -> Config:
    """Set the number of epochs to a share of the number that a run from random weights has."""
    epochs = config.training.epochs
    if epochs is None:
        most = MOST_OF_RUN if config.trainings > 1 else MOST_OF_TRAINING
        steps_of_epoch = Budget.of(train, config).epoch
        epochs = default_epochs(train.n_docs, steps_of_epoch, most)
    return config.changed(epochs=math.ceil(epochs * share))


def with_epochs(train: Queries, config: Config) -> Config:
    """Set the number of epochs, if it is None, to half of the default of a run from random weights.

    In experiments with the same learning rate, half of the epochs were as good as all epochs.
    """
    if config.training.epochs is not None:
        return config
    return with_share_of_epochs(config, train, 0.5)


def first_comparator(trained: TrainableComparator, config: Config) -> TrainableComparator:
    """Copy the trained comparator of a model to the device of a run."""
    comparator = copy.deepcopy(trained)
    for member in comparator.members:
        if not isinstance(member, SoftTrees):
            member.to(resolve_device(config.device))
    return comparator


def _as_text(value: Any) -> str:
    """Write the value of a setting as it is typed on the command line."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value)


def complete_settings(config: Config, train: Queries) -> Config:
    """Give a value to every setting that is None, but RankQuality.

    Comparators learn from the paper's equation 5, ranks within the query, and normal deviates of
    each feature's quantiles (`query+rank+normal`), and from a column that marks missing values. If
    the features are scaled within each query, quantiles over all queries mean nothing, and they
    learn from `query+rank`. Judged pairs, which are few, need a stronger weight decay than grades.

    Args:
        config: the settings.
        train: the training queries, not scaled.

    >>> X = np.linspace(0, 1, 20, dtype=np.float32)[:, None]
    >>> twice = Queries.from_arrays(np.tile(X, (5, 1)), group=[20] * 5)
    >>> complete_settings(Config(), twice).scaling
    'query+rank'
    >>> by_row = Queries.from_arrays(np.arange(100, dtype=np.float32)[:, None], group=[20] * 5)
    >>> complete_settings(Config(), by_row).scaling
    'query+rank+normal'

    Cost: a pass over at most four million values of features.
    """
    changes: dict[str, object] = {}
    if config.scaling is None:
        inputs = _WITHIN_QUERY if are_scaled_within_queries(train) else _EVERYTHING
        changes["scaling"] = inputs + ("+missing" if any_missing(train.features) else "")
    if config.training.weight_decay is None and train.judged is not None:
        changes["weight_decay"] = _WEIGHT_DECAY_OF_JUDGED
    return config.changed(**changes).with_defaults


def are_scaled_within_queries(queries: Queries) -> bool:
    """Check whether the features of each query were scaled to the same range or deviation.

    Then nine of ten features have the same least and greatest value in all queries in which they
    vary, or the same mean and standard deviation. Such data are the collections of LETOR. Only
    features with many values count.
    """
    n_docs_to_see = _MOST_VALUES // max(queries.n_features, 1)
    n_queries = int(np.searchsorted(queries.offsets, n_docs_to_see))
    sample = queries.take(np.flatnonzero(queries.sizes[:n_queries] > 1))
    if len(sample) < _FEWEST_QUERIES:
        return False
    X = sample.features.astype(np.float64)
    starts = sample.offsets[:-1]
    n_docs = sample.sizes[:, None]
    least = np.minimum.reduceat(X, starts)
    greatest = np.maximum.reduceat(X, starts)
    mean = np.add.reduceat(X, starts) / n_docs
    variance = np.add.reduceat((X - mean.repeat(sample.sizes, axis=0)) ** 2, starts) / n_docs
    varies = greatest > least  # False if a value is missing
    # Scaled features are not much larger than 1, but a far sentinel makes the deviation large.
    tolerance = _TOLERANCE * np.minimum(X.std(axis=0), 1)
    same_range = _are_same(least, varies, tolerance) & _are_same(greatest, varies, tolerance)
    deviation = np.sqrt(variance)
    same_deviation = _are_same(mean, varies, tolerance) & _are_same(deviation, varies, tolerance)
    counts = np.count_nonzero(varies, axis=0) >= _FEWEST_QUERIES
    counts &= np.array([len(np.unique(column)) > _FEWEST_VALUES for column in X.T], np.bool_)
    return bool(counts.any() and (same_range | same_deviation)[counts].mean() >= _MOST)


def _are_same(statistic: F64, counts: Bool, tolerance: F64) -> Bool:
    """Check for each feature whether a statistic, (n_queries, d), is the same where it counts."""
    spread = np.max(statistic, axis=0, where=counts, initial=-np.inf)
    spread -= np.min(statistic, axis=0, where=counts, initial=np.inf)
    same: Bool = spread <= tolerance
    return same
