"""Rankers: what is fitted on labelled queries and orders others; each kind by its name.

A kind is a row of `KINDS`, which names a class of `sortnet.config.Settings` with

    ranker                                              its class of `Ranker`, of what `solve` finds
    grids, fixed, candidates(train)                     if they differ from those of `Settings`
    solve(train, vali, progress)      -> learned, info  of scaled queries
    read(saved, n_columns)            -> learned        of `folder.Saved`

Everything that takes a ranker takes all of them. Features are scaled where the settings have a
`scaling`. SortNet alone has a `fit` and a `load` of its own, in `sortnet.rankers.sortnet` and
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
_LOOP = "sortnet.rankers.sortnet"  # whose `fit` is the loop's own
_MODEL = "sortnet.rankers.model"  # whose `load` is of comparators
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
_ITEMS = "items."  # of the tensors of what describes items


@dataclass(frozen=True, eq=False)
class Ranker(ABC):
    """A fitted ranker. By default its order is that of its scores, a margin their difference.

    Attributes:
        config: the settings it was fitted with; their `kind` is the ranker's.
        scaler: fitted on the training part; what was learned sees its columns.
        feature_names: where the training data had them.
        info: how it came about, as JSON; `quality` is its RankQuality on the validation part.
        describer: what makes its features of items, for a ranker of items; `save` keeps it.
        columns: the names of columns that it was fitted with; they hold for other tables, too.

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
        """The documents as what was learned sees them.

        Raises:
            ModelError: if the features are not those it was fitted on.
        """
        self.check_features(queries)
        return self.scaler(queries)

    @abstractmethod
    def scores(self, queries: Queries) -> F32:
        """(n_docs,) in a query, higher is better; they say nothing across queries."""

    def real_scores(self, queries: Queries) -> F32:
        """(n_docs,) how good each document is, not only its place; in a query, higher is better."""
        return self.scores(queries)

    @abstractmethod
    def learned(self) -> dict[str, Array]:
        """What it has learned, by name, as `read` of its settings takes it."""

    def tensors(self) -> dict[str, Array]:
        """What `save` keeps, by name."""
        return self.learned() | scaler_arrays(self.scaler)

    def facts(self) -> dict[str, Any]:
        """What else model.json is to say."""
        return {"depends_on_query": self.depends_on_query}

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

    def differentiable(self) -> Margin:
        """The margin of scaled documents, with gradients.

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
        if self.columns != UNNAMED:
            about["columns"] = self.columns.to_json()
        if self.describer is not None:
            about["items"] = to_json(self.describer)
        write_folder(folder, about, self._saved_tensors())

    def weights_sha256(self) -> str:
        """Hash of the weights as `save` writes them, those of its inputs included."""
        return digest_of(self._saved_tensors())

    def _saved_tensors(self) -> dict[str, Array]:
        if self.describer is None:
            return self.tensors()
        arrays = arrays_of(self.describer).items()
        of_items = {f"{_ITEMS}{name}": array for name, array in arrays}
        return self.tensors() | of_items

    def _by_scores(self, queries: Queries, start: I64) -> I64:
        """The order by scores; equal ones stay as `start`, (n_docs,), has them."""
        self.check_features(queries)
        scores = self.scores(queries)
        if np.isnan(scores).any():
            row = queries.rows[int(np.argmax(np.isnan(scores)))]
            raise ModelError(f"{queries.source}, row {row}: the score is not a number")
        return order_by(queries, scores, start)


def scaling_setting(default: str) -> Any:
    """The field `scaling` of a kind's settings, of which the help says what is taken by default."""
    text = f"Scaling, parts of {', '.join(SCALINGS)} joined by +; default: {default}."
    return setting(None, text, COMPARATOR, choices=SCALINGS, joined=True)


def order_by(queries: Queries, scores: F32 | F64, start: I64 | None = None) -> I64:
    """(n_docs,) the order by scores, query by query; equal ones stay as `start` has them."""
    start = np.arange(queries.n_docs) if start is None else start
    query = queries.query_of_docs()
    return start[np.lexsort((-scores[start], query[start]))]


