"""Open the store, run or collection that a command or a training names."""

from __future__ import annotations

import glob
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sortnet.errors import SortNetError, StoreError

if TYPE_CHECKING:
    from sqlalchemy import URL

    from store import Collection, Run, Store
    from store.database.engine import StoreAddress
    from store.service.judged_queries import Source

ITEMS_MAKER = "sortnet items add"  # the command that creates a store with collections
# Errors that code raises if a store contains values that SortNet never writes.
_INVALID_VALUE_ERRORS = (
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    OverflowError,
    RecursionError,
)


@contextmanager
def open_existing(
    url: StoreAddress, maker: str = "sortnet train", *, write: bool = False
) -> Iterator[Store]:
    """Open a store that must exist, so that a misspelt name creates no new store.

    Args:
        url: URL or file of the store; None: the default store.
        maker: the command that creates a store, which the message names if there is no store.
        write: whether the store is opened for writing.

    Raises:
        StoreError: if the store cannot be opened, or contains invalid values.
    """
    from store import open_store

    existing_url = _existing(url)
    if existing_url is None:
        from store.database.engine import parse_url

        raise StoreError(
            f"store {parse_url(url).database}: no such file; {maker} makes one, --store or "
            "SORTNET_STORE choose another"
        )
    if write:
        # An invalid value may come from the caller, not from the store, so its error stays.
        with open_store(existing_url) as opened:
            yield opened
    else:
        with (
            open_store(existing_url, write=False) as opened,
            _invalid_values_as_store_error(opened.database.name),
        ):
            yield opened


@contextmanager
def _invalid_values_as_store_error(name: str) -> Iterator[None]:
    """Raise errors about invalid values in the `with` block as a StoreError.

    Args:
        name: name of the store in the message.
    """
    try:
        yield
    except (SortNetError, OSError):
        raise
    except _INVALID_VALUE_ERRORS as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise StoreError(
            f"{name} contains data that SortNet does not write, or this is a bug in SortNet: "
            f"{type(error).__name__}: {str(error)[:99]} ({frame.name}, line {frame.lineno})"
        ) from error


@contextmanager
def open_collection(url: StoreAddress, name: str, *, write: bool = False) -> Iterator[Collection]:
    """Open a collection of an existing store."""
    with open_existing(url, ITEMS_MAKER, write=write) as opened:
        yield opened.collection(name)


@contextmanager
def open_run(store: str | None, name: str) -> Iterator[Run]:
    """Open a run by its id.

    Raises:
        StoreError: if there is no such run; if the store has no runs, with the next step.
    """
    with open_existing(store) as opened:
        if opened.runs_frame().empty:
            raise StoreError(f"{opened.database.name} has no runs yet: sortnet train makes one")
        yield opened.run(name)


def collections_of(url: StoreAddress) -> list[str]:
    """List the names of a store's collections; empty if the store does not exist."""
    from store import open_store

    existing_url = _existing(url)
    if existing_url is None:
        return []
    with open_store(existing_url, write=False) as opened:
        names: list[str] = opened.collections_frame()["name"].tolist()
    return names


def _existing(url: StoreAddress) -> URL | None:
    """Parse a store's URL; return None if the URL names a file that does not exist."""
    from store.database.engine import parse_url

    parsed = parse_url(url)
    is_missing = parsed.drivername == "sqlite" and not Path(parsed.database or "").exists()
    return None if is_missing else parsed


def judged_source(paths: Sequence[str], url: StoreAddress) -> Source | None:
    """Find the collection that the data arguments of `train` name; None if they name files.

    An existing file or folder takes precedence over a collection of the same name.

    Args:
        paths: the arguments, one or several; a single collection may be named more than once.
        url: URL or file of the store; None: the default store.

    Raises:
        SortNetError: if there is one argument, and no file, folder or collection has its name.
    """
    from store.service.judged_queries import Source

    if len(set(paths)) != 1:  # several arguments name files
        return None
    name = paths[0]
    source = Source.parse(name)
    if source is not None:
        return source
    if len(paths) > 1:
        return None  # only a source with the prefix `collection:` may be named more than once
    if Path(name).exists() or glob.has_magic(name):  # a pattern such as `part-*.csv` names files
        return None
    if name in collections_of(url):
        return Source(name)
    raise SortNetError(
        f"{name}: no such file or folder, and no collection of the store (sortnet items list)"
    )


def is_collection(name: str, url: StoreAddress = None) -> bool:
    """Whether a store has a collection of this name; a store that cannot be read has none.

    Args:
        url: URL or file of the store; None: the default store.
    """
    with suppress(StoreError):
        return name in collections_of(url)
    return False
