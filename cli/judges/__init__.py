"""Judges that are no person: programs and language models, asked by workers in threads."""
