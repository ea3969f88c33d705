"""Explain why a document goes before another, and which features matter."""
