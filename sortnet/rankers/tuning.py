"""Choose settings by RankQuality on the validation part, as the paper chooses its hidden units.

What SortNet leaves open by default (scaling, comparator, hidden units, weight decay) is chosen by
its own short trials, see `sortnet.rankers.choose_inputs`.
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
from sortnet.rankers.base import fit_ranker

Grid: TypeAlias = Mapping[str, Sequence[Any]]  # the values of each setting to try
Trial: TypeAlias = dict[str, Any]
Part: TypeAlias = tuple[Queries, Queries, Queries | None]  # to learn from, to stop by, to score

SEARCHES = ("grid", "optuna")
_TRIALS = 20  # of a search that has no end of its own
_STOPPED_ON = 0.2  # of the queries that an inner part is learned from


class Tuned(NamedTuple):
    """The settings that tuning chose, and its trials."""

    config: Settings
    trials: list[Trial]  # the settings of all grids, `quality` and `iteration` of each


@dataclass
class _Trials:
    """Trials of settings on the same parts; each is made once."""

    parts: Sequence[Part]
    names: Sequence[str]
    most: int | None
    seconds: float | None
    done: dict[str, Trial] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def quality(self, candidate: Settings) -> float | None:
        """RankQuality of the settings, the mean over the parts; None: the budget is spent."""
        flat = candidate.flat()
        values = {k: list(v) if isinstance(v := flat[k], tuple) else v for k in self.names}
        key = repr(values)
        if key not in self.done:
            late = self.seconds is not None and time.monotonic() - self.began > self.seconds
            if self.done and (late or (self.most is not None and len(self.done) >= self.most)):
                return None
            self.done[key] = values | self._fitted(candidate)
        quality: float = self.done[key]["quality"]
        return quality

    def _fitted(self, candidate: Settings) -> Trial:
        qualities = []
        for T, V, scored in self.parts:
            ranker = fit_ranker(T, V, candidate)
            if scored is None:
                return {k: ranker.info[k] for k in ("quality", "iteration") if k in ranker.info}
            qualities.append(candidate.quality_of(scored, ranker.order(scored)))
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
    """Fit a ranker with the combinations of a grid; the best RankQuality wins.

    Args:
        train: labelled queries.
        vali: labelled queries to choose by; no other data may be used for it.
        config: all other settings, of any kind of ranker.
        grid: names of settings (including those of training) and the values to try; of several
            grids, each starts from the settings chosen before it; None: the `grids` of the
            kind of ranker.
        inner: cross-validate each trial in that many parts of the queries of `train` and `vali`:
            each is scored by a ranker that has learned from the others, and stopped by a fifth of
            these, so that settings with more points to stop at are not favoured; 0: learn from
            `train`, choose by `vali`.
        search: "grid" tries every combination; "optuna" draws them (Tree-structured Parzen
            Estimator) from the values of all grids at once, 20 or `trials`.
        trials: at most; one is made in any case.
        seconds: after which no trial is started.

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

    Cost: a run for every combination of a grid, except those that an earlier grid has run; times
    the number of inner parts.
    """
    settings: Settings = Config() if config is None else config
    grid = settings.grids if grid is None else grid
    grids = [grid] if isinstance(grid, Mapping) else list(grid)
    names = list(dict.fromkeys(name for each in grids for name in each))
    settings.check_names(names)
    for each in settings_of(type(settings)).values():  # type: ignore[arg-type]
        if each.section == MEASURES and each.name in names:
            raise DataError(
                f"a grid cannot name {each.name!r}, which defines the RankQuality that the trials "
                "are compared by: set it in config"
            )
    if search not in SEARCHES:
        raise SortNetError(f"unknown search {search!r}; known are {', '.join(SEARCHES)}")
    parts: list[Part] = [(train, vali, None)]
    if inner:  # which are all measured alike
        settings = choose_quality(train, vali, settings)
        folds = query_folds(joined([train, vali]), inner, seed=settings.seed)
        parts = [(*_stopped(others, settings.seed), part) for others, part in folds]
    tried = _Trials(parts, names, trials, seconds)
    best = (_by_grid if search == "grid" else _by_optuna)(tried, settings, grids)
    return Tuned(best, list(tried.done.values()))


def _stopped(queries: Queries, seed: int) -> tuple[Queries, Queries]:
    """Some queries to learn from, the others to stop by: at least one of each."""
    drawn = np.random.default_rng(seed).permutation(len(queries))
    if len(drawn) < 2:
        raise DataError(f"{queries.source}: too few queries to divide them into inner parts")
    n = max(1, round(_STOPPED_ON * len(drawn)))
    return queries.take(np.sort(drawn[n:])), queries.take(np.sort(drawn[:n]))


def _by_grid(tried: _Trials, settings: Settings, grids: Sequence[Grid]) -> Settings:
    for grid in grids:
        combinations = (dict(zip(grid, each, strict=True)) for each in product(*grid.values()))
        candidates = [settings.changed(**each) for each in combinations]
        settings = _best(settings, [(tried.quality(each), each) for each in candidates])
    return settings


def _best(settings: Settings, made: Iterable[tuple[float | None, Settings]]) -> Settings:
    """The first of the best of those that were tried; these settings if none was."""
    best = -np.inf
    for quality, candidate in made:
        if quality is not None and quality > best:
            best, settings = quality, candidate
    return settings


def _by_optuna(tried: _Trials, settings: Settings, grids: Sequence[Grid]) -> Settings:
    """Draw combinations of the numbers of the values: Optuna keeps no tuples."""
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
    made = []
    for _ in range(tried.most or _TRIALS):
        drawn = study.ask()
        at = {name: drawn.suggest_categorical(name, range(len(v))) for name, v in space.items()}
        candidate = settings.changed(**{name: space[name][k] for name, k in at.items()})
        quality = tried.quality(candidate)
        if quality is None:
            break
        study.tell(drawn, quality)
        made.append((quality, candidate))
    return _best(settings, made)
