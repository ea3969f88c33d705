"""Build the comparator that the settings of a run ask for, and find the name of its kind.

The setting `device` decides on which device the weights are made; everything else uses the device
of the weights. `sortnet.learning.mini_batches` moves the documents of a training to that device,
and `sortnet.sorting.sort` sorts on a GPU by `sortnet.sorting.merge_sort_on_device` if the
comparator offers `on_device`. A model's folder names no device: the machine that loads the model
decides.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import torch

from sortnet.comparators.base import NeuralComparator
from sortnet.comparators.cmpnn import CmpNN
from sortnet.comparators.committee import Committee
from sortnet.comparators.device import resolve_device
from sortnet.comparators.directranker import DirectRanker, Layers
from sortnet.comparators.fitted_trees import FittedTrees
from sortnet.comparators.soft_trees import SoftTrees
from sortnet.config import Config

TrainableComparator: TypeAlias = NeuralComparator | Committee
Make: TypeAlias = Callable[[int], TrainableComparator]
MakeFor: TypeAlias = Callable[[Config, int], Make]
MakeOne: TypeAlias = Callable[[int, int], NeuralComparator]
# The choices of the setting `comparator`. Each class gets the settings that are named like its
# arguments.
KINDS: dict[str, Callable[..., NeuralComparator]] = {
    "trees": SoftTrees, "cmpnn": CmpNN, "directranker": DirectRanker,
}  # fmt: skip


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
    device = resolve_device(config.device)
    n_nets = nets_of(config)
    net_class = KINDS[str(config.with_defaults.comparator)]
    arguments = _arguments(config)

    def make_net(seed: int) -> NeuralComparator:
        """Make a single net with random weights on the device of the settings."""
        if one is None:
            net = net_class(n_features, **{**arguments, "seed": seed})
        else:
            net = one(n_features, seed)
        return net.to(device)

    def make(seed: int) -> TrainableComparator:
        """Make the comparator; the nets of a committee get different seeds."""
        if n_nets == 1:
            return make_net(seed)
        seeds = np.random.SeedSequence(seed).generate_state(n_nets)
        return Committee([make_net(int(net_seed)) for net_seed in seeds])

    return make


def nets_of(config: Config) -> int:
    """Return the number of nets that are trained side by side.

    Soft trees are a single net, whose heads the setting `committee` counts.
    """
    return 1 if config.with_defaults.comparator == "trees" else config.committee


def least_numbers(config: Config, n_columns: int) -> int:
    """Compute a lower bound on the comparator's number of weights: the weights between its layers.

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
    parameters = signature(KINDS[settings["comparator"]]).parameters
    return {name: settings[name] for name in parameters if name in settings}


def kind_of(comparator: TrainableComparator) -> str | None:
    """Return the name of the comparator's class in `KINDS`; None for a custom class.

    A subclass, a DirectRanker with another feature part than `Layers`, and a committee of several
    classes are custom.

    >>> kind_of(CmpNN(3)), kind_of(DirectRanker(3, feature_part=torch.nn.Linear(3, 2)))
    ('cmpnn', None)
    """
    kind_of_class: dict[Any, str] = {net_class: kind for kind, net_class in KINDS.items()}
    kinds = set()
    for net in comparator.members:
        is_custom = isinstance(net, DirectRanker) and not isinstance(net.feature_part, Layers)
        kinds.add(None if is_custom else kind_of_class.get(type(net)))
    return kinds.pop() if len(kinds) == 1 else None


def fitted(comparator: TrainableComparator) -> TrainableComparator | FittedTrees:
    """Convert soft trees on the CPU to numpy arrays for a model; return any other comparator."""
    if type(comparator) is SoftTrees and comparator.device.type == "cpu":
        return comparator.fitted()
    return comparator


def trainable(comparator: TrainableComparator | FittedTrees) -> TrainableComparator:
    """Convert numpy arrays of soft trees to a net with gradients; return any other comparator."""
    if not isinstance(comparator, FittedTrees):
        return comparator
    sizes = {name: getattr(comparator, name) for name in ("committee", "trees", "depth")}
    net = SoftTrees(comparator.n_features, **sizes)
    weights = {name: torch.from_numpy(array) for name, array in comparator.weights.items()}
    net.load_state_dict(weights)  # copies the arrays
    return net
