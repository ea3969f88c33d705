"""Read tables, LETOR files and data frames; give their columns roles; make features."""
