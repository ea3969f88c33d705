"""Print the iterations of a training, and the trials by which its settings were chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from cli.console import put
from sortnet.messages import count
from store.report.iteration_table import flat, header, line

if TYPE_CHECKING:
    from sortnet.learning.iterations import Iteration

Trial: TypeAlias = Mapping[str, Any]
_CHOSEN_BY_TRIALS = ("scaling", "weight_decay")  # settings that trials may choose
_FIRST_WIDTH = 24  # characters of the first column, in which a scaling may be long


def shower(quality: str, *, err: bool = False) -> Callable[[Iteration], None]:
    """Return a callback that prints an iteration as a line, and a header before the first."""
    has_header = False

    def show(record: Iteration) -> None:
        nonlocal has_header
        if not has_header:
            for text in header(quality):
                put(text, err=err, bold=True)
            has_header = True
        put(line(flat(record), quality), err=err, bold=bool(record.best))

    return show


def trial_shower(quality: str, show_line: Callable[[str], None]) -> Callable[[Trial], None]:
    """Return a callback that shows a trial as a line: its settings and its RankQuality.

    A header is shown before the first trial.
    """
    has_header = False

    def show(trial: Trial) -> None:
        nonlocal has_header
        first, *names = _settings_of(trial)
        titles = [*names, quality]
        width = max(map(len, titles)) + 2
        if not has_header:
            show_line(f"{first:{_FIRST_WIDTH}}" + "".join(f"{title:>{width}}" for title in titles))
            has_header = True
        cells = [*(_value_text(trial[name]) for name in names), f"{trial['quality']:.4f}"]
        first_cell = f"{_value_text(trial[first]):{_FIRST_WIDTH}}"
        show_line(first_cell + "".join(f"{cell:>{width}}" for cell in cells))

    return show


def chosen(config: Mapping[str, Any], trials: Sequence[Trial]) -> str:
    """A line with the settings that trials have chosen; empty without such settings.

    Until the settings are chosen, the line tells how many trials have ended.
    """
    settings_to_choose = [name for name in _CHOSEN_BY_TRIALS if name in config]
    if any(config[name] is None for name in settings_to_choose):
        return f"{count(len(trials), 'trial')} so far"
    names = _settings_of(trials[0]) if trials else _CHOSEN_BY_TRIALS
    settings = ", ".join(
        f"{name} {_value_text(config[name])}"
        for name in names
        if name != "epochs" and name in config
    )
    if not settings:
        return ""
    if not trials:
        return f"no trials: {settings}"
    return f"one trial: {settings}" if len(trials) == 1 else f"chosen: {settings}"


def _settings_of(trial: Trial) -> list[str]:
    return [name for name in trial if name not in ("quality", "iteration")]


def _value_text(value: Any) -> str:
    """Write the value of a setting as it is typed on the command line."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
