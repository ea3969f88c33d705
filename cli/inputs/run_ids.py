"""Shell completion of the id of a run."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from sortnet.errors import SortNetError

_NEWEST = 30  # runs that are offered for completion


def run_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete `last` and the newest runs of a SQLite store; after an error only `last`."""
    items = [CompletionItem("last", help="the newest run")]
    with suppress(SortNetError, sqlite3.Error, OSError):
        items += _runs(ctx.params.get("store"))
    return [item for item in items if item.value.startswith(incomplete)]


def _runs(store: str | None) -> list[CompletionItem]:
    """The newest runs of a SQLite store, newest first; no runs of a server, which may be slow."""
    from store.database.engine import parse_url, reading_uri

    url = parse_url(store)
    if url.drivername != "sqlite":
        return []
    file = reading_uri(Path(url.database or ""))
    with closing(sqlite3.connect(file, uri=True, timeout=0.2)) as connection:
        newest = "SELECT id, status, created FROM runs ORDER BY number DESC LIMIT ?"
        rows = connection.execute(newest, (_NEWEST,)).fetchall()
    return [CompletionItem(id_, help=f"{status}, {created[:16]}") for id_, status, created in rows]
