"""The pair store: runs, iterations and pairs in SQLite or PostgreSQL."""
