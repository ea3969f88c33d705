"""Runs, queries, iterations and pairs."""

import sqlalchemy as sa
from alembic import op

revision = "m0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "runs",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", sa.String, nullable=False, unique=True),
        sa.Column("created", sa.DateTime, nullable=False),
        sa.Column("finished", sa.DateTime),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("command", sa.String, nullable=False),
        sa.Column("config", sa.JSON, nullable=False),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.Column("versions", sa.JSON, nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
        sa.Column("out", sa.String),
    )
    op.create_table(
        "queries",
        _run(),
        sa.Column("split", sa.String, primary_key=True),
        sa.Column("query", sa.Integer, primary_key=True),
        sa.Column("qid", sa.String, nullable=False),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
    )
    op.create_table(
        "iterations",
        _run(),
        sa.Column("iteration", sa.Integer, primary_key=True),
        sa.Column("created", sa.DateTime, nullable=False),
        sa.Column("comparisons_train", sa.BigInteger),
        sa.Column("comparisons_vali", sa.BigInteger),
        sa.Column("miscompared_train", sa.BigInteger),
        sa.Column("miscompared_vali", sa.BigInteger),
        sa.Column("new_train", sa.BigInteger),
        sa.Column("new_vali", sa.BigInteger),
        sa.Column("tp", sa.BigInteger),
        sa.Column("vp", sa.BigInteger),
        sa.Column("quality", sa.Double),
        sa.Column("best", sa.Boolean),
        sa.Column("measures", sa.JSON),
        sa.Column("epochs", sa.Double),
        sa.Column("kept_epoch", sa.Double),
        sa.Column("train_loss", sa.Double),
        sa.Column("vali_loss", sa.Double),
        sa.Column("seconds_sort", sa.Double),
        sa.Column("seconds_train", sa.Double),
    )
    op.create_table(
        "pairs",
        _run(),
        sa.Column("split", sa.String, primary_key=True),
        sa.Column("winner", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("loser", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("query", sa.Integer, nullable=False),
        sa.Column("first_iteration", sa.Integer, nullable=False),
        sa.Column("last_iteration", sa.Integer, nullable=False),
        sa.Column("times", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )


def _run() -> sa.Column[int]:
    to_runs = sa.ForeignKey("runs.number", ondelete="CASCADE")
    return sa.Column("run", sa.Integer, to_runs, primary_key=True)
