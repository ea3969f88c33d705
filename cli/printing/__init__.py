"""Output shared by several commands: iterations, measures, rankings, documents."""
