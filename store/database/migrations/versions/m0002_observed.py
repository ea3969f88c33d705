"""Diagnostics of an iteration: margins, mistakes, cycles; NULL in older rows."""

import sqlalchemy as sa
from alembic import op

revision = "m0002"
down_revision = "m0001"


def upgrade() -> None:
    op.add_column("iterations", sa.Column("observed", sa.JSON))
