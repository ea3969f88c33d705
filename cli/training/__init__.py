"""A training from the command line: what is printed of it, and the judge that it asks."""
