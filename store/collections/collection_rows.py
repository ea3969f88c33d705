"""Read and change the rows of one collection in transactions; check names, and find criteria."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, insert, or_, select

from sortnet.errors import StoreError
from sortnet.files import Record
from sortnet.messages import known_names
from store.database.engine import Database, utc_now
from store.database.schema import AnnotatorRow, CollectionRow, ItemRow, JudgementRow, RunRow

LONGEST_NAME = 200
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
        with self.database.transaction() as connection, self.within(connection):
            yield connection

    @contextmanager
    def locked(self, *, durable: bool = True) -> Iterator[Connection]:
        """Open a transaction that excludes all other writers of the collection, in a `with` block.

        If a transaction is open already, it is used. With a single writer, rows are numbered in the
        order of commits, and a lease is created and closed once. Read the clock within the block:
        opening it may wait for another writer, so an earlier time would be old.
        """
        if self._open.connection is not None:
            yield self._open.connection
            return
        with self.database.transaction(write=True, durable=durable) as connection:
            if connection.scalar(_LOCK, {"of": self.number}) is None:
                raise StoreError(f"{self.database.name}: collection {self.name!r} was removed")
            with self.within(connection):
                yield connection

    @contextmanager
    def within(self, connection: Connection) -> Iterator[None]:
        """Use an open transaction for all operations in a `with` block."""
        self._open.connection = connection
        try:
            yield
        finally:
            self._open.connection = None

    def read(self, query: Any, **values: Any) -> Sequence[Row[Any]]:
        """Read all rows of a query, whose parameters have values; `of` is this collection.

        A query that runs at every answer is built once, with parameters, because building it takes
        longer than running it.
        """
        with self.transaction() as connection:
            return connection.execute(query, {"of": self.number, **values}).all()

    def read_value(self, query: Any, **values: Any) -> Any:
        """Read the first value of a query, as `read` does; None without any row."""
        with self.transaction() as connection:
            return connection.scalar(query, {"of": self.number, **values})

    def write(self, statement: Any) -> None:
        """Run a statement that changes rows."""
        with self.locked() as connection:
            connection.execute(statement)

    def insert(self, statement: Any, rows: Sequence[Record]) -> None:
        """Run an `insert` with rows {column: value}, of which there may be none."""
        if rows:
            with self.locked() as connection:
                connection.execute(statement, rows)

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


class _Open(threading.local):
    """The open transaction of each thread."""

    connection: Connection | None = None


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


def checked_new(name: str, noun: str = "collection") -> str:
    """Return the name, or raise a StoreError if a new collection or criterion cannot have it.

    A name with a colon is the name of a criterion, or of a run's collection.
    """
    if ":" in checked_name(noun, name):
        raise StoreError(
            f"{noun} {name[:40]!r}: a name has no colon, which is for criteria (NAME:CRITERION)"
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


def collections_query() -> Any:
    """Make a query of all collections, with their numbers of items, annotators and judgements.

    `run_id` is the id of the run that owns a collection; it is missing for a user's collection.
    """
    collection_of_items = func.coalesce(CollectionRow.items_of, CollectionRow.number)
    counts = [
        _count(ItemRow, collection_of_items),
        _count(AnnotatorRow, CollectionRow.number),
        _count(JudgementRow, CollectionRow.number),
    ]
    owner = select(RunRow.id).where(RunRow.number == CollectionRow.run).scalar_subquery()
    query = select(CollectionRow.__table__, *counts, owner.label("run_id"))
    return query.order_by(CollectionRow.number)


def _count(table: Any, collection: Any) -> Any:
    """Make a subquery that counts a collection's rows in a table; it has the name of the table."""
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
    parent_name, _, criterion = name.rpartition(":")
    if not parent_name:
        names = connection.execute(select(CollectionRow.name).order_by(CollectionRow.name))
        known_collections = known_names(names.scalars(), name)
        raise StoreError(f"{store}: no collection {name!r}; collections: {known_collections}")
    # If the parent is missing too, this raises an error about the parent.
    parent = find_collection(connection, store, parent_name)
    criteria = ", ".join(_names_of_criteria(connection, parent.number)) or "none"
    raise StoreError(
        f"{store}: collection {parent_name!r} has no criterion {criterion[:40]!r}; "
        f"criteria: {criteria}"
    )
