"""Read and change the rows of one collection in transactions; check names, and find criteria."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from sqlalchemy import Connection, bindparam, func, insert, or_, select

from sortnet.errors import StoreError
from store.database.engine import Database, utc_now
from store.database.schema import AnnotatorRow, CollectionRow, ItemRow, JudgementRow, RunRow

LONGEST_NAME = 200
SHARED = ("strategy", "holdout", "repeats", "columns")  # settings that criteria inherit
_N_LISTED = 10  # number of collections that a message names
# A statement that runs at every answer is built once, because building it takes longer than running
# it.
_LOCK = (
    select(CollectionRow.number).where(CollectionRow.number == bindparam("of")).with_for_update()
)


class CollectionRows:
    """The rows of one collection; each class derived from this one has operations on one table.

    An operation runs in a transaction of its own. But within a `with` block of `transaction` or
    `locked` of the same object and thread, the operation is a step of this open transaction.

    Attributes:
        database: the database of the rows.
        name: the name of the collection.
        number: the key of the collection in the tables.
        items_of: the key of the collection that has the items. It differs from `number` only in a
            criterion.
        clock: returns the time in seconds since 1970.
    """

    def __init__(
        self,
        database: Database,
        number: int,
        name: str,
        *,
        items_of: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.database = database
        self.number = number
        self.name = name
        self.clock = clock
        self.items_of = number if items_of is None else items_of
        self._open = _Open()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Open a transaction that reads in a `with` block, unless a transaction is open already."""
        if self._open.connection is not None:
            yield self._open.connection
            return
        with self.database.transaction() as connection, self._within(connection):
            yield connection

    @contextmanager
    def locked(self, *, durable: bool = True) -> Iterator[Connection]:
        """Open a transaction that excludes all other writers of the collection, in a `with` block.

        If such a transaction is open already, it is used. With a single writer, rows are numbered
        in the order of commits, and a lease is created and closed once. Read the clock within the
        block: opening it may wait for another writer, so an earlier time would be old.
        """
        if self._open.connection is not None:
            if not self._open.is_locked:
                raise RuntimeError("a transaction that was opened to read cannot write")
            yield self._open.connection
            return
        with self.database.transaction(write=True, durable=durable) as connection:
            if connection.execute(_LOCK, {"of": self.number}).first() is None:
                raise StoreError(f"{self.database.name}: collection {self.name!r} was removed")
            with self._within(connection, is_locked=True):
                yield connection

    @contextmanager
    def within_locked(self, connection: Connection) -> Iterator[None]:
        """Use the caller's transaction, which has locked the collection, within a `with` block."""
        with self._within(connection, is_locked=True):
            yield

    @contextmanager
    def _within(self, connection: Connection, *, is_locked: bool = False) -> Iterator[None]:
        """Use a connection for all operations within a `with` block."""
        self._open.connection = connection
        self._open.is_locked = is_locked
        try:
            yield
        finally:
            self._open.connection = None
            self._open.is_locked = False

    def criteria(self) -> list[str]:
        """List the full names of the collection's criteria, in the order of creation."""
        with self.transaction() as connection:
            return _names_of_criteria(connection, self.number)

    def check_one_question(self) -> None:
        """Raise a StoreError if the collection has criteria: the caller must choose a criterion."""
        names = self.criteria()
        if names:
            raise StoreError(
                f"collection {self.name!r} has criteria: give one of {', '.join(names)}"
            )

    def refuse_criterion(self) -> None:
        """Raise a StoreError if this is a criterion, which has no items of its own."""
        query = select(CollectionRow.items_of).where(CollectionRow.number == self.number)
        with self.transaction() as connection:
            is_criterion = connection.execute(query).scalar() is not None
        if is_criterion:
            parent, _, _ = self.name.rpartition(":")
            raise StoreError(
                f"{self.name!r} is a criterion: its items are those of {parent!r}, give that"
            )

    def _insert_criterion(self, name: str) -> None:
        """Create a criterion, unless the collection has judgements about a question of its own."""
        full_name = checked_name("criterion", f"{self.name}:{name}")
        self.refuse_criterion()
        if not is_name(name) or ":" in name:
            raise StoreError(f"criterion {name[:40]!r}: a name is printable, without colons")
        if full_name in self.criteria():
            raise StoreError(f"collection {self.name!r} has the criterion {name!r} already")
        judged = select(JudgementRow.number).where(JudgementRow.collection == self.number)
        with self.locked() as connection:
            if connection.execute(judged.limit(1)).first() is not None:
                raise StoreError(
                    f"collection {self.name!r} has judgements about its own question already; "
                    "criteria need one without: sortnet items add the file under another name"
                )
            query = select(CollectionRow.seed, CollectionRow.source)
            parent = connection.execute(query.where(CollectionRow.number == self.number)).one()
            make_collection(
                connection,
                full_name,
                seed=parent.seed,
                source=parent.source,
                items_of=self.number,
            )


class _Open(threading.local):
    """The open transaction of each thread, and whether it has locked the collection."""

    connection: Connection | None = None
    is_locked = False


