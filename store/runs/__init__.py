"""Training runs in the database, with their pairs and iterations."""
