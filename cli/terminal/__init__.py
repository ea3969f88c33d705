"""Labelling in a terminal or by a program."""
