"""Probabilities, costs and further facts of judgements; old rows: NULL."""

import sqlalchemy as sa
from alembic import op

revision = "m0010"
down_revision = "m0009"


def upgrade() -> None:
    for name, kind in (("p", sa.Double), ("cost", sa.Double), ("meta", sa.String)):
        op.add_column("judgements", sa.Column(name, kind))
