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
_FIRST_WIDTH = 24  # characters of the first column, which may hold a long scaling


def shower(quality: str, *, err: bool = False) -> Callable[[Iteration], None]:
    """Return a function that prints an iteration as a line, and a header before the first.

    Args:
        quality: name of the RankQuality measure, the title of its column.
        err: whether to print on stderr.
    """
    has_header = False

    def show(record: Iteration) -> None:
        """Print an iteration, after the header if it is the first."""
        nonlocal has_header
        if not has_header:
            for text in header(quality):
                put(text, err=err, bold=True)
            has_header = True
        put(line(flat(record), quality), err=err, bold=bool(record.best))

    return show


def trial_shower(quality: str, show_line: Callable[[str], None]) -> Callable[[Trial], None]:
    """Return a function that shows a trial as a line: its settings and its RankQuality.

    A header is shown before the first trial.

    Args:
        quality: name of the RankQuality measure, the title of its column.
        show_line: shows one line.
    """
    has_header = False

    def show(trial: Trial) -> None:
        """Show a trial, after the header if it is the first."""
        nonlocal has_header
        first_setting, *other_settings = _settings_of(trial)
        titles = [*other_settings, quality]
        width = max(map(len, titles)) + 2
        if not has_header:
            show_line(_trial_line(first_setting, titles, width))
            has_header = True
        values = [_value_text(trial[setting]) for setting in other_settings]
        cells = [*values, f"{trial['quality']:.4f}"]
        show_line(_trial_line(_value_text(trial[first_setting]), cells, width))

    return show


def _trial_line(first_cell: str, cells: Sequence[str], width: int) -> str:
    """Write cells as a line: the first flush left, the others flush right in equal columns."""
    aligned_cells = "".join(f"{cell:>{width}}" for cell in cells)
    return f"{first_cell:{_FIRST_WIDTH}}{aligned_cells}"


def chosen(config: Mapping[str, Any], trials: Sequence[Trial]) -> str:
    """Tell which settings the trials have chosen; before the choice, how many trials have ended.

    The text is empty if trials choose no setting of the run.

    Args:
        config: the settings of the run.
        trials: the trials that have ended.
    """
    is_any_open = any(name in config and config[name] is None for name in _CHOSEN_BY_TRIALS)
    if is_any_open:
        return f"{count(len(trials), 'trial')} so far"
    names = _settings_of(trials[0]) if trials else _CHOSEN_BY_TRIALS
    # Trials record their number of epochs, but do not choose it.
    chosen_names = [name for name in names if name != "epochs" and name in config]
    settings = ", ".join(f"{name} {_value_text(config[name])}" for name in chosen_names)
    if not settings:
        return ""
    if not trials:
        basis = "no trials"
    elif len(trials) == 1:
        basis = "one trial"
    else:
        basis = "chosen"
    return f"{basis}: {settings}"


def _settings_of(trial: Trial) -> list[str]:
    """Return the names of the settings that a trial was made with."""
    return [name for name in trial if name not in ("quality", "iteration")]


def _value_text(value: Any) -> str:
    """Write the value of a setting as it is typed on the command line."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
