"""Choose settings by RankQuality on the validation part, as the paper chooses its hidden units."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, TypeAlias

from sortnet.config import Config, Training
from sortnet.errors import DataError
from sortnet.learning.weight_decay import weight_decays
from sortnet.rankers.learn import learn
from sortnet.rankers.model import Model
from sortnet.types import Progress, Queries

Grid: TypeAlias = Mapping[str, Sequence[Any]]


def grids_for(train: Queries) -> list[Grid]:
    """The default grids: hidden units with weight decay, then warm or fresh start.

    >>> import numpy as np
    >>> grids_for(Queries.from_arrays(np.zeros((10_000, 1)), group=[10_000]))[0]["weight_decay"]
    [0.01, 0.002, 0.0004]
    """
    sizes: Grid = {"hidden": [(5,), (10,), (20,)], "weight_decay": weight_decays(train.n_docs)}
    return [sizes, {"warm_start": [True, False]}]


@dataclass(frozen=True)
class Tuned:
    """The settings that tuning chose, and its trials.

    Attributes:
        config: the best settings.
        trials: one dict per trial: the settings of all grids, `quality` and `iteration`.
    """

    config: Config
    trials: list[dict[str, Any]]


def tune(
    train: Queries,
    vali: Queries,
    config: Config | None = None,
    *,
    grid: Grid | Sequence[Grid] | None = None,
    progress: Progress = lambda text: None,
    on_trial: Callable[[dict[str, Any]], None] = lambda trial: None,
    trials: Iterable[Mapping[str, Any]] = (),
) -> Tuned:
    """Run Algorithm 3.1 with every combination of the grid; the best RankQuality on `vali` wins.

    Args:
        train: labelled queries.
        vali: labelled queries to choose by; no other data may be used for it.
        config: all other settings.
        grid: names of settings (of `Config` or of its training) and the values to try; of several
            grids, each starts from the settings chosen before it; None: those of `grids_for`.
        progress: called with progress messages.
        on_trial: called with each trial when it is done.
        trials: results of an earlier call with the same data and grid, which are not run again.

    Raises:
        DataError: on a grid with an unknown setting.

    >>> import numpy as np
    >>> X = np.arange(12, dtype=np.float32)[:, None]
    >>> q = Queries.from_arrays(X, X[:, 0] % 6, group=[6, 6])
    >>> tuned = tune(q, q, Config(max_iter=2, committee=1), grid={"hidden": [(2,), (4,)]})
    >>> [trial["hidden"] for trial in tuned.trials]
    [[2], [4]]

    Cost: a run for every combination of a grid, except those that an earlier grid has run.
    """
    config = Config() if config is None else config
    grid = grids_for(train) if grid is None else grid
    grids = [grid] if isinstance(grid, Mapping) else list(grid)
    names = list(dict.fromkeys(name for each in grids for name in each))
    _refuse_unknown(config, names)
    known = {_key(trial, names): dict(trial) for trial in trials}
    done: dict[str, dict[str, Any]] = {}
    for each in grids:
        tried = [
            with_settings(config, dict(zip(each, values, strict=True)))
            for values in product(*each.values())
        ]
        for candidate in tried:
            settings = _settings(candidate, names)
            key = _key(settings, names)
            if key not in done and key not in known:
                report = _numbered(progress, f"trial {len(done) + 1}")
                known[key] = settings | _found(learn(train, vali, candidate, progress=report))
                on_trial(known[key])
            done[key] = known[key]
        # the first of equals
        config = max(tried, key=lambda c: done[_key(_settings(c, names), names)]["quality"])
    return Tuned(config, list(done.values()))


def with_settings(config: Config, settings: Mapping[str, Any]) -> Config:
    """Change settings by name, including those of training on pairs."""
    names = {f.name for f in fields(Training)}
    inner = {name: value for name, value in settings.items() if name in names}
    outer = {name: value for name, value in settings.items() if name not in names}
    return replace(config, **outer, training=replace(config.training, **inner))


def _refuse_unknown(config: Config, names: Sequence[str]) -> None:
    known = _all_settings(config)
    if unknown := sorted(set(names) - set(known)):
        raise DataError(f"grid: there is no setting {unknown[0]!r}; known are {sorted(known)}")


def _all_settings(config: Config) -> dict[str, Any]:
    values = config.to_json()
    training: dict[str, Any] = values.pop("training")
    return values | training


def _settings(config: Config, names: Sequence[str]) -> dict[str, Any]:
    values = _all_settings(config)
    return {name: values[name] for name in names}


def _found(model: Model) -> dict[str, Any]:
    return {name: model.info[name] for name in ("quality", "iteration")}


def _key(settings: Mapping[str, Any], names: Sequence[str]) -> str:
    return repr([settings[name] for name in names])


def _numbered(progress: Progress, prefix: str) -> Progress:
    return lambda text: progress(f"{prefix}, {text}")
