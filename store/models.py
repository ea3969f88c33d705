"""The tables: runs, the queries they sort, their iterations, and the pairs they got wrong."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import JSON, BigInteger, Double, ForeignKey
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    # SQLAlchemy 2.0 and 2.1 differ in what they make of a float.
    type_annotation_map: ClassVar = {dict[str, Any]: JSON, float: Double}


class RunRow(Base):
    """A training run. Times are UTC; `data` is {split: {path, fingerprint, n_queries, ...}}."""

    __tablename__ = "runs"

    number: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(unique=True)
    created: Mapped[datetime]
    finished: Mapped[datetime | None]
    status: Mapped[str]
    command: Mapped[str]
    config: Mapped[dict[str, Any]]
    seed: Mapped[int] = mapped_column(BigInteger)
    versions: Mapped[dict[str, Any]]
    data: Mapped[dict[str, Any]]
    out: Mapped[str | None]


class QueryRow(Base):
    """A query of a run: its name, and the document numbers `first .. first + size - 1`."""

    __tablename__ = "queries"

    run: Mapped[int] = mapped_column(
        ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True
    )
    split: Mapped[str] = mapped_column(primary_key=True)
    query: Mapped[int] = mapped_column(primary_key=True)
    qid: Mapped[str]
    first: Mapped[int] = mapped_column(BigInteger)
    size: Mapped[int]


class IterationRow(Base):
    """One turn of Algorithm 3.1; `tp` and `vp` are the sizes of its sets after the turn."""

    __tablename__ = "iterations"

    run: Mapped[int] = mapped_column(
        ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True
    )
    iteration: Mapped[int] = mapped_column(primary_key=True)
    created: Mapped[datetime]
    comparisons_train: Mapped[int | None] = mapped_column(BigInteger)
    comparisons_vali: Mapped[int | None] = mapped_column(BigInteger)
    miscompared_train: Mapped[int | None] = mapped_column(BigInteger)
    miscompared_vali: Mapped[int | None] = mapped_column(BigInteger)
    new_train: Mapped[int | None] = mapped_column(BigInteger)
    new_vali: Mapped[int | None] = mapped_column(BigInteger)
    tp: Mapped[int | None] = mapped_column(BigInteger)
    vp: Mapped[int | None] = mapped_column(BigInteger)
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
    """A pair of one query that the comparator once got wrong: `winner` belongs before `loser`.

    A document is of one query, so (run, split, winner, loser) makes a pair unique; in that order
    the table is read as `PairSink.pairs` promises, without a sort.
    """

    __tablename__ = "pairs"
    # Without a rowid SQLite keeps the pairs in the key's own tree: half the size and the time.
    __table_args__ = ({"sqlite_with_rowid": False},)

    run: Mapped[int] = mapped_column(
        ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True
    )
    split: Mapped[str] = mapped_column(primary_key=True)
    winner: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    loser: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    query: Mapped[int]
    first_iteration: Mapped[int]
    last_iteration: Mapped[int]
    times: Mapped[int]
