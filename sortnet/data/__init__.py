"""Data: files of queries and folds, cached or not; what is made of tables; folds and scaling."""

from sortnet.data.cache import default_cache_dir
from sortnet.data.read import Fold, read_fold, read_queries
from sortnet.files import fingerprint

__all__ = ["Fold", "default_cache_dir", "fingerprint", "read_fold", "read_queries"]
