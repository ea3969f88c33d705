"""A training run in the store, with its pairs, iterations, judge and status."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import Connection, select, update

from sortnet.core import NEVER_ADDED, SPLITS, Array, ComparedPairs, Split
from sortnet.errors import StoreError
from sortnet.files import plain
from store import frames
from store.database.engine import Database, utc_now
from store.database.schema import IterationRow, PairRow, QueryRow, RunRow, upsert
from store.runs.pair_rows import (
    COLUMNS,
    READ_AT_ONCE,
    AddedPairs,
    add_pairs,
    read_pairs,
    read_tables,
)

if TYPE_CHECKING:
    import pandas as pd


class Run:
    """A training run in the store, with its pairs, iterations and status.

    It stores the pairs of a training, as a `PairSink`.

    Attributes:
        database: the database.
        id: twelve hexadecimal digits.
        number: the run's key in the tables.
        command, config, seed, versions, data, out, created: the facts that were stored at its
            start.
    """

    def __init__(self, database: Database, number: int) -> None:
        """Read the run whose key in the tables is `number`."""
        self.database = database
        self.number = number
        row = self._row()
        self.id: str = row.id
        self.command: str = row.command
        self.config: dict[str, Any] = row.config
        self.seed: int = row.seed
        self.versions: dict[str, Any] = row.versions
        self.data: dict[str, Any] = row.data
        self.out: str | None = row.out
        self.created: datetime = row.created.replace(tzinfo=UTC)

    def __repr__(self) -> str:
        return f"Run({self.id}, {self.database.name})"

    @property
    def status(self) -> str:
        """`running`, `done`, `interrupted` or `failed`; `killed` if its process has been killed."""
        return status_of(self.database, self.number)

    def add(
        self,
        split: Split,
        iteration: int,
        pairs: ComparedPairs,
        wrong: ComparedPairs | None = None,
    ) -> None:
        """Add an iteration's pairs to the run, all or none; adding them again changes nothing.

        A run has a set of training pairs and a set of validation pairs, called TP and VP in
        Algorithm 3.1.

        Args:
            split: the set: `train` for the training pairs, `vali` for the validation pairs.
            iteration: the number of the iteration.
            pairs: the pairs to add to the set. Mistakes among them are counted, once an iteration.
            wrong: further compared pairs, whose mistakes are counted too, but which are not added
                to the set.

        Cost: one transaction.
        """
        added = AddedPairs.of(split, iteration, pairs, wrong)
        with self.database.transaction(write=True) as connection:
            add_pairs(connection, self.number, added)

    def pairs(self, split: Split, before: int | None = None) -> ComparedPairs:
        """Read the pairs that were added before an iteration, in the order of (winner, loser).

        Args:
            split: `train` for training pairs, `vali` for validation pairs.
            before: the iteration. If None, the pairs of all iterations are read.
        """
        end = NEVER_ADDED if before is None else before
        with self.database.transaction() as connection:
            is_added = PairRow.first_iteration < end
            return read_pairs(connection, self.number, split, is_added)

    def record(self, iteration: Mapping[str, object], added: Sequence[AddedPairs] = ()) -> None:
        """Store an iteration's row and its pairs, both or neither.

        Recording the iteration again replaces the given columns.

        Args:
            iteration: {column: value} with the column `iteration` and any further columns of
                `IterationRow`, such as the fields of `sortnet.learning.iterations.Iteration`. NaN
                is stored as missing.
            added: the pairs of the iteration.
        """
        row = {"run": self.number, "created": utc_now(), **plain(iteration)}
        # `created` is not among the changed columns: it stays if the iteration is recorded again.
        insert_or_replace = upsert(
            self.database.dialect, IterationRow, ["run", "iteration"], changed=iteration.keys()
        )
        with self.database.transaction(write=True) as connection:
            for pairs in added:
                add_pairs(connection, self.number, pairs)
            connection.execute(insert_or_replace, row)

    @property
    def kept(self) -> dict[str, Any] | None:
        """Facts about the model that the run has kept; None before the end of the run."""
        facts: dict[str, Any] | None = self._row().kept
        return facts

    @property
    def judge(self) -> dict[str, Any] | None:
        """{name: options} of the judges that the run asks; None if it asks no judge."""
        judge: dict[str, Any] | None = self._row().judge
        return judge

    @property
    def collection(self) -> str:
        """The name of the collection that has the answers of the run's judge.

        The colon keeps it apart from the names that users give to collections.
        """
        return f"run:{self.id}"

    def set_judge(self, options: Mapping[str, Any]) -> None:
        """Store {name: options} of the judges that the run asks."""
        self._change(judge=plain(options))

    def finish(self, status: str, kept: Mapping[str, Any] | None = None) -> None:
        """Store the run's status (running, done, interrupted or failed) with its time.

        The status `running` means that this process continues the run, and claims it.

        Args:
            status: the status.
            kept: facts about the model that the run has kept, which the property `kept` returns. If
                None, the stored facts stay.

        Raises:
            StoreError: if another process continues the run.
        """
        claims = self.database.claims
        claim = claim_of(self.number)
        if status == "running":
            if not claims.keep(claim):
                raise StoreError(f"run {self.id} is running in another process")
            self._change(status=status, finished=None)
            return
        facts_to_keep = {} if kept is None else {"kept": plain(kept)}
        self._change(status=status, finished=utc_now(), **facts_to_keep)
        claims.drop(claim)

    def iterations_frame(self) -> pd.DataFrame:
        """Make a frame with one row per iteration, and a column `<split>_<metric>` per measure.

        `comparisons_*`, `miscompared_*`, `new_*`, `tp` and `vp` count pairs, `seconds_*` are
        wall-clock times, measures are means over queries. `attrs` has the run's id as `run`, the
        `kept` iteration (None before the first iteration, and if another ranker was kept), the
        `conventions` of the measures, and as `pairs` the strategy that chose the pairs, a name of
        `sortnet.config.PAIRS`.
        """
        with self.database.one_state():
            rows = self._iterations(*_columns_of_iterations())
            frame = self._with_attributes(frames.iterations_frame(rows))
        measured = frames.measure_names(frame)
        frame.attrs["conventions"] = frames.conventions(self.config, measured)
        frame.attrs["pairs"] = str(self.config.get("pairs", "wrong"))
        return frame

    def iteration_rows(self) -> list[dict[str, Any]]:
        """List the rows of `iterations_frame` as dicts of JSON values."""
        return frames.iteration_rows(self._iterations(*_columns_of_iterations()))

    def pairs_frame(self, split: Split | None = None, *, min_times: int = 1) -> pd.DataFrame:
        """Make a frame with one row per pair that the comparator put in the wrong order.

        `winner` and `loser` are document numbers of a split; `winner_place` and `loser_place` are
        the numbers of the same documents within the query `qid`, from 0. `first_iteration` is the
        iteration that added the pair to TP or VP, the sets of training and validation pairs; it is
        missing if no iteration did. `times` is the number of iterations in which the pair was
        wrong, `first_wrong` and `last_wrong` are the first and the last of these iterations.
        `attrs` has the number of `iterations`.

        Args:
            split: split of the pairs. If None, pairs of both splits.
            min_times: least number of iterations in which a pair was wrong; with 0 also pairs of TP
                and VP that were never wrong.

        Cost: in SQLite about 1 us and 80 bytes per pair; `iter_pairs` reads the pairs in parts.
        """
        with self.database.one_state() as connection:
            queries = self._queries(connection)
            parts = self._pair_columns(connection, queries, READ_AT_ONCE, split, min_times)
            return self._with_attributes(frames.pairs_frame(parts, _names_of(queries)))

    def iter_pairs(
        self, chunk: int = 100_000, *, split: Split | None = None, min_times: int = 1
    ) -> Iterator[pd.DataFrame]:
        """Yield the rows of `pairs_frame` in frames of at most `chunk` rows, read as needed."""
        with self.database.transaction() as connection:
            queries = self._queries(connection)
            parts = self._pair_columns(connection, queries, chunk, split, min_times)
            next(parts)  # has no pairs
            for columns in parts:
                yield frames.pairs_frame([columns], _names_of(queries))

    def _queries(self, connection: Connection) -> Sequence[Any]:
        """Read the rows of the queries of both splits."""
        query = select(QueryRow.__table__).where(QueryRow.run == self.number)
        return connection.execute(query.order_by(QueryRow.split, QueryRow.query)).all()

    def _pair_columns(
        self,
        connection: Connection,
        queries: Sequence[Any],
        chunk: int,
        split: Split | None,
        min_times: int,
    ) -> Iterator[dict[str, Array]]:
        """Yield columns of `pairs_frame` for `chunk` pairs at a time.

        The first columns have no pairs, so that a frame without pairs has all columns.
        """
        no_query = np.empty(0, np.int64)
        no_pair = np.empty((0, len(COLUMNS)), np.int64)
        yield frames.pair_columns(no_pair, "train", no_query, no_query)
        # A frame stores the number of a query's name in place of the name.
        code_of_name = {name: code for code, name in enumerate(_names_of(queries))}
        is_selected = [PairRow.times >= min_times] if min_times > 0 else []
        for part in SPLITS if split is None else (split,):
            rows = [row for row in queries if row.split == part]
            first_documents = np.array([row.first for row in rows], np.int64)
            codes = np.array([code_of_name[row.qid] for row in rows], np.int32)
            for table in read_tables(connection, self.number, part, *is_selected, chunk=chunk):
                yield frames.pair_columns(table, part, first_documents, codes)

    def _row(self) -> Any:
        """Read the run's row."""
        query = select(RunRow.__table__).where(RunRow.number == self.number)
        with self.database.transaction() as connection:
            return connection.execute(query).one()

    def _change(self, **values: object) -> None:
        """Change columns of the run's row."""
        with self.database.transaction(write=True) as connection:
            connection.execute(update(RunRow).where(RunRow.number == self.number).values(values))

    def _iterations(self, *columns: Any) -> Sequence[Any]:
        """Read some columns of the run's iterations, in the order of the iterations."""
        is_of_run = IterationRow.run == self.number
        query = select(*columns).where(is_of_run).order_by(IterationRow.iteration)
        with self.database.transaction() as connection:
            return connection.execute(query).all()

    def _with_attributes(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return a frame after setting the `attrs` that plots need."""
        rows = self._iterations(IterationRow.iteration, IterationRow.best)
        best_iterations = [row.iteration for row in rows if row.best]  # each the best so far
        kept_ranker = self.kept
        keeps_comparator = kept_ranker is None or kept_ranker["kind"] == "sortnet"
        frame.attrs["run"] = self.id
        frame.attrs["kept"] = None
        if best_iterations and keeps_comparator:  # another ranker is from no iteration
            frame.attrs["kept"] = best_iterations[-1]
        frame.attrs["iterations"] = len(rows)
        return frame


def _columns_of_iterations() -> list[Any]:
    """List the columns of an iteration's row that a frame shows."""
    columns = IterationRow.__table__.columns
    return [column for column in columns if column.name not in ("run", "observed")]


def _names_of(queries: Sequence[Any]) -> list[str]:
    """List the names of queries, which two splits may share, each once."""
    return list(dict.fromkeys(row.qid for row in queries))


def claim_of(number: int) -> str:
    """Return the name that the process of the run with this number holds."""
    return f"run-{number}"


def status_of(database: Database, number: int) -> str:
    """Read the status of a run; `killed` if the run is stored as running, but nobody claims it."""
    query = select(RunRow.status).where(RunRow.number == number)

    def read() -> str:
        with database.transaction() as connection:
            return connection.execute(query).scalar_one()

    status = read()
    if status == "running" and not database.claims.is_held(claim_of(number)):
        # The run may have ended since: its status is stored before its claim ends.
        status = read()
        return "killed" if status == "running" else status
    return status


@dataclass(frozen=True)
class RunChange:
    """The progress of a run since it was last read.

    Attributes:
        status: one of `store.runs.run.STATUSES`, or `killed`.
        rows: new iterations, each a dict with the columns of `Run.iterations_frame`.
    """

    status: str
    rows: Sequence[Mapping[str, Any]]


def watch(run: Run, interval: float = 1.0) -> Iterator[RunChange]:
    """Read a run again and again until it ends, and yield its new iterations each time.

    Args:
        run: the run, as `Store.run` returns it.
        interval: seconds between two readings.

    >>> import tempfile
    >>> from sortnet import Queries
    >>> from store import open_store
    >>> queries = Queries.from_arrays([[0.0], [1.0]], [0, 1], group=[2])
    >>> folder = tempfile.TemporaryDirectory()
    >>> with open_store(f"{folder.name}/runs.db") as store:
    ...     run = store.start_run(
    ...         command="train", config={}, seed=0, versions={}, train=queries, vali=queries
    ...     )
    ...     run.record({"iteration": 0, "quality": 0.5})
    ...     run.finish("done")
    ...     [(change.status, len(change.rows)) for change in watch(run)]
    [('done', 1)]
    >>> folder.cleanup()
    """
    n_rows = 0
    while True:
        status = run.status  # is read before the rows, so that an ended run has all of its rows
        rows = run.iteration_rows()
        yield RunChange(status, rows[n_rows:])
        if status != "running":
            return
        n_rows = len(rows)
        time.sleep(interval)
