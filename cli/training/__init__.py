"""Trainings that are started from the command line: their options and their output."""
