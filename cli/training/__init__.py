"""A training run from the command line: job, folder, run, progress."""
