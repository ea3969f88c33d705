"""Bring the collections of a store of version 0.4 to a new store.

The tables of version 0.4 are read as they lie in the database, not by `store.database.schema`,
which may differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, MetaData, RowMapping, Table, func, insert, select

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
_ANSWER_OF_WORD = {"left": "best", "right": "best", "tie": "same"}
_GONE_COLUMNS = (  # the columns of pairs, and of the process that asked
    *("left_item", "right_item", "low", "high"),
    *("host", "pid", "process_start"),
)
_ROWS = 5_000  # rows that are copied at a time


def convert(old: URL | str | Path, new: URL | str | Path) -> dict[str, Any]:
    """Bring the collections of a store of version 0.4 to a new store; the old store stays as it is.

    Items, annotators with their links, judgements, decisions, criteria, batches and leases are
    brought over. Either all of it is brought, or no new store is left.

    Args:
        old: path or URL of a store of version 0.4.
        new: path or URL of the new store. A file must not exist; a database must be empty.

    Returns:
        The names `old` and `new` of the stores in messages; {name: number of rows} that were
        `brought`; and the number of `runs_not_converted`, which stay in the old store.

    Raises:
        StoreError: if one of the stores cannot be used.
    """
    with closing(Database(old, write=False)) as source:
        if not source.exists:
            raise StoreError(f"{source.name}: no such file")
        with source.transaction() as reading:
            revision = stored_revision(reading, name=source.name)
            if revision != _REVISION_OF_0_4:
                raise StoreError(
                    f"{source.name} is of schema {shown(revision)}: "
                    f"only stores of version 0.4 ({_REVISION_OF_0_4}) are converted"
                )
            with _new_database(parse_url(new)) as target, target.transaction(write=True) as writing:
                return _convert_tables(reading, writing, source.name, target.name)


@contextmanager
def _new_database(url: URL) -> Iterator[Database]:
    """Open a new database in a `with` block; if the block fails, remove a new SQLite file."""
    file = Path(url.database or "") if url.drivername == "sqlite" else None
    if file is not None and (file.exists() or file.is_symlink()):
        raise StoreError(f"store {file} exists already: give the name of a new store")
    try:
        with closing(Database(url)) as database:
            yield database
    except BaseException:
        if file is not None:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{file}{suffix}").unlink(missing_ok=True)
        raise


def _convert_tables(reading: Connection, writing: Connection, old: str, new: str) -> dict[str, Any]:
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
    rows = {name: _copy(reading, writing, name, tables.tables) for name in _COPIED}
    criteria = tables.tables["collections"].c.items_of.is_not(None)
    n_criteria = reading.execute(select(func.count()).where(criteria)).scalar_one()
    runs = select(func.count()).select_from(tables.tables["runs"])
    brought = {
        "collections": rows["collections"] - n_criteria,
        "criteria": n_criteria,  # rows of the table `collections`, too
        **{
            name: rows[name]
            for name in ("items", "annotators", "judgements", "decisions", "batches")
        },
    }
    n_runs: int = reading.execute(runs).scalar_one()
    return {"old": old, "new": new, "brought": brought, "runs_not_converted": n_runs}


def _copy(reading: Connection, writing: Connection, name: str, tables: Mapping[str, Table]) -> int:
    """Copy all rows of a table to the table of the same name; return the number of rows.

    Args:
        reading: an open transaction of the old store.
        writing: an open transaction of the new store.
        name: the name of the table.
        tables: the tables of the old store by their names.
    """
    new_table = Base.metadata.tables[name]
    items_of_sets = _items_of_sets(reading, name, tables)
    query = select(tables[name]).execution_options(yield_per=_ROWS)
    n_rows = 0
    for part in reading.execute(query).mappings().partitions():
        rows = [_converted(name, dict(row), items_of_sets) for row in part]
        writing.execute(insert(new_table), rows)
        n_rows += len(rows)
    number = new_table.autoincrement_column
    if number is not None and n_rows and writing.dialect.name == "postgresql":
        # PostgreSQL numbers new rows by a sequence, which must begin after the copied rows.
        sequence = func.pg_get_serial_sequence(new_table.name, number.name)
        writing.execute(select(func.setval(sequence, select(func.max(number)).scalar_subquery())))
    return n_rows


def _items_of_sets(
    reading: Connection, name: str, tables: Mapping[str, Table]
) -> dict[tuple[int, ...], list[RowMapping]]:
    """Read the items of judgements or leases of more than two items, in the order of their places.

    Version 0.4 has these items in a table of their own. Returns {key of a judgement or lease: rows
    of its items}; empty for all other tables.
    """
    items: dict[tuple[int, ...], list[RowMapping]] = {}
    if name in ("judgements", "leases"):
        table = tables[f"{name[:-1]}_items"]
        for row in reading.execute(select(table).order_by(table.c.place)).mappings():
            items.setdefault(_key_of_set(dict(row), name, "lease"), []).append(row)
    return items


def _key_of_set(row: Mapping[str, Any], name: str, lease: str) -> tuple[int, ...]:
    """Return the key by which a judgement or a lease is found; `lease` is the column of a lease."""
    return (row["collection"], row["number"]) if name == "judgements" else (row[lease],)


def _converted(
    name: str, row: dict[str, Any], items_of_sets: Mapping[tuple[int, ...], list[RowMapping]]
) -> dict[str, Any]:
    """Convert a row of a table of version 0.4.

    A judgement or a lease of version 0.4 has a left and a right item. A collection that names a
    strategy of version 0.4 other than `random` asks by the rule.

    Args:
        name: the name of the table.
        row: the row {column: value}.
        items_of_sets: the items of rows about more than two items.
    """
    if name == "collections":
        settings = row["settings"]
        if settings.get("strategy") not in (None, "random"):
            row["settings"] = settings | {"strategy": "default"}
    if name not in ("judgements", "leases"):
        return row
    columns = {column: value for column, value in row.items() if column not in _GONE_COLUMNS}
    left, right = row["left_item"], row["right_item"]
    columns["items"] = left, right
    choices = {"best": {"left": left, "right": right}.get(row.get("answer", ""))}
    if left is None:
        items = items_of_sets[_key_of_set(row, name, "number")]
        columns["items"] = tuple(item["item"] for item in items)
        choices = {str(item.get("choice")): item["item"] for item in items}
    if name == "judgements":
        answer = _ANSWER_OF_WORD.get(row["answer"], row["answer"])
        best_and_worst = {choice: choices.get(choice) for choice in ("best", "worst")}
        columns |= {"answer": answer, **best_and_worst}
    return columns
