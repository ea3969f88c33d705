"""Choose settings by RankQuality on the validation part, as the paper chooses its hidden units."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from typing import Any, TypeAlias

from sortnet.config import Config, Training
from sortnet.decay import decays
from sortnet.errors import DataError
from sortnet.learn import learn
from sortnet.types import Progress, Queries

Grid: TypeAlias = Mapping[str, Sequence[Any]]


def grid_for(train: Queries) -> Grid:
    """What is tried where no grid is given: hidden units, weight decay and start.

    >>> import numpy as np
    >>> grid_for(Queries.from_arrays(np.zeros((10_000, 1)), group=[10_000]))["weight_decay"]
    [0.01, 0.002, 0.0004]
    """
    return {
        "hidden": [(5,), (10,), (20,)],
        "weight_decay": decays(train.n_docs),
        "warm_start": [True, False],
    }


@dataclass(frozen=True)
class Tuned:
    """What tuning chose, and everything it tried.

    Attributes:
        config: the best settings.
        trials: one dict a trial, the settings of the grid and `quality`, `iteration`.
    """

    config: Config
    trials: list[dict[str, Any]]


def tune(
    train: Queries,
    vali: Queries,
    config: Config | None = None,
    *,
    grid: Grid | None = None,
    progress: Progress = lambda text: None,
    on_trial: Callable[[dict[str, Any]], None] = lambda trial: None,
    trials: Iterable[Mapping[str, Any]] = (),
) -> Tuned:
    """Run Algorithm 3.1 with every combination of the grid; the best RankQuality on `vali` wins.

    Args:
        train: labelled queries.
        vali: labelled queries that choose; no other data may be used for it.
        config: all other settings.
        grid: names of settings (of `Config` or of its training) and the values to try; None:
            that of `grid_for`.
        progress: told what is going on, as text.
        on_trial: called with each trial when it is done.
        trials: results from an earlier call with the same data and grid, which are not run again.

    Raises:
        DataError: on a grid that names no setting.

    >>> import numpy as np
    >>> X = np.arange(12, dtype=np.float32)[:, None]
    >>> q = Queries.from_arrays(X, X[:, 0] % 6, group=[6, 6])
    >>> tuned = tune(q, q, Config(max_iter=2, committee=1), grid={"hidden": [(2,), (4,)]})
    >>> [trial["hidden"] for trial in tuned.trials]
    [[2], [4]]

    Cost: a run for every combination.
    """
    config = Config() if config is None else config
    grid = grid_for(train) if grid is None else grid
    combinations = _combinations(config, grid)
    known = {_key(trial, grid): dict(trial) for trial in trials}
    done: list[tuple[dict[str, Any], Config]] = []
    for number, settings in enumerate(combinations, 1):
        tried = with_settings(config, settings)
        trial = known.get(_key(settings, grid))
        if trial is None:
            prefix = f"trial {number}/{len(combinations)}"
            trial = _trial(train, vali, tried, settings, _numbered(progress, prefix))
            on_trial(trial)
        done.append((trial, tried))
    best = max(done, key=lambda pair: pair[0]["quality"])  # the first of equals
    return Tuned(best[1], [trial for trial, _ in done])


def with_settings(config: Config, settings: Mapping[str, Any]) -> Config:
    """Settings changed by name, those of the training on pairs among them."""
    names = {f.name for f in fields(Training)}
    inner = {name: value for name, value in settings.items() if name in names}
    outer = {name: value for name, value in settings.items() if name not in names}
    return replace(config, **outer, training=replace(config.training, **inner))


def _combinations(config: Config, grid: Grid) -> list[dict[str, Any]]:
    known = {*asdict(config), *asdict(config.training)} - {"training"}
    if unknown := sorted(set(grid) - known):
        raise DataError(f"grid: there is no setting {unknown[0]!r}; known are {sorted(known)}")
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def _trial(
    train: Queries, vali: Queries, config: Config, settings: Mapping[str, Any], progress: Progress
) -> dict[str, Any]:
    model = learn(train, vali, config, progress=progress)
    plain = {name: list(v) if isinstance(v, tuple) else v for name, v in settings.items()}
    found = {name: model.info[name] for name in ("quality", "iteration")}
    return {**plain, **found}


def _key(settings: Mapping[str, Any], grid: Grid) -> str:
    return repr([list(v) if isinstance(v := settings[name], (tuple, list)) else v for name in grid])


def _numbered(progress: Progress, prefix: str) -> Progress:
    return lambda text: progress(f"{prefix}, {text}")
