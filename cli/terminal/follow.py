"""The iterations of a run while it is running, on a terminal or line by line."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cli.inputs.opened_store import again
from cli.output import count, put, say
from cli.printing import iterations

if TYPE_CHECKING:
    from rich.console import RenderableType

    from store import Run

BLOCKS, PLAIN = "▁▂▃▄▅▆▇█", "_.-=+*#@"
QUIET = 120.0  # seconds without an iteration that are normal at any speed


class Look(NamedTuple):
    """Current state of a run: status, status line, iterations, hint after a long silence."""

    status: str
    standing: str
    rows: list[dict[str, Any]]
    hint: str | None


def follow(run: Run, interval: float) -> None:
    """Show the iterations of a run until it ends, or until Ctrl-C, which does not stop it.

    Args:
        run: the run.
        interval: seconds between two reads of the store.
    """
    try:
        if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            _live(run, interval)
        else:
            _lines(run, interval)
    except KeyboardInterrupt:
        say(f"no longer following run {run.id}")


def _looks(run: Run, interval: float) -> Iterator[Look]:
    """Yield the state of the run at intervals, for the last time when it has ended."""
    since, known = time.monotonic(), -1
    while True:
        status = run.status  # read before the rows: an ended run has all of them
        rows = iterations.rows_of(run.iterations_frame())
        if len(rows) != known:
            since, known = time.monotonic(), len(rows)
        yield Look(status, run.status_text, rows, _hint(run, rows, time.monotonic() - since))
        if status != "running":
            return
        time.sleep(interval)


def _hint(run: Run, rows: Sequence[dict[str, Any]], quiet: float) -> str | None:
    """A killed run keeps status "running"; after a long silence suggest --resume."""
    slowest = max(map(iterations.seconds, rows), default=0.0)
    if quiet < max(QUIET, 5 * slowest):
        return None
    where = run.status_text.removeprefix("running")
    step = again(run) or run.command
    return f"nothing new for {quiet:.0f} s; if it was killed{where}, resume with: {step}"


def _lines(run: Run, interval: float) -> None:
    quality, shown, hinted = iterations.quality_of(run.config), 0, False
    for look in _looks(run, interval):
        if not shown and look.rows:
            for text in iterations.header(quality):
                put(text, bold=True)
        for row in look.rows[shown:]:
            put(iterations.line(row, quality))
        shown = len(look.rows)
        if look.hint and not hinted:
            say(look.hint)
        hinted = look.hint is not None
    say(_ending(run, look))


def _live(run: Run, interval: float) -> None:
    """Show the table and the sparklines in a terminal, refreshed in place."""
    from rich.console import Console
    from rich.live import Live

    console = Console()
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        for look in _looks(run, interval):
            height = console.height if look.status == "running" else len(look.rows) + 20
            live.update(_screen(run, look, height, console), refresh=True)
    say(_ending(run, look))


def _screen(run: Run, look: Look, height: int, console: Any) -> RenderableType:
    """The newest rows that fit, and a sparkline for each figure."""
    from rich.text import Text

    quality = iterations.quality_of(run.config)
    marks = PLAIN if console.options.ascii_only else BLOCKS
    below = [*_sparks(look.rows, quality, marks), *filter(None, [look.hint])]
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(
        f"run {run.id}  {look.standing}  {count(len(look.rows), 'iteration')}\n", style="bold"
    )
    if not look.rows:
        text.append(f"{look.hint or 'waiting for the first iteration'}")
        return text
    n_rows = max(height - len(below) - 6, 1)
    lines = [
        *iterations.header(quality),
        *(iterations.line(r, quality) for r in look.rows[-n_rows:]),
    ]
    text.append("\n".join([*lines, "", *below]))
    return text


def _sparks(rows: Sequence[dict[str, Any]], quality: str, marks: str) -> Iterator[str]:
    """A line for each figure that is known."""
    shares = {f"{part}_{quality}": f"{quality} {part}" for part in ("train", "vali")}
    counts = {"tp": "TP", "vp": "VP", "new_train": "new train", "new_vali": "new vali"}
    for name, label in (shares | counts).items():
        known = [float(row[name]) for row in rows if row.get(name) is not None]
        if known:
            digits = 4 if name in shares else 0
            bounds = f"{min(known):,.{digits}f} to {max(known):,.{digits}f}"
            yield f"{label:>14} {sparkline(known[-40:], marks)} {bounds}"


def sparkline(values: Sequence[float], marks: str = BLOCKS) -> str:
    """One character per value; the lowest value is the first mark.

    >>> sparkline([0, 1, 2, 7])
    '▁▂▃█'
    >>> sparkline([3, 3])
    '▁▁'
    """
    low, span = min(values), max(values) - min(values)
    places = (math.floor((v - low) / span * (len(marks) - 1) + 0.5) if span else 0 for v in values)
    return "".join(marks[place] for place in places)


def _ending(run: Run, look: Look) -> str:
    step = f"resume with: {again(run)}" if again(run) else f"next: sortnet report {run.id}"
    ended = "was killed" if look.status == "killed" else f"is {look.status}"
    return f"run {run.id} {ended}, {count(len(look.rows), 'iteration')}; {step}"
