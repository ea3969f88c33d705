"""Rankers of every kind, which are fitted on labelled queries and sort new queries."""
