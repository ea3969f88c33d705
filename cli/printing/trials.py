"""The trials by which settings left open were chosen, as lines of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Trial = Mapping[str, Any]

_OPEN = ("scaling", "weight_decay")  # what trials may choose
_FIRST = 24  # columns; a scaling may be long


def trial_shower(quality: str, line: Callable[[str], None]) -> Callable[[Trial], None]:
    """Format each trial as a line of settings and RankQuality, with a header above the first."""
    headed = False

    def show(trial: Trial) -> None:
        nonlocal headed
        first, *names = _settings_of(trial)
        width = max(map(len, (*names, quality))) + 2
        if not headed:
            line(f"{first:{_FIRST}}" + "".join(f"{name:>{width}}" for name in (*names, quality)))
            headed = True
        cells = [*(_typed(trial[name]) for name in names), f"{trial['quality']:.4f}"]
        line(f"{_typed(trial[first]):{_FIRST}}" + "".join(f"{cell:>{width}}" for cell in cells))

    return show


def chosen(config: Mapping[str, Any], trials: Sequence[Trial]) -> str:
    """A line of the settings, and of how many trials they are the best; empty if there are none."""
    tried = _settings_of(trials[0]) if trials else _OPEN
    said = ", ".join(
        f"{name} {_typed(config[name])}" for name in tried if name != "epochs" and name in config
    )
    how = "chosen" if len(trials) > 1 else "one trial" if trials else "no trials"
    return f"{how}: {said}" if said else ""


def _settings_of(trial: Trial) -> list[str]:
    return [name for name in trial if name not in ("quality", "iteration")]


def _typed(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of a run by name, those of the training on pairs among them."""
    return {**config, **config.get("training", {})}
