"""Sums of decision trees as a ranker, in arrays of its own: what boosted kinds have learned.

No library reads a model folder then: it is checked here, and ranks where none is installed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from sortnet.config import Settings
from sortnet.core import F32, F64, I64, Bool, Queries
from sortnet.errors import ModelError
from sortnet.rankers.base import Ranker, order_by
from sortnet.rankers.model_folder import Array, Saved


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees: a document goes left at a node where its feature is at most the threshold.

    >>> stump = Forest.stumps([(0, 0.5, 2.0, True)])
    >>> stump(np.array([[0.5], [0.6], [np.nan]], np.float32)).tolist()
    [0.0, 2.0, 0.0]
    """

    feature: I64  # (n,) int64 of each node, all trees one after the other; -1 of a leaf
    threshold: F64  # (n,) float64; of a leaf its value
    left: I64  # (n,) int64 the node to go to, a later one
    right: I64  # (n,) int64 as `left`
    missing: Bool  # (n,) bool whether to go left where the feature is missing
    roots: I64  # (n_trees,) int64

    @classmethod
    def of(cls, trees: Iterable[list[tuple[int, float, int, int, bool]]]) -> Forest:
        """Trees of nodes (feature, threshold or value, left, right, missing), children counted
        within the tree; of a leaf the feature is -1."""
        nodes: list[tuple[int, float, int, int, bool]] = []
        roots = []
        for tree in trees:
            base = len(nodes)
            roots.append(base)
            nodes += [(f, t, base + a, base + b, m) for f, t, a, b, m in tree]
        feature, threshold, left, right, missing = zip(*nodes, strict=True)
        of_nodes = [np.array(each, np.int64) for each in (feature, left, right, roots)]
        return cls(
            of_nodes[0], np.array(threshold, np.float64), of_nodes[1], of_nodes[2],
            np.array(missing, np.bool_), of_nodes[3],
        )  # fmt: skip

    @classmethod
    def stumps(cls, stumps: Iterable[tuple[int, float, float, bool]]) -> Forest:
        """Of (feature, threshold, what those above it get, whether those without it do not)."""
        return cls.of(
            [(f, t, 1, 2, missing), (-1, 0.0, 0, 0, False), (-1, value, 0, 0, False)]
            for f, t, value, missing in stumps
        )

    def __call__(self, X: F32) -> F64:
        """(n_docs,) sums of the leaves' values.

        Cost: a step for each document, tree and level.
        """
        return sum(self.each(X), np.zeros(len(X)))

    def each(self, X: F32) -> Iterator[F64]:
        """(n_docs,) what each tree gives."""
        for root in self.roots:
            node = np.full(len(X), root)
            doc = np.arange(len(X) if self.feature[root] >= 0 else 0)
            while len(doc):
                at = node[doc]
                x = X[doc, self.feature[at]]
                left = np.where(np.isnan(x), self.missing[at], x <= self.threshold[at])
                node[doc] = np.where(left, self.left[at], self.right[at])
                doc = doc[self.feature[node[doc]] >= 0]
            yield self.threshold[node]

    def first(self, n_trees: int) -> Forest:
        """The first trees alone."""
        end = len(self.feature) if n_trees >= len(self.roots) else int(self.roots[n_trees])
        nodes = {f.name: getattr(self, f.name)[:end] for f in fields(self)}
        return Forest(**{**nodes, "roots": self.roots[:n_trees]})

    def fault(self, n_features: int) -> str | None:
        """What is wrong with arrays that were read."""
        inner, number = self.feature >= 0, np.arange(len(self.feature))
        if ((self.feature < -1) | (self.feature >= n_features)).any():
            return "a feature that is not there"
        for child in (self.left, self.right):  # a later node, so that every way ends
            if (inner & ((child <= number) | (child >= len(number)))).any():
                return "a node that is not there"
        if not len(self.roots) or self.roots[0] != 0 or (np.diff(self.roots) <= 0).any():
            return "roots out of order"
        if ((self.roots < 0) | (self.roots >= len(number))).any():
            return "a root that is not there"
        return None


@dataclass(frozen=True, eq=False)
class ForestRanker(Ranker):
    """Ranks by the sum of trees over the features as they are."""

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
    """Settings of sums of trees."""

    ranker: ClassVar[type[ForestRanker]] = ForestRanker

    def best_trees(self, forest: Forest, vali: Queries) -> tuple[Forest, int]:
        """The first trees that are best by RankQuality on `vali`, one or more, and their number."""
        scores, values = np.zeros(vali.n_docs), []
        for tree in forest.each(vali.features):
            scores += tree
            values.append(self.quality_of(vali, order_by(vali, scores)))
        kept = int(np.argmax(values)) + 1
        return forest.first(kept), kept

    def read(self, saved: Saved, n_columns: int) -> Forest:
        """The trees in a folder.

        Raises:
            ModelError: if they are none.
        """
        named = {}
        for f in fields(Forest):
            array = saved.tensors.get(f.name)
            n = array.size if array is not None else 0
            kind = {"threshold": np.float64, "missing": np.bool_}.get(f.name, np.int64)
            named[f.name] = saved.take(f.name, kind, n)
        lengths = {len(array) for name, array in named.items() if name != "roots"}
        forest = Forest(**named)
        fault = "arrays of different lengths" if len(lengths) > 1 else forest.fault(n_columns)
        if fault is not None:
            raise ModelError(f"{saved.weights}: these are no trees: {fault}")
        return forest
