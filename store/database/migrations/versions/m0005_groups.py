"""Groups of items with their context, and the pairs that may be asked; NULL in older rows."""

import sqlalchemy as sa
from alembic import op

revision = "m0005"
down_revision = "m0004"


def upgrade() -> None:
    op.add_column("items", sa.Column("group_name", sa.String))
    op.add_column("items", sa.Column("context", sa.String))
    to_collections = sa.ForeignKey("collections.number", ondelete="CASCADE")
    op.create_table(
        "allowed_pairs",
        sa.Column("collection", sa.Integer, to_collections, primary_key=True, autoincrement=False),
        sa.Column("low", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("high", sa.Integer, primary_key=True, autoincrement=False),
        sqlite_with_rowid=False,
    )
