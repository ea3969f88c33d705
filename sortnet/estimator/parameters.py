"""The parameters of SortNetRanker: every setting of SortNet by its name, and its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import Parameter, Signature
from numbers import Integral, Real
from types import NoneType
from typing import Any, TypedDict

import numpy as np

from sortnet.comparators import MakeOne, make_comparator
from sortnet.config import GONE, Config, Settings, settings_of
from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.metrics import Empty, Gain
from sortnet.rankers.base import name_of, settings_for
from sortnet.rankers.from_model import settings_from_model

OWN = {  # the parameters that are no settings of a run, and their defaults
    "ranker": "sortnet",
    "validation_fraction": 0.2,
    "random_state": Config().seed,
    "query": None,
    "grade": None,
    "id": None,
    "single_query": False,
    "tune": False,
    "verbose": 0,
    "n_jobs": None,
}
_TYPES: dict[str, Any] = {
    **dict.fromkeys(("query", "grade", "id"), (str, NoneType)),
    "validation_fraction": Real,
    "random_state": (Integral, np.random.RandomState, np.random.Generator, NoneType),
    "tune": (bool, np.bool_, Mapping, list, tuple, NoneType),
    "verbose": Integral,
}
# What other libraries call it.
_ELSEWHERE = {
    "early_stopping_rounds": "max_stale, which ends runs of start='fresh' early",
    "n_estimators": "epochs, the length of training, which max_iter divides among iterations",
    "num_iterations": "epochs, the length of training, which max_iter divides among iterations",
    "learning_rate": "lr",
    "eval_metric": "eval_metric of fit, or quality for the measure that chooses",
    "metric": "quality",
    "class_weight": "sample_weight of fit",
    "categorical_feature": "a column of dtype category",
}


class Parameters(TypedDict, total=False):
    """What editors and type checkers show; a test compares it with the settings."""

    comparator: str | MakeOne | None
    committee: int
    trees: int | None
    depth: int | None
    hidden: int | Sequence[int] | None
    units: str | None
    tau: str | None
    scaling: str | None
    loss: str
    pair_weight: str | None
    epochs: int | None
    query_pairs: int | None
    keep: str
    patience: int | None
    batch_size: int | None
    optimizer: str
    lr: float
    schedule: str
    lr_decay: float
    lr_decay_epochs: int
    momentum: float
    weight_decay: float | None
    precision: str
    dropout: float | None
    quality: str | None
    relevant_from: int
    gain: Gain
    empty: Empty
    pairs: str | None
    judgements: int | None
    start: str
    max_iter: int | None
    max_stale: int | None
    device: str
    ranker: str
    validation_fraction: float
    random_state: int | np.random.RandomState | np.random.Generator | None
    query: str | None
    grade: str | None
    id: str | None
    single_query: bool
    tune: bool | Mapping[str, Sequence[Any]]
    verbose: int
    n_jobs: int | None


DEFAULT_PARAMETERS = {
    name: s.default for name, s in settings_of(Config).items() if name != "seed"
} | OWN
SIGNATURE = Signature(
    [
        Parameter("self", Parameter.POSITIONAL_ONLY),
        *(
            Parameter(name, Parameter.KEYWORD_ONLY, default=v)
            for name, v in DEFAULT_PARAMETERS.items()
        ),
    ]
)


def all_parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Every parameter, with its default where none is given.

    Raises:
        TypeError: on a name that is none, saying what it is called here where that is known.
    """
    for name in given:
        if name not in DEFAULT_PARAMETERS:
            here = f"; here it is {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
            here = f"; it is gone: {GONE[name]}" if name in GONE else here
            raise TypeError(f"SortNetRanker has no parameter {name!r}{here}")
    return DEFAULT_PARAMETERS | dict(given)


def settings_from(parameters: Mapping[str, Any], begin_with: Config | None = None) -> Settings:
    """The settings of the kind of ranker; what it has not must be as it is by default.

    Args:
        parameters: of the estimator.
        begin_with: the settings of the model whose weights the training begins with.

    Raises:
        DataError: naming a parameter that is of no type it can be, or does not fit the model.
    """
    for name, types in _TYPES.items():
        if not isinstance(parameters[name], types):
            raise DataError(f"{name} cannot be {shown(parameters[name])}")
    kind = parameters["ranker"]
    settings = settings_for(kind)
    # A parameter that is left at SortNet's default is as the kind has it by default.
    given = {
        name: value
        for name, value in parameters.items()
        if name not in OWN and not _is_default(name, value)
    }
    if callable(given.get("comparator")) and kind == Config.kind:
        del given["comparator"]
    if begin_with is not None:
        if settings.kind != Config.kind:
            raise DataError(f"a ranker of kind {shown(kind)} takes no init_model; sortnet does")
        if not _is_default("random_state", parameters["random_state"]):
            given["seed"] = _seed(parameters["random_state"])
        return settings_from_model(begin_with, **given)
    return settings.changed(**given, seed=_seed(parameters["random_state"]))


def _is_default(name: str, value: Any) -> bool:
    default = DEFAULT_PARAMETERS[name]
    return value is None if default is None else bool(value == default)


def parameters_of(config: Settings) -> dict[str, Any]:
    """The estimator's parameters of these settings."""
    values = config.flat() | {"ranker": name_of(config)}
    values["random_state"] = values.pop("seed")
    return {name: value for name, value in values.items() if name in DEFAULT_PARAMETERS}


def custom(comparator: Any) -> dict[str, Any]:
    """How a custom comparator is made."""
    if not callable(comparator):
        return {}
    return {"make_for": lambda config, n: make_comparator(config, n, comparator)}


def _seed(random_state: Any) -> int:
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    return random_state  # type: ignore[no-any-return]  # `Config` refuses what is no seed
