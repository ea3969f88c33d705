"""Figures of frames."""
