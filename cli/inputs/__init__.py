"""Inputs of commands: stores, runs, documents, votes."""
