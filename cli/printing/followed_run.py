"""Follow a run: print its trials and iterations as they end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.console import progress, put, say
from cli.printing import iterations
from cli.printing.runs import chosen_lines
from sortnet.messages import count
from store.report import iteration_table
from store.report.iteration_table import quality_of
from store.runs.unfinished import again, with_phase

if TYPE_CHECKING:
    from sortnet.core import Progress
    from store import Run


def print_until_it_ends(run: Run, interval: float) -> None:
    """Print the iterations of a run until it ends, or until Ctrl-C, which does not stop it.

    Args:
        run: the run.
        interval: seconds between two reads of the store.
    """
    try:
        with progress() as status:
            last_status, n_iterations = _print_changes(run, interval, status)
    except KeyboardInterrupt:
        say(f"no longer following run {run.id}")
        return
    command = again(run)
    step = f"resume with: {command}" if command else f"next: sortnet report {run.id}"
    verb = "was" if last_status.startswith("killed") else "is"
    say(f"run {run.id} {verb} {last_status}, {count(n_iterations, 'iteration')}; {step}")


def _print_changes(run: Run, interval: float, progress: Progress) -> tuple[str, int]:
    """Print the trials and iterations of a run until the run ends.

    Args:
        run: the run.
        interval: seconds between two reads of the store.
        progress: shows the status of the run.

    Returns:
        The last status of the run with its phase, and the number of iterations.
    """
    from store.training.watch_run import watch  # it imports sqlalchemy, which takes a while

    quality = quality_of(run.config)
    n_iterations = 0
    n_trials = 0
    show_trial = iterations.trial_shower(quality, put)
    for change in watch(run, interval):
        progress(with_phase(run.status_text, run.phase))
        for trial in change.trials:
            show_trial(trial)
        n_trials += len(change.trials)
        has_first_iteration = n_iterations == 0 and bool(change.rows)
        if has_first_iteration:
            _print_header(run, quality, has_trials=n_trials > 0)
        for row in change.rows:
            put(iteration_table.line(row, quality))
        n_iterations += len(change.rows)
    return with_phase(change.status, run.phase), n_iterations


def _print_header(run: Run, quality: str, *, has_trials: bool) -> None:
    """Print the header of the iterations, after the settings that trials have chosen."""
    if has_trials:
        for line in chosen_lines(run.config):
            put(line)
    for line in iteration_table.header(quality):
        put(line, bold=True)
