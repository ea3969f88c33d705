"""What several commands print: iterations, measures, rankings, documents."""
