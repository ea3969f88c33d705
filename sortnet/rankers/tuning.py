"""Choose settings by RankQuality on the validation part, as the paper chooses its hidden units.

Settings that SortNet leaves open by default (scaling, comparator, hidden units, weight decay) are
chosen by short trials, see `sortnet.rankers.choose_inputs`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sortnet.config import MEASURES, Config, Settings, choose_quality, settings_of
from sortnet.core import Queries
from sortnet.data.divide import joined, query_folds
from sortnet.errors import DataError, SortNetError
from sortnet.rankers.fit_ranker import fit_ranker

Grid: TypeAlias = Mapping[str, Sequence[Any]]  # the values of each setting to try
Trial: TypeAlias = dict[str, Any]

SEARCHES = ("grid", "optuna")
_TRIALS = 20  # default for a search by Optuna, which has no end of its own
_STOPPED_ON = 0.2  # share of an inner part's training queries that only stop the training


class Part(NamedTuple):
    """The data of a trial: queries to learn from, to stop the training by, and to score.

    Without queries to score, the trial is scored by RankQuality on the queries to stop by.
    """

    learned: Queries
    stopping: Queries
    scored: Queries | None


class Tuned(NamedTuple):
    """The settings that tuning chose, and its trials."""

    config: Settings
    trials: list[Trial]  # the settings of all grids, `quality` and `iteration` of each


@dataclass
class _Trials:
    """Trials of settings on the same data; settings that were tried are not tried again.

    Attributes:
        parts: the data of each trial.
        names: the settings that trials differ in.
        most: the maximum number of trials; None: no limit.
        seconds: time after which no trial is started; None: no limit.
        done: the finished trials; the key is the `repr` of their settings.
        began: time of the start on the monotonic clock.
    """

    parts: Sequence[Part]
    names: Sequence[str]
    most: int | None
    seconds: float | None
    done: dict[str, Trial] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def quality(self, candidate: Settings) -> float | None:
        """Try the settings: their mean RankQuality over the parts; None if the budget is spent."""
        flat = candidate.flat()
        values = {}
        for name in self.names:
            value = flat[name]
            values[name] = list(value) if isinstance(value, tuple) else value
        key = repr(values)
        if key not in self.done:
            is_late = self.seconds is not None and time.monotonic() - self.began > self.seconds
            is_full = self.most is not None and len(self.done) >= self.most
            if self.done and (is_late or is_full):
                return None
            self.done[key] = values | self._result(candidate)
        quality: float = self.done[key]["quality"]
        return quality

    def _result(self, candidate: Settings) -> Trial:
        """Fit a ranker on every part; return the mean RankQuality, and the iteration if known."""
        qualities = []
        for part in self.parts:
            ranker = fit_ranker(part.learned, part.stopping, candidate)
            if part.scored is None:
                facts = ("quality", "iteration")
                return {name: ranker.info[name] for name in facts if name in ranker.info}
            qualities.append(candidate.quality_of(part.scored, ranker.order(part.scored)))
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
        train: labelled queries.
        vali: labelled queries to choose by; no other data may be used for it.
        config: all other settings, of any kind of ranker.
        grid: names of settings (also of training settings) and the values to try. With several
            grids, a grid starts from the settings that the grid before it chose. None: the `grids`
            of the kind of ranker.
        inner: number of parts to cross-validate each trial in. The queries of `train` and `vali`
            are divided; a part is scored by a ranker that learns from four fifths of the remaining
            queries and is stopped by one fifth, so that settings with more points to stop at are
            not favoured. 0: learn from `train`, choose by `vali`.
        search: "grid" tries every combination; "optuna" draws `trials` combinations, 20 by default,
            from the values of all grids at once (Tree-structured Parzen Estimator).
        trials: number of trials, at most; the first is always run.
        seconds: time after which no trial is started.

    Raises:
        DataError: on a grid with an unknown setting, or with one of RankQuality.
        SortNetError: on an unknown search, or if Optuna is not installed.

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
    grid = settings.grids if grid is None else grid
    grids = [grid] if isinstance(grid, Mapping) else list(grid)
    names = list(dict.fromkeys(name for grid in grids for name in grid))
    _check_names(settings, names)
    if search not in SEARCHES:
        raise SortNetError(f"unknown search {search!r}; known are {', '.join(SEARCHES)}")
    parts = [Part(train, vali, None)]
    if inner:
        # The measure is chosen here, once, so that all inner parts are scored by the same measure.
        settings = choose_quality(train, vali, settings)
        parts = _inner_parts(joined([train, vali]), inner, settings.seed)
    search_trials = _Trials(parts, names, trials, seconds)
    if search == "grid":
        best = _by_grid(search_trials, settings, grids)
    else:
        best = _by_optuna(search_trials, settings, grids)
    return Tuned(best, list(search_trials.done.values()))


def _check_names(settings: Settings, names: Sequence[str]) -> None:
    """Raise a DataError if a name is no setting, or is a setting that defines RankQuality."""
    settings.check_names(names)
    for a_setting in settings_of(type(settings)).values():  # type: ignore[arg-type]
        if a_setting.section == MEASURES and a_setting.name in names:
            raise DataError(
                f"a grid cannot name {a_setting.name!r}, which defines the RankQuality that the "
                "trials are compared by: set it in config"
            )


def _inner_parts(queries: Queries, n_parts: int, seed: int) -> list[Part]:
    """Divide the queries for cross-validation: in each part other queries are scored.

    A part has at least one query to learn from, and at least one to stop the training by.
    """
    parts: list[Part] = []
    for fitted, scored in query_folds(queries, n_parts, seed=seed):
        order = np.random.default_rng(seed).permutation(len(fitted))
        if len(order) < 2:
            raise DataError(f"{fitted.source}: too few queries to divide them into inner parts")
        n_stopping = max(1, round(_STOPPED_ON * len(order)))
        learned = fitted.take(np.sort(order[n_stopping:]))
        stopping = fitted.take(np.sort(order[:n_stopping]))
        parts.append(Part(learned, stopping, scored))
    return parts


def _by_grid(trials: _Trials, settings: Settings, grids: Sequence[Grid]) -> Settings:
    """Try every combination of each grid, starting from the settings of the grid before it."""
    for grid in grids:
        candidates = [
            settings.changed(**dict(zip(grid, values, strict=True)))
            for values in product(*grid.values())
        ]
        scored = [(trials.quality(candidate), candidate) for candidate in candidates]
        settings = _best(settings, scored)
    return settings


def _best(settings: Settings, scored: Iterable[tuple[float | None, Settings]]) -> Settings:
    """The first of the scored settings with the highest quality; `settings` if none was tried."""
    best_quality = -np.inf
    for quality, candidate in scored:
        if quality is not None and quality > best_quality:
            best_quality = quality
            settings = candidate
    return settings


def _by_optuna(trials: _Trials, settings: Settings, grids: Sequence[Grid]) -> Settings:
    """Try combinations that Optuna draws from the values of all grids.

    Optuna draws the numbers of the values, because it cannot store values that are tuples.
    """
    try:
        import optuna
    except ImportError:
        raise SortNetError("a search by Optuna needs: pip install 'sortnet[optuna]'") from None
    space = {name: list(values) for grid in grids for name, values in grid.items()}
    if not space:
        return settings
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=settings.seed % 2**32)
    )
    scored = []
    for _ in range(trials.most or _TRIALS):
        trial = study.ask()
        combination = {}
        for name, values in space.items():
            number = trial.suggest_categorical(name, range(len(values)))
            combination[name] = values[number]
        candidate = settings.changed(**combination)
        quality = trials.quality(candidate)
        if quality is None:
            break
        study.tell(trial, quality)
        scored.append((quality, candidate))
    return _best(settings, scored)
