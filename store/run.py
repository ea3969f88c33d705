"""One run in the store: its pairs (a `PairSink`), its iterations, how it ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import Connection, select, update
from sqlalchemy.dialects import postgresql, sqlite

from sortnet.errors import StoreError
from sortnet.memory import pair_keys, pairs_of_keys
from sortnet.types import I64, SPLITS, Pairs, Split
from store import frames
from store.engine import Database, plain
from store.models import IterationRow, PairRow, QueryRow, RunRow
from store.pair_rows import add_pairs, read_pairs

if TYPE_CHECKING:
    import pandas as pd

STATUSES = ("running", "done", "interrupted", "failed")
MEASURED = [c.name for c in IterationRow.__table__.columns if c.name not in ("run", "created")]


class Run:
    """A run as `Store.start_run` or `Store.run` gives it.

    Attributes:
        id: twelve hexadecimal digits.
        number: the run's key in the tables.
        command, config, seed, versions, data, out, created: what the run was started with.
    """

    def __init__(self, database: Database, number: int) -> None:
        self._database = database
        self.number = number
        with database.transaction() as connection:
            row = connection.execute(_run_row(number)).one()
            self._queries = {split: _QueryTable(connection, number, split) for split in SPLITS}
        self.id: str = row.id
        self.command: str = row.command
        self.config: dict[str, Any] = row.config
        self.seed: int = row.seed
        self.versions: dict[str, Any] = row.versions
        self.data: dict[str, Any] = row.data
        self.out: str | None = row.out
        self.created: datetime = row.created.replace(tzinfo=UTC)

    def __repr__(self) -> str:
        return f"Run({self.id}, {self._database.name})"

    @property
    def status(self) -> str:
        """`running`, `done`, `interrupted` or `failed`; a killed run still says `running`."""
        with self._database.transaction() as connection:
            return str(connection.execute(_run_row(self.number)).one().status)

    def add(self, split: Split, iteration: int, pairs: Pairs) -> int:
        """Add an iteration's mis-compared pairs, all or none; how many this iteration saw first.

        A pair that is there already has its count raised, once an iteration: adding the same
        iteration again (a resumed run does) changes nothing and returns the same.

        Raises:
            StoreError: on a pair that is not two documents of one query, or a database's fault.
            DataError: on a document paired with itself.

        Cost: one transaction; in SQLite some 1 us for a new pair, 2 us for a known one.
        """
        keys = pair_keys(pairs)
        query = self._queries[split].of_pairs(pairs_of_keys(keys))
        with self._database.transaction(write=True) as connection:
            return add_pairs(connection, self.number, split, iteration, keys, query)

    def pairs(self, split: Split, before: int | None = None) -> Pairs:
        """All pairs first seen before that iteration, ordered by (winner, loser)."""
        only = [] if before is None else [PairRow.first_iteration < before]
        with self._database.transaction() as connection:
            return read_pairs(connection, self.number, split, *only)

    def record(self, iteration: Mapping[str, object]) -> None:
        """Keep an iteration's figures; recording it again replaces those given.

        Args:
            iteration: `iteration` and any of the other columns of `IterationRow`, as
                `vars` of the loop's `Iteration` gives them; NaN is kept as missing.

        Raises:
            StoreError: on a name that is no column, or a database's fault.
        """
        unknown = sorted(set(iteration) - set(MEASURED))
        if unknown or "iteration" not in iteration:
            fault = f"no column {unknown[0]!r}" if unknown else "'iteration' is missing"
            raise StoreError(f"record of an iteration: {fault}; columns: {', '.join(MEASURED)}")
        dialect = sqlite if self._database.dialect == "sqlite" else postgresql
        given = plain(iteration)
        insert = dialect.insert(IterationRow).values(run=self.number, created=utc_now(), **given)
        upsert = insert.on_conflict_do_update(index_elements=["run", "iteration"], set_=given)
        with self._database.transaction(write=True) as connection:
            connection.execute(upsert)

    def finish(self, status: str) -> None:
        """Say how the run ended; `running` takes that back, for a run that is resumed.

        Raises:
            StoreError: on another status, or a database's fault.
        """
        if status not in STATUSES:
            raise StoreError(f"status {status!r} is none of {', '.join(STATUSES)}")
        finished = None if status == "running" else utc_now()
        change = update(RunRow).where(RunRow.number == self.number)
        with self._database.transaction(write=True) as connection:
            connection.execute(change.values(status=status, finished=finished))

    def iterations_frame(self) -> pd.DataFrame:
        """One row an iteration, with a column `<split>_<metric>` for every measure."""
        query = select(IterationRow.__table__).where(IterationRow.run == self.number)
        with self._database.transaction() as connection:
            rows = connection.execute(query.order_by(IterationRow.iteration)).all()
        return frames.iterations_frame(rows)

    def pairs_frame(self, split: Split | None = None) -> pd.DataFrame:
        """One row a pair: split, qid, winner, loser, first and last iteration, times.

        `winner_place` and `loser_place` count the documents within their query, from 0. Some 45
        bytes a pair; `iter_pairs` gives them in parts.
        """
        import pandas as pd

        empty = frames.pairs_frame([], "train", self._query_names())
        return pd.concat([empty, *self.iter_pairs(split=split)], ignore_index=True)

    def iter_pairs(
        self, chunk: int = 100_000, *, split: Split | None = None
    ) -> Iterator[pd.DataFrame]:
        """The rows of `pairs_frame` in parts of at most `chunk`, read as they are asked for."""
        names = self._query_names()
        for part in [split] if split else list(SPLITS):
            with self._database.transaction() as connection:
                query = _pair_rows(self.number, part)
                result = connection.execution_options(yield_per=chunk).execute(query)
                for rows in result.partitions():
                    yield frames.pairs_frame(rows, part, names)

    def _query_names(self) -> frames.QueryNames:
        names = list(dict.fromkeys(q for table in self._queries.values() for q in table.qids))
        number = {name: k for k, name in enumerate(names)}
        codes = {
            split: np.array([number[qid] for qid in table.qids], np.int64)
            for split, table in self._queries.items()
        }
        first = {split: table.first for split, table in self._queries.items()}
        return frames.QueryNames(names, codes, first)


class _QueryTable:
    """A split's queries: which document numbers belong to which."""

    def __init__(self, connection: Connection, run: int, split: Split) -> None:
        columns = select(QueryRow.qid, QueryRow.first, QueryRow.size)
        query = columns.where(QueryRow.run == run, QueryRow.split == split)
        rows = connection.execute(query.order_by(QueryRow.query)).all()
        self.split = split
        self.qids = [row.qid for row in rows]
        self.first = np.array([row.first for row in rows], np.int64)
        self.n_docs = int(rows[-1].first + rows[-1].size) if rows else 0

    def of_pairs(self, pairs: Pairs) -> I64:
        """(m,) the query's number of each pair."""
        winner = np.searchsorted(self.first, pairs.winner, side="right") - 1
        loser = np.searchsorted(self.first, pairs.loser, side="right") - 1
        bad = (winner != loser) | (np.maximum(pairs.winner, pairs.loser) >= self.n_docs)
        if bad.any():
            at = int(np.argmax(bad))
            raise StoreError(
                f"{self.split} pair of documents {pairs.winner[at]} and {pairs.loser[at]}: "
                f"not two documents of one query (there are {self.n_docs} documents)"
            )
        return winner.astype(np.int64, copy=False)


def _run_row(number: int) -> Any:
    return select(RunRow.__table__).where(RunRow.number == number)


def _pair_rows(run: int, split: Split) -> Any:
    names = ("query", "winner", "loser", "first_iteration", "last_iteration", "times")
    query = select(*(getattr(PairRow, name) for name in names))
    query = query.where(PairRow.run == run, PairRow.split == split)
    return query.order_by(PairRow.winner, PairRow.loser)


def utc_now() -> datetime:
    """UTC without a zone, as the tables keep it."""
    return datetime.now(UTC).replace(tzinfo=None)
