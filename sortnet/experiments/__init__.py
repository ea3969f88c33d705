"""Tuning, simulated annotators, recorded votes, trackers."""
