"""Train a model further: settings and first comparator of a run that begins with its weights.

The weights fit the inputs and the architecture of their model, so the run has its scaling, its
comparator and its features. There are no trials; the seed and the weight decay are the model's,
too, unless they are given.
"""

from __future__ import annotations

import copy
from typing import Any

from sortnet.comparators import TrainableComparator
from sortnet.comparators.device import resolve_device
from sortnet.comparators.fitted_trees import FittedTrees
from sortnet.comparators.make import trainable
from sortnet.config import COMPARATOR, Config, own_settings
from sortnet.core import Queries
from sortnet.errors import DataError
from sortnet.learning.step_budget import MOST_OF_RUN, MOST_OF_TRAINING, Budget, default_epochs

# What a comparator is made with: its dropout belongs to it, too.
_WEIGHT_SETTINGS = (*(s.name for s in own_settings(Config) if s.section == COMPARATOR), "dropout")


def settings_from_model(learned: Config, **given: Any) -> Config:
    """The settings of a run that begins with the model's weights.

    Args:
        learned: the settings of the model to begin with.
        given: settings by name. Settings of the comparator and the scaling, which the weights were
            learned with, can only be those of the model; the others have their defaults, the seed
            and the weight decay those of the model.

    Raises:
        DataError: if a given setting differs from what the model's weights were learned with, or
            begins trainings from random weights; on a name that is no setting.
    """
    config = Config().changed(**given)
    fitting = _weight_settings(learned)
    for name in _WEIGHT_SETTINGS:
        value = config.flat()[name]
        if name in given and value is not None and value != fitting[name]:
            has = f"has {name} {_shown(fitting[name])}"
            if fitting[name] is None:
                has = f"has no {name}"
            raise DataError(
                f"{name} {_shown(value)} does not fit the model to begin with, which {has}: "
                f"leave {name} out"
            )
    _refuse_fresh(config)
    flat = learned.with_defaults.flat()
    inherited = fitting | {name: flat[name] for name in ("seed", "weight_decay")}
    return config.changed(**inherited | {k: v for k, v in given.items() if k not in fitting})


def checked_settings(learned: Config, config: Config | None) -> Config:
    """Settings for a run that begins with the weights of a model of the settings `learned`.

    None are those of `settings_from_model`.

    Raises:
        DataError: if they are for another comparator or scaling, or begin trainings from random
            weights.
    """
    if config is None:
        return settings_from_model(learned)
    _refuse_fresh(config)
    fitting = _weight_settings(learned)
    theirs = _weight_settings(config)
    if config.scaling is None:
        theirs["scaling"] = fitting["scaling"]
    for name in _WEIGHT_SETTINGS:
        if theirs[name] != fitting[name]:
            raise DataError(
                f"{name} {_shown(theirs[name])} does not fit the model to begin with, which has "
                f"{_shown(fitting[name])}: settings_from_model gives settings that fit"
            )
    return config.changed(scaling=fitting["scaling"])


def with_epochs(train: Queries, config: Config) -> Config:
    """The settings with a number of epochs: where it is open, half of those from random weights.

    At the same learning rate half of the epochs were as good as all of them.
    """
    if config.training.epochs is not None:
        return config
    most = MOST_OF_RUN if config.trainings > 1 else MOST_OF_TRAINING
    epochs = default_epochs(train.n_docs, Budget.of(train, config).epoch, most)
    return config.changed(epochs=-(-epochs // 2))


def first_comparator(
    trained: TrainableComparator | FittedTrees, config: Config
) -> TrainableComparator:
    """C0: a copy of a model's comparator, on the device of the settings."""
    comparator = copy.deepcopy(trainable(trained))
    device = resolve_device(config.device)
    for member in comparator.members:
        member.to(device)
    return comparator


def _weight_settings(config: Config) -> dict[str, Any]:
    """The settings that weights depend on, by name."""
    flat = config.with_defaults.flat()
    return {name: flat[name] for name in _WEIGHT_SETTINGS}


def _refuse_fresh(config: Config) -> None:
    if config.start == "fresh":
        raise DataError(
            "start=fresh begins each training from random weights, and the run is to begin with "
            "those of a model: leave it out"
        )


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
