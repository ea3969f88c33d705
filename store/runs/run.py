"""A training run in the store, with its pairs, iterations, judge and status."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, false, select, update

from sortnet.core import NEVER_ADDED, SPLITS, ComparedPairs, Split
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

STATUSES = ("running", "done", "interrupted", "failed")  # `killed` is inferred, not stored
_NOT_MEASURED = ("run", "created")  # columns of an iteration that `record` sets itself
MEASURED = [
    column.name for column in IterationRow.__table__.columns if column.name not in _NOT_MEASURED
]


class Run:
    """A training run in the store, with its pairs, iterations and status.

    It stores the pairs of a training, as a `PairSink`. Its operations wait for a server that is
    restarted.

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
        return f"Run({self.id}, {self.database.name})"

    @property
    def _strategy(self) -> str:
        """The strategy that chose the pairs to learn from, a name of `sortnet.config.PAIRS`."""
        return str(self.config.get("pairs", "wrong"))

    @property
    def status(self) -> str:
        """The stored status; `killed` in place of `running` if the process of the run has ended."""
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
        self.database.retrying(lambda db: add_pairs(db, self.number, added), write=True)

    def pairs(self, split: Split, before: int | None = None) -> ComparedPairs:
        """Read the pairs that were added before an iteration, in the order of (winner, loser).

        Args:
            split: `train` for training pairs, `vali` for validation pairs.
            before: the iteration. If None, the pairs of all iterations are read.
        """
        end = NEVER_ADDED if before is None else before
        is_added = PairRow.first_iteration < end
        return self.database.retrying(lambda db: read_pairs(db, self.number, split, is_added))

    def record(self, iteration: Mapping[str, object], added: Sequence[AddedPairs] = ()) -> None:
        """Store an iteration's row and its pairs, both or neither.

        Recording the iteration again replaces the given columns.

        Args:
            iteration: {column: value} with the column `iteration` and any further columns of
                `IterationRow`, such as the fields of `sortnet.learning.iterations.Iteration`. NaN
                is stored as missing.
            added: the pairs of the iteration.

        Raises:
            StoreError: on a name that is no column, or without `iteration`.
        """
        _check_columns(iteration)
        row = {"run": self.number, "created": utc_now(), **plain(iteration)}
        # `created` is not among the changed columns: it stays if the iteration is recorded again.
        insert_or_replace = upsert(
            self.database.dialect, IterationRow, ["run", "iteration"], changed=iteration.keys()
        )

        def write(connection: Connection) -> None:
            for pairs in added:
                add_pairs(connection, self.number, pairs)
            connection.execute(insert_or_replace, row)

        self.database.retrying(write, write=True)

    @property
    def kept(self) -> dict[str, Any] | None:
        """Facts about the model that the run has kept; None before the end of the run."""
        facts: dict[str, Any] | None = self._row().kept
        return facts

    @property
    def judge(self) -> dict[str, Any] | None:
        """{name: options} of the judges that the run asks; None if it asks no judge.

        Earlier versions stored the options of the only judge, without its name.
        """
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
        change = update(RunRow).where(RunRow.number == self.number).values(judge=plain(options))
        self.database.retrying(lambda db: db.execute(change), write=True)

    def finish(self, status: str, kept: Mapping[str, Any] | None = None) -> None:
        """Store the run's status (running, done, interrupted or failed) with its time.

        The status `running` means that this process continues the run, and claims it.

        Args:
            status: the status.
            kept: facts about the model that the run has kept, which the property `kept` returns. If
                None, the stored facts stay.

        Raises:
            StoreError: on another status, or if another process continues the run.
        """
        if status not in STATUSES:
            raise StoreError(f"status {str(status)!r} is none of {', '.join(STATUSES)}")
        values: dict[str, Any] = {"status": status, "finished": utc_now()}
        if status == "running":
            self.claim()
            values["finished"] = None
        if kept is not None:
            values["kept"] = plain(kept)
        change = update(RunRow).where(RunRow.number == self.number).values(values)
        self.database.retrying(lambda db: db.execute(change), write=True)
        if status != "running":
            self.database.claims.drop(claim_of(self.number))

    def claim(self) -> None:
        """Claim to be the process of the run, or renew the claim after a restart of the server.

        Raises:
            StoreError: if another process has the claim.
        """
        name = claim_of(self.number)
        if not self.database.retrying(lambda _: self.database.claims.keep(name)):
            raise StoreError(f"run {self.id} is running in another process")

    def iterations_frame(self) -> pd.DataFrame:
        """Make a frame with one row per iteration, and a column `<split>_<metric>` per measure.

        `comparisons_*`, `miscompared_*`, `new_*`, `tp` and `vp` count pairs, `seconds_*` are
        wall-clock times, measures are means over queries. `attrs` has the run's id as `run`, the
        `kept` iteration (None before the first iteration, and if another ranker was kept), the
        `conventions` of the measures, and as `pairs` the strategy that chose the pairs, a name of
        `sortnet.config.PAIRS`.
        """
        frame = self.database.retrying(
            lambda _: self._with_attributes(
                frames.iterations_frame(self._iterations(*_columns_of_iterations()))
            )
        )
        measured = frames.measure_names(frame)
        frame.attrs["conventions"] = frames.conventions(self.config, measured)
        frame.attrs["pairs"] = self._strategy
        return frame

    def iteration_rows(self) -> list[dict[str, Any]]:
        """List the rows of `iterations_frame` as dicts of JSON values."""
        return frames.iteration_rows(self._iterations(*_columns_of_iterations()))

    def pairs_frame(
        self,
        split: Split | None = None,
        *,
        qid: str | None = None,
        iteration: int | None = None,
        min_times: int = 1,
    ) -> pd.DataFrame:
        """Make a frame with one row per pair that the comparator put in the wrong order.

        `winner` and `loser` are document numbers of a split; `winner_place` and `loser_place` are
        the numbers of the same documents within the query `qid`, from 0. `first_iteration` is the
        iteration that added the pair to TP or VP, the sets of training and validation pairs; it is
        missing if no iteration did. `times` is the number of iterations in which the pair was
        wrong, `first_wrong` and `last_wrong` are the first and the last of these iterations.
        `attrs` has the number of `iterations`.

        Args:
            split: split of the pairs. If None, pairs of both splits.
            qid: query of the pairs. If None, pairs of all queries.
            iteration: iteration that added the pairs. If None, pairs of all iterations.
            min_times: least number of iterations in which a pair was wrong; with 0 also pairs of TP
                and VP that were never wrong.

        Raises:
            StoreError: if no split has the query.

        Cost: in SQLite about 1 us and 80 bytes per pair; `iter_pairs` reads the pairs in parts.
        """
        names, codes = self._query_names()
        conditions = self._conditions(split, qid, iteration, min_times)
        # An empty part comes first, so that a frame without pairs has all columns.
        empty_table = np.empty((0, len(COLUMNS)), np.int64)
        empty_part = frames.pair_columns(
            empty_table, "train", self._queries["train"].first, codes["train"]
        )
        parts = chain([empty_part], self._pair_columns(codes, READ_AT_ONCE, conditions))
        with self.database.one_state():
            return self._with_attributes(frames.pairs_frame(parts, names))

    def iter_pairs(
        self,
        chunk: int = 100_000,
        *,
        split: Split | None = None,
        qid: str | None = None,
        iteration: int | None = None,
        min_times: int = 1,
    ) -> Iterator[pd.DataFrame]:
        """Yield the rows of `pairs_frame` in frames of at most `chunk` rows, read as needed."""
        names, codes = self._query_names()
        conditions = self._conditions(split, qid, iteration, min_times)
        for columns in self._pair_columns(codes, chunk, conditions):
            yield frames.pairs_frame([columns], names)

    def _conditions(
        self, split: Split | None, qid: str | None, iteration: int | None, min_times: int
    ) -> dict[Split, list[ColumnElement[bool]]]:
        """Return {split: SQL conditions} that select pairs by the arguments of `pairs_frame`.

        Raises:
            StoreError: if no split has the query.
        """
        if qid is not None and all(qid not in table.qids for table in self._queries.values()):
            raise StoreError(f"run {self.id} has no query {str(qid)!r}")
        common: list[ColumnElement[bool]] = []
        if iteration is not None:
            common.append(PairRow.first_iteration == iteration)
        if min_times > 0:
            common.append(PairRow.times >= min_times)
        splits = SPLITS if split is None else (split,)
        conditions: dict[Split, list[ColumnElement[bool]]] = {}
        for part in splits:
            conditions[part] = [*common]
            if qid is not None:
                conditions[part] += self._queries[part].conditions_on_query(qid)
        return conditions

    def _pair_columns(
        self,
        codes: Mapping[Split, NDArray[Any]],
        chunk: int,
        conditions: Mapping[Split, list[ColumnElement[bool]]],
    ) -> Iterator[dict[str, NDArray[Any]]]:
        """Yield columns of `pairs_frame` for at most `chunk` pairs at a time.

        Args:
            codes: the code of each query's name in each split, see `_query_names`.
            chunk: the maximum number of pairs of a part.
            conditions: {split: conditions} that all pairs meet.
        """
        with self.database.transaction() as connection:
            for split, conditions_on_split in conditions.items():
                first_documents = self._queries[split].first
                tables = read_tables(
                    connection, self.number, split, *conditions_on_split, chunk=chunk
                )
                for table in tables:
                    yield frames.pair_columns(table, split, first_documents, codes[split])

    def _row(self) -> Any:
        """Read the run's row."""
        return self.database.retrying(lambda db: db.execute(_run_row(self.number)).one())

    def _iterations(self, *columns: Any) -> Sequence[Any]:
        """Read some columns of the run's iterations, in the order of the iterations."""
        query = (
            select(*columns).where(IterationRow.run == self.number).order_by(IterationRow.iteration)
        )
        return self.database.retrying(lambda db: db.execute(query).all())

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

    def _query_names(self) -> tuple[list[str], dict[Split, NDArray[Any]]]:
        """Number the names of the queries, because a frame stores names as categories.

        Returns the different names of all queries, and for each split an array with the code of
        each query's name, which is the number of the name in the list.
        """
        names = list(dict.fromkeys(qid for table in self._queries.values() for qid in table.qids))
        code_of_name = {name: code for code, name in enumerate(names)}
        codes = {
            split: np.array([code_of_name[qid] for qid in table.qids], np.int32)
            for split, table in self._queries.items()
        }
        return names, codes


