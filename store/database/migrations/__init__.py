"""The schema's history: one revision a file, in `versions/`, applied by `store.schema`."""