def checked_name(noun: str, name: str) -> str:
    """Return the name, or raise a StoreError if collections and annotators cannot have it.

    Args:
        noun: what has the name, for the message, such as `annotator`.
        name: the name.

    >>> checked_name("annotator", "ana")
    'ana'
    """
    if not is_name(name):
        raise StoreError(
            f"{noun} {name[:40]!r}: a name has 1 to {LONGEST_NAME} printable characters, "
            "and no space at its ends"
        )
    return name


def checked_new(name: str) -> str:
    """Return the name, or raise a StoreError if a new collection cannot have it.

    A name with a colon is the name of a criterion.
    """
    if ":" in checked_name("collection", name):
        raise StoreError(
            f"collection {name[:40]!r}: a name has no colon, which is for criteria (NAME:CRITERION)"
        )
    return name


def is_name(name: str) -> bool:
    """Whether collections and annotators may have this name."""
    return 0 < len(name) <= LONGEST_NAME and name == name.strip() and name.isprintable()


def make_collection(connection: Connection, name: str, **facts: Any) -> int:
    """Create an empty collection, and return its number; `facts` are columns of the new row."""
    values = {
        "name": checked_name("collection", name),
        "created": utc_now(),
        "root": None,
        "source": "items",
        "feature_names": [],
        "settings": {},
        "seed": 0,
        **facts,
    }
    insert_row = insert(CollectionRow).returning(CollectionRow.number)
    return int(connection.execute(insert_row, values).scalar_one())


def _names_of_criteria(connection: Connection, collection: int) -> list[str]:
    """List the full names of a collection's criteria, in the order of creation."""
    query = select(CollectionRow.name).where(CollectionRow.items_of == collection)
    return list(connection.execute(query.order_by(CollectionRow.number)).scalars())


def with_criteria(collection: int) -> Any:
    """Make a query of the keys of a collection and of its criteria."""
    return select(CollectionRow.number).where(
        or_(CollectionRow.number == collection, CollectionRow.items_of == collection)
    )


def settings_of(connection: Connection, row: Any) -> dict[str, Any]:
    """Return the settings of a collection's sessions.

    A criterion inherits the settings named in `SHARED` from its collection.

    Args:
        connection: an open transaction.
        row: the row of the collection or criterion.
    """
    settings: dict[str, Any] = row.settings
    if row.items_of is None:
        return settings
    query = select(CollectionRow.settings).where(CollectionRow.number == row.items_of)
    parent_settings = connection.execute(query).scalar_one()
    inherited = {name: value for name, value in parent_settings.items() if name in SHARED}
    return {**inherited, **settings}


def collections_query() -> Any:
    """Make a query of all collections, with their numbers of items, annotators and judgements.

    `run_id` is the id of the run that owns a collection; it is missing for a user's collection.
    """
    collection_of_items = func.coalesce(CollectionRow.items_of, CollectionRow.number)
    counts = (
        _count(ItemRow, collection_of_items),
        _count(AnnotatorRow, CollectionRow.number),
        _count(JudgementRow, CollectionRow.number),
    )
    owner = select(RunRow.id).where(RunRow.number == CollectionRow.run).scalar_subquery()
    query = select(CollectionRow.__table__, *counts, owner.label("run_id"))
    return query.order_by(CollectionRow.number)


def _count(table: Any, collection: Any) -> Any:
    """Make a subquery, named as the table, that counts the rows of a collection in the table."""
    n_rows = select(func.count()).where(table.collection == collection)
    return n_rows.scalar_subquery().label(table.__tablename__)


def find_collection(connection: Connection, store: str, name: str) -> Any:
    """Find the row of a collection or criterion by its full name.

    Args:
        connection: an open transaction.
        store: the name of the store in messages.
        name: the name of a collection, or NAME:CRITERION.

    Raises:
        StoreError: if there is no such collection or criterion. The message lists known names.
    """
    if is_name(name):
        query = select(CollectionRow.__table__).where(CollectionRow.name == name)
        row = connection.execute(query).first()
        if row is not None:
            return row
    _refuse_unknown(connection, store, name)


def _refuse_unknown(connection: Connection, store: str, name: str) -> NoReturn:
    """Raise the StoreError about a collection or criterion that does not exist.

    Args:
        connection: an open transaction.
        store: the name of the store in the message.
        name: the full name of the missing collection or criterion.
    """
    parent_name, _, criterion = name.rpartition(":")
    if not parent_name:
        names = connection.execute(select(CollectionRow.name).order_by(CollectionRow.name))
        collections = ", ".join(names.scalars().fetchmany(_N_LISTED)) or "none yet"
        raise StoreError(f"{store}: no collection {name!r}; collections: {collections}")
    # If the parent is missing too, this raises an error about the parent.
    parent = find_collection(connection, store, parent_name)
    criteria = ", ".join(_names_of_criteria(connection, parent.number)) or "none"
    raise StoreError(
        f"{store}: collection {parent_name!r} has no criterion {criterion[:40]!r}; "
        f"criteria: {criteria}"
    )
