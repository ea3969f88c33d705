"""Follow a run: print its iterations as they end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.console import progress, put, say
from sortnet.messages import count
from store.report import iteration_table
from store.report.iteration_table import quality_of
from store.runs.unfinished import again

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
    """Print the iterations of a run until the run ends.

    Args:
        run: the run.
        interval: seconds between two reads of the store.
        progress: shows the status of the run.

    Returns:
        The last status of the run, and the number of iterations.
    """
    from store.training.watch_run import watch  # it imports sqlalchemy, which takes a while

    quality = quality_of(run.config)
    n_iterations = 0
    for change in watch(run, interval):
        progress(run.status)
        has_first_iteration = n_iterations == 0 and bool(change.rows)
        if has_first_iteration:
            for line in iteration_table.header(quality):
                put(line, bold=True)
        for row in change.rows:
            put(iteration_table.line(row, quality))
        n_iterations += len(change.rows)
    return change.status, n_iterations
