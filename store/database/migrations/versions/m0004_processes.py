"""The process of a run, so that a killed one is recognised; NULL in older rows."""

import sqlalchemy as sa
from alembic import op

revision = "m0004"
down_revision = "m0003"


def upgrade() -> None:
    op.add_column("runs", sa.Column("host", sa.String))
    op.add_column("runs", sa.Column("pid", sa.Integer))
    op.add_column("runs", sa.Column("process_start", sa.String))
