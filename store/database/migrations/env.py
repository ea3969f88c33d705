"""Run migrations in the transaction that `store.database.revision` has opened, for alembic."""

from __future__ import annotations

from alembic import context

from store.database.revision import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
context.run_migrations()
