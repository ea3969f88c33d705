"""Ranker: the base class of the fitted rankers of every kind.

A ranker is fitted on labelled queries and orders new queries. Every function that takes a ranker
takes rankers of all kinds, see `sortnet.rankers.registry`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from sortnet import __version__
from sortnet.config import COMPARATOR, SCALINGS, Settings, setting
from sortnet.core import F32, F64, I64, Array, Margin, NamedColumns, Queries
from sortnet.core.named_columns import UNNAMED
from sortnet.data.scaling import Scaler
from sortnet.errors import DataError, ModelError
from sortnet.items.features import Describer, arrays_of, to_json
from sortnet.rankers.model_folder import tensors_as_bytes, write_folder
from sortnet.sorting.sort import arrangement

ITEMS_PREFIX = "items."  # prefix of the tensors of a describer
# The value that a ranker is made of, and entries of its record: what `solve` of its settings finds.
Solved: TypeAlias = tuple[Any, dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Ranker(ABC):
    """A fitted ranker. By default it orders by scores, and a margin is a difference of scores.

    Attributes:
        config: the settings that the ranker was fitted with, among them its `kind`.
        scaler: the scaling of features, fitted on the training part.
        feature_names: names of the features, if the training data had names.
        info: record of the fit, as JSON values; `quality` is RankQuality on the validation part.
        describer: makes features from the texts or images of items; None: there are no items.
        columns: the names of columns in the training tables, which new tables must have, too.

    Raises:
        ModelError: if the features that `describer` makes are not `feature_names`.
    """

    config: Settings
    scaler: Scaler
    _: KW_ONLY
    feature_names: tuple[str, ...] | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    describer: Describer | None = None
    columns: NamedColumns = UNNAMED

    def __post_init__(self) -> None:
        """Check that the describer makes the features of the ranker."""
        if self.describer is not None and self.describer.feature_names != self.feature_names:
            raise ModelError("what describes its items has other features than the ranker")

    @property
    def n_features(self) -> int:
        """Number of unscaled features of a document."""
        return self.scaler.n_features

    @property
    def origins(self) -> F64 | None:
        """The numbers from which the unscaled features are counted, see `Queries.origins`."""
        return self.scaler.origins

    @property
    def depends_on_query(self) -> bool:
        """Whether the margin of two documents also depends on the rest of their query.

        It does with a scaling by query, such as `rank`.
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
        """Compute scores (n_docs,), higher is better, which can be compared within a query."""

    def real_scores(self, queries: Queries) -> F32:
        """Compute scores (n_docs,) whose differences tell by how much a document is better.

        A ranker that has no such scores returns the same as `scores`.
        """
        return self.scores(queries)

    @abstractmethod
    def learned(self) -> dict[str, Array]:
        """List the learned arrays by name; the settings' `read` restores the ranker from them."""

    def tensors(self) -> dict[str, Array]:
        """List all arrays that a folder has by name: weights, scaling and describer."""
        scaler = self.scaler
        tensors = self.learned()
        tensors |= {f"scaler.{part}": table for part, table in scaler.tables.items()}
        if scaler.tables:
            tensors["scaler.varying"] = scaler.varying
        if scaler.origins is not None:
            tensors["scaler.origins"] = scaler.origins
        if self.describer is not None:
            for name, array in arrays_of(self.describer).items():
                tensors[f"{ITEMS_PREFIX}{name}"] = array
        return tensors

    def facts(self) -> dict[str, Any]:
        """List the entries of model.json that depend on the kind of ranker."""
        return {"depends_on_query": self.depends_on_query}

    def order(self, queries: Queries) -> I64:
        """Sort each query; return document numbers (n_docs,), query by query, the best first.

        Raises:
            ModelError: if the features are not the features that the ranker was fitted on, or if a
                score is no number.
        """
        return self._by_scores(queries, arrangement(queries))

    def margins(self, queries: Queries, i: ArrayLike, j: ArrayLike) -> F32:
        """Compute the margins (m,) of m documents i over documents j: above 0, i is better.

        A margin may depend on all documents of the query, see `depends_on_query`.
        """
        scores = self.scores(queries)
        differences: F32 = scores[np.asarray(i)] - scores[np.asarray(j)]
        return differences

    def votes(self, queries: Queries, i: int, j: int) -> list[dict[str, float]]:
        """Compute the outputs of the ranker for documents i and j, {name of the output: value}.

        A committee has a dict for each member; any other ranker has a single dict with its margin.
        """
        margins = self.margins(queries, [i], [j])
        return [{"margin": float(margins[0])}]

    def split_shares(self) -> F64 | None:
        """Compute the share of the trees' splits that use each feature, (n_features,).

        A ranker without soft trees returns None.
        """
        return None

    def differentiable(self) -> Margin:
        """Return the margin of two scaled documents, with its gradients, see `Margin`.

        Rankers whose margin has gradients override this method, which raises here.

        Raises:
            ModelError: if the ranker has no such function.
        """
        raise ModelError(
            f"a ranker of kind {self.config.kind} has no gradients that explain a margin: "
            "sortnet importance says which features it ranks by"
        )

    def repeatable(self, queries: Queries) -> tuple[Queries, Callable[[Queries], I64], I64]:
        """Prepare sorting the same documents many times with changed feature columns.

        Every sort starts from the same arrangement, so that changing a feature that the ranker does
        not use changes no order.

        Returns:
            A copy of the documents as the ranker sees them, scaled or not; a function that sorts
            the copy after its columns were changed; and for each column of the copy the number of
            the feature that it is made from.
        """
        start = arrangement(queries)

        def order(changed: Queries) -> I64:
            """Rank the documents by features of which some columns were changed."""
            return self._by_scores(changed, start)

        copy = queries.with_features(queries.features.copy())
        feature_of_column = np.arange(self.n_features)
        return copy, order, feature_of_column

    def check_features(self, queries: Queries) -> None:
        """Raise a ModelError if the features are not the features that the ranker was fitted on.

        Raises:
            DataError: if the documents are no `Queries`, but a file or a frame.
        """
        if not isinstance(queries, Queries):
            raise DataError(
                f"documents are given as Queries, not as {type(queries).__name__}: "
                "sortnet.read_queries(FILE, like=RANKER) reads a file, sortnet.from_frame a frame"
            )
        if queries.n_features != self.n_features:
            raise ModelError(
                f"{queries.source}: {queries.n_features} features, "
                f"but the model was trained on {self.n_features}"
            )
        if self.feature_names is None or queries.feature_names is None:
            return
        pairs = zip(self.feature_names, queries.feature_names, strict=True)
        for k, (name_in_training, name) in enumerate(pairs, start=1):
            if name != name_in_training:
                raise ModelError(
                    f"{queries.source}: feature {k} is {str(name)!r}, "
                    f"but the model was trained with {str(name_in_training)!r} there"
                )

    def save(self, folder: str | Path) -> None:
        """Write the ranker to a folder, which every command of `sortnet` reads.

        A program that reads the folder at the same time gets the old or the new ranker.

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
        write_folder(folder, document, self.tensors())

    def weights_sha256(self) -> str:
        """Compute the SHA-256 of all arrays that `save` writes."""
        return hashlib.sha256(tensors_as_bytes(self.tensors())).hexdigest()

    def _by_scores(self, queries: Queries, start: I64) -> I64:
        """Sort each query by score, the best document first, (n_docs,).

        Documents with equal scores stay in the order of `start`, an order of all documents.
        """
        self.check_features(queries)
        scores = self.scores(queries)
        is_nan = np.isnan(scores)
        if is_nan.any():
            row = queries.rows[int(np.argmax(is_nan))]
            raise ModelError(f"{queries.source}, row {row}: the score is not a number")
        return order_by(queries, scores, start)


def scaling_setting(default: str) -> Any:
    """Define the field `scaling` of a settings class.

    Args:
        default: the scaling that is used if the setting is None, in words for the help text.
    """
    text = f"Feature scaling, parts joined by +: {', '.join(SCALINGS)}. Default: {default}."
    return setting(None, text, COMPARATOR, choices=SCALINGS, joined=True)


def order_by(queries: Queries, scores: F32 | F64, start: I64 | None = None) -> I64:
    """Sort the documents of each query by score; return their numbers (n_docs,), the best first.

    Args:
        queries: the queries, which stay one after another in the result.
        scores: (n_docs,) higher is better.
        start: (n_docs,) document numbers in an order that documents with equal scores keep; None:
            the order of their numbers.
    """
    start = np.arange(queries.n_docs) if start is None else start
    query = queries.query_of_docs()
    return start[np.lexsort((-scores[start], query[start]))]


def ranker_of(model: object) -> Ranker:
    """Return the ranker of a fitted estimator; a ranker is returned as it is.

    Raises:
        ModelError: if the model is neither.
    """
    ranker = getattr(model, "model_", model)
    if not isinstance(ranker, Ranker):
        raise ModelError(
            f"{type(model).__name__} is no fitted ranker: fit a SortNetRanker, or read a model "
            "folder with sortnet.load_ranker"
        )
    return ranker
