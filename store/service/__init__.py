"""The labelling service, which joins a collection with a session."""
