"""The iterations of a run while it is running, line by line."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cli.inputs.opened_store import again
from cli.output import count, progress, put, say
from cli.printing import iterations

if TYPE_CHECKING:
    from sortnet.types import Progress
    from store import Run

QUIET = 120.0  # seconds without an iteration that are normal at any speed


def follow(run: Run, interval: float) -> None:
    """Print the iterations of a run until it ends, or until Ctrl-C, which does not stop it.

    Its store is read every `interval` seconds.
    """
    try:
        with progress() as status:
            ended, n = _rows_until_it_ends(run, interval, status)
    except KeyboardInterrupt:
        say(f"no longer following run {run.id}")
        return
    step = f"resume with: {again(run)}" if again(run) else f"next: sortnet report {run.id}"
    how = "was killed" if ended == "killed" else f"is {ended}"
    say(f"run {run.id} {how}, {count(n, 'iteration')}; {step}")


def _rows_until_it_ends(run: Run, interval: float, progress: Progress) -> tuple[str, int]:
    """Its last status, and the number of its iterations."""
    quality, since = iterations.quality_of(run.config), time.monotonic()
    shown, hinted = 0, False
    while True:
        progress(run.status_text)
        status = run.status  # read before the rows: an ended run has all of them
        rows = iterations.rows_of(run.iterations_frame())
        for text in iterations.header(quality) if rows and not shown else ():
            put(text, bold=True)
        for row in rows[shown:]:
            put(iterations.line(row, quality))
        if len(rows) > shown:
            shown, since = len(rows), time.monotonic()
        hint = _hint(run, rows, time.monotonic() - since)
        if hint and not hinted:
            say(hint)
        hinted = hint is not None
        if status != "running":
            return status, shown
        time.sleep(interval)


def _hint(run: Run, rows: Sequence[dict[str, Any]], quiet: float) -> str | None:
    """A killed run keeps status "running"; after a long silence suggest --resume."""
    slowest = max(map(iterations.seconds, rows), default=0.0)
    if quiet < max(QUIET, 5 * slowest):
        return None
    where = run.status_text.removeprefix("running")
    step = again(run) or run.command
    return f"nothing new for {quiet:.0f} s; if it was killed{where}, resume with: {step}"
