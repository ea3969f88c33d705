"""Criteria of a collection, comments and flags on pairs, columns that are shown; old rows: NULL."""

import sqlalchemy as sa
from alembic import op

revision = "m0008"
down_revision = "m0007"


def upgrade() -> None:
    op.add_column("collections", sa.Column("items_of", sa.Integer))
    op.add_column("judgements", sa.Column("comment", sa.String))
    op.add_column("judgements", sa.Column("flagged", sa.Boolean))
    op.add_column("items", sa.Column("shown", sa.JSON))
