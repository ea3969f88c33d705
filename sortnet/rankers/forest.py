"""A ranker whose score is a sum of decision trees; every boosted kind of ranker becomes one.

A model folder is read and checked without the library that fitted it, and ranks where that library
is not installed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeAlias

import numpy as np

from sortnet.config import Settings
from sortnet.core import F32, F64, I64, Bool, Queries
from sortnet.errors import ModelError
from sortnet.rankers.base import Ranker, order_by
from sortnet.rankers.model_folder import Array, Saved

# A node has the feature, the threshold, the numbers of the left and the right child, and whether a
# document without the feature goes left.
Node: TypeAlias = tuple[int, float, int, int, bool]


def leaf(value: float) -> Node:
    """Make a leaf: its feature is -1, and it has its value in place of the threshold."""
    return (-1, value, 0, 0, False)


@dataclass(frozen=True, eq=False)
class Forest:
    """Decision trees as arrays. At a node, values up to the threshold go left.

    >>> stump = Forest.stumps([(0, 0.5, 2.0, True)])
    >>> stump(np.array([[0.5], [0.6], [np.nan]], np.float32)).tolist()
    [0.0, 2.0, 0.0]
    """

    # The arrays have the nodes of all trees, one tree after the other.
    feature: I64  # (n,) int64, -1 at a leaf
    threshold: F64  # (n,) float64; a leaf has its value here
    left: I64  # (n,) int64 number of the left child, which is greater than the number of the node
    right: I64  # (n,) int64 number of the right child, which is greater, too
    missing: Bool  # (n,) bool, whether a document without the feature goes left
    roots: I64  # (n_trees,) int64 numbers of the roots

    @classmethod
    def of(cls, trees: Iterable[list[Node]]) -> Forest:
        """Build a forest from trees: lists of nodes (feature, threshold, left, right, missing).

        The numbers of the children count within the tree. For leaves see `leaf`.
        """
        nodes: list[Node] = []
        roots = []
        for tree in trees:
            root = len(nodes)
            roots.append(root)
            for feature, threshold, left, right, missing in tree:
                nodes.append((feature, threshold, root + left, root + right, missing))
        features, thresholds, left_children, right_children, missing_left = zip(*nodes, strict=True)
        return cls(
            feature=np.array(features, np.int64),
            threshold=np.array(thresholds, np.float64),
            left=np.array(left_children, np.int64),
            right=np.array(right_children, np.int64),
            missing=np.array(missing_left, np.bool_),
            roots=np.array(roots, np.int64),
        )

    @classmethod
    def stumps(cls, stumps: Iterable[tuple[int, float, float, bool]]) -> Forest:
        """Build a forest from stumps (feature, threshold, value, missing).

        Documents above `threshold` get `value`, documents below it 0. `missing` says whether a
        document without the feature gets 0, too.
        """
        return cls.of(
            [(feature, threshold, 1, 2, missing), leaf(0.0), leaf(value)]
            for feature, threshold, value, missing in stumps
        )

    def __call__(self, X: F32) -> F64:
        """Score the documents, (n_docs,): the sum of the values of the leaves that they reach.

        Cost: a step for each document, tree and level.
        """
        return sum(self.each(X), np.zeros(len(X)))

    def each(self, X: F32) -> Iterator[F64]:
        """Yield for each tree the values (n_docs,) of the leaves that the documents reach."""
        for root in self.roots:
            node = np.full(len(X), root)
            docs = np.arange(len(X))
            docs_at_inner = docs[self.feature[node] >= 0]
            while len(docs_at_inner):
                parent = node[docs_at_inner]
                x = X[docs_at_inner, self.feature[parent]]
                goes_left = np.where(np.isnan(x), self.missing[parent], x <= self.threshold[parent])
                node[docs_at_inner] = np.where(goes_left, self.left[parent], self.right[parent])
                docs_at_inner = docs_at_inner[self.feature[node[docs_at_inner]] >= 0]
            yield self.threshold[node]

    def first(self, n_trees: int) -> Forest:
        """The forest of the first `n_trees` trees."""
        end = len(self.feature) if n_trees >= len(self.roots) else int(self.roots[n_trees])
        nodes = {f.name: getattr(self, f.name)[:end] for f in fields(self)}
        return Forest(**{**nodes, "roots": self.roots[:n_trees]})

    def fault(self, n_features: int) -> str | None:
        """Say what is wrong with the arrays; None if they are trees over `n_features` features."""
        is_inner = self.feature >= 0
        n_nodes = len(self.feature)
        number = np.arange(n_nodes)
        if ((self.feature < -1) | (self.feature >= n_features)).any():
            return "a feature that is not there"
        for child in (self.left, self.right):
            # Every path from a root ends, because a child has a greater number than its parent.
            if (is_inner & ((child <= number) | (child >= n_nodes))).any():
                return "a node that is not there"
        if not len(self.roots) or self.roots[0] != 0 or (np.diff(self.roots) <= 0).any():
            return "roots out of order"
        if ((self.roots < 0) | (self.roots >= n_nodes)).any():
            return "a root that is not there"
        return None


@dataclass(frozen=True, eq=False)
class ForestRanker(Ranker):
    """Ranks by the sum of decision trees over the unscaled features."""

    forest: Forest

    def scores(self, queries: Queries) -> F32:
        scores: F32 = self.forest(self.scaled(queries).features).astype(np.float32)
        return scores

    def learned(self) -> dict[str, Array]:
        return {f.name: getattr(self.forest, f.name) for f in fields(self.forest)}

    def facts(self) -> dict[str, Any]:
        sizes = {"n_nodes": len(self.forest.feature), "n_trees": len(self.forest.roots)}
        return sizes | super().facts()


@dataclass(frozen=True)
class ForestSettings(Settings):
    """Settings of every ranker that is a sum of trees."""

    ranker: ClassVar[type[ForestRanker]] = ForestRanker

    def best_trees(self, forest: Forest, vali: Queries) -> tuple[Forest, int]:
        """Keep the first trees only: the number of trees with the best RankQuality on `vali`.

        Returns:
            The forest, and its number of trees, at least one.
        """
        scores = np.zeros(vali.n_docs)
        qualities = []
        for tree_values in forest.each(vali.features):
            scores += tree_values
            qualities.append(self.quality_of(vali, order_by(vali, scores)))
        n_trees = int(np.argmax(qualities)) + 1
        return forest.first(n_trees), n_trees

    def read(self, saved: Saved, n_columns: int) -> Forest:
        """Read the trees of a folder.

        Raises:
            ModelError: if the arrays are no trees.
        """
        arrays = {}
        for f in fields(Forest):
            array = saved.tensors.get(f.name)
            size = array.size if array is not None else 0
            dtype = {"threshold": np.float64, "missing": np.bool_}.get(f.name, np.int64)
            arrays[f.name] = saved.take(f.name, dtype, size)
        lengths = {len(array) for name, array in arrays.items() if name != "roots"}
        forest = Forest(**arrays)
        fault = "arrays of different lengths" if len(lengths) > 1 else forest.fault(n_columns)
        if fault is not None:
            raise ModelError(f"{saved.weights}: these are no trees: {fault}")
        return forest