def _check_columns(iteration: Mapping[str, object]) -> None:
    """Raise StoreError on a name that is no column of an iteration, or without `iteration`."""
    unknown = sorted(set(iteration) - set(MEASURED))
    if unknown:
        fault = f"no column {str(unknown[0])!r}"
    elif "iteration" not in iteration:
        fault = "'iteration' is missing"
    else:
        return
    raise StoreError(f"record of an iteration: {fault}; columns: {', '.join(MEASURED)}")


def _columns_of_iterations() -> list[Any]:
    """List the columns of an iteration's row that a frame shows."""
    columns = IterationRow.__table__.columns
    return [column for column in columns if column.name not in ("run", "observed")]


class _QueryTable:
    """The queries of a split of a run, with the document numbers of each query.

    Attributes:
        split: the split.
        qids: the name of each query.
        first: the number of the first document of each query, ascending.
        sizes: the number of documents of each query.
    """

    def __init__(self, connection: Connection, run: int, split: Split) -> None:
        """Read the queries of a split of the run with the number `run`."""
        query = (
            select(QueryRow.qid, QueryRow.first, QueryRow.size)
            .where(QueryRow.run == run, QueryRow.split == split)
            .order_by(QueryRow.query)
        )
        rows = connection.execute(query).all()
        self.split = split
        self.qids = [row.qid for row in rows]
        self.first = np.array([row.first for row in rows], np.int64)
        self.sizes = np.array([row.size for row in rows], np.int64)

    def conditions_on_query(self, qid: str) -> list[ColumnElement[bool]]:
        """Return conditions that select the pairs of a query by the number of the winner.

        The documents of a query have consecutive numbers. If the split does not have the query, no
        pair meets the conditions.
        """
        if qid not in self.qids:
            return [false()]
        query = self.qids.index(qid)
        first = int(self.first[query])
        return [PairRow.winner >= first, PairRow.winner < first + int(self.sizes[query])]


def _run_row(number: int) -> Any:
    """Make the query of a run's row."""
    return select(RunRow.__table__).where(RunRow.number == number)


def claim_of(number: int) -> str:
    """Return the name that the process of the run with this number holds."""
    return f"run-{number}"


def status_of(database: Database, number: int) -> str:
    """Read the status of a run; `killed` if the run is stored as running, but nobody claims it."""
    query = select(RunRow.status).where(RunRow.number == number)

    def read() -> str:
        return str(database.retrying(lambda connection: connection.execute(query).scalar_one()))

    status = read()
    if status == "running" and not database.claims.is_held(claim_of(number)):
        # The run may have ended since: its status is stored before its claim ends.
        status = read()
        return "killed" if status == "running" else status
    return status
