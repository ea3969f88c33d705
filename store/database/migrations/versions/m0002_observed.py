"""What a sort showed of its margins, its mistakes and its cycles; older rows have none."""

import sqlalchemy as sa
from alembic import op

revision = "m0002"
down_revision = "m0001"


def upgrade() -> None:
    op.add_column("iterations", sa.Column("observed", sa.JSON))
