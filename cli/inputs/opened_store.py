"""The store that a command reads or writes, opened."""

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

    from store import Store

ITEMS_MAKER = "sortnet items add"  # the command that makes a store with collections


@contextmanager
def open_existing(
    url: str | None, maker: str = "sortnet train", *, write: bool = False
) -> Iterator[Store]:
    """The store, which must be there: a misspelt name makes no new one, `maker` does.

    Raises:
        StoreError: if it cannot be opened, or what reads it meets values that cannot be.
    """
    from store import open_store
    from store.database.engine import parse_url

    parsed = parse_url(url)
    if parsed.drivername == "sqlite" and not Path(parsed.database or "").exists():
        raise StoreError(
            f"store {parsed.database}: no such file; {maker} makes one, --store or "
            "SORTNET_STORE names another"
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
                f"{opened.database.name} holds what SortNet does not write, or this is a fault of "
                f"SortNet: {what}"
            ) from error


# What comes of values that the tables should not hold.
_ODD = (ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError)


def open_to_write(url: URL | str | None) -> Store:
    """The store; where its old schema was upgraded, it is said where a copy is."""
    from store import open_store

    opened = open_store(url)
    if opened.copy is not None:
        say(f"{opened.database.name} has a new schema now; as it was before: {opened.copy}")
    return opened
