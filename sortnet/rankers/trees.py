"""Rankers by a sum of decision trees, a `Forest`, and LambdaMART by LightGBM and XGBoost.

All boosted rankers are converted to a `Forest`. A saved forest is read, checked and evaluated by
numpy alone.
`lambdamart` is LightGBM's objective `lambdarank` (Burges 2010), `xendcg` is LightGBM's objective
`rank_xendcg` (Bruch 2021, An Alternative Cross Entropy Loss for Learning-to-Rank), and `xgboost` is
XGBoost's objective `rank:ndcg`. The libraries are needed only for fitting.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, ClassVar, TypeAlias

import numpy as np

from sortnet.config import COMPARATOR, TRAINING, Settings, setting
from sortnet.core import F32, F64, I64, Array, Bool, Progress, Queries
from sortnet.errors import DataError, ModelError
from sortnet.rankers.base import Ranker, Solved, order_by
from sortnet.rankers.model_folder import Saved
from sortnet.rankers.registry import library_of

_HIGHEST = 30  # highest grade for which both libraries can compute the gain 2^grade - 1
_LEAF = -1  # a leaf has this number in place of a feature
# Types of the arrays of a `Forest`; all other arrays are int64.
_DTYPES: dict[str, type] = {"threshold": np.float64, "missing": np.bool_}
# A node of a tree: the number of the feature that is compared, `_LEAF` at a leaf; the threshold,
# up to which documents go left, at a leaf its value; the numbers of the left and the right child,
# where the root of the tree has the number 0; and whether a missing value goes left, not right.
Node: TypeAlias = tuple[int, float, int, int, bool]
Tree: TypeAlias = list[Node]


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


@dataclass(frozen=True)
class TreeSettings(ForestSettings):
    """Settings of boosted trees."""

    kind: ClassVar[str] = "lambdamart"
    grids = ({"leaves": [7, 15, 31], "shrinkage": [0.02, 0.05, 0.1]},)
    # fmt: off
    algorithm: str = setting(
        "lambdamart", "LightGBM's LambdaMART or XE-NDCG, or XGBoost's LambdaMART.", TRAINING,
        choices=("lambdamart", "xendcg", "xgboost"))
    trees: int = setting(300, "Largest number of trees.", COMPARATOR, least=1)
    leaves: int = setting(
        15, "Largest number of leaves of a tree.", COMPARATOR, least=2, most=131072)
    shrinkage: float = setting(
        0.05, "Learning rate of boosting.", TRAINING, within="above 0 and at most 1")
    min_docs: int = setting(20, "Least number of documents of a leaf.", TRAINING, least=1)
    # fmt: on

    @property
    def library(self) -> str:
        return "xgboost" if self.algorithm == "xgboost" else "lightgbm"

    def solve(self, train: Queries, vali: Queries, progress: Progress) -> Solved:
        """Boost trees on the training queries; keep the number of trees that ranks `vali` best.

        Returns:
            The forest with the best RankQuality on `vali`, and the number of its trees.

        Raises:
            DataError: if the library is not installed, or a grade is too high.

        Cost: one fit by the library, in one thread, so that the trees are the same everywhere.
        """
        highest = int(train.grades.max())
        if highest > _HIGHEST:
            raise DataError(
                f"{train.source}: grade {highest} is too high for {self.library}, "
                f"which takes grades up to {_HIGHEST}"
            )
        library = library_of(self)
        progress(f"boosting {self.trees} trees")
        trees = _BOOST[self.library](library, train, self)
        forest, n_trees = self.best_trees(Forest.of(trees), vali)
        return forest, {"trees": n_trees}


def _lightgbm(lightgbm: Any, train: Queries, config: TreeSettings) -> list[Tree]:
    """Fit the trees by the library `lightgbm`, an imported module."""
    parameters = {
        "objective": _OBJECTIVES[config.algorithm], "num_leaves": config.leaves,
        "learning_rate": config.shrinkage, "min_data_in_leaf": config.min_docs,
        "seed": config.seed % 2**31, "deterministic": True, "force_row_wise": True,
        "num_threads": 1, "verbose": -1, "feature_pre_filter": False,
    }  # fmt: skip
    data = lightgbm.Dataset(train.features, train.grades, group=train.sizes[train.sizes > 0])
    booster = lightgbm.train(parameters, data, config.trees)
    trees = booster.dump_model()["tree_info"]
    return [_nodes_of_lightgbm(tree["tree_structure"]) for tree in trees]


def _nodes_of_lightgbm(root: dict[str, Any]) -> Tree:
    """Convert a tree of LightGBM, nested dicts, to a list of nodes, level by level.

    A tree may be deeper than Python's limit of recursion, so the subtrees wait in a list.
    """
    subtrees = [root]
    nodes: Tree = []
    for subtree in subtrees:  # the loop appends the children of each node
        if "leaf_value" in subtree:
            nodes.append(leaf(float(subtree["leaf_value"])))
            continue
        left_child = len(subtrees)
        subtrees += [subtree["left_child"], subtree["right_child"]]
        threshold = float(subtree["threshold"])
        if subtree["missing_type"] == "NaN":
            missing_goes_left = bool(subtree["default_left"])
        else:  # no value was missing in training, and LightGBM treats a missing value as 0
            missing_goes_left = threshold >= 0
        feature = subtree["split_feature"]
        nodes.append((feature, threshold, left_child, left_child + 1, missing_goes_left))
    return nodes


def _xgboost(xgboost: Any, train: Queries, config: TreeSettings) -> list[Tree]:
    """Fit the trees by the library `xgboost`, an imported module."""
    parameters = {
        "objective": _OBJECTIVES[config.algorithm], "max_leaves": config.leaves, "max_depth": 0,
        "grow_policy": "lossguide", "tree_method": "hist", "eta": config.shrinkage,
        "min_child_weight": 0.1, "seed": config.seed % 2**31, "nthread": 1,
    }  # fmt: skip
    query = train.query_of_docs()
    data = xgboost.DMatrix(train.features, train.grades, qid=query)
    booster = xgboost.train(parameters, data, config.trees)
    model = json.loads(bytes(booster.save_raw("json")))
    trees = model["learner"]["gradient_booster"]["model"]["trees"]
    return [_nodes_of_xgboost(tree) for tree in trees]


def _nodes_of_xgboost(tree: dict[str, Any]) -> Tree:
    """Convert a tree of XGBoost, lists with an entry for each node, to a list of nodes."""
    columns = [
        tree["left_children"],
        tree["right_children"],
        tree["split_indices"],
        tree["split_conditions"],
        tree["default_left"],
    ]
    nodes: Tree = []
    for left_child, right_child, feature, split, default_left in zip(*columns, strict=True):
        if left_child < 0:  # a leaf has no children, and its value in place of the split
            nodes.append(leaf(float(split)))
            continue
        # A value that equals the threshold goes right in XGBoost, but left in a `Forest`. So the
        # threshold of the `Forest` is the largest number below the threshold of XGBoost.
        threshold = np.nextafter(np.float32(split), np.float32(-np.inf))
        nodes.append((feature, float(threshold), left_child, right_child, bool(default_left)))
    return nodes


_BOOST = {"lightgbm": _lightgbm, "xgboost": _xgboost}
_OBJECTIVES = {"lambdamart": "lambdarank", "xendcg": "rank_xendcg", "xgboost": "rank:ndcg"}
