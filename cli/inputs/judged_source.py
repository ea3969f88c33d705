"""Tell a collection in the store from a file of data."""

from __future__ import annotations

from collections.abc import Sequence
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

    if len(set(paths)) != 1:
        return None
    name = paths[0]
    if (source := Source.parse(name)) is not None or len(paths) > 1:
        return source
    is_file = Path(name).exists()
    try:
        is_collection = name in collections_of(url)
    except StoreError:
        if not is_file:
            raise
        is_collection = False  # a store that cannot be read yet holds none of this name
    if is_file and is_collection:
        raise SortNetError(
            f"{name} is a file here and a collection in the store: write ./{name} for the file, "
            f"{PREFIX}{name} for the collection"
        )
    if not is_file and not is_collection:
        raise SortNetError(
            f"{name}: no such folder, and no collection of the store (sortnet items list)"
        )
    return Source(name) if is_collection else None


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
