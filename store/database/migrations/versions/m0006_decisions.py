"""Decisions about annotators, items and gold pairs."""

import sqlalchemy as sa
from alembic import op

revision = "m0006"
down_revision = "m0005"


def upgrade() -> None:
    to_collections = sa.ForeignKey("collections.number", ondelete="CASCADE")
    op.create_table(
        "decisions",
        sa.Column("collection", sa.Integer, to_collections, primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("annotator", sa.Integer, sa.ForeignKey("annotators.number")),
        sa.Column("item", sa.Integer),
        sa.Column("other", sa.Integer),
        sa.Column("amount", sa.Double),
        sa.Column("reason", sa.String),
        sa.Column("at", sa.Double),
    )
