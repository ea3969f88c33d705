"""Choose settings by RankQuality on the validation part, as the paper chooses its hidden units.

What SortNet leaves open by default (scaling, comparator, hidden units, weight decay) is chosen by
its own short trials, see `sortnet.rankers.choose_inputs`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Generic, TypeAlias, TypeVar, cast

import numpy as np

from sortnet.config import MEASURES, Config, Settings, choose_quality, settings_of
from sortnet.data.divide import joined, query_folds
from sortnet.errors import DataError, SortNetError
from sortnet.rankers.base import fit_ranker
from sortnet.types import Queries

S = TypeVar("S", bound=Settings)
Grid: TypeAlias = Mapping[str, Sequence[Any]]
Trial: TypeAlias = dict[str, Any]

SEARCHES = ("grid", "optuna")
_TRIALS = 20  # of a search that has no end of its own
_STOPPED_ON = 0.2  # of the queries that an inner part is learned from
Part: TypeAlias = tuple[Queries, Queries, Queries | None]  # to learn from, to stop by, to score


@dataclass(frozen=True)
class Budget:
    """What tuning may spend; one trial is made in any case.

    Attributes:
        trials: at most.
        seconds: after which no trial is started.
    """

    trials: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Tuned(Generic[S]):
    """The settings that tuning chose, and its trials.

    Attributes:
        config: the best settings.
        trials: one dict per trial: the settings of all grids, `quality` and `iteration`.
    """

    config: S
    trials: list[Trial]


@dataclass
class _Trials(Generic[S]):
    """Trials of settings on the same parts; each is made once."""

    parts: Sequence[Part]
    names: Sequence[str]
    budget: Budget
    done: dict[str, Trial] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def quality(self, candidate: S) -> float | None:
        """RankQuality of the settings, the mean over the parts; None: the budget is spent."""
        values = _json_of(candidate, self.names)
        key = _key(values, self.names)
        if key not in self.done:
            if self.done and self._spent():
                return None
            self.done[key] = values | self._found(candidate)
        quality: float = self.done[key]["quality"]
        return quality

    def _spent(self) -> bool:
        trials, seconds = self.budget.trials, self.budget.seconds
        late = seconds is not None and time.monotonic() - self.began > seconds
        return late or (trials is not None and len(self.done) >= trials)

    def _found(self, candidate: S) -> Trial:
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
    config: S | None = None,
    *,
    grid: Grid | Sequence[Grid] | None = None,
    inner: int = 0,
    search: str = "grid",
    budget: Budget = Budget(),
) -> Tuned[S]:
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
            Estimator) from the values of all grids at once, 20 or as many as the budget has.
        budget: what may be spent.

    Raises:
        DataError: on a grid with an unknown setting, or with one of RankQuality.
        SortNetError: on an unknown search, or if Optuna is not installed.

    >>> import numpy as np
    >>> X = np.arange(12, dtype=np.float32)[:, None]
    >>> q = Queries.from_arrays(X, X[:, 0] % 6, group=[6, 6])
    >>> tuned = tune(q, q, Config(max_iter=2, committee=1), grid={"hidden": [(2,), (4,)]})
    >>> [trial["hidden"] for trial in tuned.trials]
    [[2], [4]]

    Cost: a run for every combination of a grid, except those that an earlier grid has run; times
    the number of inner parts.
    """
    settings = cast(S, Config()) if config is None else config
    grid = settings.grids if grid is None else grid
    grids = [grid] if isinstance(grid, Mapping) else list(grid)
    names = list(dict.fromkeys(name for each in grids for name in each))
    settings.check_names(names)
    _refuse_measures(names, type(settings))
    if search not in SEARCHES:
        raise SortNetError(f"unknown search {search!r}; known are {', '.join(SEARCHES)}")
    parts: list[Part] = [(train, vali, None)]
    if inner:  # which are all measured alike
        settings = choose_quality(train, vali, settings)
        folds = query_folds(joined([train, vali]), inner, seed=settings.seed)
        parts = [(*_stopped(others, settings.seed), part) for others, part in folds]
    tried: _Trials[S] = _Trials(parts, names, budget)
    best = (_by_grid if search == "grid" else _by_optuna)(tried, settings, grids)
    return Tuned(best, list(tried.done.values()))


def _stopped(queries: Queries, seed: int) -> tuple[Queries, Queries]:
    """Some queries to learn from, the others to stop by: at least one of each."""
    drawn = np.random.default_rng(seed).permutation(len(queries))
    if len(drawn) < 2:
        raise DataError(f"{queries.source}: too few queries to divide them into inner parts")
    n = max(1, round(_STOPPED_ON * len(drawn)))
    return queries.take(np.sort(drawn[n:])), queries.take(np.sort(drawn[:n]))


def _by_grid(tried: _Trials[S], settings: S, grids: Sequence[Grid]) -> S:
    for grid in grids:
        candidates = [
            settings.changed(**dict(zip(grid, combination, strict=True)))
            for combination in product(*grid.values())
        ]
        found = [(tried.quality(candidate), candidate) for candidate in candidates]
        made = [pair for pair in found if pair[0] is not None]
        if made:
            settings = max(made, key=lambda pair: cast(float, pair[0]))[1]  # the first of equals
    return settings


def _by_optuna(tried: _Trials[S], settings: S, grids: Sequence[Grid]) -> S:
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
    best: tuple[float, S] | None = None
    for _ in range(tried.budget.trials or _TRIALS):
        drawn = study.ask()
        at = {name: drawn.suggest_categorical(name, range(len(v))) for name, v in space.items()}
        candidate = settings.changed(**{name: space[name][k] for name, k in at.items()})
        quality = tried.quality(candidate)
        if quality is None:
            break
        study.tell(drawn, quality)
        if best is None or quality > best[0]:
            best = quality, candidate
    return settings if best is None else best[1]


def _refuse_measures(names: Sequence[str], kind: Any) -> None:
    """Refuse settings that change RankQuality: its values in two trials could not be compared."""
    for each in settings_of(kind).values():
        if each.section == MEASURES and each.name in names:
            raise DataError(
                f"a grid cannot name {each.name!r}, which defines the RankQuality that the trials "
                "are compared by: set it in config"
            )


def _json_of(config: Settings, names: Sequence[str]) -> dict[str, Any]:
    """Some settings, as JSON has them."""
    values = config.flat()
    return {
        name: list(values[name]) if isinstance(values[name], tuple) else values[name]
        for name in names
    }


def _key(settings: Mapping[str, Any], names: Sequence[str]) -> str:
    return repr([settings[name] for name in names])
