"""A training from the command line: its options, and what is printed of it."""
