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
from sortnet.rankers.base import check_same_features
from sortnet.rankers.choose_inputs import choose
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
        config: settings; what they leave open is chosen first, see `choose_quality` and
            `choose_inputs`.
        make_for: the settings and the scaling's number of columns -> what makes the comparator
            from a seed, for one of the caller's own.
        sink: where mis-compared pairs go; in memory when left out.
        extra_parts: more queries, measured in every iteration by these names.
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
        are_checked: whether `checked_config` has had these parts and settings.

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

    Cost: see `learn_to_sort`; one scaled copy of the features is kept, in float16 where the
    training part's would take more than 256 MiB in float32, see `Scaler.is_large`.
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

    halved = scaler.is_large(train)  # the whole part, whatever the number of processes

    def part_of(queries: Queries) -> Queries:
        return scaler(sharded(queries, group), halved=halved)

    state = learn_to_sort(
        part_of(train),
        part_of(vali),
        (make_for or make_comparator)(config, scaler.n_columns),
        config,
        metrics=[config.metric(name) for name in (*measured(config.rank_quality), *metrics)],
        sink=sink,
        extra_parts={name: part_of(part) for name, part in (extra_parts or {}).items()},
        callbacks=[save_better, *_after_iterations_of(halved), *callbacks],
        progress=progress,
        state=state,
        are_checked=True,
    )
    return model_of(state)


def _after_iterations_of(large: bool) -> list[Callback]:
    return [lambda record, state: return_freed()] if large else []


def checked_config(train: Queries, vali: Queries, config: Config) -> Config:
    """The settings with a RankQuality, for parts that can be trained on and chosen by.

    Raises:
        DataError: if the parts have different features, there is nothing to learn, or RankQuality
            scores every ranking of `vali` alike. What a judge is yet to answer is checked later.
    """
    check_same_features(train, vali)
    if train.judge is None:
        check_can_be_learned(train)
    return choose_quality(train, vali, config)


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
        fitted(state.best),
        feature_names=train.feature_names,
        describer=train.describer,
        columns=train.columns,
        info=about,
    )
