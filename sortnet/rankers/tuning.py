"""Choose settings by RankQuality on the validation part, as the paper chooses its hidden units.

Without tuning the scaling, and with judged pairs the weight decay, follow from the training data,
see `sortnet.rankers.complete_settings`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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


class Part(NamedTuple):
    """The data of a trial.

    Attributes:
        learned: queries to learn from.
        stopping: queries that choose epoch and iteration.
        scored: queries on which the trial is scored; None: it is scored on `stopping`.
    """

    learned: Queries
    stopping: Queries
    scored: Queries | None


class Tuned(NamedTuple):
    """The result of tuning.

    Attributes:
        config: the chosen settings.
        trials: the trials. A trial has the settings that any grid names, its `quality`, and its
            `iteration` if the ranker has iterations and there are no inner parts.
    """

    config: Settings
    trials: list[Trial]


@dataclass
class _Trials:
    """Trials of settings on the same data; settings that were tried are not tried again.

    Attributes:
        parts: the data of each trial; a trial fits a ranker on every part.
        names: the names of the settings that differ between trials.
        most: the maximum number of trials; None: no limit.
        seconds: time in seconds after which no trial is started; None: no limit.
        done: the finished trials; the key is the `repr` of a trial's settings.
        began: time of the first trial in seconds, on the monotonic clock.
    """

    parts: Sequence[Part]
    names: Sequence[str]
    most: int | None
    seconds: float | None
    done: dict[str, Trial] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def quality(self, candidate: Settings) -> float | None:
        """Try the settings; return the mean RankQuality over the parts.

        Settings that were tried before are not tried again. The result is None if no further trial
        may be started.
        """
        values = self._values_in_json(candidate)
        key = repr(values)
        if key not in self.done:
            if self._has_reached_limit():
                return None
            self.done[key] = values | self._run(candidate)
        quality: float = self.done[key]["quality"]
        return quality

    def _values_in_json(self, candidate: Settings) -> dict[str, Any]:
        """Return the settings that differ between trials, by name, with lists for tuples."""
        flat = candidate.flat()
        values = {}
        for name in self.names:
            value = flat[name]
            values[name] = list(value) if isinstance(value, tuple) else value
        return values

    def _has_reached_limit(self) -> bool:
        """Check whether no further trial may be started; the first trial may always be started."""
        if not self.done:
            return False
        if self.most is not None and len(self.done) >= self.most:
            return True
        return self.seconds is not None and time.monotonic() - self.began > self.seconds

    def _run(self, candidate: Settings) -> Trial:
        """Fit a ranker on every part; return its `quality`, the mean RankQuality over the parts.

        Without inner parts, the `iteration` is also returned if the ranker has iterations.
        """
        qualities = []
        for part in self.parts:
            ranker = fit_ranker(part.learned, part.stopping, candidate)
            if part.scored is None:  # without inner parts, this part is the only part
                facts = ("quality", "iteration")
                return {name: ranker.info[name] for name in facts if name in ranker.info}
            order = ranker.order(part.scored)
            qualities.append(candidate.quality_of(part.scored, order))
        return {"quality": sum(qualities) / len(qualities)}


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
    grids = _list_grids(settings.grids if grid is None else grid)
    names = list(dict.fromkeys(chain(*grids)))  # the names of all grids, each once
    _check_names(settings, names)
    if search not in SEARCHES:
        raise SortNetError(f"unknown search {str(search)!r}; known are {', '.join(SEARCHES)}")

    if inner:
        # The measure is chosen here, once, so that all inner parts are scored by the same measure.
        settings = choose_quality(train, vali, settings)
        parts = _inner_parts(joined([train, vali]), inner, settings.seed)
    else:
        parts = [Part(train, vali, scored=None)]
    search_trials = _Trials(parts, names, most=trials, seconds=seconds)
    if search == "grid":
        best = _by_grid(search_trials, settings, grids)
    else:
        best = _by_optuna(search_trials, settings, grids)
    return Tuned(best, list(search_trials.done.values()))


def _list_grids(grid: Grid | Sequence[Grid]) -> list[Grid]:
    """Return a single grid, or several grids, as a list."""
    return [grid] if isinstance(grid, Mapping) else list(grid)


def _check_names(settings: Settings, names: Sequence[str]) -> None:
    """Raise a DataError if a name is no setting, or is a setting that defines RankQuality."""
    settings.check_names(names)
    for setting in settings_of(type(settings)).values():  # type: ignore[arg-type]
        if setting.section == MEASURES and setting.name in names:
            raise DataError(
                f"a grid cannot name {setting.name!r}, which defines the RankQuality that the "
                "trials are compared by: set it in config"
            )


def _inner_parts(queries: Queries, n_parts: int, seed: int) -> list[Part]:
    """Divide the queries for a cross-validation; each query is scored in exactly one part.

    Raises:
        DataError: if a part has no query to learn from or no query to stop the training by.
    """
    parts: list[Part] = []
    for rest, scored in query_folds(queries, n_parts, seed=seed):
        if len(rest) < 2:
            raise DataError(f"{rest.source}: too few queries to divide them into inner parts")
        order = np.random.default_rng(seed).permutation(len(rest))
        n_stopping = max(1, round(_STOPPING_SHARE * len(rest)))
        learned = rest.take(np.sort(order[n_stopping:]))
        stopping = rest.take(np.sort(order[:n_stopping]))
        parts.append(Part(learned, stopping, scored))
    return parts


def _by_grid(trials: _Trials, settings: Settings, grids: Sequence[Grid]) -> Settings:
    """Try all combinations of one grid after another; each grid starts from the best so far."""
    for grid in grids:
        tried = []
        for values in product(*grid.values()):
            combination = dict(zip(grid, values, strict=True))
            candidate = settings.changed(**combination)
            tried.append((trials.quality(candidate), candidate))
        settings = _best(settings, tried)
    return settings


def _best(settings: Settings, tried: Iterable[tuple[float | None, Settings]]) -> Settings:
    """Find the first candidate with the highest quality; `settings` if no candidate was tried.

    Args:
        settings: the settings before the trials.
        tried: quality and settings of each candidate; a quality of None means that there was no
            trial, because the limit was reached.
    """
    best = settings
    best_quality = -np.inf
    for quality, candidate in tried:
        if quality is not None and quality > best_quality:
            best_quality = quality
            best = candidate
    return best


def _by_optuna(trials: _Trials, settings: Settings, grids: Sequence[Grid]) -> Settings:
    """Try combinations that Optuna draws from the values of all grids; return the best settings."""
    try:
        import optuna
    except ImportError:
        raise SortNetError("a search by Optuna needs: pip install 'sortnet[optuna]'") from None
    values_to_try: dict[str, list[Any]] = {}
    for grid in grids:
        for name, values in grid.items():
            values_to_try[name] = list(values)
    if not values_to_try:
        return settings
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=settings.seed % _SEEDS_OF_OPTUNA)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    tried = []
    for _ in range(trials.most or _TRIALS):
        trial = study.ask()
        candidate = settings.changed(**_draw_combination(trial, values_to_try))
        quality = trials.quality(candidate)
        if quality is None:
            break
        study.tell(trial, quality)
        tried.append((quality, candidate))
    return _best(settings, tried)


def _draw_combination(trial: Any, values_to_try: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Let Optuna draw a value of each setting, {name of the setting: value}.

    Optuna draws the position of a value in its list, because it cannot store values that are
    tuples.

    Args:
        trial: the trial of Optuna's study.
        values_to_try: {name of a setting: values to draw from}.
    """
    combination = {}
    for name, values in values_to_try.items():
        position = trial.suggest_categorical(name, range(len(values)))
        combination[name] = values[position]
    return combination
