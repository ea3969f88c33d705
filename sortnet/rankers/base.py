"""Rankers: what is fitted on labelled queries and orders others; each kind by its name.

A kind is a module with

    SETTINGS                                                  its class of `sortnet.config.Settings`
    fit(train, vali, config, *, progress=...)                 -> Ranker
    load(saved)                                               -> Ranker, of `folder.Saved`
    grids_for(train)                                          -> what `tune` tries, perhaps nothing

and one row of `KINDS`. Everything that takes a ranker takes all of them. `fit` refuses by
`check_graded` what it cannot learn from, `scores` by `Ranker.check_features` other features. Where
features are scaled, `fit_scaled` and `load_scaled` are both, and the settings have what differs:
`ranker`, `with_defaults_for`, `solve`, `read`. A file with a family of kinds has a `Kind` of each,
which the row names behind a colon.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from sortnet import __version__
from sortnet.comparators import Margin
from sortnet.config import Settings, choose_quality
from sortnet.data.scaling import Scaler, fit_scaler
from sortnet.errors import DataError, ModelError
from sortnet.files import shown
from sortnet.items.features import Describer
from sortnet.items.saved import arrays_of, load_describer, to_json
from sortnet.learning.judges import check_can_be_learned
from sortnet.rankers.folder import Saved, described, read_folder, write_folder
from sortnet.rankers.weights import take_scaler
from sortnet.sorting.sort import arrangement
from sortnet.types import F32, F64, I64, Progress, Queries

KINDS: dict[str, str] = {
    "sortnet": "sortnet.rankers.sortnet",
    "posterior": "sortnet.rankers.posterior_ranker",
    "directranker": "sortnet.rankers.pairwise",
    "ranknet": "sortnet.rankers.listwise",
    "set-transformer": "sortnet.rankers.set_transformer",
    "fate": "sortnet.rankers.context_rankers",
    "lambdamart": "sortnet.rankers.trees",
    "ranksvm": "sortnet.rankers.linear:RANKSVM",
    "err": "sortnet.rankers.linear:ERR",
    "es-rank": "sortnet.rankers.linear:ES_RANK",
    "rankboost": "sortnet.rankers.stumps",
    "adarank-ndcg": "sortnet.rankers.adarank:ADARANK",
}
# Names of kinds with other settings than their own by default.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "directranker-neighbours": ("directranker", {"pairs_from": "neighbours"}),
    "directranker-random": ("directranker", {"pairs_from": "random"}),
    "setrank": ("set-transformer", {"algorithm": "setrank"}),
    "feta": ("fate", {"architecture": "feta"}),
    "listnet": ("ranknet", {"algorithm": "listnet"}),
    "listnet-star": ("ranknet", {"algorithm": "listnet-star"}),
    "lambdarank": ("ranknet", {"algorithm": "lambdarank"}),
    "xendcg": ("lambdamart", {"algorithm": "xendcg"}),
    "xgboost": ("lambdamart", {"algorithm": "xgboost"}),
    "iesr-rank": ("es-rank", {"initial": "regression"}),
    "iesvm-rank": ("es-rank", {"initial": "ranksvm"}),
    "cmaes-rank": ("es-rank", {"algorithm": "cma"}),
    "frank": ("rankboost", {"algorithm": "frank"}),
    "adarank-map": ("adarank-ndcg", {"measure": "map"}),
}
OF_PAIRS = ("sortnet", "posterior", "directranker")  # the kinds that learn from judged pairs too
_ITEMS = "items."  # of the tensors of what describes items

R = TypeVar("R", bound="Ranker")
S = TypeVar("S", bound=Settings)


@dataclass(frozen=True)
class Kind:
    """What a module of one kind offers, for a file with a family of them: see the module's text."""

    SETTINGS: type[Settings]
    grids_for: Callable[[Queries], list[dict[str, list[Any]]]]
    fit: Callable[..., Ranker]
    load: Callable[[Saved], Ranker]


