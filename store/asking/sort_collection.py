"""Create or find the collection that a call of `sortnet.sort` sorts, and add its new items."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sortnet.core import Progress
from sortnet.errors import DataError, StoreError
from sortnet.files import Record, shown
from sortnet.items import Items
from sortnet.items.given_items import GivenItems
from sortnet.judges.any_judge import MachineJudge
from sortnet.judges.identity import identity_of, value_hash
from sortnet.messages import count
from sortnet.preference.study import QUESTION, Decision
from store.collections.collection import Collection
from store.database.engine import Database
from store.service.added_items import add_items, stored_roles
from store.store import Store

_WAIT = 0.2  # seconds between two attempts to begin a sort


def collection_to_sort(
    store: Store,
    name: str,
    given_items: GivenItems,
    wanted: Record,
    seed: int,
    progress: Progress,
) -> Collection:
    """Find or create the collection that `sortnet.sort` works with, and add the items it lacks.

    The judge's question, instructions and set size are stored if they differ from the stored ones.

    Args:
        store: the store of the collection.
        name: name of the collection.
        given_items: the items that were passed to `sortnet.sort`.
        wanted: the `question`, the `instructions` and the `set_size` of the questions to the judge;
            None: those of the collection.
        seed: seed of a new collection.
        progress: called with the progress in words.

    Raises:
        StoreError: if the collection has items that were not passed, or answers to another
            question.
    """
    collection = _add_new_items(store, name, given_items, seed, progress)
    study = collection.study()
    decisions: list[Decision] = []
    for kind, value in wanted.items():
        stored = getattr(study, kind)
        if not value or value == stored:
            continue
        if kind == "set_size":
            decisions.append(Decision("set-size", amount=value))
            continue
        if collection.n_judgements:
            raise StoreError(
                f"collection {collection.name!r} has answers to the {kind} {shown(stored)}: "
                f"{shown(value)} needs another name"
            )
        decisions.append(Decision(kind, reason=value))
    collection.decide(*decisions)
    return collection


@contextmanager
def turn_to_sort(database: Database, collection: str, progress: Progress) -> Iterator[None]:
    """Wait until no other `sort` works on a collection, and keep others out in a `with` block.

    Args:
        database: the database of the store.
        collection: name of the collection, which need not exist yet.
        progress: called with a text if the call has to wait.
    """
    digest = hashlib.sha256(collection.encode()).hexdigest()
    name = f"sort-{digest[:12]}"
    is_waiting = False
    while not database.claims.take(name):
        if not is_waiting:
            progress(f"waiting for another sort of the collection {collection!r}")
        is_waiting = True
        time.sleep(_WAIT)
    try:
        yield
    finally:
        database.claims.drop(name)


def _add_new_items(
    store: Store, name: str, given_items: GivenItems, seed: int, progress: Progress
) -> Collection:
    """Add the items that a collection lacks; create the collection if it does not exist.

    Raises:
        StoreError: if the collection has an item that was not passed, or a different text for an
            item.
    """
    items = given_items.items
    if name in set(store.collections_frame()["name"]):
        collection = store.collection(name)
        items = new_items(collection, items)
        if not len(items):
            return collection
    progress("adding the items")
    return add_items(
        store,
        name,
        items,
        has_numbers=bool(given_items.items.feature_names),
        columns=None if given_items.roles is None else stored_roles(given_items.roles),
        seed=seed,
        progress=progress,
    )


def new_items(collection: Collection, passed: Items) -> Items:
    """Return the passed items that a collection lacks.

    Raises:
        StoreError: if the collection has an item that was not passed, or a different text for an
            item.
            The stored answers are about the stored text.
    """
    stored = collection.items()
    passed_texts = dict(zip(passed.ids, passed.texts, strict=True))
    missing = [id for id in stored.ids if id not in passed_texts]
    if missing:
        raise StoreError(
            f"collection {collection.name!r} has {count(len(missing), 'item')} that were not "
            f"passed, such as {shown(missing[0])}: pass all items, or another name"
        )
    for id, text in zip(stored.ids, stored.texts, strict=True):
        if passed_texts[id] != text:
            raise StoreError(
                f"collection {collection.name!r} has another text of item {shown(id)}, to which "
                "its answers belong: give the item another id, or pass another name"
            )
    stored_ids = set(stored.ids)
    return passed.take([row for row, id in enumerate(passed.ids) if id not in stored_ids])


def name_by_content(
    given_items: GivenItems, judges: Mapping[str, MachineJudge], wanted: Record
) -> str:
    """Name a collection by a hash of its items, its judges and what is `wanted` of the questions.

    The order of the items and of the judges has no effect.
    """
    identities = sorted((annotator, identity_of(judge)) for annotator, judge in judges.items())
    asked = [wanted["question"] or QUESTION, wanted["instructions"], wanted["set_size"] or 2]
    return f"sort {value_hash([_contents(given_items), asked, identities])[:12]}"


def _contents(given_items: GivenItems) -> list[str]:
    """Describe each item by its texts, files and numbers, and by the row that a function gets."""
    items = given_items.items
    groups = items.groups or (None,) * len(items)
    rows = given_items.value_of_id()
    contents: list[str] = []
    for number, id in enumerate(items.ids):
        content = items.content(number)
        files = [_file_hash(items, file) for file in (content.image, content.audio)]
        # A path has no part in it: the file's content has.
        row = None if isinstance(rows[id], os.PathLike) else value_hash(rows[id])
        facts = (
            id,
            items.texts[number],
            groups[number],
            files,
            items.features[number].tolist(),
            row,
        )
        contents.append(repr(facts))
    return sorted(contents)


def _file_hash(items: Items, file: str | None) -> str | None:
    """Hash the content of an item's image or sound file; None if the item has no file."""
    if file is None:
        return None
    path = Path(items.root or "", file)
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(f"items: {path}: {error.strerror}") from None
