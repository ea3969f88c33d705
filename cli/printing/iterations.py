"""Print iterations as they come, and the trials by which settings were chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from cli.console import put
from sortnet.messages import count
from store.report.iteration_table import flat, header, line

if TYPE_CHECKING:
    from sortnet.learning.iterations import Iteration

Trial: TypeAlias = Mapping[str, Any]
_OPEN = ("scaling", "weight_decay")  # what trials may choose
_FIRST = 24  # columns; a scaling may be long


def shower(quality: str, *, err: bool = False) -> Callable[[Iteration], None]:
    """A callback that prints each iteration as a line, with a header above the first."""
    headed = False

    def show(record: Iteration) -> None:
        nonlocal headed
        if not headed:
            for text in header(quality):
                put(text, err=err, bold=True)
            headed = True
        put(line(flat(record), quality), err=err, bold=bool(record.best))

    return show


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
    """A line of the settings, and of how many trials they are the best; empty if there are none.

    While settings are yet to be chosen, the number of trials that have ended.
    """
    tried = _settings_of(trials[0]) if trials else _OPEN
    if None in [config.get(name, "") for name in _OPEN]:
        return f"{count(len(trials), 'trial')} so far"
    said = ", ".join(
        f"{name} {_typed(config[name])}" for name in tried if name != "epochs" and name in config
    )
    how = "chosen" if len(trials) > 1 else "one trial" if trials else "no trials"
    return f"{how}: {said}" if said else ""


def _settings_of(trial: Trial) -> list[str]:
    return [name for name in trial if name not in ("quality", "iteration")]


def _typed(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
