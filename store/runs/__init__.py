"""What is stored of a run: its pairs and iterations."""
