"""Labelling: collections, items, annotators, judgements, leases, servers."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "m0003"
down_revision = "m0002"


def upgrade() -> None:
    op.create_table(
        "collections",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("name", sa.String, nullable=False, unique=True),
        sa.Column("created", sa.DateTime, nullable=False),
        sa.Column("root", sa.String),
        sa.Column("source", sa.String, nullable=False),
        sa.Column("feature_names", sa.JSON, nullable=False),
        sa.Column("settings", sa.JSON, nullable=False),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "items",
        _collection(primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("id", sa.String, nullable=False),
        sa.Column("text", sa.String),
        sa.Column("image", sa.String),
        sa.Column("audio", sa.String),
        sa.Column("features", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("collection", "id"),
    )
    op.create_table(
        "annotators",
        sa.Column("number", sa.Integer, primary_key=True),
        _collection(nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("token", sa.String, nullable=False, unique=True),
        sa.Column("created", sa.DateTime, nullable=False),
        sa.UniqueConstraint("collection", "name"),
        sqlite_autoincrement=True,
    )
    _create_judgements()
    _create_leases()
    op.create_table(
        "servers",
        _collection(primary_key=True, autoincrement=False),
        sa.Column("id", sa.String, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("host", sa.String, nullable=False),
        sa.Column("heartbeat", sa.Double, nullable=False),
    )


def _create_judgements() -> None:
    op.create_table(
        "judgements",
        _collection(primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("id", sa.String, nullable=False),
        _annotator(),
        *_pair_and_choice(),
        sa.Column("answer", sa.String, nullable=False),
        sa.Column("milliseconds", sa.BigInteger),
        sa.Column("undoes", sa.Integer),
        sa.Column("lease", sa.String, unique=True),
        sa.Column("at", sa.Double),
        sa.UniqueConstraint("collection", "id"),
        sa.UniqueConstraint("collection", "undoes"),
    )


def _create_leases() -> None:
    op.create_table(
        "leases",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", sa.String, nullable=False, unique=True),
        _collection(nullable=False),
        _annotator(),
        sa.Column("low", sa.Integer, nullable=False),
        sa.Column("high", sa.Integer, nullable=False),
        *_pair_and_choice(),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("expires", sa.Double, nullable=False),
        sa.Column("open", sa.Boolean, nullable=False),
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


def _collection(**options: Any) -> sa.Column[int]:
    to_collections = sa.ForeignKey("collections.number", ondelete="CASCADE")
    return sa.Column("collection", sa.Integer, to_collections, **options)


def _annotator() -> sa.Column[int]:
    return sa.Column("annotator", sa.Integer, sa.ForeignKey("annotators.number"), nullable=False)


def _pair_and_choice() -> list[sa.Column[Any]]:
    return [
        sa.Column("left_item", sa.Integer, nullable=False),
        sa.Column("right_item", sa.Integer, nullable=False),
        sa.Column("strategy", sa.String, nullable=False),
        sa.Column("probability", sa.Double, nullable=False),
        sa.Column("model", sa.Integer, nullable=False),
    ]
