"""Experiments: comparisons of rankers, studies of the papers, and simulated annotators."""
