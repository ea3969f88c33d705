"""Why one document goes before another, and which features matter."""
