"""The database: engine, schema, upgrade of older schemas, processes of runs."""
