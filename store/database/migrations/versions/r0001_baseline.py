"""Create the tables of version 0.5.

Until version 0.5 is released, a change of `store.database.schema` changes this baseline.
"""

from __future__ import annotations

from alembic import op

from store.database.schema import Base

revision = "r0001"
down_revision = None


def upgrade() -> None:
    """Create all tables."""
    Base.metadata.create_all(op.get_bind(), checkfirst=False)
