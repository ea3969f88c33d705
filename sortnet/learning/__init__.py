"""Algorithm 3.1 of the SortNet paper: judges, strategies for pairs, training, and the loop."""
