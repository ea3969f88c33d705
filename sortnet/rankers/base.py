"""Rankers of every kind: the registry of kinds, the base class, fitting and loading.

A ranker is fitted on labelled queries and orders new queries. `KINDS` gives each kind a name and
a subclass of `sortnet.config.Settings` with

    ranker                                              subclass of `Ranker`, made of `learned`
    grids, fixed, candidates(train)                     if they differ from the base class
    solve(train, vali, progress)      -> learned, info  fit on scaled queries
    read(saved, n_columns)            -> learned        read a folder, `model_folder.Saved`

Every function that takes a ranker takes all kinds. Features are scaled where the settings have a
`scaling`. Only SortNet has its own `fit` and `load`, in `sortnet.rankers.sortnet` and
`sortnet.rankers.model`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sortnet import __version__
from sortnet.config import COMPARATOR, SCALINGS, Config, Settings, choose_quality, setting
from sortnet.core import F32, F64, I64, NamedColumns, Progress, Queries
from sortnet.core.named_columns import UNNAMED
from sortnet.data.scaling import Scaler, fit_scaler, unscaled
from sortnet.errors import DataError, ModelError
from sortnet.files import shown
from sortnet.items.features import Describer
from sortnet.items.saved import arrays_of, load_describer, to_json
from sortnet.learning.judges import check_can_be_learned
from sortnet.rankers.model_folder import Array, Saved, digest_of, read_folder, write_folder
from sortnet.rankers.saved_scaler import scaler_arrays, take_scaler
from sortnet.sorting.sort import arrangement

if TYPE_CHECKING:
    from sortnet.comparators.base import Margin

KINDS: dict[str, str] = {
    "sortnet": "sortnet.config:Config",
    "posterior": "sortnet.rankers.posterior_ranker:PosteriorSettings",
    "directranker": "sortnet.rankers.pairwise:PairwiseSettings",
    "ranknet": "sortnet.rankers.listwise:ListwiseSettings",
    "set-transformer": "sortnet.rankers.set_transformer:SetSettings",
    "fate": "sortnet.rankers.context_rankers:DenseSettings",
    "lambdamart": "sortnet.rankers.trees:TreeSettings",
    "ranksvm": "sortnet.rankers.linear:RankSvmSettings",
    "err": "sortnet.rankers.linear:ErrSettings",
    "es-rank": "sortnet.rankers.linear:EsSettings",
    "rankboost": "sortnet.rankers.stumps:StumpSettings",
    "adarank-ndcg": "sortnet.rankers.adarank:AdaRankSettings",
}
_LOOP = "sortnet.rankers.sortnet"  # module with the `fit` of SortNet
_MODEL = "sortnet.rankers.model"  # module with the `load` of SortNet
# Variants: name -> kind, and the settings that differ from the kind's defaults.
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
_ITEMS = "items."  # prefix of the tensors of a describer


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
        """Whether a margin depends on the other documents of the query, as by the scaling."""
        return self.scaler.depends_on_query

    def scaled(self, queries: Queries) -> Queries:
        """Scale the features as in training.

        Raises:
            ModelError: if the features are not those it was fitted on.
        """
        self.check_features(queries)
        return self.scaler(queries)

    @abstractmethod
    def scores(self, queries: Queries) -> F32:
        """Scores (n_docs,), higher is better; only scores of the same query can be compared."""

    def real_scores(self, queries: Queries) -> F32:
        """Scores (n_docs,) that say by how much a document is better, where the ranker has them."""
        return self.scores(queries)

    @abstractmethod
    def learned(self) -> dict[str, Array]:
        """The learned arrays by name, as `read` of the settings takes them."""

    def tensors(self) -> dict[str, Array]:
        """All arrays that `save` writes, by name: the learned ones and the scaling."""
        return self.learned() | scaler_arrays(self.scaler)

    def facts(self) -> dict[str, Any]:
        """Further entries of model.json."""
        return {"depends_on_query": self.depends_on_query}

    def order(self, queries: Queries) -> I64:
        """Document numbers (n_docs,) query by query, the best first.

        Raises:
            ModelError: if the features are not those it was fitted on, or a score is no number.
        """
        return self._by_scores(queries, arrangement(queries))

    def margins(self, queries: Queries, i: ArrayLike, j: ArrayLike) -> F32:
        """Margins (m,) of documents i over documents j (document numbers): above 0, i goes first.

        A margin may depend on all documents of the query, see `depends_on_query`.
        """
        scores = self.scores(queries)
        differences: F32 = scores[np.asarray(i)] - scores[np.asarray(j)]
        return differences

    def votes(self, queries: Queries, i: int, j: int) -> list[dict[str, float]]:
        """Named outputs of each part of the ranker for document i over document j."""
        return [{"margin": float(self.margins(queries, [i], [j])[0])}]

    def split_shares(self) -> F64 | None:
        """Share (n_features,) of the soft trees' splits that use each feature; None: no trees."""
        return None

    def differentiable(self) -> Margin:
        """The margin as a function of two scaled documents that has gradients.

        Raises:
            ModelError: if the ranker has no such function.
        """
        raise ModelError(
            f"a ranker of kind {self.config.kind} has no gradients that explain a margin: "
            "sortnet importance says which features it ranks by"
        )

    def repeatable(self, queries: Queries) -> tuple[Queries, Callable[[Queries], I64], I64]:
        """Prepare repeated orders of documents whose columns are changed.

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
        """Order (n_docs,) by the ranker before training, with random weights."""
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
        """Hash of the weights as `save` writes them, the weights of a describer included."""
        return digest_of(self._saved_tensors())

    def _saved_tensors(self) -> dict[str, Array]:
        if self.describer is None:
            return self.tensors()
        tensors = self.tensors()
        for name, array in arrays_of(self.describer).items():
            tensors[f"{_ITEMS}{name}"] = array
        return tensors

    def _by_scores(self, queries: Queries, start: I64) -> I64:
        """Order by scores; documents with equal scores stay in the order of `start`, (n_docs,)."""
        self.check_features(queries)
        scores = self.scores(queries)
        if np.isnan(scores).any():
            row = queries.rows[int(np.argmax(np.isnan(scores)))]
            raise ModelError(f"{queries.source}, row {row}: the score is not a number")
        return order_by(queries, scores, start)


def scaling_setting(default: str) -> Any:
    """The field `scaling` of a kind's settings; `default` is the help's text for the default."""
    text = f"Scaling, parts of {', '.join(SCALINGS)} joined by +; default: {default}."
    return setting(None, text, COMPARATOR, choices=SCALINGS, joined=True)


def order_by(queries: Queries, scores: F32 | F64, start: I64 | None = None) -> I64:
    """Order (n_docs,) by scores, query by query.

    Documents with equal scores stay in the order of `start`, by default the order of their numbers.
    """
    start = np.arange(queries.n_docs) if start is None else start
    query = queries.query_of_docs()
    return start[np.lexsort((-scores[start], query[start]))]


def kind_settings(kind: object) -> Any:
    """The class of settings of a kind of ranker.

    Raises:
        ModelError: if no kind has that name.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        names = ", ".join([*KINDS, *VARIANTS])
        raise ModelError(f"unknown kind of ranker {shown(kind)}; known are {names}")
    module, _, name = KINDS[kind].partition(":")
    return getattr(import_module(module), name)


