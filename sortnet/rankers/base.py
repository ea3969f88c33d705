"""Ranker: the base class of the fitted rankers of every kind.

A ranker is fitted on labelled queries and orders new queries. Every function that takes a ranker
takes rankers of all kinds, see `sortnet.rankers.registry`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sortnet import __version__
from sortnet.config import COMPARATOR, SCALINGS, Settings, setting
from sortnet.core import F32, F64, I64, NamedColumns, Queries
from sortnet.core.named_columns import UNNAMED
from sortnet.data.scaling import Scaler
from sortnet.errors import ModelError
from sortnet.items.features import Describer
from sortnet.items.saved import arrays_of, to_json
from sortnet.moved_modules import moved_function
from sortnet.rankers.model_folder import Array, digest_of, write_folder
from sortnet.rankers.saved_scaler import scaler_arrays
from sortnet.sorting.sort import arrangement

if TYPE_CHECKING:
    from sortnet.comparators.base import Margin

ITEMS_PREFIX = "items."  # prefix of the tensors of a describer


@dataclass(frozen=True, eq=False)
class Ranker(ABC):
    """A fitted ranker. By default it orders by scores, and a margin is a difference of scores.

    Attributes:
        config: the settings that the ranker was fitted with, among them its `kind`.
        scaler: the scaling of features, fitted on the training part.
        feature_names: names of the features, if the training data had them.
        info: record of the fit, as JSON; `quality` is RankQuality on the validation part.
        describer: makes features from items, for a ranker of items; `save` keeps it.
        columns: the names of columns in the training tables, which new tables must have, too.

    Raises:
        ModelError: if the features of `describer` are not `feature_names`.
    """

    config: Settings
    scaler: Scaler
    _: KW_ONLY
    feature_names: tuple[str, ...] | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    describer: Describer | None = None
    columns: NamedColumns = UNNAMED

    def __post_init__(self) -> None:
        if self.describer is not None and self.describer.feature_names != self.feature_names:
            raise ModelError("what describes its items has other features than the ranker")

    @property
    def n_features(self) -> int:
        return self.scaler.n_features

    @property
    def depends_on_query(self) -> bool:
        """Whether the margin of a pair changes with the other documents of the query.

        A scaling by query, such as `rank`, makes it so.
        """
        return self.scaler.depends_on_query

    def scaled(self, queries: Queries) -> Queries:
        """Scale the features as in training.

        Raises:
            ModelError: if the features are not the features that the ranker was fitted on.
        """
        self.check_features(queries)
        return self.scaler(queries)

    @abstractmethod
    def scores(self, queries: Queries) -> F32:
        """Compute scores (n_docs,), higher is better; they are comparable within a query only."""

    def real_scores(self, queries: Queries) -> F32:
        """Compute scores (n_docs,) whose differences say by how much a document is better.

        A ranker without such scores returns `scores`.
        """
        return self.scores(queries)

    @abstractmethod
    def learned(self) -> dict[str, Array]:
        """The learned arrays by name, from which `read` of the settings restores the ranker."""

    def tensors(self) -> dict[str, Array]:
        """All arrays that `save` writes, by name: the learned ones and the scaling."""
        return self.learned() | scaler_arrays(self.scaler)

    def facts(self) -> dict[str, Any]:
        """Entries of model.json that depend on the kind of ranker."""
        return {"depends_on_query": self.depends_on_query}

    def order(self, queries: Queries) -> I64:
        """Sort each query: document numbers (n_docs,), query by query, the best document first.

        Raises:
            ModelError: if the features are not the features that the ranker was fitted on, or a
                score is no number.
        """
        return self._by_scores(queries, arrangement(queries))

    def margins(self, queries: Queries, i: ArrayLike, j: ArrayLike) -> F32:
        """Compute the margins (m,) of document i[k] over document j[k]: above 0, i[k] is better.

        A margin may depend on all documents of the query, see `depends_on_query`.
        """
        scores = self.scores(queries)
        differences: F32 = scores[np.asarray(i)] - scores[np.asarray(j)]
        return differences

    def votes(self, queries: Queries, i: int, j: int) -> list[dict[str, float]]:
        """Outputs of each part of the ranker for the pair (i, j): {name of the output: value}."""
        return [{"margin": float(self.margins(queries, [i], [j])[0])}]

    def split_shares(self) -> F64 | None:
        """Share of the splits that use each feature, (n_features,); None without soft trees."""
        return None

    def differentiable(self) -> Margin:
        """The margin as a torch function of two scaled documents.

        Raises:
            ModelError: if the ranker has no such function.
        """
        raise ModelError(
            f"a ranker of kind {self.config.kind} has no gradients that explain a margin: "
            "sortnet importance says which features it ranks by"
        )

    def repeatable(self, queries: Queries) -> tuple[Queries, Callable[[Queries], I64], I64]:
        """Prepare sorting the same documents many times with changed feature columns.

        All orders start from the same arrangement, so that changing a feature that the ranker does
        not use changes no order.

        Returns:
            A copy of the documents as the ranker sees them, a function that orders a changed copy,
            and the number of the feature that each column of the copy comes from.
        """
        start = arrangement(queries)
        copy = queries.with_features(queries.features.copy())
        sources = np.arange(self.n_features)
        return copy, lambda changed: self._by_scores(changed, start), sources

    def order_before(self, queries: Queries) -> I64:
        """Sort the documents by the untrained ranker, whose weights are random, (n_docs,)."""
        return arrangement(queries)

    def check_features(self, queries: Queries) -> None:
        """Raise a ModelError if the features are not the features that the ranker was fitted on."""
        if queries.n_features != self.n_features:
            raise ModelError(
                f"{queries.source}: {queries.n_features} features, "
                f"but the model was trained on {self.n_features}"
            )
        ours = self.feature_names
        theirs = queries.feature_names
        if ours is not None and theirs is not None and ours != theirs:
            pairs = zip(ours, theirs, strict=True)
            k = next(k for k, (our_name, their_name) in enumerate(pairs) if our_name != their_name)
            raise ModelError(
                f"{queries.source}: feature {k + 1} is {theirs[k]!r}, "
                f"but the model was trained with {ours[k]!r} there"
            )

    def save(self, folder: str | Path) -> None:
        """Write the ranker's folder in one step; every command of `sortnet` reads it.

        Raises:
            SortNetError: if the folder cannot be written.
        """
        config = self.config.to_json()
        if "device" in config:
            config["device"] = "auto"  # the folder may be loaded on a machine without a GPU
        document = {
            "sortnet": __version__,
            "kind": self.config.kind,
            "n_features": self.n_features,
            "feature_names": self.feature_names,
            **self.facts(),
            "config": config,
            "info": dict(self.info),
        }
        if self.columns != UNNAMED:
            document["columns"] = self.columns.to_json()
        if self.describer is not None:
            document["items"] = to_json(self.describer)
        write_folder(folder, document, self._saved_tensors())

    def weights_sha256(self) -> str:
        """SHA-256 of all arrays that `save` writes, including the arrays of a describer."""
        return digest_of(self._saved_tensors())

    def _saved_tensors(self) -> dict[str, Array]:
        if self.describer is None:
            return self.tensors()
        tensors = self.tensors()
        for name, array in arrays_of(self.describer).items():
            tensors[f"{ITEMS_PREFIX}{name}"] = array
        return tensors

    def _by_scores(self, queries: Queries, start: I64) -> I64:
        """Sort by score, best first; documents with equal scores keep their order in `start`."""
        self.check_features(queries)
        scores = self.scores(queries)
        if np.isnan(scores).any():
            row = queries.rows[int(np.argmax(np.isnan(scores)))]
            raise ModelError(f"{queries.source}, row {row}: the score is not a number")
        return order_by(queries, scores, start)


def scaling_setting(default: str) -> Any:
    """Make the field `scaling` of a settings class; `default` describes its default in the help."""
    text = f"Feature scaling, parts joined by +: {', '.join(SCALINGS)}. Default: {default}."
    return setting(None, text, COMPARATOR, choices=SCALINGS, joined=True)


def order_by(queries: Queries, scores: F32 | F64, start: I64 | None = None) -> I64:
    """Sort the documents by score, query by query, the best first, (n_docs,).

    Documents with equal scores stay in the order of `start`, by default the order of their numbers.
    """
    start = np.arange(queries.n_docs) if start is None else start
    query = queries.query_of_docs()
    return start[np.lexsort((-scores[start], query[start]))]


if not TYPE_CHECKING:  # type checkers shall refuse names that this module does not have

    def __getattr__(name: str) -> Any:
        """Find a function that was in this module up to version 0.4."""
        return moved_function(__name__, name)
