"""SortNet: sort anything by a learned comparator that learns from what it gets wrong."""

from sortnet._version import __version__

__all__ = ["__version__"]