def settings_for(name: str) -> Settings:
    """Default settings of a kind of ranker, or of a variant.

    Raises:
        ModelError: if no kind and no variant has that name.

    >>> settings_for("frank").kind, settings_for("frank").algorithm
    ('rankboost', 'frank')
    """
    kind, changes = _variant(name)
    settings: Settings = kind_settings(kind)().changed(**changes)
    return settings


def kinds_of_pairs() -> list[str]:
    """The kinds of rankers that learn from judged pairs with their default settings.

    >>> kinds_of_pairs()
    ['sortnet', 'posterior', 'directranker']
    """
    return [kind for kind in KINDS if settings_for(kind).takes_judged]


def _variant(name: object) -> tuple[Any, dict[str, Any]]:
    """The kind that a name stands for, and the changes of its default settings."""
    if isinstance(name, str) and name in VARIANTS:
        return VARIANTS[name]
    return name, {}


def name_of(settings: Settings) -> str:
    """Name of the variant with these settings, or their kind if no variant fits.

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
    **loop_arguments: Any,
) -> Ranker:
    """Fit a ranker of the kind that the settings are for.

    Args:
        train: labelled queries, not scaled.
        vali: labelled queries with the same features; settings and epochs are chosen on them.
        config: settings; a RankQuality left open is chosen first, see `choose_quality`.
        loop_arguments: arguments that only `sortnet.rankers.sortnet.fit` has, such as `callbacks`.

    Raises:
        DataError: if the parts have different features, if RankQuality scores every ranking of
            `vali` alike, or if the kind cannot learn from the training part: no query has documents
            of two grades, or there are judged pairs or weights that the kind does not take.

    >>> from sortnet.config import Config
    >>> X = np.arange(12, dtype=np.float32)[:, None]
    >>> q = Queries.from_arrays(X, X[:, 0] % 6, group=[6, 6])
    >>> fit_ranker(q, q, Config(scaling="query", max_iter=2)).order(q)[:6].tolist()
    [5, 4, 3, 2, 1, 0]
    """
    ranker: Ranker
    if config.kind == Config.kind:
        ranker = import_module(_LOOP).fit(train, vali, config, progress=progress, **loop_arguments)
    else:
        check_same_features(train, vali)
        config = choose_quality(train, vali, config)
        ranker = _fit(train, vali, config, progress=progress, **loop_arguments)
    info = dict(ranker.info)
    if "quality" not in info:
        info = {"quality": config.quality_of(vali, ranker.order(vali)), **info}
    return replace(ranker, info=info, describer=train.describer, columns=train.columns)


def _fit(train: Queries, vali: Queries, config: Any, *, progress: Progress) -> Ranker:
    """Fit every candidate of the settings; return the ranker that is best on `vali`."""
    check_graded(train, config)
    rankers = list[Ranker]()
    for candidate in config.candidates(train):
        scaling = candidate.flat().get("scaling")
        scaler = unscaled(train.n_features)
        if scaling is not None:
            scaler = fit_scaler(scaling, train, seed=config.seed)
        learned, info = candidate.solve(scaler(train), scaler(vali), progress)
        names = train.feature_names
        ranker = candidate.ranker(candidate, scaler, learned, feature_names=names, info=info)
        rankers.append(ranker)
    if len(rankers) == 1:
        return rankers[0]
    return max(rankers, key=lambda ranker: config.quality_of(vali, ranker.order(vali)))


def load_ranker(folder: str | Path, **model_arguments: Any) -> Ranker:
    """Read the folder of a ranker of any kind.

    `model_arguments` are arguments that only `sortnet.rankers.model.load` has.

    Raises:
        ModelError: if a file is missing, damaged, foreign, of an unknown kind or another version.
    """
    return read_folder(folder, lambda saved: _loaded(saved, model_arguments))


def _loaded(saved: Saved, model_arguments: Mapping[str, Any]) -> Ranker:
    # Versions before 0.3 saved the name of a variant as the kind.
    kind, changes = _variant(saved.kind)
    config = {**changes, **saved.about["config"]}
    saved = replace(saved, kind=kind, about={**saved.about, "config": config})
    try:
        settings = kind_settings(kind)
    except ModelError as error:
        raise ModelError(f"{saved.path}: {error}") from None
    items = saved.about.get("items")
    item_arrays = {}
    if items is not None:
        names = [name for name in saved.tensors if name.startswith(_ITEMS)]
        for name in names:
            item_arrays[name.removeprefix(_ITEMS)] = saved.tensors.pop(name)
    ranker: Ranker
    if settings is Config:
        ranker = import_module(_MODEL).load(saved, **model_arguments)
    else:
        ranker = _load(saved)
    columns = NamedColumns.from_json(saved.about.get("columns", {}), saved.path)
    ranker = replace(ranker, columns=columns)
    if items is None:
        return ranker
    try:
        return replace(ranker, describer=load_describer(items, item_arrays))
    except ModelError as error:
        raise ModelError(f"{saved.path}: {error}") from None


def _load(saved: Saved) -> Ranker:
    """Read a ranker of any kind but SortNet."""
    config: Any = saved.settings(kind_settings(saved.kind))
    scaler = take_scaler(saved, config.flat().get("scaling"))
    learned = config.read(saved, scaler.n_columns)
    ranker: Ranker = config.ranker(
        config, scaler, learned, feature_names=saved.feature_names, info=saved.info
    )
    return ranker


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
    """Refuse training data that the kind cannot learn from.

    The data need two grades in some query; judged pairs and weights are refused if the kind does
    not take them.

    Raises:
        DataError: naming the kinds that take judged pairs.
    """
    if train.judged is not None and not config.takes_judged:
        raise DataError(
            f"{train.source}: a ranker of kind {name_of(config)} is learned from grades, not from "
            f"judged pairs; of these learn {', '.join(kinds_of_pairs())}"
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
