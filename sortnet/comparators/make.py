"""Build the comparator that the settings of a run ask for, and find the name of its kind.

The setting `device` decides on which device the weights are made; everything else uses the device
of the weights. A model's folder names no device: the machine that loads the model decides.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np

import sortnet.comparators as comparators
from sortnet.comparators.soft_trees import SoftTrees
from sortnet.config import Config
from sortnet.errors import ComparatorError

if TYPE_CHECKING:
    import torch

    from sortnet.comparators.base import NeuralComparator
    from sortnet.comparators.committee import Committee

Trainable: TypeAlias = Union[SoftTrees, "NeuralComparator"]  # trained by a `Learner`
TrainableComparator: TypeAlias = Union[SoftTrees, "NeuralComparator", "Committee"]
Make: TypeAlias = Callable[[int], TrainableComparator]
MakeFor: TypeAlias = Callable[[Config, int], Make]
MakeOne: TypeAlias = Callable[[int, int], Any]  # makes a comparator like `Trainable`
# The classes of the choices of the setting `comparator`, by their names in `sortnet.comparators`,
# which imports torch for nets alone. Each class gets the settings that are named like its
# arguments.
KINDS = {"trees": "SoftTrees", "cmpnn": "CmpNN", "directranker": "DirectRanker"}


def make_comparator(config: Config, n_features: int, one: MakeOne | None = None) -> Make:
    """Return a function that builds the configured comparator with random weights from a seed.

    Args:
        config: the settings. A committee has `config.committee` nets with different seeds; soft
            trees are a single net with `config.committee` heads.
        n_features: the number of scaled features of a document.
        one: a function that makes a custom comparator from (n_features, seed), in place of
            `config.comparator`.

    >>> make_comparator(Config(committee=2, comparator="cmpnn"), 3)(0).members[1].n_features
    3
    """
    n_nets = nets_of(config)
    net_class = _class_of(config)
    arguments = _arguments(config)

    def make_net(seed: int) -> Any:
        """Make a single net with random weights on the device of the settings."""
        net = one(n_features, seed) if one else net_class(n_features, **arguments | {"seed": seed})
        return net if isinstance(net, SoftTrees) else net.to(resolve_device(config.device))

    def make(seed: int) -> TrainableComparator:
        """Make the comparator; the nets of a committee get different seeds."""
        if n_nets == 1:
            comparator: TrainableComparator = make_net(seed)
            return comparator
        seeds = np.random.SeedSequence(seed).generate_state(n_nets)
        return comparators.Committee([make_net(int(net_seed)) for net_seed in seeds])

    return make


def nets_of(config: Config) -> int:
    """Return the number of nets in the comparator, which are trained side by side.

    Soft trees are a single net, whose heads the setting `committee` counts.
    """
    return 1 if config.with_defaults.comparator == "trees" else config.committee


def least_weights(config: Config, n_columns: int) -> int:
    """Count the weights between the comparator's layers: a lower bound on its number of weights.

    A damaged model folder with fewer numbers is refused before memory is taken for the comparator.

    Args:
        config: the settings.
        n_columns: the number of scaled features of a document.
    """
    arguments = _arguments(config)
    if "trees" in arguments:
        depth = arguments["depth"]
        n_leaves = 1 << depth
        n_weights_per_tree = n_columns * depth + n_leaves
        return int(arguments["committee"] * arguments["trees"] * n_weights_per_tree)
    hidden: tuple[int, ...] = arguments.get("hidden", ())
    layers = pairwise((n_columns, *hidden))
    return nets_of(config) * sum(n_in * n_out for n_in, n_out in layers)


def _arguments(config: Config) -> dict[str, Any]:
    """Return the settings that are arguments of the comparator's class, by name."""
    settings = config.with_defaults.flat()
    parameters = signature(_class_of(config)).parameters
    return {name: settings[name] for name in parameters if name in settings}


def _class_of(config: Config) -> Callable[..., Trainable]:
    """Return the class of the comparator that the settings ask for."""
    name = KINDS[str(config.with_defaults.comparator)]
    net_class: Callable[..., Trainable] = getattr(comparators, name)
    return net_class


def resolve_device(name: str) -> torch.device:
    """Look up the device on which the weights of nets are made; `auto` is the GPU, if there is one.

    Raises:
        ComparatorError: if `cuda` is asked for and torch sees no GPU.
    """
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ComparatorError("device cuda was asked for, but torch sees no GPU here; use cpu")
    return torch.device(name)


def kind_of(comparator: TrainableComparator) -> str | None:
    """Return the name of the comparator's class in `KINDS`; None for a custom class.

    A subclass, a DirectRanker with another feature part than `Layers`, and a committee of several
    classes are custom.

    >>> import torch
    >>> from sortnet.comparators import CmpNN, DirectRanker
    >>> kind_of(CmpNN(3)), kind_of(DirectRanker(3, feature_part=torch.nn.Linear(3, 2)))
    ('cmpnn', None)
    """
    kinds = {_kind_of_net(net) for net in comparator.members}
    return kinds.pop() if len(kinds) == 1 else None


def _kind_of_net(net: Any) -> str | None:
    """Return the name of a net's class in `KINDS`; None for a custom class."""
    names = {class_name: kind for kind, class_name in KINDS.items()}
    class_name = type(net).__name__
    if class_name not in names or type(net) is not getattr(comparators, class_name):
        return None
    if class_name == "DirectRanker":
        from sortnet.comparators.directranker import Layers

        if not isinstance(net.feature_part, Layers):
            return None
    return names[class_name]
