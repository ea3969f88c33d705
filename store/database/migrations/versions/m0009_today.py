"""What came after version 0.1.0; old rows: NULL. Adds only what a store of a time between lacks."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "m0009"
down_revision = "m0003"


def upgrade() -> None:
    _add("runs", sa.String, "host", "process_start")
    _add("runs", sa.Integer, "pid")
    _add("items", sa.String, "group_name", "context")
    _add("items", sa.JSON, "shown")
    _add("collections", sa.Integer, "items_of")
    _add("judgements", sa.String, "comment")
    _add("judgements", sa.Boolean, "flagged")
    op.create_table(
        "allowed_pairs",
        _collection(),
        _part("low"),
        _part("high"),
        sqlite_with_rowid=False,
        if_not_exists=True,
    )
    op.create_table(
        "decisions",
        _collection(),
        _part("number"),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("annotator", sa.Integer, sa.ForeignKey("annotators.number")),
        sa.Column("item", sa.Integer),
        sa.Column("other", sa.Integer),
        sa.Column("amount", sa.Double),
        sa.Column("reason", sa.String),
        sa.Column("at", sa.Double),
        if_not_exists=True,
    )
    op.create_table(
        "cells",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("created", sa.DateTime, nullable=False),
        *(sa.Column(name, sa.String, nullable=False) for name in ("ranker", "part")),
        *(sa.Column(name, sa.JSON, nullable=False) for name in ("cell", "about")),
        sa.Column("ranking", sa.LargeBinary, nullable=False),
        if_not_exists=True,
    )
    if op.get_bind().dialect.name == "postgresql":  # pairs are added three times as fast
        op.drop_constraint("pairs_run_fkey", "pairs", type_="foreignkey")


def _add(table: str, kind: Any, *names: str) -> None:
    there = {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)}
    for name in names:
        if name not in there:
            op.add_column(table, sa.Column(name, kind))


def _collection() -> sa.Column[int]:
    to_collections = sa.ForeignKey("collections.number", ondelete="CASCADE")
    return sa.Column(
        "collection", sa.Integer, to_collections, primary_key=True, autoincrement=False
    )


def _part(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, primary_key=True, autoincrement=False)
