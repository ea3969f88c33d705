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
        if not collections:
            return Subject(name, is_collection=False)
        try:
            run_id = opened.run(name).id
        except StoreError as error:
            if name in collections:
                return Subject(name, is_collection=True)
            listed = ", ".join(collections[:10])
            raise StoreError(f"{error}; collections: {listed}") from None
    if name not in collections:
        return Subject(name, is_collection=False)
    return _run_or_collection(name, run_id)


def _run_or_collection(name: str, run_id: str) -> Subject:
    """Choose between a run and a collection of the same name; a note tells which is taken.

    Args:
        name: the name of both; the name of the run may be a prefix of its id, or `last`.
        run_id: the whole id of the run.
    """
    from store.service.judged_queries import PREFIX

    if name in ("last", run_id):
        note(f"run {run_id} is taken; the collection: sortnet report {shlex.quote(PREFIX + name)}")
        return Subject(name, is_collection=False)
    note(f"collection {name} is taken; the run: sortnet report {run_id}")
    return Subject(name, is_collection=True)
