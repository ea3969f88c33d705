"""Build the comparator that the settings of a run ask for, and name its kind.

`device` decides on which device the weights are made; all else follows the weights.
`sortnet.learning.mini_batches` moves the documents of a training to them, and
`sortnet.sorting.sort` sorts on a GPU by `sortnet.sorting.merge_sort_on_device` where the
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
# The choices of `comparator` of Config; each takes those settings that its arguments are named as.
KINDS: dict[str, Callable[..., NeuralComparator]] = {
    "trees": SoftTrees, "cmpnn": CmpNN, "directranker": DirectRanker,
}  # fmt: skip


def make_comparator(config: Config, n_features: int, one: MakeOne | None = None) -> Make:
    """A function that builds the configured comparator with random weights from a seed.

    Args:
        config: settings; the nets of a committee have different seeds, trees are one comparator of
            as many heads.
        n_features: d, of a document: the columns that the scaling makes.
        one: (n_features, seed) -> a custom comparator, in place of `config.comparator`.

    >>> make_comparator(Config(committee=2, comparator="cmpnn"), 3)(0).members[1].n_features
    3
    """
    device, members = resolve_device(config.device), nets_of(config)
    net, given = KINDS[str(config.with_defaults.comparator)], _given(config)

    def build(seed: int) -> NeuralComparator:
        built = net(n_features, **given | {"seed": seed}) if one is None else one(n_features, seed)
        return built.to(device)

    def make(seed: int) -> TrainableComparator:
        if members == 1:
            return build(seed)
        seeds = np.random.SeedSequence(seed).generate_state(members)
        return Committee([build(int(s)) for s in seeds])

    return make


def nets_of(config: Config) -> int:
    """The nets that are trained beside each other; the trees of all heads are one."""
    return 1 if config.with_defaults.comparator == "trees" else config.committee


def least_numbers(config: Config, n_columns: int) -> int:
    """Weights that the comparator of these settings has at least: those between its layers."""
    given = _given(config)
    if "trees" in given:
        of_tree = n_columns * given["depth"] + (1 << given["depth"])
        return int(given["committee"] * given["trees"] * of_tree)
    hidden: tuple[int, ...] = given.get("hidden", ())
    layers = pairwise((n_columns, *hidden))
    return nets_of(config) * sum(before * after for before, after in layers)


def _given(config: Config) -> dict[str, Any]:
    """The settings that the comparator takes."""
    settings = config.with_defaults.flat()
    taken = signature(KINDS[settings["comparator"]]).parameters
    return {name: settings[name] for name in taken if name in settings}


def kind_of(comparator: TrainableComparator) -> str | None:
    """A name of `KINDS`; None for a custom comparator, a subclass of ours too.

    >>> kind_of(CmpNN(3)), kind_of(DirectRanker(3, feature_part=torch.nn.Linear(3, 2)))
    ('cmpnn', None)
    """
    kinds = set()
    for net in comparator.members:
        own = isinstance(net, DirectRanker) and not isinstance(net.feature_part, Layers)
        of_type = {ours: kind for kind, ours in KINDS.items()}
        kinds.add(None if own else of_type.get(type(net)))
    return kinds.pop() if len(kinds) == 1 else None


def fitted(comparator: TrainableComparator) -> TrainableComparator | FittedTrees:
    """The comparator that a model keeps: of trees on the CPU a copy as arrays, else itself."""
    if type(comparator) is SoftTrees and comparator.device.type == "cpu":
        return comparator.fitted()
    return comparator


def trainable(comparator: TrainableComparator | FittedTrees) -> TrainableComparator:
    """A comparator that has gradients: of trees that are arrays a net, else itself."""
    if not isinstance(comparator, FittedTrees):
        return comparator
    sizes = {name: getattr(comparator, name) for name in ("committee", "trees", "depth")}
    net = SoftTrees(comparator.n_features, **sizes)
    weights = {name: torch.from_numpy(array) for name, array in comparator.weights.items()}
    net.load_state_dict(weights)  # copies
    return net
