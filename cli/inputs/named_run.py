"""The argument RUN or FOLDER of a command: complete the id of a run, or find the folder's run."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from sortnet.errors import SortNetError, StoreError

_NEWEST = 30  # number of runs that are offered


def run_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer `last` and the newest runs of a SQLite store; after an error only `last`.

    Args:
        ctx: context of the command, with the store.
        param: the argument that is completed.
        incomplete: text that is typed so far.
    """
    items = [CompletionItem("last", help="the newest run")]
    with suppress(SortNetError, sqlite3.Error, OSError):
        items += _newest_runs(ctx.params.get("store"))
    return [item for item in items if item.value.startswith(incomplete)]


def _newest_runs(store: str | None) -> list[CompletionItem]:
    """List the newest runs of a SQLite store, newest first.

    For a database server the list is empty, since it may be slow.
    """
    from store.database.engine import parse_url, reading_uri

    url = parse_url(store)
    if url.drivername != "sqlite":
        return []
    file = reading_uri(Path(url.database or ""))
    with closing(sqlite3.connect(file, uri=True, timeout=0.2)) as connection:
        query = "SELECT id, status, created FROM runs ORDER BY number DESC LIMIT ?"
        rows = connection.execute(query, (_NEWEST,)).fetchall()
    # The first 16 characters of a time are the date and the minute.
    return [CompletionItem(id_, help=f"{status}, {created[:16]}") for id_, status, created in rows]


def is_model_folder(name: str) -> bool:
    """Whether `name` is the path of a folder that has a model or the record of a run."""
    return any(Path(name, file).is_file() for file in ("model.json", "run.json"))


def run_of_folder(folder: str, store: str | None) -> tuple[str, str | None]:
    """Return the id of the run that made a folder's model, and the URL of the run's store.

    Args:
        folder: the model folder.
        store: the store that has the run. If None, the store that the folder's record names, and
            without a record the default store of the user.

    Raises:
        StoreError: if no run made the model.
        ModelError: on a damaged folder.
    """
    from sortnet.rankers.load_ranker import load_ranker
    from store.training.run_folder import Folder

    record = Folder(folder).run()
    url = store
    if record is None:
        run_id = load_ranker(folder).info.get("run")
    else:
        run_id = record["run"]
        url = store or record["store"]
    if run_id is None:
        raise StoreError(f"{folder}: no run of a store made this model")
    return str(run_id), url
