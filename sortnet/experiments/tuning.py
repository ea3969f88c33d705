"""Choose settings by RankQuality on the validation part, as the paper chooses its hidden units."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Generic, TypeAlias, TypeVar, cast

from sortnet.config import MEASURES, Config, Settings, settings_of
from sortnet.errors import DataError
from sortnet.rankers.base import Ranker, fit_ranker, kind_module
from sortnet.types import Progress, Queries

S = TypeVar("S", bound=Settings)
Grid: TypeAlias = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Tuned(Generic[S]):
    """The settings that tuning chose, and its trials.

    Attributes:
        config: the best settings.
        trials: one dict per trial: the settings of all grids, `quality` and `iteration`.
    """

    config: S
    trials: list[dict[str, Any]]


def tune(
    train: Queries,
    vali: Queries,
    config: S | None = None,
    *,
    grid: Grid | Sequence[Grid] | None = None,
    progress: Progress = lambda text: None,
    on_trial: Callable[[dict[str, Any]], None] = lambda trial: None,
    trials: Iterable[Mapping[str, Any]] = (),
) -> Tuned[S]:
    """Fit a ranker with every combination of the grid; the best RankQuality on `vali` wins.

    Args:
        train: labelled queries.
        vali: labelled queries to choose by; no other data may be used for it.
        config: all other settings, of any kind of ranker.
        grid: names of settings (including those of training) and the values to try; of several
            grids, each starts from the settings chosen before it; None: those of `grids_for` of
            the kind of ranker.
        progress: called with progress messages.
        on_trial: called with each trial when it is done.
        trials: results of an earlier call with the same data and grid, which are not run again.

    Raises:
        DataError: on a grid with an unknown setting, or with one of RankQuality.

    >>> import numpy as np
    >>> X = np.arange(12, dtype=np.float32)[:, None]
    >>> q = Queries.from_arrays(X, X[:, 0] % 6, group=[6, 6])
    >>> tuned = tune(q, q, Config(max_iter=2, committee=1), grid={"hidden": [(2,), (4,)]})
    >>> [trial["hidden"] for trial in tuned.trials]
    [[2], [4]]

    Cost: a run for every combination of a grid, except those that an earlier grid has run.
    """
    settings = cast(S, Config()) if config is None else config
    grid = kind_module(settings.kind).grids_for(train) if grid is None else grid
    grids = [grid] if isinstance(grid, Mapping) else list(grid)
    names = list(dict.fromkeys(name for each in grids for name in each))
    settings.check_names(names)
    _refuse_measures(names, type(settings))
    known = {_key(trial, names): dict(trial) for trial in trials}
    done: dict[str, dict[str, Any]] = {}
    for each in grids:
        tried = [
            settings.changed(**dict(zip(each, combination, strict=True)))
            for combination in product(*each.values())
        ]
        for candidate in tried:
            values = _json_of(candidate, names)
            key = _key(values, names)
            if key not in done and key not in known:
                report = _numbered(progress, f"trial {len(done) + 1}")
                known[key] = values | _found(fit_ranker(train, vali, candidate, progress=report))
                on_trial(known[key])
            done[key] = known[key]
        # the first of equals
        settings = max(tried, key=lambda c: done[_key(_json_of(c, names), names)]["quality"])
    return Tuned(settings, list(done.values()))


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


def _found(ranker: Ranker) -> dict[str, Any]:
    return {name: ranker.info[name] for name in ("quality", "iteration") if name in ranker.info}


def _key(settings: Mapping[str, Any], names: Sequence[str]) -> str:
    return repr([settings[name] for name in names])


def _numbered(progress: Progress, prefix: str) -> Progress:
    return lambda text: progress(f"{prefix}, {text}")
