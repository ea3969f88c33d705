"""Cells of experiments."""

import sqlalchemy as sa
from alembic import op

revision = "m0007"
down_revision = "m0006"


def upgrade() -> None:
    op.create_table(
        "cells",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("created", sa.DateTime, nullable=False),
        sa.Column("ranker", sa.String, nullable=False),
        sa.Column("part", sa.String, nullable=False),
        sa.Column("cell", sa.JSON, nullable=False),
        sa.Column("about", sa.JSON, nullable=False),
        sa.Column("ranking", sa.LargeBinary, nullable=False),
    )
