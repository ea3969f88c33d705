"""The page on which people answer, and the one on which it is watched."""
