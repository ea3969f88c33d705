"""Print the iterations of a training."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cli.console import put
from store.report.iteration_table import flat, header, line

if TYPE_CHECKING:
    from sortnet.learning.iterations import Iteration


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
