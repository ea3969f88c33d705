"""Tables: CSV, TSV, JSON lines, Parquet and data frames -> columns with roles -> features."""
