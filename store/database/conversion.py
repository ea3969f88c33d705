"""Bring the collections of a store of version 0.4 to a new store.

The tables of version 0.4 are read as they lie in the database, not by `store.database.schema`,
which may differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import URL, Connection, MetaData, RowMapping, func, insert, select

from sortnet.errors import StoreError
from sortnet.files import shown
from store.database.engine import Database, parse_url
from store.database.revision import make_newest, stored_revision
from store.database.schema import Base

_REVISION_OF_0_4 = "m0015"
# Tables of version 0.4 that are copied. A table is named after the tables that it refers to.
_COPIED = (
    *("collections", "items", "allowed_pairs", "annotators", "judgements"),
    *("decisions", "batches", "leases"),
)
# Tables whose rows about more than two items have the items in another table, and their keys there.
_TABLES_OF_ITEMS = {
    "judgements": ("judgement_items", ("collection", "number")),
    "leases": ("lease_items", ("lease",)),
}
_ANSWER_OF_WORD = {"left": "best", "right": "best", "tie": "same"}
_GONE_COLUMNS = (  # the columns of pairs, and of the process that asked
    *("left_item", "right_item", "low", "high"),
    *("host", "pid", "process_start"),
)
# {the key of a judgement or lease: the rows of its items, in the order of their places}
_ItemsOfSets: TypeAlias = dict[tuple[int, ...], list[RowMapping]]
_ROWS = 5_000  # rows that are copied at a time


@dataclass(frozen=True)
class Converted:
    """What a conversion has brought to the new store, and what it has left.

    Attributes:
        old: the name of the old store in messages.
        new: the name of the new store in messages.
        rows: {name of a table: number of rows that were brought}.
        criteria: number of criteria, which are rows of `collections` too.
        runs: number of runs in the old store; runs are not converted.
    """

    old: str
    new: str
    rows: dict[str, int]
    criteria: int
    runs: int


def convert(old: URL | str | Path, new: URL | str | Path) -> Converted:
    """Bring the collections of a store of version 0.4 to a new store; the old store stays as it is.

    Items, annotators with their links, judgements, decisions, criteria, batches and leases are
    brought over. Either all of it is brought, or no new store is left.

    Args:
        old: path or URL of a store of version 0.4.
        new: path or URL of the new store. A file must not exist; a database must be empty.

    Raises:
        StoreError: if one of the stores cannot be used.
    """
    source = Database(old, write=False)
    with closing(source):
        if not source.exists:
            raise StoreError(f"{source.name}: no such file")
        with source.transaction() as reading:
            _check_version(reading, source.name)
            with _new_database(parse_url(new)) as target, target.transaction(write=True) as writing:
                return _convert_tables(reading, writing, source.name, target.name)


def _check_version(connection: Connection, name: str) -> None:
    """Raise a StoreError unless the database is a store of version 0.4."""
    revision = stored_revision(connection, name=name)
    if revision is None:
        raise StoreError(f"{name} is empty: there is nothing to convert")
    if revision != _REVISION_OF_0_4:
        raise StoreError(
            f"{name} is of schema {shown(revision)}: "
            f"only stores of version 0.4 ({_REVISION_OF_0_4}) are converted"
        )


@contextmanager
def _new_database(url: URL) -> Iterator[Database]:
    """Open a new database in a `with` block; if the block fails, remove a new SQLite file."""
    file = None
    if url.drivername == "sqlite":
        file = Path(url.database or "")
        try:
            # Only its owner may read the file, because it will have secret tokens.
            file.touch(mode=0o600, exist_ok=False)
        except FileExistsError:
            raise StoreError(f"store {file} exists already: give the name of a new store") from None
        except OSError as error:
            raise StoreError(f"store {file}: cannot make it: {error.strerror}") from error
    try:
        with closing(Database(url)) as database:
            yield database
    except BaseException:
        if file is not None:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{file}{suffix}").unlink(missing_ok=True)
        raise


def _convert_tables(reading: Connection, writing: Connection, old: str, new: str) -> Converted:
    """Create the tables of a new store, and copy the rows of the old store.

    Args:
        reading: an open transaction of the old store.
        writing: an open transaction of the new store.
        old: the name of the old store in messages.
        new: the name of the new store in messages.
    """
    if stored_revision(writing, name=new) is not None:
        raise StoreError(f"{new} has a store already: give an empty database")
    make_newest(writing, name=new)
    tables = MetaData()
    tables.reflect(
        reading, only=[*_COPIED, "judgement_items", "lease_items", "runs"], resolve_fks=False
    )
    rows = {name: _copy(reading, writing, name, tables) for name in _COPIED}
    criteria = tables.tables["collections"].c.items_of.is_not(None)
    n_criteria = select(func.count()).where(criteria)
    n_runs = select(func.count()).select_from(tables.tables["runs"])
    return Converted(
        old,
        new,
        rows,
        criteria=reading.execute(n_criteria).scalar_one(),
        runs=reading.execute(n_runs).scalar_one(),
    )


def _copy(reading: Connection, writing: Connection, name: str, tables: MetaData) -> int:
    """Copy all rows of a table to the table of the same name; return the number of rows.

    Args:
        reading: an open transaction of the old store.
        writing: an open transaction of the new store.
        name: the name of the table.
        tables: the tables of the old store.
    """
    old_table = tables.tables[name]
    new_table = Base.metadata.tables[name]
    items_of_sets = _read_items_of_sets(reading, name, tables)
    query = select(old_table).execution_options(yield_per=_ROWS)
    n_rows = 0
    for part in reading.execute(query).mappings().partitions():
        rows = [dict(row) for row in part]
        if name in _TABLES_OF_ITEMS:
            rows = [_with_items(row, items_of_sets) for row in rows]
        if name == "collections":
            rows = [_with_known_strategy(row) for row in rows]
        writing.execute(insert(new_table), rows)
        n_rows += len(rows)
    number = new_table.autoincrement_column
    if number is not None and n_rows and writing.dialect.name == "postgresql":
        # PostgreSQL numbers new rows by a sequence, which must begin after the copied rows.
        sequence = func.pg_get_serial_sequence(new_table.name, number.name)
        writing.execute(select(func.setval(sequence, select(func.max(number)).scalar_subquery())))
    return n_rows


def _with_known_strategy(row: dict[str, Any]) -> dict[str, Any]:
    """Let a collection that names a strategy of version 0.4 other than `random` ask by the rule."""
    settings = row["settings"]
    if settings.get("strategy") in (None, "random"):
        return row
    return row | {"settings": settings | {"strategy": "default"}}


def _read_items_of_sets(reading: Connection, name: str, tables: MetaData) -> _ItemsOfSets:
    """Read the items of the rows about more than two items; none if the table has no such rows."""
    items_of_sets: _ItemsOfSets = {}
    if name in _TABLES_OF_ITEMS:
        name_of_items, key = _TABLES_OF_ITEMS[name]
        table = tables.tables[name_of_items]
        for row in reading.execute(select(table).order_by(table.c.place)).mappings():
            items_of_sets.setdefault(tuple(row[column] for column in key), []).append(row)
    return items_of_sets


def _with_items(row: dict[str, Any], items_of_sets: _ItemsOfSets) -> dict[str, Any]:
    """Convert a judgement or a lease of version 0.4, which had a left and a right item.

    Args:
        row: the row {column: value}.
        items_of_sets: the items of rows about more than two items.
    """
    columns = {name: value for name, value in row.items() if name not in _GONE_COLUMNS}
    left, right = row["left_item"], row["right_item"]
    columns["items"] = left, right
    best = {"left": left, "right": right}.get(row.get("answer", ""))
    worst = None
    if left is None:
        is_judgement = "answer" in row
        key = (row["collection"], row["number"]) if is_judgement else (row["number"],)
        columns["items"] = tuple(item["item"] for item in items_of_sets[key])
        item_of_choice = {item.get("choice"): item["item"] for item in items_of_sets[key]}
        best, worst = item_of_choice.get("best"), item_of_choice.get("worst")
    if "answer" in row:
        answer = _ANSWER_OF_WORD.get(row["answer"], row["answer"])
        columns |= {"answer": answer, "best": best, "worst": worst}
    return columns
