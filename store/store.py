"""The store: opens a database, with its runs and collections."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sqlalchemy import URL, Connection, func, insert, select
from sqlalchemy import update as sql_update

from sortnet.core import I64, Queries, Split
from sortnet.errors import StoreError
from sortnet.files import plain
from sortnet.items import Items
from store import frames
from store.collections.collection import Collection
from store.collections.collection_rows import (
    checked_name,
    checked_new,
    collections_query,
    make_collection,
)
from store.collections.item_rows import ItemRows
from store.database import upgrade
from store.database.engine import Database, utc_now
from store.database.process import status_of, this_process
from store.database.schema import CollectionRow, IterationRow, QueryRow, RunRow
from store.runs.run import Run, phase_of

if TYPE_CHECKING:
    import pandas as pd


def new_run_id() -> str:
    """Twelve hexadecimal digits for a new run."""
    return uuid4().hex[:12]


def open_store(url: str | Path | URL | None = None, *, write: bool = True) -> Store:
    """Open a store to write, creating or upgrading its tables, or to read, changing nothing.

    Args:
        url: a file, `sqlite:///FILE` or `postgresql://...`; None: the environment's
            SORTNET_STORE, else `sortnet/sortnet.db` in the user's data folder.
        write: if False, writing fails, and an old schema is read as if it were new.

    Raises:
        StoreError: if it cannot be reached or written, is another program's database or of a newer
            schema, or is empty and opened to read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/runs.db") as store:
    ...     len(store.runs_frame())
    0
    """
    return Store(url, write=write)


class Store:
    """Runs and collections in a database; `with` closes it.

    Attributes:
        copy: path of the copy of the SQLite file made before its schema was upgraded, or None.
    """

    def __init__(self, url: str | Path | URL | None = None, *, write: bool = True) -> None:
        self.copy: Path | None = None
        self.database = Database(url, write=False)
        try:
            current = self._look(write=write)
            if write:
                self.database = self.database.to_write()
            if write and not current:
                with self.database.transaction(write=True) as connection:
                    self.copy = upgrade.upgrade(connection, name=self.database.name)
        except BaseException:
            self.close()
            raise

    def _look(self, *, write: bool) -> bool:
        """Whether the schema is the newest; refuses other programs' databases before any change."""
        if write and not self.database.exists:
            return False
        # Opening to write would wait for other writers.
        with self.database.transaction() as connection:
            found = upgrade.look(connection, name=self.database.name)
            if found is None and not write:
                raise StoreError(
                    f"{self.database.name} is empty: sortnet train or sortnet items add fills it"
                )
            current = found == upgrade.NEWEST
            views = [] if current or write else list(upgrade.as_newest(connection))
        if views:
            self.database.before_reading(*views)
        return current

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Store({self.database.name})"

    def close(self) -> None:
        """Close the connections to the database."""
        self.database.close()

    def start_run(
        self,
        *,
        command: str,
        config: Mapping[str, Any],
        seed: int,
        versions: Mapping[str, str],
        train: Queries,
        vali: Queries,
        data: Mapping[str, Mapping[str, Any]] | None = None,
        out: str | Path | None = None,
        judge: Mapping[str, Any] | None = None,
        run_id: str | None = None,
    ) -> Run:
        """Start a run on these queries.

        Args:
            command: the command line, or the function that was called.
            config: every setting, as JSON values.
            versions: of SortNet, Python, torch and so on.
            data: {split: values}, such as path and fingerprint; the numbers of queries,
                documents and features of both parts are added.
            out: the folder of the run's model.
            judge: options of the program or model that the run asks, as JSON values.
            run_id: a new id from `new_run_id`; None: the run gets one.
        """
        splits: dict[Split, Queries] = {"train": train, "vali": vali}
        data = data or {}
        facts: dict[str, Mapping[str, Any]] = {
            split: {**_facts(queries), **data.get(split, {})} for split, queries in splits.items()
        }
        for part, values in data.items():
            facts.setdefault(part, values)  # a test part, which no run reads
        row = {
            "id": run_id or new_run_id(),
            "created": utc_now(),
            "status": "running",
            "command": command,
            "config": plain(config),
            "seed": int(seed),
            "versions": plain(versions),
            "data": plain(facts),
            "out": None if out is None else str(out),
            "judge": None if judge is None else plain(judge),
            **this_process(),
        }
        with self.database.transaction(write=True) as connection:
            number = connection.execute(insert(RunRow).returning(RunRow.number), row).scalar_one()
            for split, queries in splits.items():
                _insert_queries(connection, number, split, queries)
        return Run(self.database, number)

    def has_run(self, run_id: str) -> bool:
        """Whether the store has the run of that whole id."""
        query = select(func.count()).where(RunRow.id == run_id)
        return self.database.retrying(lambda db: db.execute(query).scalar_one() > 0)

    def run(self, id_or_prefix: str) -> Run:
        """A run by its id or a prefix of it; `last` is the one started last.

        A StoreError lists the runs if there is no such run, or more than one.
        """
        with self.database.transaction() as connection:
            newest_first = select(RunRow.number, RunRow.id).order_by(RunRow.number.desc())
            rows = connection.execute(newest_first).all()
        prefix = id_or_prefix.lower()
        fits = [row for row in rows if prefix and row.id.startswith(prefix)]
        if id_or_prefix == "last":
            fits = list(rows[:1])
        if len(fits) == 1:
            return Run(self.database, fits[0].number)
        fault = f"{len(fits)} runs begin with" if fits else "no run"
        known = ", ".join(row.id for row in (fits or rows)[:10]) or "none yet"
        raise StoreError(f"{self.database.name}: {fault} {id_or_prefix!r}; runs: {known}")

    def runs_frame(self) -> pd.DataFrame:
        """One row per run, the newest first, with its number of iterations and its best.

        `phase` is that of `store.runs.run.phase_of`.
        """
        import pandas as pd

        with self.database.transaction() as connection:
            rows = connection.execute(_runs()).all()
        frame = frames.typed(rows, frames.RUN_COLUMNS)
        statuses = [status_of(row) for row in rows]
        phases = [phase_of(*pair) for pair in zip(statuses, frame["config"], strict=True)]
        frame["status"] = pd.Series(statuses, dtype="str")
        frame.insert(2, "phase", pd.Series(phases, dtype="str"))
        return frame

    def collection(self, name: str, *, clock: Callable[[], float] = time.time) -> Collection:
        """The collection of that name, else a StoreError; `clock` gives seconds since 1970."""
        return Collection(self.database, name, clock=clock)

    def add_items(
        self,
        name: str,
        items: Items,
        *,
        update: bool = False,
        seed: int = 0,
        settings: Mapping[str, Any] | None = None,
        columns: Mapping[str, Any] | None = None,
        pairs: I64 | None = None,
    ) -> Collection:
        """Add items to a collection, which is created if there is none of that name.

        Args:
            update: whether items with a known id are replaced, or refused.
            seed, settings: of a new collection's sessions; an existing one keeps its own.
            columns: the role of each column of the file, kept in the settings as `columns`.
            pairs: (m, 2) the only pairs that may be asked, as numbers in the collection, the lower
                first; added to those there are.

        Raises:
            StoreError: on a new name with a colon, on an id that occurs twice or is known, on
                different features, or on groups that only some items have or that divide pairs.
        """
        checked_name("collection", name)
        with self.database.transaction(write=True) as connection:
            # Locked, not only found: others may be adding to it.
            found = select(CollectionRow.number).where(CollectionRow.name == name)
            number = connection.execute(found.with_for_update()).scalar()
            if number is None:
                checked_new(name)
                facts = plain(settings or {})
                number = make_collection(connection, name, seed=seed, settings=facts)
            rows = ItemRows(self.database, number, name)
            with rows.within_locked(connection):
                rows.refuse_criterion()
                if pairs is not None:
                    rows.allow_pairs(pairs)
                rows.insert_items(items, replace=update)
            if columns is not None:
                this = select(CollectionRow.settings).where(CollectionRow.number == number)
                facts = connection.execute(this).scalar_one() | {"columns": plain(columns)}
                written = sql_update(CollectionRow).where(CollectionRow.number == number)
                connection.execute(written.values(settings=facts))
        return self.collection(name)

    def collections_frame(self) -> pd.DataFrame:
        """One row per collection, in the order of creation, with its counts."""
        import pandas as pd

        with self.database.transaction() as connection:
            rows = connection.execute(collections_query()).all()
        frame = frames.typed(rows, frames.COLLECTION_COLUMNS)
        names = {row.number: row.feature_names for row in rows}
        features = [len(names[row.items_of or row.number]) for row in rows]
        frame.insert(3, "features", pd.Series(features, dtype="int64"))
        return frame


