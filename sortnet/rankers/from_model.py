"""Train a model further: make the settings and the first comparator of a run from a model.

The weights of a model fit only its inputs and its architecture, so the run has the model's scaling,
comparator and features. The run also has the model's seed and weight decay, unless the caller sets
others.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

from sortnet.comparators import SoftTrees, TrainableComparator
from sortnet.comparators.make import resolve_device
from sortnet.config import COMPARATOR, Config, own_settings
from sortnet.core import Queries
from sortnet.errors import DataError
from sortnet.learning.step_budget import MOST_OF_RUN, MOST_OF_TRAINING, Budget, default_epochs

# Trained weights fit only a comparator that is made with the same values of these settings. Dropout
# is a part of the comparator, though the help lists dropout among the settings of the training.
_WEIGHT_SETTINGS = (*(s.name for s in own_settings(Config) if s.section == COMPARATOR), "dropout")


def settings_from_model(learned: Config, **changes: Any) -> Config:
    """Make the settings of a run that begins with the weights of a model.

    Args:
        learned: the settings of the model to begin with.
        changes: settings of the run by name. The scaling and the settings of the comparator must be
            the settings of the model. All other settings have their usual defaults, but the default
            of the seed and of the weight decay is the model's value.

    Raises:
        DataError: if a setting does not fit the weights of the model, if it begins trainings from
            random weights, or if a name is no setting.
    """
    config = Config().changed(**changes)
    run_settings = config.flat()
    _refuse_unfit({name: run_settings[name] for name in changes}, learned)
    flat = learned.with_defaults.flat()
    defaults = {name: flat[name] for name in ("seed", "weight_decay")}
    model_settings = {name: flat[name] for name in _WEIGHT_SETTINGS}
    return config.changed(**{**defaults, **changes, **model_settings})


def _refuse_unfit(run_settings: Mapping[str, Any], learned: Config) -> None:
    """Raise a DataError if a setting of the run does not fit the weights of the model.

    Args:
        run_settings: settings of the run by name; a setting that is None fits.
        learned: the settings of the model.
    """
    if run_settings.get("start") == "fresh":
        raise DataError(
            "start=fresh begins each training from random weights, and the run is to begin with "
            "those of a model: leave it out"
        )
    model_settings = learned.with_defaults.flat()
    for name in _WEIGHT_SETTINGS:
        value = run_settings.get(name)
        value_of_model = model_settings[name]
        if value is not None and value != value_of_model:
            model_property = f"has {name} {_as_text(value_of_model)}"
            if value_of_model is None:
                model_property = f"has no {name}"
            raise DataError(
                f"{name} {_as_text(value)} does not fit the model to begin with, "
                f"which {model_property}: leave {name} out"
            )


def checked_settings(learned: Config, config: Config | None) -> Config:
    """Check that a run with these settings can begin with a model's weights.

    Args:
        learned: the settings of the model to begin with.
        config: the settings of the run; None: take the settings of `settings_from_model`.

    Returns:
        The settings of the run, with the model's scaling.

    Raises:
        DataError: if the settings are for another comparator or scaling, or begin trainings from
            random weights.
    """
    if config is None:
        return settings_from_model(learned)
    run_settings = config.with_defaults.flat() | {"scaling": config.scaling}
    _refuse_unfit(run_settings, learned)
    return config.changed(scaling=learned.with_defaults.scaling)


def with_share_of_epochs(config: Config, train: Queries, share: float) -> Config:
    """Set the number of epochs to a share of the number that a run from random weights has."""
    epochs = config.training.epochs
    if epochs is None:
        most = MOST_OF_RUN if config.trainings > 1 else MOST_OF_TRAINING
        steps_of_epoch = Budget.of(train, config).epoch
        epochs = default_epochs(train.n_docs, steps_of_epoch, most)
    return config.changed(epochs=math.ceil(epochs * share))


def with_epochs(train: Queries, config: Config) -> Config:
    """Set the number of epochs, if it is None, to half of the default of a run from random weights.

    In experiments with the same learning rate, half of the epochs were as good as all epochs.
    """
    if config.training.epochs is not None:
        return config
    return with_share_of_epochs(config, train, 0.5)


def first_comparator(trained: TrainableComparator, config: Config) -> TrainableComparator:
    """Copy the trained comparator of a model to the device of a run."""
    comparator = copy.deepcopy(trained)
    for member in comparator.members:
        if not isinstance(member, SoftTrees):
            member.to(resolve_device(config.device))
    return comparator


def _as_text(value: Any) -> str:
    """Write the value of a setting as it is typed on the command line."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value)
