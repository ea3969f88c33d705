"""Nets that see a document together with the others of its query."""
