"""Runs in the database: pairs and iterations."""
