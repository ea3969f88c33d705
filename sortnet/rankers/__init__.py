"""Rankers of every kind, which are fitted on labelled queries and order new queries."""
