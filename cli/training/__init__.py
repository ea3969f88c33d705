"""A training from the command line: its options and its output."""
