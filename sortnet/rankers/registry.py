"""Registry of the rankers: the kinds and their variants by name.

`KINDS` gives the settings class of each kind of ranker by name: a subclass of
`sortnet.config.Settings` with

    ranker                                              the subclass of `Ranker`
    solve(train, vali, progress)      -> learned, info  fit the ranker on scaled queries
    read(saved, n_columns)            -> learned        read the ranker from a model folder
    grids, fixed, candidates(train)                     if they differ from the base class

A ranker is made of the settings, the scaling and the learned value. Features are scaled if the
settings have a `scaling`. SortNet has no `solve` and `read`: it is fitted and loaded by functions
in `sortnet.rankers.sortnet` and `sortnet.rankers.model`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sortnet.config import Settings
from sortnet.errors import DataError, ModelError
from sortnet.files import shown
from sortnet.messages import known_names

# Names of the kinds of rankers, and the module and the name of each kind's settings class.
KINDS: dict[str, str] = {
    "sortnet": "sortnet.config:Config",
    "posterior": "sortnet.rankers.posterior_ranker:PosteriorSettings",
    "directranker": "sortnet.rankers.pairwise:PairwiseSettings",
    "ranknet": "sortnet.rankers.listwise:ListwiseSettings",
    "set-transformer": "sortnet.rankers.context_rankers:SetSettings",
    "fate": "sortnet.rankers.context_rankers:DenseSettings",
    "lambdamart": "sortnet.rankers.trees:TreeSettings",
    "ranksvm": "sortnet.rankers.linear:RankSvmSettings",
    "err": "sortnet.rankers.linear:ErrSettings",
    "es-rank": "sortnet.rankers.linear:EsSettings",
    "rankboost": "sortnet.rankers.stumps:StumpSettings",
    "adarank-ndcg": "sortnet.rankers.linear:AdaRankSettings",
}


# Rankers with a name of their own: the kind, and the settings that differ from its defaults.
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


def kind_settings(kind: object) -> Any:
    """Import the settings class of a kind of ranker.

    Raises:
        ModelError: if no kind has the name.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        names = known_names([*KINDS, *VARIANTS], str(kind))
        raise ModelError(f"unknown kind of ranker {shown(kind)}; known are {names}")
    module, _, name = KINDS[kind].partition(":")
    return getattr(import_module(module), name)


def settings_for(name: object) -> Settings:
    """Make the default settings of the ranker with this name.

    Args:
        name: the name of a kind in `KINDS`, or of a variant in `VARIANTS`.

    Raises:
        ModelError: if no kind and no variant has the name.

    >>> settings_for("frank").kind, settings_for("frank").algorithm
    ('rankboost', 'frank')
    """
    settings: Settings
    if isinstance(name, str) and name in VARIANTS:
        kind, changes = VARIANTS[name]
        settings = kind_settings(kind)().changed(**changes)
    else:
        settings = kind_settings(name)()
    return settings


def kinds_of_pairs() -> list[str]:
    """List the kinds of rankers that learn from judged pairs with their default settings.

    >>> kinds_of_pairs()
    ['sortnet', 'posterior', 'directranker']
    """
    return [kind for kind in KINDS if settings_for(kind).takes_judged]


def name_of(settings: Settings) -> str:
    """Find the name of the first variant with these settings, or else the name of their kind.

    >>> name_of(settings_for("xgboost"))
    'xgboost'
    """
    values = settings.flat()
    for name, (kind, changes) in VARIANTS.items():
        if kind == settings.kind and changes.items() <= values.items():
            return name
    return settings.kind


def library_of(config: Settings) -> Any:
    """Import the library that fits the ranker of these settings.

    Args:
        config: settings that have the name of the library in their property `library`.

    Raises:
        DataError: if the library is not installed; the message tells what to install.
    """
    library: str = config.library  # type: ignore[attr-defined]
    try:
        return import_module(library)
    except ImportError:
        raise DataError(
            f"a ranker of kind {name_of(config)} needs {library}: pip install 'sortnet[{library}]'"
        ) from None
