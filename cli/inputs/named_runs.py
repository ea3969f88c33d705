"""Find a run by id or prefix, complete its id, build its resume command."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from cli.inputs.opened_store import open_existing
from sortnet.errors import SortNetError, StoreError

if TYPE_CHECKING:
    from store import Run

_NEWEST = 30  # runs that are offered for completion


@contextmanager
def open_run(store: str | None, name: str) -> Iterator[Run]:
    """Open the run with that id; an empty store raises with the next step."""
    with open_existing(store) as opened:
        if opened.runs_frame().empty:
            raise StoreError(f"{opened.database.name} has no runs yet: sortnet train makes one")
        yield opened.run(name)


def resume(out: str) -> str:
    """The command that resumes the run whose model is in that folder."""
    return shlex.join(["sortnet", "train", "--resume", "--out", out])


def again(run: Run) -> str | None:
    """The command that resumes an unfinished run; None if it is done."""
    return None if run.status == "done" or run.out is None else resume(run.out)


def run_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete `last` and the newest runs of a SQLite store; errors give no completions."""
    items = [CompletionItem("last", help="the newest run")]
    with suppress(SortNetError, sqlite3.Error, OSError):
        items += _runs(ctx.params.get("store"))
    return [item for item in items if item.value.startswith(incomplete)]


def _runs(store: str | None) -> list[CompletionItem]:
    from store.database.engine import parse_url, reading_uri

    url = parse_url(store)
    if url.drivername != "sqlite":  # a remote server may be slow
        return []
    file = reading_uri(Path(url.database or ""))
    with closing(sqlite3.connect(file, uri=True, timeout=0.2)) as connection:
        newest = "SELECT id, status, created FROM runs ORDER BY number DESC LIMIT ?"
        rows = connection.execute(newest, (_NEWEST,)).fetchall()
    return [CompletionItem(id_, help=f"{status}, {created[:16]}") for id_, status, created in rows]
