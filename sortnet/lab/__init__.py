"""Rankers compared: cells, splits, tuning, significance, studies; simulated people; trackers."""
