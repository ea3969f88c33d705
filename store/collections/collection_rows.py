"""The rows of one collection: the transactions of all operations on them, names and criteria."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, or_, select

from sortnet.errors import StoreError
from store.database.engine import Database, utc_now
from store.database.schema import AnnotatorRow, CollectionRow, ItemRow, JudgementRow

LONGEST_NAME = 200
SHARED = ("strategy", "holdout", "repeats", "columns")  # settings that criteria share
_N_LISTED = 10  # names of collections in a message
# Statements of every answer are built once: building them takes longer than running them.
_LOCK = (
    select(CollectionRow.number).where(CollectionRow.number == bindparam("of")).with_for_update()
)


class CollectionRows:
    """The rows of one collection; each class derived from it has the operations on one table.

    An operation called by itself runs in a transaction of its own. Called within `transaction` or
    `locked` of the same object, by the same thread, it is a step of that transaction.

    Attributes:
        database: where the rows are.
        name: the name of the collection.
        number: its key in the tables.
        items_of: the key of the collection that has its items: its own, unless it is a criterion.
        clock: gives seconds since 1970.
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
        """The open transaction, or a new one that reads."""
        if self._open.connection is not None:
            yield self._open.connection
            return
        with self.database.transaction() as connection, self._within(connection):
            yield connection

    @contextmanager
    def locked(self, *, durable: bool = True) -> Iterator[Connection]:
        """The open transaction, or a new one, that excludes all other writers of the collection.

        So numbers are assigned in the order of commits, and a lease is created and closed once.
        Read the clock within it: a time read before waiting for the lock would be old.
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
        """Make operations steps of the caller's transaction, which has locked the collection."""
        with self._within(connection, is_locked=True):
            yield

    @contextmanager
    def _within(self, connection: Connection, *, is_locked: bool = False) -> Iterator[None]:
        self._open.connection = connection
        self._open.is_locked = is_locked
        try:
            yield
        finally:
            self._open.connection = None
            self._open.is_locked = False

    def criteria(self) -> list[str]:
        """The full names of the collection's criteria, in the order of creation."""
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
            parent = self.name.rpartition(":")[0]
            raise StoreError(
                f"{self.name!r} is a criterion: its items are those of {parent!r}, give that"
            )

    def _insert_criterion(self, name: str) -> None:
        """Create a criterion, if the collection has no judgements about its own question."""
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
    """The open transaction of a thread, and whether it has locked the collection."""

    connection: Connection | None = None
    is_locked = False


def checked_name(noun: str, name: str) -> str:
    """Return the name, if it can be read and typed.

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
    """Return the name of a new collection, if it is allowed; a colon would name a criterion."""
    if ":" in checked_name("collection", name):
        raise StoreError(
            f"collection {name[:40]!r}: a name has no colon, which is for criteria (NAME:CRITERION)"
        )
    return name


def is_name(name: str) -> bool:
    """Whether collections and annotators may have this name."""
    return 0 < len(name) <= LONGEST_NAME and name == name.strip() and name.isprintable()


def make_collection(connection: Connection, name: str, **facts: Any) -> int:
    """Create an empty collection; returns its number. `facts` are columns of its row."""
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
    query = select(CollectionRow.name).where(CollectionRow.items_of == collection)
    return list(connection.execute(query.order_by(CollectionRow.number)).scalars())


def with_criteria(collection: int) -> Any:
    """A query of the keys of a collection and of its criteria."""
    return select(CollectionRow.number).where(
        or_(CollectionRow.number == collection, CollectionRow.items_of == collection)
    )


def settings_of(connection: Connection, row: Any) -> dict[str, Any]:
    """The settings of a collection's sessions; a criterion inherits those in `SHARED`."""
    settings: dict[str, Any] = row.settings
    if row.items_of is None:
        return settings
    query = select(CollectionRow.settings).where(CollectionRow.number == row.items_of)
    of_parent = connection.execute(query).scalar_one()
    inherited = {name: of_parent[name] for name in of_parent if name in SHARED}
    return {**inherited, **settings}


def collections_query() -> Any:
    """A query of all collections, with their numbers of items, annotators and judgements."""
    items_of = func.coalesce(CollectionRow.items_of, CollectionRow.number)
    counts = (
        _count(ItemRow, items_of),
        _count(AnnotatorRow, CollectionRow.number),
        _count(JudgementRow, CollectionRow.number),
    )
    return select(CollectionRow.__table__, *counts).order_by(CollectionRow.number)


def _count(table: Any, collection: Any) -> Any:
    """A subquery: the number of the collection's rows in a table, under the table's name."""
    n_rows = select(func.count()).where(table.collection == collection)
    return n_rows.scalar_subquery().label(table.__tablename__)


def find_collection(connection: Connection, store: str, name: str) -> Any:
    """Find the row of a collection or criterion by its full name.

    Raises:
        StoreError: listing the known names, if there is no such collection or criterion.
    """
    if is_name(name):
        query = select(CollectionRow.__table__).where(CollectionRow.name == name)
        row = connection.execute(query).first()
        if row is not None:
            return row
    parent_name, _, criterion = name.rpartition(":")
    if not parent_name:
        names = connection.execute(select(CollectionRow.name).order_by(CollectionRow.name))
        collections = ", ".join(names.scalars().fetchmany(_N_LISTED)) or "none yet"
        raise StoreError(f"{store}: no collection {name!r}; collections: {collections}")
    # If the parent is missing too, the error is about the parent.
    parent = find_collection(connection, store, parent_name)
    criteria = ", ".join(_names_of_criteria(connection, parent.number)) or "none"
    raise StoreError(
        f"{store}: collection {parent_name!r} has no criterion {criterion[:40]!r}; "
        f"criteria: {criteria}"
    )
