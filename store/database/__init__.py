"""The database: engine, tables, schema and its migrations."""
