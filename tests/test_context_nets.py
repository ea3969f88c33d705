"""FATE-Net, FETA-Net and SetRank: by brute force, in any order, in chunks; what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_set_transformer import of_sizes, scored, told_by_one

from sortnet.context import FateNet
from sortnet.core import Queries
from sortnet.learning.net_learner import OPTIMIZERS
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.rankers.registry import settings_for

SMALL = {"hidden": (8, 6), "units": "selu"}
FORMS = [
    ("fate", SMALL),
    ("fate", {**SMALL, "units": "relu"}),
    ("feta", {**SMALL, "pair": "cmpnn"}),
    ("feta", {**SMALL, "pair": "free"}),
    ("feta", {**SMALL, "pair": "free", "units": "relu"}),
    ("setrank", {"width": 8}),
    ("set-transformer", {"width": 8, "points": 0}),
    ("set-transformer", {"width": 8, "points": 3}),
]
DENSE = FORMS[:5]


def config_of(form, **changes):
    kind, own = form
    return settings_for(kind).changed(**{**own, **changes})


def by_hand(net, X: torch.Tensor) -> list[float]:
    """The scores of one set, object by object and pair by pair."""
    if isinstance(net, FateNet):
        mean = torch.stack([net.embedding(x[None])[0] for x in X]).mean(0)
        return [float(net.score(net.joint(torch.cat((x, mean))[None]))) for x in X]
    scores = []
    for i, x in enumerate(X):
        total = float(net.score(net.alone(x[None])))
        for j, y in enumerate(X):
            if i != j:
                total += float(support(net.pair, x, y))
        scores.append(total)
    return scores


def support(pair, x, y):
    """U1(x, y) from the two objects side by side."""
    if hasattr(pair, "w_gt"):
        return pair.outputs(pair.embed(x[None]), pair.embed(y[None]))[0]
    first = pair.units(pair.first(torch.cat((x, y))[None]))
    return pair.score(pair.rest(first))


@pytest.mark.parametrize("form", DENSE)
def test_scores_are_those_of_the_definition_object_by_object(form):
    config, part = config_of(form), of_sizes([5, 2, 0, 1], seed=3)
    net = config.net(3)
    with torch.no_grad():
        X = torch.from_numpy(part.features)
        expected = [
            s for one in X.split(part.sizes.tolist()) if len(one) for s in by_hand(net, one)
        ]
    np.testing.assert_allclose(scored(part, config, net), expected, rtol=1e-4, atol=1e-5)


@settings(deadline=None, max_examples=10)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(0, 99))
@pytest.mark.parametrize("form", FORMS)
def test_scores_depend_neither_on_the_order_nor_on_other_queries(form, sizes, seed):
    part, config = of_sizes(sizes, seed), config_of(form)
    scores, rng = scored(part, config), np.random.default_rng(seed)
    for first, last in zip(part.offsets[:-1], part.offsets[1:], strict=True):
        order = first + rng.permutation(last - first)
        alone = Queries.from_arrays(part.features[order])
        if last > first:
            np.testing.assert_allclose(scored(alone, config), scores[order], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_a_score_depends_on_the_other_documents_of_its_query_alone(form):
    part, config = of_sizes([4, 3]), config_of(form)
    other = part.with_features(part.features.copy())
    other.features[0] += 1
    changed = np.abs(scored(other, config) - scored(part, config)) > 1e-4
    assert changed[:4].all() and not changed[4:].any()


@pytest.mark.parametrize("form", [form for form in DENSE if form[0] == "feta"])
@pytest.mark.parametrize("chunk", [4, 7])
def test_pairs_in_chunks_give_the_same_scores_and_gradients(form, chunk):
    part = of_sizes([6, 1, 4])  # 21 pairs
    found = []
    for config in (config_of(form), config_of(form, chunk=chunk)):
        net = config.net(3)  # in eval mode: batch norm of a chunk is of its own pairs in training
        scores = config.scores_of(net, part)
        (scores * torch.arange(1, 12)).sum().backward()
        found.append([scores.detach(), *(p.grad for p in net.parameters() if p.grad is not None)])
    for whole, chunked in zip(*found, strict=True):
        torch.testing.assert_close(chunked, whole)


@pytest.mark.parametrize("form", FORMS[:6])
def test_it_learns_what_depends_on_the_others(form):
    kind, _ = form
    own = {"width": 16} if kind == "setrank" else {**form[1], "hidden": (16, 16)}
    config = config_of((kind, own), epochs=15, lr=0.1, queries=8)
    ranker = fit_ranker(told_by_one(0, 100), told_by_one(1, 40), config)
    assert ranker.depends_on_query and ranker.info["quality"] > 0.85


@pytest.mark.parametrize("penalty", [{"l1": 0.1}, {"weight_decay": 0.5}])
def test_penalties_make_the_weights_smaller(penalty):
    part, sums = of_sizes([4] * 6), []
    for settings_of_run in ({"weight_decay": 0.0}, {"weight_decay": 0.0, **penalty}):
        config = config_of(DENSE[0], epochs=15, lr=0.1, quality="mrr", **settings_of_run)
        weights = fit_ranker(part, part, config).net.joint.layers[0].weight
        sums.append(float(weights.detach().abs().sum()))
    assert sums[1] < sums[0]


@pytest.mark.parametrize(
    ("kind", "changes", "expected"),
    [
        ("fate", {"optimizer": "sgd"}, {"nesterov": True, "momentum": 0.9, "lr": 0.03}),
        ("ranknet", {}, {"nesterov": False, "momentum": 0.9, "lr": 0.03}),
        ("listnet-star", {"weight_decay": 0.2}, {"weight_decay": 0.2, "lr": 0.003}),
    ],
)
def test_optimizers_have_the_momentum_and_the_rates_of_the_papers(
    kind, changes, expected, monkeypatch
):
    config = settings_for(kind).changed(epochs=1, quality="mrr", **changes)
    taken, optimizer = [], OPTIMIZERS[config.optimizer]
    monkeypatch.setitem(
        OPTIMIZERS,
        config.optimizer,
        lambda *weights, **given: taken.append(given) or optimizer(*weights, **given),
    )
    part = of_sizes([4] * 6)
    fit_ranker(part, part, config)
    assert expected.items() <= taken[0].items()
