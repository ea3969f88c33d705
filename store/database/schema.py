"""The tables of the database: runs with iterations and pairs, collections with judgements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Annotated, Any, ClassVar

from sqlalchemy import (
    JSON,
    BigInteger,
    Dialect,
    Double,
    ForeignKey,
    Index,
    TypeDecorator,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Places(TypeDecorator[tuple[int, ...]]):
    """The numbers of items in their places, as a list in JSON."""

    impl = JSON
    cache_ok = True

    def process_result_value(self, value: Any, dialect: Dialect) -> tuple[int, ...]:
        """Make a tuple of the list."""
        return tuple(value)


class Base(DeclarativeBase):
    """The base class of all tables."""

    # `float` is listed because SQLAlchemy 2.0 and 2.1 map it to different types.
    type_annotation_map: ClassVar = {dict[str, Any]: JSON, list[str]: JSON, float: Double}
    type_annotation_map |= {tuple[int, ...]: Places}


_TO_RUN = ForeignKey("runs.number", ondelete="CASCADE")
_TO_COLLECTION = ForeignKey("collections.number", ondelete="CASCADE")
Big = Annotated[int, mapped_column(BigInteger)]
Key = Annotated[int, mapped_column(primary_key=True)]
RunKey = Annotated[int, mapped_column(_TO_RUN, primary_key=True)]
# A key column whose value the program sets; the database must not number the rows.
Part = Annotated[int, mapped_column(primary_key=True, autoincrement=False)]
CollectionKey = Annotated[int, mapped_column(_TO_COLLECTION, primary_key=True, autoincrement=False)]


class RunRow(Base):
    """A training run.

    Times are UTC. `data` is {split: {path, fingerprint, n_queries, ...}}. A run of the status
    `running` whose process has been killed is not claimed any more, see `store.database.claims`.

    `kept` is {kind, measure, figures, reason} and tells which model the folder `out` has. The
    figures are {kind: value of the measure for the model of this kind}. `kept` is NULL until the
    run has ended. `judge` has the options of the program or
    model that the run asks, for resuming; it is NULL if the run has no judge.
    """

    __tablename__ = "runs"

    number: Mapped[Key]
    id: Mapped[str] = mapped_column(unique=True)
    created: Mapped[datetime]
    finished: Mapped[datetime | None]
    status: Mapped[str]
    command: Mapped[str]
    config: Mapped[dict[str, Any]]
    seed: Mapped[Big]
    versions: Mapped[dict[str, Any]]
    data: Mapped[dict[str, Any]]
    out: Mapped[str | None]
    kept: Mapped[dict[str, Any] | None]
    judge: Mapped[dict[str, Any] | None]


class QueryRow(Base):
    """A query of a run; its documents have the numbers from `first` to `first + size - 1`."""

    __tablename__ = "queries"

    run: Mapped[RunKey]
    split: Mapped[str] = mapped_column(primary_key=True)
    query: Mapped[Key]
    qid: Mapped[str]
    first: Mapped[Big]
    size: Mapped[int]


class IterationRow(Base):
    """An iteration of training; `tp` and `vp` count its training and validation pairs."""

    __tablename__ = "iterations"

    run: Mapped[RunKey]
    iteration: Mapped[Key]
    created: Mapped[datetime]
    comparisons_train: Mapped[Big | None]
    comparisons_vali: Mapped[Big | None]
    miscompared_train: Mapped[Big | None]
    miscompared_vali: Mapped[Big | None]
    new_train: Mapped[Big | None]
    new_vali: Mapped[Big | None]
    tp: Mapped[Big | None]
    vp: Mapped[Big | None]
    quality: Mapped[float | None]
    best: Mapped[bool | None]
    measures: Mapped[dict[str, Any] | None]
    epochs: Mapped[float | None]
    kept_epoch: Mapped[float | None]
    train_loss: Mapped[float | None]
    vali_loss: Mapped[float | None]
    seconds_sort: Mapped[float | None]
    seconds_train: Mapped[float | None]
    observed: Mapped[dict[str, Any] | None]


class PairRow(Base):
    """A pair of documents that a run learned from, or that its comparator put in the wrong order.

    `winner` should be before `loser`. TP and VP are the sets of training and validation pairs of
    Algorithm 3.1.

    `first_iteration` is the iteration that added the pair to TP or VP, or NEVER_ADDED; a resumed
    run reads it. `times` counts the iterations in which the comparator put the loser first;
    `first_wrong` and `last_wrong` are the first and the last of these iterations, or NEVER_WRONG.

    Each document belongs to one query, so (run, split, winner, loser) identifies a pair. Reading in
    this order gives the order of `PairSink.pairs` without a sort. `run` is no foreign key: checking
    it would take as long as storing two pairs, and runs are never removed.
    """

    __tablename__ = "pairs"
    # Without a rowid, SQLite stores pairs in the tree of the key, in half the space and time.
    __table_args__ = ({"sqlite_with_rowid": False},)

    run: Mapped[Part]
    split: Mapped[str] = mapped_column(primary_key=True)
    winner: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    loser: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    first_iteration: Mapped[int]
    last_wrong: Mapped[int]
    times: Mapped[int]
    first_wrong: Mapped[int]


class CollectionRow(Base):
    """A named set of items to sort, with the random seed and the settings of its sessions.

    A criterion of a collection is a row too, without items: `items_of` is the number of the
    collection that has the items which the criterion asks about. `run` is the number of the run
    that owns the collection, whose judgements are the answers of the run's judge.
    """

    __tablename__ = "collections"
    # Numbers are never reused, because a process may still use the number of a removed collection.
    __table_args__ = ({"sqlite_autoincrement": True},)

    number: Mapped[Key]
    name: Mapped[str] = mapped_column(unique=True)
    created: Mapped[datetime]
    root: Mapped[str | None]
    source: Mapped[str]
    feature_names: Mapped[list[str]]
    settings: Mapped[dict[str, Any]]
    seed: Mapped[Big]
    items_of: Mapped[int | None]
    run: Mapped[int | None] = mapped_column(ForeignKey("runs.number", ondelete="CASCADE"))


class ItemRow(Base):
    """An item of a collection, with its texts and features.

    `features` are little-endian float32, or float64 if float32 would round dates. `context` is a
    text about the item's group. `shown` is {name: text} of further columns that annotators see.
    """

    __tablename__ = "items"
    __table_args__ = (UniqueConstraint("collection", "id"),)

    collection: Mapped[CollectionKey]
    number: Mapped[Part]
    id: Mapped[str]
    text: Mapped[str | None]
    image: Mapped[str | None]
    audio: Mapped[str | None]
    features: Mapped[bytes]
    group_name: Mapped[str | None]
    context: Mapped[str | None]
    shown: Mapped[dict[str, Any] | None]


class AllowedPairRow(Base):
    """A pair of items that annotators may be asked about.

    If a collection has no such rows, annotators may be asked about all pairs.
    """

    __tablename__ = "allowed_pairs"
    __table_args__ = ({"sqlite_with_rowid": False},)

    collection: Mapped[CollectionKey]
    low: Mapped[Part]
    high: Mapped[Part]


class AnnotatorRow(Base):
    """An annotator of a collection, and the secret token in the address of their page."""

    __tablename__ = "annotators"
    __table_args__ = (UniqueConstraint("collection", "name"), {"sqlite_autoincrement": True})

    number: Mapped[Key]
    collection: Mapped[int] = mapped_column(ForeignKey("collections.number", ondelete="CASCADE"))
    name: Mapped[str]
    token: Mapped[str] = mapped_column(unique=True)
    created: Mapped[datetime]


class JudgementRow(Base):
    """An annotator's answer about two or more items, or an undo of an earlier answer.

    Rows are never changed: an undo is a row that names the undone judgement in `undoes`. `number`
    counts the judgements of the collection from 1 without gaps. Imports recognise a judgement by
    its `id`. `at` is in seconds since 1970.
    """

    __tablename__ = "judgements"
    __table_args__ = (
        UniqueConstraint("collection", "id"),
        UniqueConstraint("collection", "undoes"),
    )

    collection: Mapped[CollectionKey]
    number: Mapped[Part]
    id: Mapped[str]
    annotator: Mapped[int] = mapped_column(ForeignKey("annotators.number"))
    items: Mapped[tuple[int, ...]]
    answer: Mapped[str]
    best: Mapped[int | None]
    worst: Mapped[int | None]
    milliseconds: Mapped[Big | None]
    strategy: Mapped[str]
    probability: Mapped[float]
    model: Mapped[int]
    undoes: Mapped[int | None]
    lease: Mapped[str | None] = mapped_column(unique=True)
    at: Mapped[float | None]
    comment: Mapped[str | None]
    flagged: Mapped[bool | None]
    p: Mapped[float | None]
    cost: Mapped[float | None]
    meta: Mapped[str | None]


class DecisionRow(Base):
    """A decision of an administrator, such as to exclude an annotator or to retire an item.

    No row is ever changed: the last row about the same subject counts.

    `number` counts the decisions of the collection from 1 without gaps. `at` is in seconds since
    1970.
    """

    __tablename__ = "decisions"

    collection: Mapped[CollectionKey]
    number: Mapped[Part]
    kind: Mapped[str]
    annotator: Mapped[int | None] = mapped_column(ForeignKey("annotators.number"))
    item: Mapped[int | None]
    other: Mapped[int | None]
    amount: Mapped[float | None]
    reason: Mapped[str | None]
    at: Mapped[float | None]


class LeaseRow(Base):
    """A leased question; a pair has at most one open lease. Times are in seconds since 1970.

    `process` is the process that asks the question, see `store.database.claims`. `batch` is the
    name of the batch with which the question was written to a file, else NULL.
    """

    __tablename__ = "leases"
    __table_args__ = (
        Index(
            "leases_open",
            "collection",
            sqlite_where=text("open = 1"),
            postgresql_where=text("open"),
        ),
        {"sqlite_autoincrement": True},
    )

    number: Mapped[Key]
    id: Mapped[str] = mapped_column(unique=True)
    collection: Mapped[int] = mapped_column(ForeignKey("collections.number", ondelete="CASCADE"))
    annotator: Mapped[int] = mapped_column(ForeignKey("annotators.number"))
    items: Mapped[tuple[int, ...]]
    strategy: Mapped[str]
    probability: Mapped[float]
    model: Mapped[int]
    created: Mapped[float]
    expires: Mapped[float]
    open: Mapped[bool]
    process: Mapped[str | None]
    batch: Mapped[str | None]


class BatchRow(Base):
    """Questions that were written to a file for a provider's batch endpoint.

    A provider answers the questions later, all at once. `about` has the facts that are stored with
    each answer, such as the model and its prices. Times are in seconds since 1970.
    """

    __tablename__ = "batches"

    number: Mapped[Key]
    name: Mapped[str] = mapped_column(unique=True)
    collection: Mapped[int] = mapped_column(ForeignKey("collections.number", ondelete="CASCADE"))
    annotator: Mapped[int] = mapped_column(ForeignKey("annotators.number"))
    created: Mapped[float]
    cancelled: Mapped[float | None]
    about: Mapped[dict[str, Any]]


class CellRow(Base):
    """The stored result of one cell of an experiment: one ranker, fitted to one division of data.

    `ranking` has the numbers of the test documents as little-endian int32, the best document of
    each query first. `part` is the name of the division of the data.
    """

    __tablename__ = "cells"

    key: Mapped[str] = mapped_column(primary_key=True)
    created: Mapped[datetime]
    ranker: Mapped[str]
    part: Mapped[str]
    cell: Mapped[dict[str, Any]]
    about: Mapped[dict[str, Any]]
    ranking: Mapped[bytes]


def columns_of(record: Any, row: type[Base]) -> list[Any]:
    """List the columns of a table with the same names as the fields of a dataclass.

    The field `annotator` is the annotator's name, from the table of annotators, which the query
    must join.
    """
    names = [field.name for field in fields(record)]
    return [AnnotatorRow.name if name == "annotator" else getattr(row, name) for name in names]


def upsert(dialect: str, table: type[Base], keys: Sequence[str], changed: Iterable[str]) -> Any:
    """Make a statement that inserts rows, and updates the columns `changed` of existing rows.

    Args:
        dialect: `sqlite` or `postgresql`.
        table: the table.
        keys: the columns by which an existing row is recognised.
        changed: the columns to update.
    """
    insert = sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)
    values = {name: insert.excluded[name] for name in changed}
    return insert.on_conflict_do_update(index_elements=keys, set_=values)
