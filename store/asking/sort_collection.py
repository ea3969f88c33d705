"""Create or find the collection that a call of `sortnet.sort` sorts, and add its new items."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, inspect

from sortnet.core import Progress
from sortnet.errors import DataError, StoreError
from sortnet.files import shown
from sortnet.items import Items
from sortnet.items.given_items import GivenItems
from sortnet.judges.any_judge import MachineJudge
from sortnet.judges.identity import identity_of, value_hash
from sortnet.messages import count
from sortnet.preference.study import QUESTION, Decision
from store.collections.collection import Collection
from store.database.engine import Database
from store.database.schema import CollectionRow
from store.service.added_items import add_items
from store.store import Store, open_store

_ROLES_NOT_STORED = ("notes", "ignored")


def collection_to_sort(
    store: Store,
    name: str,
    given_items: GivenItems,
    wanted: Mapping[str, Any],
    seed: int,
    progress: Progress,
) -> Collection:
    """Find or create the collection that `sortnet.sort` works with, and add the items it lacks.

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
    _decide(collection, wanted)
    return collection


@contextmanager
def stored_collection(url: str | Path | URL, name: str) -> Iterator[Collection | None]:
    """Open a collection to read it in a `with` block; None if it or its store does not exist.

    Args:
        url: file or URL of the store.
        name: name of the collection.
    """
    with closing(Database(url, write=False)) as database:
        is_new = not database.exists
        if not is_new:
            with database.transaction() as connection:
                is_new = not inspect(connection).has_table(CollectionRow.__tablename__)
    if is_new:
        yield None
        return
    with open_store(url, write=False) as store:
        is_stored = name in set(store.collections_frame()["name"])
        yield store.collection(name) if is_stored else None


def _decide(collection: Collection, wanted: Mapping[str, Any]) -> None:
    """Store the judge's question, instructions and set size if they differ from the stored ones.

    Raises:
        StoreError: if a text differs, and the collection has answers to the stored text.
    """
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


def _add_new_items(
    store: Store, name: str, given_items: GivenItems, seed: int, progress: Progress
) -> Collection:
    """Add the items that a collection lacks; create the collection if it does not exist.

    Raises:
        StoreError: if the collection has an item that was not passed, or another text of an item.
    """
    items = given_items.items
    if name in set(store.collections_frame()["name"]):
        collection = store.collection(name)
        items = new_items(collection, items)
        if not len(items):
            return collection
    progress("adding the items")
    columns: dict[str, Any] | None = None
    if given_items.roles is not None:
        columns = {
            role: value
            for role, value in vars(given_items.roles).items()
            if role not in _ROLES_NOT_STORED
        }
    return add_items(
        store,
        name,
        items,
        has_numbers=bool(given_items.items.feature_names),
        columns=columns,
        seed=seed,
        progress=progress,
    )


def new_items(collection: Collection, passed: Items) -> Items:
    """Return the passed items that a collection lacks.

    Raises:
        StoreError: if the collection has an item that was not passed, or another text of an item.
    """
    stored = collection.items()
    _check_all_passed(collection.name, stored.ids, passed.ids)
    _check_same_texts(collection.name, stored, passed)
    stored_ids = set(stored.ids)
    return passed.take([row for row, id in enumerate(passed.ids) if id not in stored_ids])


def _check_all_passed(name: str, stored_ids: Iterable[str], passed_ids: Iterable[str]) -> None:
    """Raise StoreError if an item of the collection was not passed to `sortnet.sort`.

    Args:
        name: name of the collection, for the message.
    """
    passed = set(passed_ids)
    missing = [id for id in stored_ids if id not in passed]
    if missing:
        were = "was" if len(missing) == 1 else "were"
        raise StoreError(
            f"collection {name!r} has {count(len(missing), 'item')} that {were} not passed, such "
            f"as {shown(missing[0])}: pass all items, or another name"
        )


def _check_same_texts(name: str, stored: Items, passed: Items) -> None:
    """Raise StoreError if the text of an item differs from the stored text.

    The stored answers are about the stored text, so the text may not change.

    Args:
        name: name of the collection, for the message.
    """
    text_of_id = dict(zip(stored.ids, stored.texts, strict=True))
    for id, text in zip(passed.ids, passed.texts, strict=True):
        if id in text_of_id and text != text_of_id[id]:
            raise StoreError(
                f"collection {name!r} has another text of item {shown(id)}, to which its answers "
                "belong: give the item another id, or pass another name"
            )


def name_by_content(
    given_items: GivenItems,
    question: str | None,
    instructions: str | None,
    judges: Mapping[str, MachineJudge],
    set_size: int | None,
) -> str:
    """Name a collection by a hash of its items, its question, its judges and their set size.

    The order of the items and of the judges has no effect.
    """
    identities = sorted((annotator, identity_of(judge)) for annotator, judge in judges.items())
    texts = [question or QUESTION, instructions or ""]
    hashed = json.dumps([_contents(given_items), texts, identities, set_size or 2])
    return f"sort {hashlib.sha256(hashed.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def _contents(given_items: GivenItems) -> list[str]:
    """Describe each item by its texts, files and numbers, and by the row that a function gets."""
    items = given_items.items
    groups = items.groups or (None,) * len(items)
    columns = (items.ids, items.texts, groups, items.images, items.audio, items.features)
    rows = given_items.value_of_id()
    contents: list[str] = []
    for id, text, group, image, audio, features in zip(*columns, strict=True):
        image_hash = _file_hash(items, image)
        audio_hash = _file_hash(items, audio)
        # A path has no part in it: the file's content has.
        row_hash = None if isinstance(rows[id], os.PathLike) else value_hash(rows[id])
        facts = (id, text, group, image_hash, audio_hash, features.tolist(), row_hash)
        contents.append(repr(facts))
    return sorted(contents)


def _file_hash(items: Items, file: str | None) -> str | None:
    """Hash the content of an item's image or sound file; None if the item has no file."""
    if file is None:
        return None
    path = Path(items.root or "", file)
    try:
        with path.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"items: {path}: {error.strerror}") from None
