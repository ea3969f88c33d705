"""Rankers: whatever is fitted on labelled queries and orders others."""
