"""Fit a ranker of any kind."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

from sortnet.config import Config, Settings, choose_quality
from sortnet.core import Progress, Queries
from sortnet.data.scaling import fit_scaler, unscaled
from sortnet.errors import DataError
from sortnet.learning.judges import check_can_be_learned
from sortnet.rankers.base import Ranker
from sortnet.rankers.registry import kinds_of_pairs, name_of

_LOOP = "sortnet.rankers.sortnet"  # module with the `fit` of SortNet


def fit_ranker(
    train: Queries,
    vali: Queries,
    config: Settings,
    *,
    progress: Progress = lambda text: None,
    **loop_arguments: Any,
) -> Ranker:
    """Fit the kind of ranker that the settings belong to.

    Args:
        train: labelled queries, not scaled.
        vali: labelled queries with the same features; settings and epochs are chosen by them.
        config: settings; if RankQuality is None, it is chosen first by `choose_quality`.
        progress: called with a line of text at each step.
        loop_arguments: arguments that only `sortnet.rankers.sortnet.fit` has, such as `callbacks`.

    Raises:
        DataError: if the parts have different features, if RankQuality gives every ranking of
            `vali` the same score, or if the ranker cannot learn from `train`: no query has
            documents of two grades, or there are judged pairs or weights that it does not take.

    >>> import numpy as np
    >>> from sortnet.config import Config
    >>> X = np.arange(12, dtype=np.float32)[:, None]
    >>> q = Queries.from_arrays(X, X[:, 0] % 6, group=[6, 6])
    >>> fit_ranker(q, q, Config(scaling="query", max_iter=2)).order(q)[:6].tolist()
    [5, 4, 3, 2, 1, 0]
    """
    ranker: Ranker
    if config.kind == Config.kind:
        ranker = import_module(_LOOP).fit(train, vali, config, progress=progress, **loop_arguments)
    else:
        check_same_features(train, vali)
        config = choose_quality(train, vali, config)
        ranker = _fit_candidates(train, vali, config, progress=progress, **loop_arguments)
    info = dict(ranker.info)
    if "quality" not in info:
        info = {"quality": config.quality_of(vali, ranker.order(vali)), **info}
    return replace(ranker, info=info, describer=train.describer, columns=train.columns)


def _fit_candidates(train: Queries, vali: Queries, config: Any, *, progress: Progress) -> Ranker:
    """Fit a ranker for each candidate of the settings; return the best ranker by RankQuality."""
    check_graded(train, config)
    rankers = list[Ranker]()
    for candidate in config.candidates(train):
        scaling = candidate.flat().get("scaling")
        if scaling is None:
            scaler = unscaled(train.n_features, train.origins)
        else:
            scaler = fit_scaler(scaling, train, seed=config.seed)
        learned, info = candidate.solve(scaler(train), scaler(vali), progress)
        ranker = candidate.ranker(
            candidate, scaler, learned, feature_names=train.feature_names, info=info
        )
        rankers.append(ranker)
    if len(rankers) == 1:
        return rankers[0]
    return max(rankers, key=lambda ranker: config.quality_of(vali, ranker.order(vali)))


def check_graded(train: Queries, config: Settings) -> None:
    """Refuse training data that the ranker of these settings cannot learn from.

    Raises:
        DataError: if there are judged pairs or weights that the ranker does not take, or if no
            query has documents of two grades.
    """
    if train.judged is not None and not config.takes_judged:
        raise DataError(
            f"{train.source}: a ranker of kind {name_of(config)} is learned from grades, not from "
            f"judged pairs; of these learn {', '.join(kinds_of_pairs())}"
        )
    if train.weights is not None and not config.takes_weights:
        raise DataError(f"{train.source}: a ranker of kind {name_of(config)} takes no weights")
    check_can_be_learned(train)


def check_same_features(train: Queries, vali: Queries) -> None:
    """Raise a DataError if the two parts differ in the number or the names of their features."""
    if train.n_features != vali.n_features:
        raise DataError(
            f"{train.source} has {train.n_features} features, {vali.source} {vali.n_features}"
        )
    if train.feature_names is None or vali.feature_names is None:
        return
    if train.feature_names != vali.feature_names:
        raise DataError(f"{train.source} and {vali.source} name their features differently")
