"""The database of a store: its engine, its schema, and the upgrade of older schemas."""
