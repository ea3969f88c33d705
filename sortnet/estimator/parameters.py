"""Parameters of SortNetRanker: all settings of SortNet, and parameters of the estimator itself."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter, Signature
from numbers import Integral, Real
from types import NoneType
from typing import Any

import numpy as np

from sortnet.comparators import make_comparator
from sortnet.config import Config, Settings, settings_of
from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.rankers.registry import name_of, settings_for
from sortnet.rankers.sortnet import settings_from_model

_LIMIT_OF_SEEDS = 2**31  # a drawn seed is below this limit
OWN = {  # default values of the parameters that are no settings of a run
    "ranker": "sortnet",
    "settings": None,
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
# Types of the values of parameters that `Config` does not check.
_TYPES: dict[str, Any] = {
    **dict.fromkeys(("query", "grade", "id"), (str, NoneType)),
    "settings": (Mapping, NoneType),
    "validation_fraction": Real,
    "random_state": (Integral, np.random.RandomState, np.random.Generator, NoneType),
    "tune": (bool, np.bool_, Mapping, list, tuple, NoneType),
    "verbose": Integral,
}
DEFAULT_PARAMETERS = {
    name: setting.default for name, setting in settings_of(Config).items() if name != "seed"
} | OWN
# The signature of `SortNetRanker.__init__`.
SIGNATURE = Signature(
    [
        Parameter("self", Parameter.POSITIONAL_OR_KEYWORD),
        *(
            Parameter(name, Parameter.KEYWORD_ONLY, default=default)
            for name, default in DEFAULT_PARAMETERS.items()
        ),
    ]
)


def checked(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Complete the parameters of an estimator by their default values.

    Raises:
        TypeError: if there is a parameter that the estimator does not have.
    """
    for name in parameters:
        if name not in DEFAULT_PARAMETERS:
            raise TypeError(
                f"SortNetRanker has no parameter {name!r}; a setting of another ranker is given as "
                f"settings={{{name!r}: ...}}"
            )
    return {**DEFAULT_PARAMETERS, **parameters}


def settings_from(parameters: Mapping[str, Any], begin_with: Config | None = None) -> Settings:
    """Make the settings for the ranker that the parameters of an estimator name.

    A parameter at SortNet's default is no setting, so that another kind of ranker uses its own
    default. A function that makes SortNet's comparators is no setting either, because it cannot be
    saved; the fit gets the function as an argument, see `custom`.

    Args:
        parameters: all parameters of the estimator. Parameters of SortNet that this ranker does not
            have must be left at their defaults; `settings` has precedence over them.
        begin_with: the settings of a SortNet model, if the training begins with the model's
            weights; None: the training begins with random weights.

    Raises:
        DataError: if a parameter has a wrong type, is no setting of this ranker, or does not fit
            the model.
    """
    for name, types in _TYPES.items():
        if not isinstance(parameters[name], types):
            raise DataError(f"{name} cannot be {shown(parameters[name])}")
    default_settings = settings_for(parameters["ranker"])
    is_sortnet = default_settings.kind == Config.kind
    changes = {
        name: value
        for name, value in parameters.items()
        if name not in OWN and not _is_default(name, value)
    }
    if is_sortnet and callable(parameters["comparator"]):
        del changes["comparator"]
    changes |= parameters["settings"] or {}
    if "seed" in changes:
        raise DataError("settings cannot have seed: give random_state")
    random_state = parameters["random_state"]
    if begin_with is None:
        return default_settings.changed(**changes, seed=_seed(random_state))
    if not is_sortnet:
        ranker = shown(parameters["ranker"])
        raise DataError(f"a ranker of kind {ranker} takes no init_model; sortnet does")
    if not _is_default("random_state", random_state):  # by default the model's seed
        changes["seed"] = _seed(random_state)
    return settings_from_model(begin_with, **changes)


def _is_default(name: str, value: Any) -> bool:
    """Check whether a parameter has its default value."""
    default = DEFAULT_PARAMETERS[name]
    if default is None:
        return value is None
    return bool(value == default)


def parameters_of(config: Settings) -> dict[str, Any]:
    """List the parameters of an estimator with these settings by name.

    `settings` has what no other parameter can express: settings that only this kind of ranker has,
    and changed settings with the value that a parameter has by default.
    """
    values = config.flat()
    ranker = name_of(config)
    random_state = values.pop("seed")
    usual_values = settings_for(ranker).flat()
    parameters = {name: value for name, value in values.items() if name in DEFAULT_PARAMETERS}
    settings = {
        name: value
        for name, value in values.items()
        if value != usual_values[name] and (name not in parameters or _is_default(name, value))
    }
    return {
        **parameters,
        "ranker": ranker,
        "settings": settings or None,
        "random_state": random_state,
    }


def custom(comparator: Any) -> dict[str, Any]:
    """Make the extra arguments for fitting and loading a ranker with a custom comparator.

    Args:
        comparator: the estimator's parameter. A function (n_columns, seed) -> comparator makes a
            custom comparator; for any other value there are no extra arguments.
    """
    if not callable(comparator):
        return {}

    def make_for(config: Config, n_columns: int) -> Any:
        """Return a function that makes the custom comparator from a seed."""
        return make_comparator(config, n_columns, comparator)

    return {"make_for": make_for}


def _seed(random_state: Any) -> int:
    """Convert a scikit-learn `random_state` to a seed.

    A number is the seed itself. A random generator draws the seed; None draws it from entropy.
    """
    if random_state is None:
        random_state = np.random.default_rng()
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(_LIMIT_OF_SEEDS))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(_LIMIT_OF_SEEDS))
    return random_state  # type: ignore[no-any-return]  # `Config` refuses a wrong seed
