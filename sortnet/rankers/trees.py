"""LambdaMART by LightGBM and XGBoost: boosted trees, kept as arrays of our own.

`lambdamart` is LightGBM's `lambdarank` (Burges 2010), `xendcg` its `rank_xendcg` (Bruch 2021, An
Alternative Cross Entropy Loss for Learning-to-Rank), `xgboost` the `rank:ndcg` of XGBoost. Only
fitting needs the library.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from sortnet.config import COMPARATOR, TRAINING, setting
from sortnet.core import Progress, Queries
from sortnet.errors import DataError
from sortnet.rankers.base import library_of
from sortnet.rankers.forest import Forest, ForestSettings

Tree: TypeAlias = list[tuple[int, float, int, int, bool]]  # see `Forest.of`

_HIGHEST = 30  # a gain of 2^grade - 1 goes no further in either library


@dataclass(frozen=True)
class TreeSettings(ForestSettings):
    """Settings of boosted trees."""

    kind: ClassVar[str] = "lambdamart"
    grids = ({"leaves": [7, 15, 31], "shrinkage": [0.02, 0.05, 0.1]},)
    # fmt: off
    algorithm: str = setting(
        "lambdamart", "LightGBM's LambdaMART or XE-NDCG, or XGBoost's LambdaMART.", TRAINING,
        choices=("lambdamart", "xendcg", "xgboost"))
    trees: int = setting(300, "Trees, at most.", COMPARATOR, least=1)
    leaves: int = setting(15, "Leaves of a tree, at most.", COMPARATOR, least=2, most=131072)
    shrinkage: float = setting(
        0.05, "Learning rate of boosting.", TRAINING, within="above 0 and at most 1")
    min_docs: int = setting(20, "Documents of a leaf, at least.", TRAINING, least=1)
    # fmt: on

    @property
    def library(self) -> str:
        return "xgboost" if self.algorithm == "xgboost" else "lightgbm"

    def solve(self, T: Queries, V: Queries, progress: Progress) -> tuple[Forest, dict[str, Any]]:
        """Boost trees, and keep as many of them as are best by RankQuality on `V`.

        Raises:
            DataError: if the library is not installed, or a grade is too high.

        Cost: the library's, in one thread, so that the trees are the same everywhere.
        """
        highest = int(T.grades.max())
        if highest > _HIGHEST:
            raise DataError(
                f"{T.source}: grade {highest} is too high for {self.library}, "
                f"which takes grades up to {_HIGHEST}"
            )
        library = library_of(self)
        progress(f"boosting {self.trees} trees")
        forest, kept = self.best_trees(Forest.of(_BOOST[self.library](library, T, self)), V)
        return forest, {"trees": kept}


def _lightgbm(lightgbm: Any, train: Queries, config: TreeSettings) -> list[Tree]:
    parameters = {
        "objective": _OBJECTIVES[config.algorithm], "num_leaves": config.leaves,
        "learning_rate": config.shrinkage, "min_data_in_leaf": config.min_docs,
        "seed": config.seed % 2**31, "deterministic": True, "force_row_wise": True,
        "num_threads": 1, "verbose": -1, "feature_pre_filter": False,
    }  # fmt: skip
    data = lightgbm.Dataset(train.features, train.grades, group=train.sizes[train.sizes > 0])
    booster = lightgbm.train(parameters, data, config.trees)
    return [_flat(tree["tree_structure"]) for tree in booster.dump_model()["tree_info"]]


def _flat(root: dict[str, Any]) -> Tree:
    """A tree of LightGBM as a list of nodes, children behind their parents."""
    nodes: Tree = []
    waiting = [(root, -1, 0)]  # the parent, and where in it its number stands
    while waiting:
        node, parent, side = waiting.pop()
        if parent >= 0:
            nodes[parent] = (*nodes[parent][:side], len(nodes), *nodes[parent][side + 1 :])  # type: ignore[assignment]
        if "leaf_value" in node:
            nodes.append((-1, float(node["leaf_value"]), 0, 0, False))
            continue
        threshold = float(node["threshold"])
        # Where training had no value missing, LightGBM takes a missing one for 0.
        missing = node["default_left"] if node["missing_type"] == "NaN" else threshold >= 0
        waiting += [(node["right_child"], len(nodes), 3), (node["left_child"], len(nodes), 2)]
        nodes.append((node["split_feature"], threshold, 0, 0, bool(missing)))
    return nodes


def _xgboost(xgboost: Any, train: Queries, config: TreeSettings) -> list[Tree]:
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
    return [_nodes(tree) for tree in trees]


def _nodes(tree: dict[str, Any]) -> Tree:
    """A tree of XGBoost, which goes left below the threshold, not at it."""
    names = ("left_children", "right_children", "split_indices", "split_conditions", "default_left")
    nodes: Tree = []
    for left, right, feature, split, missing in zip(*(tree[name] for name in names), strict=True):
        if left < 0:
            nodes.append((-1, float(split), 0, 0, False))
            continue
        below = np.nextafter(np.float32(split), np.float32(-np.inf))
        nodes.append((feature, float(below), left, right, bool(missing)))
    return nodes


_BOOST = {"lightgbm": _lightgbm, "xgboost": _xgboost}
_OBJECTIVES = {"lambdamart": "lambdarank", "xendcg": "rank_xendcg", "xgboost": "rank:ndcg"}
