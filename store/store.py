"""Open the store, a database of runs and collections."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sqlalchemy import Connection, func, insert, select
from sqlalchemy import update as sql_update

from sortnet.core import I64, Queries, Split
from sortnet.errors import StoreError
from sortnet.files import Record, plain
from sortnet.items import Items
from sortnet.messages import known_names
from store import frames
from store.collections.collection import Collection
from store.collections.collection_rows import (
    checked_new,
    collections_query,
    make_collection,
)
from store.collections.item_rows import ItemRows
from store.database.engine import Database, StoreAddress, utc_now
from store.database.revision import REVISION, checked_revision, make_newest
from store.database.schema import CollectionRow, IterationRow, QueryRow, RunRow
from store.runs.run import Run, claim_of, status_of

if TYPE_CHECKING:
    import pandas as pd


_IS_OF_RUN = IterationRow.run == RunRow.number


def new_run_id() -> str:
    """Make the id of a new run: twelve hexadecimal digits."""
    return uuid4().hex[:12]


def open_store(url: StoreAddress = None, *, write: bool = True) -> Store:
    """Open a store to read and write, or only to read, which changes nothing.

    Opening to write creates the tables of a new store.

    Args:
        url: a file, `sqlite:///FILE` or `postgresql://...`. If None, the environment's
            SORTNET_STORE, else `sortnet/sortnet.db` in the user's data folder.
        write: whether to open to write. If False, writing fails.

    Raises:
        StoreError: if the store cannot be reached or written, is another program's database or of
            another version, or is empty and opened to read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/runs.db") as store:
    ...     len(store.runs_frame())
    0
    """
    return Store(url, write=write)


class Store:
    """A database of runs and collections; leaving a `with` block closes it.

    Attributes:
        database: the database.
    """

    def __init__(self, url: StoreAddress = None, *, write: bool = True) -> None:
        """Open the store at a path or URL, which `open_store` explains."""
        self.database = Database(url, write=False)
        name = self.database.name
        try:
            revision = None
            if self.database.exists or not write:
                # `checked_revision` refuses another program's database before any change. Its
                # transaction only reads, because a transaction that writes would wait for others.
                with self.database.transaction() as connection:
                    revision = checked_revision(connection, name=name)
            if not write and revision is None:
                raise StoreError(f"{name} is empty: sortnet train or sortnet items add fills it")
            if not write and revision != REVISION:
                raise StoreError(
                    f"{name} is of an older schema ({revision}): "
                    "the first command that writes migrates it"
                )
            if write:
                self.database.close()
                self.database = Database(self.database.url)
            if revision != REVISION:
                with self.database.transaction(write=True) as connection:
                    make_newest(connection, name=name)
        except BaseException:
            self.close()
            raise

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
        """Store a new run on these queries, with the status `running`, and claim it.

        Args:
            command: the command line, or the function that was called.
            config: every setting, as JSON values.
            seed: the random seed.
            versions: versions of SortNet, Python, torch and so on.
            train: the training queries.
            vali: the validation queries.
            data: {name of a part: facts about its data}, such as path and fingerprint. The numbers
                of queries, documents and features of `train` and `vali` are added.
            out: the folder of the run's model.
            judge: options of the program or model that the run asks, as JSON values.
            run_id: an id from `new_run_id`. If None, a new id is made.
        """
        data = data or {}
        facts_of_data: dict[str, Mapping[str, Any]] = {
            "train": {**_facts(train), **data.get("train", {})},
            "vali": {**_facts(vali), **data.get("vali", {})},
        }
        for part, facts in data.items():
            # A test part is given by its facts alone: a run does not store its queries.
            facts_of_data.setdefault(part, facts)
        row = {
            "id": run_id or new_run_id(),
            "created": utc_now(),
            "status": "running",
            "command": command,
            "config": plain(config),
            "seed": int(seed),
            "versions": plain(versions),
            "data": plain(facts_of_data),
            "out": None if out is None else str(out),
            "judge": None if judge is None else plain(judge),
        }
        with self.database.transaction(write=True) as connection:
            number = connection.execute(insert(RunRow).returning(RunRow.number), row).scalar_one()
            _insert_queries(connection, number, "train", train)
            _insert_queries(connection, number, "vali", vali)
            # Nobody else can hold this claim: the number is new, and not committed yet.
            self.database.claims.take(claim_of(number))
        return Run(self.database, number)

    def has_run(self, run_id: str) -> bool:
        """Whether the store has a run with exactly this id."""
        query = select(func.count()).where(RunRow.id == run_id)
        with self.database.transaction() as connection:
            return connection.execute(query).scalar_one() > 0

    def run(self, id_or_prefix: str) -> Run:
        """Find a run by its id or by a prefix of the id; `last` finds the run that started last.

        Raises:
            StoreError: if there is no such run, or more than one. The message lists runs.
        """
        with self.database.transaction() as connection:
            newest_first = select(RunRow.number, RunRow.id).order_by(RunRow.number.desc())
            rows = connection.execute(newest_first).all()
        prefix = id_or_prefix.lower()
        matching = [row for row in rows if prefix and row.id.startswith(prefix)]
        if prefix == "last":
            matching = list(rows[:1])
        if len(matching) == 1:
            return Run(self.database, matching[0].number)
        fault = f"{len(matching)} runs begin with" if matching else "no run"
        # If no run matches, any runs are examples.
        runs = known_names(row.id for row in matching or rows)
        raise StoreError(f"{self.database.name}: {fault} {id_or_prefix!r}; runs: {runs}")

    def runs_frame(self) -> pd.DataFrame:
        """Make a frame with one row per run, the newest run first.

        It has the columns `RUN_COLUMNS` of `store.frames`.
        """
        import pandas as pd

        n_iterations = select(func.count()).where(_IS_OF_RUN).scalar_subquery()
        query = select(
            RunRow.__table__,
            n_iterations.label("iterations"),
            _newest(IterationRow.iteration, IterationRow.best).label("best_iteration"),
            _newest(IterationRow.quality, IterationRow.best).label("best_quality"),
            # The sizes of the training and validation pairs are those of the newest iteration.
            _newest(IterationRow.tp).label("tp"),
            _newest(IterationRow.vp).label("vp"),
        )
        with self.database.transaction() as connection:
            rows = connection.execute(query.order_by(RunRow.number.desc())).all()
        frame = frames.typed(rows, frames.RUN_COLUMNS)
        statuses = [
            status_of(self.database, row.number) if row.status == "running" else row.status
            for row in rows
        ]
        frame["status"] = pd.Series(statuses, dtype="str")
        return frame

    def collection(self, name: str, *, clock: Callable[[], float] = time.time) -> Collection:
        """Open the collection with a name.

        Args:
            name: name of a collection, or NAME:CRITERION for a criterion.
            clock: returns the time in seconds since 1970.

        Raises:
            StoreError: if there is no such collection.
        """
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
        """Add items to a collection, which is created if it does not exist.

        Args:
            name: name of the collection.
            items: the items.
            update: whether items whose ids are stored are replaced; if not, they must be the same.
            seed, settings: random seed and settings of the sessions of a new collection. An
                existing collection keeps its seed and settings.
            columns: the role of each column of the items' file, stored in the settings as
                `columns`.
            pairs: the only pairs of items that annotators may be asked about, an array (m, 2) of
                items' numbers in the collection, the lower number first. They are added to the
                pairs of earlier calls.

        Raises:
            StoreError: on a new name with a colon, on an id that occurs twice or is stored with
                other content, on features other than the stored items', on groups that only some
                items have, or on groups that divide a pair which was judged or may be asked.
        """
        checked_new(name)
        with self.database.transaction(write=True) as connection:
            # The row is locked, because other processes may add items to the collection too.
            query = select(CollectionRow.number).where(CollectionRow.name == name)
            number = connection.execute(query.with_for_update()).scalar()
            if number is None:
                number = make_collection(
                    connection, name, seed=seed, settings=plain(settings or {})
                )
            rows = ItemRows(self.database, number, name)
            with rows.within(connection):
                if pairs is not None:
                    rows.allow_pairs(pairs)
                rows.insert_items(items, replace=update)
            if columns is not None:
                _store_columns(connection, number, columns)
        return self.collection(name)

    def collections_frame(self) -> pd.DataFrame:
        """Make a frame with one row per collection, in the order of creation.

        It has the columns `COLLECTION_COLUMNS` of `store.frames`, and the number of `features`.
        """
        import pandas as pd

        with self.database.transaction() as connection:
            rows = connection.execute(collections_query()).all()
        frame = frames.typed(rows, frames.COLLECTION_COLUMNS)
        names_of_collection = {row.number: row.feature_names for row in rows}
        n_features = []
        for row in rows:
            # A criterion shares the items of its collection, and so their features.
            collection_of_items = row.number if row.items_of is None else row.items_of
            n_features.append(len(names_of_collection[collection_of_items]))
        frame.insert(3, "features", pd.Series(n_features, dtype="int64"))
        return frame


def _facts(queries: Queries) -> Record:
    """Return the facts about a part of the data that are stored with a run."""
    return {
        "path": queries.source,
        "n_queries": len(queries),
        "n_docs": queries.n_docs,
        "n_features": queries.n_features,
    }


def _store_columns(connection: Connection, collection: int, columns: Mapping[str, Any]) -> None:
    """Store the roles of columns in the settings of a collection."""
    query = select(CollectionRow.settings).where(CollectionRow.number == collection)
    settings = {**connection.execute(query).scalar_one(), "columns": plain(columns)}
    change = sql_update(CollectionRow).where(CollectionRow.number == collection)
    connection.execute(change.values(settings=settings))


def _insert_queries(connection: Connection, run: int, split: Split, queries: Queries) -> None:
    """Store the name, the first document and the number of documents of each query of a split."""
    first_documents = queries.offsets[:-1]
    columns = [queries.qids.tolist(), first_documents.tolist(), queries.sizes.tolist()]
    rows = [
        {"run": run, "split": split, "query": number, "qid": qid, "first": first, "size": size}
        for number, (qid, first, size) in enumerate(zip(*columns, strict=True))
    ]
    if rows:
        connection.execute(insert(QueryRow), rows)


def _newest(column: Any, *conditions: Any) -> Any:
    """Make a subquery of a column's value in the newest iteration of a run.

    Args:
        column: a column of the table of iterations.
        conditions: only iterations that meet all conditions are searched.
    """
    values = select(column).where(_IS_OF_RUN, *conditions)
    return values.order_by(IterationRow.iteration.desc()).limit(1).scalar_subquery()
