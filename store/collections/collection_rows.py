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
# Statements of every answer are built once: that takes longer than to run them.
_LOCKED = select(CollectionRow.number).where(CollectionRow.number == bindparam("of"))
_LOCKED = _LOCKED.with_for_update()


class CollectionRows:
    """The rows of one collection; the classes below it have the operations on one table each.

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
        self.database, self.number, self.name, self.clock = database, number, name, clock
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
            if connection.execute(_LOCKED, {"of": self.number}).first() is None:
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
        self._open.connection, self._open.is_locked = connection, is_locked
        try:
            yield
        finally:
            self._open.connection, self._open.is_locked = None, False

    def criteria(self) -> list[str]:
        """The full names of the collection's criteria, in the order of creation."""
        with self.transaction() as connection:
            return _criteria_of(connection, self.number)

    def check_one_question(self) -> None:
        """A StoreError if it has criteria, of which one must be meant."""
        if names := self.criteria():
            raise StoreError(
                f"collection {self.name!r} has criteria: give one of {', '.join(names)}"
            )

    def refuse_criterion(self) -> None:
        """Refuse a criterion where a collection with items must be meant."""
        with self.transaction() as connection:
            these = select(CollectionRow.items_of).where(CollectionRow.number == self.number)
            is_criterion = connection.execute(these).scalar() is not None
        if is_criterion:
            of = self.name.rpartition(":")[0]
            raise StoreError(
                f"{self.name!r} is a criterion: its items are those of {of!r}, give that"
            )

    def _insert_criterion(self, name: str) -> None:
        """Create a criterion, if the collection has no judgements about its own question."""
        full = checked_name("criterion", f"{self.name}:{name}")
        self.refuse_criterion()
        if not is_name(name) or ":" in name:
            raise StoreError(f"criterion {name[:40]!r}: a name is printable, without colons")
        if full in self.criteria():
            raise StoreError(f"collection {self.name!r} has the criterion {name!r} already")
        judged = select(JudgementRow.number).where(JudgementRow.collection == self.number)
        with self.locked() as connection:
            if connection.execute(judged.limit(1)).first() is not None:
                raise StoreError(
                    f"collection {self.name!r} has judgements about its own question already; "
                    "criteria need one without: sortnet items add the file under another name"
                )
            this = select(CollectionRow.seed, CollectionRow.source)
            of = connection.execute(this.where(CollectionRow.number == self.number)).one()
            facts = {"seed": of.seed, "source": of.source, "items_of": self.number}
            make_collection(connection, full, **facts)


class _Open(threading.local):
    """The open transaction of a thread, and whether it has locked the collection."""

    connection: Connection | None = None
    is_locked = False


def checked_name(what: str, name: str) -> str:
    """Return the name, if it can be read and typed.

    >>> checked_name("annotator", "ana")
    'ana'
    """
    if not is_name(name):
        raise StoreError(
            f"{what} {name[:40]!r}: a name has 1 to {LONGEST_NAME} printable characters, "
            "and no space at its ends"
        )
    return name


def checked_new(name: str) -> str:
    """Return the name of a new collection, in which a colon would be that of a criterion."""
    if ":" in checked_name("collection", name):
        raise StoreError(
            f"collection {name[:40]!r}: a name has no colon, which is for criteria (NAME:CRITERION)"
        )
    return name


def is_name(name: str) -> bool:
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
    made = insert(CollectionRow).returning(CollectionRow.number)
    return int(connection.execute(made, values).scalar_one())


def _criteria_of(connection: Connection, collection: int) -> list[str]:
    these = select(CollectionRow.name).where(CollectionRow.items_of == collection)
    return list(connection.execute(these.order_by(CollectionRow.number)).scalars())


def with_criteria(collection: int) -> Any:
    """A query of the keys of a collection and of its criteria."""
    this = or_(CollectionRow.number == collection, CollectionRow.items_of == collection)
    return select(CollectionRow.number).where(this)


def settings_of(connection: Connection, row: Any) -> dict[str, Any]:
    """The settings of a collection's sessions; a criterion has those of its collection, too."""
    own: dict[str, Any] = row.settings
    if row.items_of is None:
        return own
    settings = select(CollectionRow.settings).where(CollectionRow.number == row.items_of)
    shared = connection.execute(settings).scalar_one()
    return {name: shared[name] for name in shared if name in SHARED} | own


def collections_query() -> Any:
    """Every collection with its numbers of items, features, annotators and judgements."""
    items_of = func.coalesce(CollectionRow.items_of, CollectionRow.number)

    def count(row: Any) -> Any:
        of_it = select(func.count()).where(
            row.collection == (items_of if row is ItemRow else CollectionRow.number)
        )
        return of_it.scalar_subquery().label(row.__tablename__)

    counts = map(count, (ItemRow, AnnotatorRow, JudgementRow))
    return select(CollectionRow.__table__, *counts).order_by(CollectionRow.number)


def find_collection(connection: Connection, store: str, name: str) -> Any:
    """The row of that collection."""
    row = None
    if is_name(name):
        these = select(CollectionRow.__table__).where(CollectionRow.name == name)
        row = connection.execute(these).first()
    if row is None:
        names = connection.execute(select(CollectionRow.name).order_by(CollectionRow.name))
        known = ", ".join(names.scalars().fetchmany(10)) or "none yet"
        of, _, criterion = name.rpartition(":")
        if of and (row := find_collection(connection, store, of)) is not None:
            there = ", ".join(_criteria_of(connection, row.number)) or "none"
            fault = f"collection {of!r} has no criterion {criterion[:40]!r}; criteria: {there}"
            raise StoreError(f"{store}: {fault}")
        raise StoreError(f"{store}: no collection {name!r}; collections: {known}")
    return row
