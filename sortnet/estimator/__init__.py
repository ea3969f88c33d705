"""SortNetRanker: a ranker for learning to sort, with scikit-learn's conventions."""

from sortnet.estimator.ranker import SortNetRanker

__all__ = ["SortNetRanker"]
