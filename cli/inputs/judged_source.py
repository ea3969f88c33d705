"""Tell a collection in the store from a file of data."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sortnet.errors import SortNetError, StoreError

if TYPE_CHECKING:
    from sqlalchemy import URL

    from store.service.judged import Source


def judged_source(paths: Sequence[str], url: URL | str | None) -> Source | None:
    """The collection that the arguments of `train` name; None if they name files.

    Raises:
        SortNetError: if a file and a collection have the name, or nothing has it.
    """
    from store.service.judged import PREFIX, Source

    named = set(paths)
    if len(named) != 1:
        return None
    (name,) = named
    source = Source.parse(name)
    if source is not None:
        return source
    if len(paths) > 1:
        return None
    if not Path(name).exists():
        if name not in collections_of(url):
            raise SortNetError(
                f"{name}: no such folder, and no collection of the store (sortnet items list)"
            )
        return Source(name)
    found = False
    with suppress(StoreError):  # a store that cannot be read yet holds no collection of this name
        found = name in collections_of(url)
    if found:
        raise SortNetError(
            f"{name} is a file here and a collection in the store: write ./{name} for the file, "
            f"{PREFIX}{name} for the collection"
        )
    return None


def collections_of(url: URL | str | None) -> list[str]:
    """The names of the store's collections; none if there is no store yet."""
    from store import open_store
    from store.database.engine import parse_url

    parsed = parse_url(url)
    if parsed.drivername == "sqlite" and not Path(parsed.database or "").exists():
        return []
    with open_store(parsed, write=False) as opened:
        names: list[str] = opened.collections_frame()["name"].tolist()
    return names
