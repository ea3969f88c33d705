"""Open the store that a command reads or writes."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cli.output import say
from sortnet.errors import SortNetError, StoreError

if TYPE_CHECKING:
    from sqlalchemy import URL

    from store import Collection, Store

ITEMS_MAKER = "sortnet items add"  # the command that creates a store with collections


@contextmanager
def open_existing(
    url: str | None, maker: str = "sortnet train", *, write: bool = False
) -> Iterator[Store]:
    """Open an existing store: a misspelt name must not create one; `maker` does.

    Raises:
        StoreError: if it cannot be opened, or contains invalid values.
    """
    from store import open_store
    from store.database.engine import parse_url

    parsed = parse_url(url)
    if parsed.drivername == "sqlite" and not Path(parsed.database or "").exists():
        raise StoreError(
            f"store {parsed.database}: no such file; {maker} makes one, --store or "
            "SORTNET_STORE choose another"
        )
    with open_to_write(parsed) if write else open_store(parsed, write=False) as opened:
        try:
            yield opened
        except (SortNetError, OSError):
            raise
        except _ODD as error:
            if write:
                raise
            place = traceback.extract_tb(error.__traceback__)[-1]
            what = f"{type(error).__name__}: {str(error)[:99]} ({place.name}, line {place.lineno})"
            raise StoreError(
                f"{opened.database.name} contains data that SortNet does not write, "
                f"or this is a bug in SortNet: {what}"
            ) from error


@contextmanager
def open_collection(url: str | None, name: str, *, write: bool = False) -> Iterator[Collection]:
    """Open a collection of an existing store."""
    with open_existing(url, ITEMS_MAKER, write=write) as opened:
        yield opened.collection(name)


# Raised for values that the tables should not contain.
_ODD = (ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError)


def open_to_write(url: URL | str | None) -> Store:
    """Open the store for writing; after a schema upgrade, print where the copy is."""
    from store import open_store

    opened = open_store(url)
    if opened.copy is not None:
        say(
            f"{opened.database.name} was upgraded to a new schema; "
            f"copy of the old file: {opened.copy}"
        )
    return opened
