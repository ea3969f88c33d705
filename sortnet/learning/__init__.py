"""Algorithm 3.1 of the SortNet paper: judges, pairs, training, the loop."""
