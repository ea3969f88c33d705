"""Run by Alembic: applies the revisions over the connection that `schema` passes in."""

from alembic import context

context.configure(**context.config.attributes["options"])
context.run_migrations()
