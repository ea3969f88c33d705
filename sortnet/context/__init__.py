"""Nets that score the documents of a query together, each in the context of the others."""
