"""What commands are given: stores, runs, documents, votes."""
