"""Results of experiments in the store, cell by cell."""
