"""The schema of version 0.1.0: runs with their pairs, collections with their judgements."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "m0003"
down_revision = None


def upgrade() -> None:
    _create_runs()
    op.create_table(
        "collections",
        _number(),
        _unique("name"),
        *_needed(sa.DateTime, "created"),
        *_optional(sa.String, "root"),
        *_needed(sa.String, "source"),
        *_needed(sa.JSON, "feature_names", "settings"),
        *_needed(sa.BigInteger, "seed"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "items",
        _collection(primary_key=True),
        _part("number"),
        *_needed(sa.String, "id"),
        *_optional(sa.String, "text", "image", "audio"),
        *_needed(sa.LargeBinary, "features"),
        sa.UniqueConstraint("collection", "id"),
    )
    op.create_table(
        "annotators",
        _number(),
        _collection(nullable=False),
        *_needed(sa.String, "name"),
        _unique("token"),
        *_needed(sa.DateTime, "created"),
        sa.UniqueConstraint("collection", "name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "judgements",
        _collection(primary_key=True),
        _part("number"),
        *_needed(sa.String, "id"),
        *_question(),
        *_needed(sa.String, "answer"),
        *_optional(sa.BigInteger, "milliseconds"),
        *_optional(sa.Integer, "undoes"),
        sa.Column("lease", sa.String, unique=True),
        *_optional(sa.Double, "at"),
        sa.UniqueConstraint("collection", "id"),
        sa.UniqueConstraint("collection", "undoes"),
    )
    op.create_table(
        "leases",
        _number(),
        _unique("id"),
        _collection(nullable=False),
        *_needed(sa.Integer, "low", "high"),
        *_question(),
        *_needed(sa.Double, "created", "expires"),
        *_needed(sa.Boolean, "open"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "leases_open_pair",
        "leases",
        ["collection", "low", "high"],
        unique=True,
        sqlite_where=sa.text("open = 1"),
        postgresql_where=sa.text("open"),
    )
    op.create_table(
        "servers",
        _collection(primary_key=True),
        *_needed(sa.String, "id"),
        *_needed(sa.Integer, "pid"),
        *_needed(sa.String, "host"),
        *_needed(sa.Double, "heartbeat"),
    )


def _create_runs() -> None:
    op.create_table(
        "runs",
        _number(),
        _unique("id"),
        *_needed(sa.DateTime, "created"),
        *_optional(sa.DateTime, "finished"),
        *_needed(sa.String, "status", "command"),
        *_needed(sa.JSON, "config"),
        *_needed(sa.BigInteger, "seed"),
        *_needed(sa.JSON, "versions", "data"),
        *_optional(sa.String, "out"),
    )
    op.create_table(
        "queries",
        _run(),
        sa.Column("split", sa.String, primary_key=True),
        sa.Column("query", sa.Integer, primary_key=True),
        *_needed(sa.String, "qid"),
        *_needed(sa.BigInteger, "first"),
        *_needed(sa.Integer, "size"),
    )
    counts = ("comparisons", "miscompared", "new")
    op.create_table(
        "iterations",
        _run(),
        sa.Column("iteration", sa.Integer, primary_key=True),
        *_needed(sa.DateTime, "created"),
        *_optional(sa.BigInteger, *(f"{n}_{part}" for n in counts for part in ("train", "vali"))),
        *_optional(sa.BigInteger, "tp", "vp"),
        *_optional(sa.Double, "quality"),
        *_optional(sa.Boolean, "best"),
        *_optional(sa.JSON, "measures"),
        *_optional(sa.Double, "epochs", "kept_epoch", "train_loss", "vali_loss"),
        *_optional(sa.Double, "seconds_sort", "seconds_train"),
        *_optional(sa.JSON, "observed"),
    )
    op.create_table(
        "pairs",
        _run(),
        sa.Column("split", sa.String, primary_key=True),
        _part("winner", sa.BigInteger),
        _part("loser", sa.BigInteger),
        *_needed(sa.Integer, "query", "first_iteration", "last_iteration", "times"),
        sqlite_with_rowid=False,
    )


def _needed(kind: Any, *names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=False) for name in names]


def _optional(kind: Any, *names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind) for name in names]


def _number() -> sa.Column[int]:
    return sa.Column("number", sa.Integer, primary_key=True)


def _part(name: str, kind: Any = sa.Integer) -> sa.Column[int]:
    """A part of a key, which SQLite does not count up."""
    return sa.Column(name, kind, primary_key=True, autoincrement=False)


def _unique(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.String, nullable=False, unique=True)


def _run() -> sa.Column[int]:
    to_runs = sa.ForeignKey("runs.number", ondelete="CASCADE")
    return sa.Column("run", sa.Integer, to_runs, primary_key=True)


def _collection(**options: Any) -> sa.Column[int]:
    to_collections = sa.ForeignKey("collections.number", ondelete="CASCADE")
    return sa.Column("collection", sa.Integer, to_collections, autoincrement=False, **options)


def _question() -> list[sa.Column[Any]]:
    to_annotators = sa.ForeignKey("annotators.number")
    return [
        sa.Column("annotator", sa.Integer, to_annotators, nullable=False),
        *_needed(sa.Integer, "left_item", "right_item"),
        *_needed(sa.String, "strategy"),
        *_needed(sa.Double, "probability"),
        *_needed(sa.Integer, "model"),
    ]
