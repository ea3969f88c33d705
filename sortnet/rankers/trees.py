"""LambdaMART by LightGBM and XGBoost: boosted trees, kept as a `Forest`.

`lambdamart` is LightGBM's objective `lambdarank` (Burges 2010), `xendcg` is LightGBM's objective
`rank_xendcg` (Bruch 2021, An Alternative Cross Entropy Loss for Learning-to-Rank), and `xgboost` is
XGBoost's objective `rank:ndcg`. The libraries are needed only for fitting.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from sortnet.config import COMPARATOR, TRAINING, setting
from sortnet.core import Progress, Queries
from sortnet.errors import DataError
from sortnet.rankers.forest import Forest, ForestSettings, Node, leaf
from sortnet.rankers.registry import library_of

Tree: TypeAlias = list[Node]

_HIGHEST = 30  # highest grade for which both libraries can compute the gain 2^grade - 1


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

    def solve(
        self, train: Queries, vali: Queries, progress: Progress
    ) -> tuple[Forest, dict[str, Any]]:
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
