"""Find the run or the collection that a report is about, by a name that both may have."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from sortnet.errors import StoreError
from sortnet.messages import note
from store.service.existing_store import open_existing


class Subject(NamedTuple):
    """The name of the run or the collection that a report is about."""

    name: str
    is_collection: bool


def subject_of(store: str | None, name: str) -> Subject:
    """Find the run or the collection with a name.

    If there is a run and a collection, a note tells which is taken. The name `last` and the whole
    id of a run mean the run; any other name, such as the beginning of a run's id, means the
    collection.

    Args:
        store: the address of the store. If None, the default store.
        name: the name of a run or a collection; `collection:` before the name means a collection.

    Raises:
        StoreError: if no run and no collection has the name.
    """
    from store.service.judged_queries import PREFIX

    if name.startswith(PREFIX):
        return Subject(name.removeprefix(PREFIX), is_collection=True)
    with open_existing(store) as opened:
        collections: list[str] = opened.collections_frame()["name"].tolist()
        is_collection = name in collections
        try:
            run_id = opened.run(name).id
        except StoreError as error:
            if is_collection or not collections:
                return Subject(name, is_collection)
            raise StoreError(f"{error}; collections: {', '.join(collections[:10])}") from None
    if is_collection and name in ("last", run_id):
        note(f"run {run_id} is taken; the collection: sortnet report {shlex.quote(PREFIX + name)}")
        return Subject(name, is_collection=False)
    if is_collection:
        note(f"collection {name} is taken; the run: sortnet report {run_id}")
    return Subject(name, is_collection)
