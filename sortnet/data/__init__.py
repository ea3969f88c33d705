"""Data: read queries and folds from files, divide them, and scale their features."""

from sortnet.data.read import Fold, read_fold, read_queries
from sortnet.files import fingerprint

__all__ = ["Fold", "fingerprint", "read_fold", "read_queries"]
