"""Collections in the database: items, judgements, leases."""
