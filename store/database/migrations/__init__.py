"""The schema's history: one revision per file, in `versions/`, applied by `schema`."""