def kind_settings(kind: object) -> Any:
    """The class of settings of a kind of ranker.

    Raises:
        ModelError: if there is none of that name.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        known = ", ".join([*KINDS, *VARIANTS])
        raise ModelError(f"unknown kind of ranker {shown(kind)}; known are {known}")
    module, _, name = KINDS[kind].partition(":")
    return getattr(import_module(module), name)


def settings_for(name: str) -> Settings:
    """The settings of a kind of ranker, or of a variant, as they are by default.

    Raises:
        ModelError: if there is none of that name.

    >>> settings_for("frank").kind, settings_for("frank").algorithm
    ('rankboost', 'frank')
    """
    kind, changes = _variant(name)
    settings: Settings = kind_settings(kind)().changed(**changes)
    return settings


def kinds_of_pairs() -> list[str]:
    """The kinds of rankers that learn from judged pairs, by default, and not from grades alone.

    >>> kinds_of_pairs()
    ['sortnet', 'posterior', 'directranker']
    """
    return [kind for kind in KINDS if settings_for(kind).takes_judged]


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
        own: what only `sortnet.rankers.sortnet.fit` takes, such as `callbacks`.

    Raises:
        DataError: if the parts have different features, RankQuality scores every ranking of `vali`
            alike, or the kind cannot learn from the training part: no query has documents of two
            grades, they are judged pairs or have weights, and it takes none.

    >>> from sortnet.config import Config
    >>> X = np.arange(12, dtype=np.float32)[:, None]
    >>> q = Queries.from_arrays(X, X[:, 0] % 6, group=[6, 6])
    >>> fit_ranker(q, q, Config(scaling="query", max_iter=2)).order(q)[:6].tolist()
    [5, 4, 3, 2, 1, 0]
    """
    ranker: Ranker
    if config.kind == Config.kind:
        ranker = import_module(_LOOP).fit(train, vali, config, progress=progress, **own)
    else:
        check_same_features(train, vali)
        config = choose_quality(train, vali, config)
        ranker = _fit(train, vali, config, progress=progress, **own)
    info = dict(ranker.info)
    if "quality" not in info:
        info = {"quality": config.quality_of(vali, ranker.order(vali)), **info}
    return replace(ranker, info=info, describer=train.describer, columns=train.columns)


def _fit(train: Queries, vali: Queries, config: Any, *, progress: Progress) -> Ranker:
    """A ranker of the candidate of the settings that is best on `vali`."""
    check_graded(train, config)
    rankers = list[Ranker]()
    for each in config.candidates(train):
        scaling = each.flat().get("scaling")
        scaler = unscaled(train.n_features)
        if scaling is not None:
            scaler = fit_scaler(scaling, train, seed=config.seed)
        learned, info = each.solve(scaler(train), scaler(vali), progress)
        names = train.feature_names
        rankers.append(each.ranker(each, scaler, learned, feature_names=names, info=info))
    if len(rankers) == 1:
        return rankers[0]
    return max(rankers, key=lambda ranker: config.quality_of(vali, ranker.order(vali)))


def load_ranker(folder: str | Path, **own: Any) -> Ranker:
    """Read the folder of a ranker of any kind.

    Raises:
        ModelError: if a file is missing, damaged, foreign, of an unknown kind or another version.
    """
    return read_folder(folder, lambda saved: _loaded(saved, own))


def _loaded(saved: Saved, own: Mapping[str, Any]) -> Ranker:
    kind, changes = _variant(saved.kind)  # as versions before 0.3 saved it
    config = {**changes, **saved.about["config"]}
    saved = replace(saved, kind=kind, about={**saved.about, "config": config})
    try:
        settings = kind_settings(kind)
    except ModelError as error:
        raise ModelError(f"{saved.path}: {error}") from None
    items = saved.about.get("items")
    names = [name for name in saved.tensors if items is not None and name.startswith(_ITEMS)]
    tensors = {name: saved.tensors.pop(name) for name in names}
    of_loop = settings is Config
    ranker: Ranker = import_module(_MODEL).load(saved, **own) if of_loop else _load(saved)
    columns = NamedColumns.from_json(saved.about.get("columns", {}), saved.path)
    ranker = replace(ranker, columns=columns)
    if items is None:
        return ranker
    try:
        arrays = {name.removeprefix(_ITEMS): array for name, array in tensors.items()}
        return replace(ranker, describer=load_describer(items, arrays))
    except ModelError as error:
        raise ModelError(f"{saved.path}: {error}") from None


def _load(saved: Saved) -> Ranker:
    config: Any = saved.settings(kind_settings(saved.kind))
    scaler = take_scaler(saved, config.flat().get("scaling"))
    learned = config.read(saved, scaler.n_columns)
    made = {"feature_names": saved.feature_names, "info": saved.info}
    ranker: Ranker = config.ranker(config, scaler, learned, **made)
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
    """Refuse training data without two grades in a query, judged pairs, and weights if not taken.

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
