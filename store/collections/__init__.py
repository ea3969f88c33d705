"""What is stored of a collection: items, judgements, leases."""
