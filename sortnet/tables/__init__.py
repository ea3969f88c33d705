"""Read CSV, TSV, JSON lines, Parquet, LETOR and data frames; give columns roles; make features."""
