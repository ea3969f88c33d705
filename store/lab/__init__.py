"""Storage of the results of experiments."""
