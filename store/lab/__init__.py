"""What is stored of experiments: the cells that were worked out."""