def _facts(queries: Queries) -> dict[str, Any]:
    return {
        "path": queries.source,
        "n_queries": len(queries),
        "n_docs": queries.n_docs,
        "n_features": queries.n_features,
    }


def _insert_queries(connection: Connection, run: int, split: Split, queries: Queries) -> None:
    columns = zip(
        queries.qids.tolist(), queries.offsets[:-1].tolist(), queries.sizes.tolist(), strict=True
    )
    rows = [
        {"run": run, "split": split, "query": k, "qid": qid, "first": first, "size": size}
        for k, (qid, first, size) in enumerate(columns)
    ]
    if rows:
        connection.execute(insert(QueryRow), rows)


def _runs() -> Any:
    """Every run with its number of iterations, the best of them and the newest sizes."""
    of_run = IterationRow.run == RunRow.number

    def last(column: Any, *only: Any) -> Any:
        newest = select(column).where(of_run, *only).order_by(IterationRow.iteration.desc())
        return newest.limit(1).scalar_subquery().label(column.name)

    best = IterationRow.best
    return select(
        RunRow.__table__,
        select(func.count()).where(of_run).scalar_subquery().label("iterations"),
        last(IterationRow.iteration, best).label("best_iteration"),
        last(IterationRow.quality, best).label("best_quality"),
        last(IterationRow.tp),
        last(IterationRow.vp),
    ).order_by(RunRow.number.desc())
