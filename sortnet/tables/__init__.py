"""Read tables, LETOR files and data frames, and choose the roles of their columns."""
