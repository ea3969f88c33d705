"""Rank by a sum of decision trees, to which all boosted rankers are converted.

The libraries that boost trees are needed only for fitting. A saved forest is read, checked and
evaluated by numpy alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import chain
from typing import ClassVar, TypeAlias

import numpy as np

from sortnet.config import Settings
from sortnet.core import F32, F64, I64, Bool, Queries
from sortnet.errors import ModelError
from sortnet.rankers.base import Ranker, order_by
from sortnet.rankers.model_folder import Array, Saved

_LEAF = -1  # in place of the feature of a leaf
# Types of the arrays of a `Forest`; all other arrays are int64.
_DTYPES: dict[str, type] = {"threshold": np.float64, "missing": np.bool_}


# A node of a tree: the number of the feature that is compared, `_LEAF` at a leaf; the threshold,
# up to which documents go left, at a leaf its value; the numbers of the left and the right child,
# where the root of the tree has the number 0; and whether a missing value goes left, not right.
Node: TypeAlias = tuple[int, float, int, int, bool]


def leaf(value: float) -> Node:
    """Make a leaf: a node with -1 in place of a feature, and with its value as the threshold."""
    return _LEAF, value, 0, 0, False


@dataclass(frozen=True, eq=False)
class Forest:
    """Decision trees as arrays. At a node, documents with values up to the threshold go left.

    >>> stump = Forest.of_stumps([(0, 0.5, 2.0, True)])
    >>> stump(np.array([[0.5], [0.6], [np.nan]], np.float32)).tolist()
    [0.0, 2.0, 0.0]
    """

    # Each array but `roots` has the n nodes of all trees, tree by tree.
    feature: I64  # (n,) number of the feature that is compared, `_LEAF` at a leaf
    threshold: F64  # (n,) threshold of the feature; at a leaf, the value of the leaf
    left: I64  # (n,) number of the left child, greater than the number of the node
    right: I64  # (n,) number of the right child, greater than the number of the node
    missing: Bool  # (n,) whether a document without a value of the feature goes left
    roots: I64  # (n_trees,) numbers of the roots

    @classmethod
    def of(cls, trees: Iterable[list[Node]]) -> Forest:
        """Build a forest from trees; a tree is a list of nodes, the root first.

        The numbers of the children count from the root of their tree.
        """
        lists_of_nodes = [*trees]
        sizes = [len(nodes) for nodes in lists_of_nodes]
        roots = np.cumsum([0, *sizes[:-1]])
        root_of_node = np.repeat(roots, sizes)
        columns = [np.array(column) for column in zip(*chain(*lists_of_nodes), strict=True)]
        feature, threshold, left_child, right_child, missing_goes_left = columns
        return cls(
            feature=feature,
            threshold=threshold,
            left=root_of_node + left_child,
            right=root_of_node + right_child,
            missing=missing_goes_left,
            roots=roots,
        )

    @classmethod
    def of_stumps(cls, stumps: Iterable[tuple[int, float, float, bool]]) -> Forest:
        """Build a forest from stumps, trees with a single threshold.

        Args:
            stumps: (feature, threshold, value, missing_gets_0) of each stump. A document above the
                threshold gets the value, any other document gets 0. A document without a value of
                the feature gets 0 if `missing_gets_0` is true, and the stump's value if not.
        """
        trees = []
        for feature, threshold, value, missing_gets_0 in stumps:
            # The root has the number 0, the leaf of 0 the number 1, the leaf of the value 2.
            root = (feature, threshold, 1, 2, missing_gets_0)
            trees.append([root, leaf(0.0), leaf(value)])
        return cls.of(trees)

    def __call__(self, X: F32) -> F64:
        """Score documents with features X (n_docs, n_features): the sum of the trees' values.

        Cost: a step for each document, tree and level.
        """
        return sum(self.values_by_tree(X), np.zeros(len(X)))

    def values_by_tree(self, X: F32) -> Iterator[F64]:
        """Yield for each tree the values (n_docs,) of the leaves that the documents reach."""
        for root in self.roots:
            node = np.full(len(X), root)  # (n_docs,) the node that each document has reached
            docs = np.arange(len(X))
            # Documents move down one level at a time, until all of them are at a leaf.
            moving_docs = docs[self.feature[node] != _LEAF]
            while len(moving_docs):
                parent = node[moving_docs]
                x = X[moving_docs, self.feature[parent]]
                goes_left = np.where(np.isnan(x), self.missing[parent], x <= self.threshold[parent])
                child = np.where(goes_left, self.left[parent], self.right[parent])
                node[moving_docs] = child
                moving_docs = moving_docs[self.feature[child] != _LEAF]
            yield self.threshold[node]

    def first(self, n_trees: int) -> Forest:
        """Make a forest of the first `n_trees` trees, or of all trees if there are fewer."""
        n_nodes = len(self.feature)
        if n_trees < len(self.roots):
            n_nodes = int(self.roots[n_trees])  # the nodes before the next tree
        arrays = {f.name: getattr(self, f.name)[:n_nodes] for f in fields(self)}
        arrays["roots"] = self.roots[:n_trees]
        return Forest(**arrays)

    def is_sound(self, n_features: int) -> bool:
        """Check that arrays, which may be damaged, are trees over `n_features` features."""
        n_nodes = len(self.feature)
        if {len(self.threshold), len(self.left), len(self.right), len(self.missing)} != {n_nodes}:
            return False
        ends = np.append(self.roots, n_nodes)
        are_roots = len(self.roots) > 0 and ends[0] == 0 and (np.diff(ends) > 0).all()
        is_feature = (self.feature >= _LEAF) & (self.feature < n_features)
        # A child must have a greater number than its parent, so that every path ends.
        first_child = np.minimum(self.left, self.right)
        last_child = np.maximum(self.left, self.right)
        has_children = (first_child > np.arange(n_nodes)) & (last_child < n_nodes)
        is_node = is_feature & (has_children | (self.feature == _LEAF))
        return bool(are_roots and is_node.all())


@dataclass(frozen=True, eq=False)
class ForestRanker(Ranker):
    """Ranker by a sum of decision trees over the unscaled features."""

    forest: Forest

    def scores(self, queries: Queries) -> F32:
        scores: F32 = self.forest(self.scaled(queries).features).astype(np.float32)
        return scores

    def learned(self) -> dict[str, Array]:
        return {f.name: getattr(self.forest, f.name) for f in fields(self.forest)}


@dataclass(frozen=True)
class ForestSettings(Settings):
    """Settings that all rankers by a sum of trees have."""

    ranker: ClassVar[type[ForestRanker]] = ForestRanker

    def best_trees(self, forest: Forest, vali: Queries) -> tuple[Forest, int]:
        """Keep the first trees, as many as rank `vali` best by RankQuality; drop the rest.

        Returns:
            The forest of the first trees, and their number, at least one.
        """
        scores = np.zeros(vali.n_docs)
        qualities = []
        for tree_values in forest.values_by_tree(vali.features):
            scores += tree_values
            qualities.append(self.quality_of(vali, order_by(vali, scores)))
        n_trees = int(np.argmax(qualities)) + 1
        return forest.first(n_trees), n_trees

    def read(self, saved: Saved, n_columns: int) -> Forest:
        """Read the trees of a model folder, over `n_columns` features.

        Raises:
            ModelError: if the arrays are no trees.
        """
        names = [array_field.name for array_field in fields(Forest)]
        arrays = {
            name: saved.tensors.take(name, _DTYPES.get(name, np.int64), None) for name in names
        }
        forest = Forest(**arrays)
        if not forest.is_sound(n_columns):
            raise ModelError(f"{saved.tensors.path}: these are no trees")
        return forest
