"""Nets that see all documents of a query at once."""
