"""The labelling page and the admin page."""