@dataclass(frozen=True, eq=False)
class Ranker(ABC):
    """A fitted ranker. By default its order is that of its scores, a margin their difference.

    Attributes:
        config: the settings it was fitted with; their `kind` is the ranker's.
        feature_names: where the training data had them.
        info: how it came about, as JSON; `quality` is its RankQuality on the validation part.
        describer: what makes its features of items, for a ranker of items; `save` keeps it.

    Raises:
        ModelError: if the features of `describer` are not `feature_names`.
    """

    config: Settings
    _: KW_ONLY
    feature_names: tuple[str, ...] | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    describer: Describer | None = None

    def __post_init__(self) -> None:
        if self.describer is not None and self.describer.feature_names != self.feature_names:
            raise ModelError("what describes its items has other features than the ranker")

    @property
    @abstractmethod
    def n_features(self) -> int: ...

    @property
    def depends_on_query(self) -> bool:
        """Whether a margin may depend on the other documents of the query."""
        return True

    @abstractmethod
    def scores(self, queries: Queries) -> F32:
        """(n_docs,) in a query, higher is better; they say nothing across queries."""

    def real_scores(self, queries: Queries) -> F32:
        """(n_docs,) how good each document is, not only its place; in a query, higher is better."""
        return self.scores(queries)

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """What it has learned, by name, as `save` keeps it."""

    def facts(self) -> dict[str, Any]:
        """What else model.json is to say."""
        return {}

    def order(self, queries: Queries) -> I64:
        """(n_docs,) document numbers query by query, the best first.

        Raises:
            ModelError: if the features are not those it was fitted on, or a score is no number.
        """
        return self._by_scores(queries, arrangement(queries))

    def margins(self, queries: Queries, i: ArrayLike, j: ArrayLike) -> F32:
        """(m,) margins of documents i over documents j (document numbers): above 0, i goes first.

        They may depend on the other documents of the query, see `depends_on_query`.
        """
        scores = self.scores(queries)
        differences: F32 = scores[np.asarray(i)] - scores[np.asarray(j)]
        return differences

    def votes(self, queries: Queries, i: int, j: int) -> list[dict[str, float]]:
        """What each part of the ranker says of document i over document j, by name."""
        return [{"margin": float(self.margins(queries, [i], [j])[0])}]

    def split_shares(self) -> F64 | None:
        """(n_features,) the share of all splits of its soft trees that each has; None: no trees."""
        return None

    def differentiable(self, queries: Queries) -> tuple[F64, Margin, I64]:
        """(n_docs, d) documents as the margin sees them, the margin with gradients, and sources.

        The sources are, (d,), the number of the feature that each column comes from.

        Raises:
            ModelError: if its margins are not functions of two documents that have gradients.
        """
        raise ModelError(
            f"a ranker of kind {self.config.kind} has no gradients that explain a margin: "
            "sortnet importance says which features it ranks by"
        )

    def repeatable(self, queries: Queries) -> tuple[Queries, Callable[[Queries], I64], I64]:
        """A copy of the documents as it sees them, what orders them once changed, and sources.

        The sources are the number of the feature that each column of the copy comes from.
        All orders begin at one arrangement: a changed feature that it does not use changes none.
        """
        start = arrangement(queries)
        copy = queries.with_features(queries.features.copy())
        sources = np.arange(self.n_features)
        return copy, lambda changed: self._by_scores(changed, start), sources

    def order_before(self, queries: Queries) -> I64:
        """(n_docs,) the order before anything was learned: of random weights."""
        return arrangement(queries)

    def check_features(self, queries: Queries) -> None:
        """Refuse data with other features than those the ranker was fitted on."""
        if queries.n_features != self.n_features:
            raise ModelError(
                f"{queries.source}: {queries.n_features} features, "
                f"but the model was trained on {self.n_features}"
            )
        ours, theirs = self.feature_names, queries.feature_names
        if ours is not None and theirs is not None and ours != theirs:
            k = next(k for k, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
            raise ModelError(
                f"{queries.source}: feature {k + 1} is {theirs[k]!r}, "
                f"but the model was trained with {ours[k]!r} there"
            )

    def save(self, folder: str | Path) -> None:
        """Write the ranker's folder, which every command of `sortnet` reads; in one step.

        Raises:
            SortNetError: if the folder cannot be written.
        """
        config = self.config.to_json()
        if "device" in config:  # it may be loaded on a machine without a GPU
            config["device"] = "auto"
        about = {
            "sortnet": __version__,
            "kind": self.config.kind,
            "n_features": self.n_features,
            "feature_names": self.feature_names,
            **self.facts(),
            "config": config,
            "info": dict(self.info),
        }
        tensors = self.tensors()
        if self.describer is not None:
            about["items"] = to_json(self.describer)
            arrays = arrays_of(self.describer).items()
            tensors |= {f"{_ITEMS}{name}": torch.from_numpy(array.copy()) for name, array in arrays}
        write_folder(folder, about, tensors)

    def _by_scores(self, queries: Queries, start: I64) -> I64:
        """The order by scores; equal ones stay as `start`, (n_docs,), has them."""
        self.check_features(queries)
        scores = self.scores(queries)
        if np.isnan(scores).any():
            row = queries.rows[int(np.argmax(np.isnan(scores)))]
            raise ModelError(f"{queries.source}, row {row}: the score is not a number")
        return order_by(queries, scores, start)


@dataclass(frozen=True, eq=False)
class ScaledRanker(Ranker):
    """A ranker that sees scaled features.

    Attributes:
        scaler: fitted on the training part.
    """

    scaler: Scaler

    @property
    def n_features(self) -> int:
        return self.scaler.n_features

    @property
    def depends_on_query(self) -> bool:
        """Whether a margin depends on the other documents of the query, by the scaling."""
        return self.scaler.depends_on_query

    def facts(self) -> dict[str, Any]:
        return {"depends_on_query": self.depends_on_query}


def fit_scaled(
    train: Queries, vali: Queries, config: Any, *, progress: Progress = lambda text: None
) -> Any:
    """Fit a ranker of scaled features by `solve` of its settings, which are of `ranker`'s kind.

    Raises:
        DataError: if no training query has documents of two grades, they are judged pairs or have
            weights, and the kind takes none.

    Cost: that of `solve`.
    """
    check_graded(train, config)
    config = config.with_defaults_for(train)
    scaler = fit_scaler(config.scaling, train, seed=config.seed)
    learned, info = config.solve(scaler(train), scaler(vali), progress)
    return config.ranker(config, scaler, learned, feature_names=train.feature_names, info=info)


def load_scaled(saved: Saved) -> Any:
    """The ranker of scaled features in a folder, by `read` of its settings."""
    config: Any = saved.settings(kind_module(saved.kind).SETTINGS)
    scaler = take_scaler(saved, str(config.scaling))
    learned = config.read(saved, scaler.n_columns)
    return config.ranker(
        config, scaler, learned, feature_names=saved.feature_names, info=saved.info
    )


def with_defaults(config: S, fixed: Mapping[str, Any]) -> S:
    """The settings with fixed values for what they leave open."""
    return config.changed(**{k: v for k, v in fixed.items() if config.flat().get(k, v) is None})


def order_by(queries: Queries, scores: F32 | F64, start: I64 | None = None) -> I64:
    """(n_docs,) the order by scores, query by query; equal ones stay as `start` has them."""
    start = np.arange(queries.n_docs) if start is None else start
    query = queries.query_of_docs()
    return start[np.lexsort((-scores[start], query[start]))]


def kind_module(kind: object) -> Any:
    """The module of a kind of ranker, or its `Kind` in the module of its family.

    Raises:
        ModelError: if there is none of that name.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        known = ", ".join([*KINDS, *VARIANTS])
        raise ModelError(f"unknown kind of ranker {shown(kind)}; known are {known}")
    module, _, name = KINDS[kind].partition(":")
    found = import_module(module)
    return getattr(found, name) if name else found


def settings_for(name: str) -> Settings:
    """The settings of a kind of ranker, or of a variant, as they are by default.

    Raises:
        ModelError: if there is none of that name.

    >>> settings_for("frank").kind, settings_for("frank").algorithm
    ('rankboost', 'frank')
    """
    kind, changes = _variant(name)
    settings: Settings = kind_module(kind).SETTINGS()
    return settings.changed(**changes)


def _variant(name: object) -> tuple[Any, dict[str, Any]]:
    """The kind and the changes that a name stands for."""
    return VARIANTS.get(name, (name, {})) if isinstance(name, str) else (name, {})


def name_of(settings: Settings) -> str:
    """The name of a variant that has these settings, or their kind.

    >>> name_of(settings_for("xgboost"))
    'xgboost'
    """
    values = settings.flat()
    for name, (kind, changes) in VARIANTS.items():
        if kind == settings.kind and changes.items() <= values.items():
            return name
    return settings.kind


def fit_ranker(
    train: Queries,
    vali: Queries,
    config: Settings,
    *,
    progress: Progress = lambda text: None,
    **own: Any,
) -> Ranker:
    """Fit a ranker of the kind that the settings are for.

    Args:
        train: labelled queries, not scaled.
        vali: labelled queries with the same features, which choose.
        config: settings; RankQuality, left open, is chosen first, see `choose_quality`.
        progress: called with progress messages.
        own: what only this kind takes, such as `callbacks` of a SortNet.

    Raises:
        DataError: if the parts have different features, or RankQuality scores every ranking of
            `vali` alike.

    >>> from sortnet.config import Config
    >>> X = np.arange(12, dtype=np.float32)[:, None]
    >>> q = Queries.from_arrays(X, X[:, 0] % 6, group=[6, 6])
    >>> fit_ranker(q, q, Config(scaling="query", max_iter=2)).order(q)[:6].tolist()
    [5, 4, 3, 2, 1, 0]
    """
    check_same_features(train, vali)
    config = choose_quality(train, vali, config)
    fit = kind_module(config.kind).fit
    ranker: Any = fit(train, vali, config, progress=progress, **own)
    info = dict(ranker.info)
    if "quality" not in info:
        info = {"quality": config.quality_of(vali, ranker.order(vali)), **info}
    fitted: Ranker = replace(ranker, info=info, describer=train.describer)
    return fitted


def load_ranker(folder: str | Path, **own: Any) -> Ranker:
    """Read the folder of a ranker of any kind.

    Args:
        folder: what `Ranker.save` wrote.
        own: what only the `load` of its kind takes.

    Raises:
        ModelError: if a file is missing, damaged, foreign, of an unknown kind or another version.
    """
    return read_folder(folder, lambda saved: _loaded(saved, own))


def _loaded(saved: Saved, own: Mapping[str, Any]) -> Ranker:
    kind, changes = _variant(saved.kind)  # as versions before 0.3 saved it
    config = {**changes, **saved.about["config"]}
    saved = replace(saved, kind=kind, about={**saved.about, "config": config})
    try:
        module = kind_module(kind)
    except ModelError as error:
        raise ModelError(f"{saved.path}: {error}") from None
    ranker: Ranker = with_describer(saved, lambda saved: module.load(saved, **own))
    return ranker


def with_describer(saved: Saved, load: Callable[[Saved], R]) -> R:
    """The ranker that `load` makes of a folder, with what describes its items, if it does.

    Raises:
        ModelError: if that is damaged, or of other features than the ranker's.
    """
    if saved.about.get("items") is None:
        return load(saved)
    names = [name for name in saved.tensors if name.startswith(_ITEMS)]
    tensors = {name: saved.tensors.pop(name) for name in names}
    ranker = load(saved)
    try:
        arrays = {name.removeprefix(_ITEMS): _array(name, t) for name, t in tensors.items()}
        return replace(ranker, describer=load_describer(saved.about["items"], arrays))
    except ModelError as error:
        raise ModelError(f"{saved.path}: {error}") from None


def _array(name: str, tensor: Tensor) -> NDArray[Any]:
    if tensor.dtype not in (torch.uint8, torch.int64, torch.float32, torch.float64):
        raise ModelError(f"{name} is {described(tensor)}")  # NumPy has not all types of torch
    return tensor.numpy()


def library_of(config: Settings) -> Any:
    """The library that a kind of ranker is fitted with, `config.library`.

    Raises:
        DataError: if it is not installed, saying what to install.
    """
    library: str = config.library  # type: ignore[attr-defined]
    try:
        return import_module(library)
    except ImportError:
        raise DataError(
            f"a ranker of kind {name_of(config)} needs {library}: pip install 'sortnet[{library}]'"
        ) from None


def check_graded(train: Queries, config: Settings) -> None:
    """Refuse training data without two grades in a query, judged pairs, and weights if not taken.

    Raises:
        DataError: naming the kinds that take judged pairs.
    """
    if train.judged is not None and not config.takes_judged:
        raise DataError(
            f"{train.source}: a ranker of kind {name_of(config)} is learned from grades, not from "
            f"judged pairs; of these learn {', '.join(OF_PAIRS)}"
        )
    if train.weights is not None and not config.takes_weights:
        raise DataError(f"{train.source}: a ranker of kind {name_of(config)} takes no weights")
    check_can_be_learned(train)


def check_same_features(train: Queries, vali: Queries) -> None:
    """Refuse two parts whose features differ."""
    if train.n_features != vali.n_features:
        raise DataError(
            f"{train.source} has {train.n_features} features, {vali.source} {vali.n_features}"
        )
    if None not in (train.feature_names, vali.feature_names) and (
        train.feature_names != vali.feature_names
    ):
        raise DataError(f"{train.source} and {vali.source} name their features differently")
