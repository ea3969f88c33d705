"""Parameters of SortNetRanker: all settings of SortNet, and parameters of the estimator itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from numbers import Integral, Real
from types import NoneType
from typing import Any, ParamSpec

import numpy as np

from sortnet.comparators import make_comparator
from sortnet.config import Config, Settings, settings_of
from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.rankers.from_model import settings_from_model
from sortnet.rankers.registry import KINDS, name_of, settings_for

P = ParamSpec("P")
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
# Parameters of other libraries, and what to use instead in SortNetRanker.
_OTHER_LIBRARIES = {
    "early_stopping_rounds": "max_stale, which ends runs of start='fresh' early",
    "n_estimators": "epochs, the length of training, which max_iter divides among iterations",
    "num_iterations": "epochs, the length of training, which max_iter divides among iterations",
    "learning_rate": "lr",
    "eval_metric": "eval_metric of fit, or quality for the measure that chooses",
    "metric": "quality",
    "class_weight": "sample_weight of fit",
    "categorical_feature": "a column of dtype category",
}
DEFAULT_PARAMETERS = {
    name: setting.default for name, setting in settings_of(Config).items() if name != "seed"
} | OWN


def refuse_unknown(init: Callable[P, None]) -> Callable[P, None]:
    """Wrap `__init__` so that a call with an unknown parameter raises a TypeError with advice.

    If another library has a parameter of this name, the message tells what to use instead.
    """

    @wraps(init)
    def checked_init(*args: P.args, **parameters: P.kwargs) -> None:
        """Refuse unknown parameters, then initialise the estimator."""
        for name in parameters:
            if name in DEFAULT_PARAMETERS:
                continue
            advice = ""
            if name in _OTHER_LIBRARIES:
                advice = f"; here it is {_OTHER_LIBRARIES[name]}"
            elif any(name in settings_for(kind).flat() for kind in KINDS):
                advice = f"; a setting of another ranker is given as settings={{{name!r}: ...}}"
            raise TypeError(f"SortNetRanker has no parameter {name!r}{advice}")
        init(*args, **parameters)

    return checked_init


def settings_from(parameters: Mapping[str, Any], begin_with: Config | None = None) -> Settings:
    """Make the settings for the ranker that the parameters of an estimator name.

    Args:
        parameters: all parameters of the estimator. Parameters of SortNet that this ranker does not
            have must be left at their defaults; `settings` has precedence over them.
        begin_with: the settings of a SortNet model, if the training begins with the model's
            weights; None: the training begins with random weights.

    Raises:
        DataError: if a parameter has a wrong type, is no setting of this ranker, or does not fit
            the model.
    """
    _refuse_wrong_types(parameters)
    default_settings = settings_for(parameters["ranker"])
    is_sortnet = default_settings.kind == Config.kind
    changes = _changed_settings(parameters, is_sortnet=is_sortnet)
    changes |= parameters["settings"] or {}
    if "seed" in changes:
        raise DataError("settings cannot have seed: give random_state")
    random_state = parameters["random_state"]
    if begin_with is None:
        changes["seed"] = _seed(random_state)
        return default_settings.changed(**changes)
    if not is_sortnet:
        ranker = shown(parameters["ranker"])
        raise DataError(f"a ranker of kind {ranker} takes no init_model; sortnet does")
    has_own_seed = not _is_default("random_state", random_state)
    if has_own_seed:  # otherwise the training has the model's seed
        changes["seed"] = _seed(random_state)
    return settings_from_model(begin_with, **changes)


def _refuse_wrong_types(parameters: Mapping[str, Any]) -> None:
    """Raise a DataError if a parameter that `Config` does not check has a wrong type."""
    for name, types in _TYPES.items():
        if not isinstance(parameters[name], types):
            raise DataError(f"{name} cannot be {shown(parameters[name])}")


def _changed_settings(parameters: Mapping[str, Any], *, is_sortnet: bool) -> dict[str, Any]:
    """List the settings of the ranker that the user has changed, by name.

    A parameter at SortNet's default is left out, so that another kind of ranker uses its own
    default. A function that makes SortNet's comparators is left out, too: it is no setting that can
    be saved, and the fit gets the function as an argument, see `custom`.

    Args:
        parameters: all parameters of the estimator.
        is_sortnet: whether the ranker is SortNet.
    """
    changes = {}
    for name, value in parameters.items():
        is_setting = name not in OWN
        if is_setting and not _is_default(name, value):
            changes[name] = value
    has_custom_comparator = callable(changes.get("comparator"))
    if is_sortnet and has_custom_comparator:
        del changes["comparator"]
    return changes


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
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(_LIMIT_OF_SEEDS))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(_LIMIT_OF_SEEDS))
    return random_state  # type: ignore[no-any-return]  # `Config` refuses a wrong seed
