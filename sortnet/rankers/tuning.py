"""Choose settings by RankQuality on the validation part, as the paper chooses its hidden units.

Without tuning the scaling, and with judged pairs the weight decay, follow from the training data,
see `sortnet.rankers.sortnet.complete_settings`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sortnet.config import MEASURES, Config, Settings, choose_quality, settings_of
from sortnet.core import Queries
from sortnet.data.divide import joined, query_folds
from sortnet.errors import DataError, SortNetError
from sortnet.rankers.fit_ranker import fit_ranker

Grid: TypeAlias = Mapping[str, Sequence[Any]]  # {name of a setting: values to try}
Trial: TypeAlias = dict[str, Any]  # the settings that were tried, their quality and iteration

SEARCHES = ("grid", "optuna")
_TRIALS = 20  # default number of trials of a search by Optuna, which would never end
_SEEDS_OF_OPTUNA = 2**32  # Optuna's seeds are below this number
_STOPPING_SHARE = 0.2  # share of an inner part's queries to learn from that stop the training


class Tuned(NamedTuple):
    """The result of tuning.

    Attributes:
        config: the chosen settings.
        trials: the trials. A trial has the settings that any grid names, its `quality`, and its
            `iteration` if the ranker has iterations and there are no inner parts.
    """

    config: Settings
    trials: list[Trial]


def tune(
    train: Queries,
    vali: Queries,
    config: Settings | None = None,
    *,
    grid: Grid | Sequence[Grid] | None = None,
    inner: int = 0,
    search: str = "grid",
    trials: int | None = None,
    seconds: float | None = None,
) -> Tuned:
    """Fit a ranker with every combination of a grid; choose the settings with the best RankQuality.

    Args:
        train: labelled queries to learn from.
        vali: labelled queries to choose by, which should be used for nothing else.
        config: settings of any kind of ranker, for all settings that no grid names.
        grid: {name of a setting: values to try}; the setting may be a setting of the training. With
            several grids, a grid starts from the settings that the grid before it chose. None: the
            `grids` of the kind of ranker.
        inner: number of parts of a cross-validation. The queries of `train` and `vali` together are
            divided into these parts, and each trial fits a ranker for each part, on which the
            ranker is scored. The ranker learns from four fifths of the remaining queries and is
            stopped by one fifth, so that settings with more points to stop at have no advantage. 0:
            learn from `train`, choose by `vali`.
        search: "grid" tries every combination; "optuna" draws `trials` combinations, 20 by default,
            from the values of all grids together (Tree-structured Parzen Estimator).
        trials: largest number of trials; the first trial is always run.
        seconds: time in seconds after which no trial is started.

    Raises:
        DataError: if a grid names an unknown setting, or a setting that defines RankQuality.
        SortNetError: if the search is unknown, or if Optuna is not installed.

    >>> import numpy as np
    >>> X = np.arange(12, dtype=np.float32)[:, None]
    >>> q = Queries.from_arrays(X, X[:, 0] % 6, group=[6, 6])
    >>> config = Config(scaling="query", committee=1, max_iter=1)
    >>> tuned = tune(q, q, config, grid={"hidden": [(2,), (4,)]})
    >>> [trial["hidden"] for trial in tuned.trials]
    [[2], [4]]

    Cost: a run for every combination of a grid, except combinations that an earlier grid has run;
    times the number of inner parts.
    """
    settings: Settings = Config() if config is None else config
    chosen_grid = settings.grids if grid is None else grid
    grids = [chosen_grid] if isinstance(chosen_grid, Mapping) else list(chosen_grid)
    names = list(dict.fromkeys(chain(*grids)))  # the names of all grids, each once
    _check_names(settings, names)
    if search not in SEARCHES:
        raise SortNetError(f"unknown search {str(search)!r}; known are {', '.join(SEARCHES)}")
    inner_parts: list[tuple[Queries, Queries, Queries]] = []
    if inner:
        # The measure is chosen here, once, so that all inner parts are scored by the same measure.
        settings = choose_quality(train, vali, settings)
        inner_parts = list(_inner_parts(joined([train, vali]), inner, settings.seed))
    began = time.monotonic()
    tried: dict[Settings, Trial] = {}
    if search == "grid":
        candidates = _every_combination(settings, grids, tried)
    else:
        candidates = _drawn_by_optuna(settings, grids, tried, trials or _TRIALS)
    for candidate in candidates:
        if candidate in tried:
            continue
        is_late = seconds is not None and time.monotonic() - began > seconds
        if tried and (is_late or len(tried) == trials):
            break
        if inner_parts:
            scores = []
            for learned, stopping, scored in inner_parts:
                ranker = fit_ranker(learned, stopping, candidate)
                scores.append(candidate.quality_of(scored, ranker.order(scored)))
            facts = {"quality": float(np.mean(scores))}
        else:
            info = fit_ranker(train, vali, candidate).info
            facts = {name: info[name] for name in ("quality", "iteration") if name in info}
        values = candidate.flat()
        lists = {name: [*v] for name, v in values.items() if isinstance(v, tuple)}  # as in JSON
        values |= lists
        tried[candidate] = {name: values[name] for name in names} | facts
    return Tuned(_best(tried, settings), [*tried.values()])


def _best(tried: Mapping[Settings, Trial], settings: Settings) -> Settings:
    """Find the settings of the best trial; the given settings if nothing was tried."""
    return max(tried, key=lambda candidate: tried[candidate]["quality"], default=settings)


def _check_names(settings: Settings, names: Sequence[str]) -> None:
    """Raise a DataError if a name is no setting, or is a setting that defines RankQuality."""
    settings.check_names(names)
    for setting in settings_of(type(settings)).values():  # type: ignore[arg-type]
        if setting.section == MEASURES and setting.name in names:
            raise DataError(
                f"a grid cannot name {setting.name!r}, which defines the RankQuality that the "
                "trials are compared by: set it in config"
            )


def _inner_parts(
    queries: Queries, n_parts: int, seed: int
) -> Iterator[tuple[Queries, Queries, Queries]]:
    """Divide the queries for a cross-validation; each query is scored in exactly one part.

    Yields:
        The queries to learn from, to stop the training by, and to score the ranker on.

    Raises:
        DataError: if a part has no query to learn from or no query to stop the training by.
    """
    for remaining, scored in query_folds(queries, n_parts, seed=seed):
        if len(remaining) < 2:
            raise DataError(f"{remaining.source}: too few queries to divide them into inner parts")
        order = np.random.default_rng(seed).permutation(len(remaining))
        n_stopping = max(1, round(_STOPPING_SHARE * len(remaining)))
        learned = remaining.take(np.sort(order[n_stopping:]))
        stopping = remaining.take(np.sort(order[:n_stopping]))
        yield learned, stopping, scored


def _every_combination(
    settings: Settings, grids: Sequence[Grid], tried: Mapping[Settings, Trial]
) -> Iterator[Settings]:
    """Yield every combination of each grid, in the best settings that the grids before it chose.

    Args:
        settings: the settings to begin with.
        grids: the grids.
        tried: the trials so far, to which the caller adds.
    """
    for grid in grids:
        best = _best(tried, settings)
        for values in product(*grid.values()):
            yield best.changed(**dict(zip(grid, values, strict=True)))


def _drawn_by_optuna(
    settings: Settings, grids: Sequence[Grid], tried: Mapping[Settings, Trial], n_trials: int
) -> Iterator[Settings]:
    """Yield combinations that Optuna draws from the values of all grids.

    Args:
        settings: the settings that are changed.
        grids: the grids.
        tried: the trials so far, to which the caller adds.
        n_trials: number of draws, some of which may be the same.
    """
    try:
        import optuna
    except ImportError:
        raise SortNetError("a search by Optuna needs: pip install 'sortnet[optuna]'") from None
    values_to_try = {name: values for grid in grids for name, values in grid.items()}
    if not values_to_try:
        return
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=settings.seed % _SEEDS_OF_OPTUNA)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for _ in range(n_trials):
        trial = study.ask()
        # Optuna draws the position of a value, because it cannot store values that are tuples.
        combination = {
            name: values[trial.suggest_categorical(name, range(len(values)))]
            for name, values in values_to_try.items()
        }
        candidate = settings.changed(**combination)
        yield candidate
        study.tell(trial, tried[candidate]["quality"])
