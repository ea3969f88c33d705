"""FATE-Net, FETA-Net and SetRank: by brute force, in any order, in chunks; what they refuse."""

from __future__ import annotations

from math import exp, tanh

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_set_transformer import of_sizes, told_by_one

from sortnet import SortNetRanker
from sortnet.context.nets import BatchNorm, FateNet, FetaNet
from sortnet.core import Queries
from sortnet.errors import ComparatorError, DataError, ModelError
from sortnet.learning.net_learner import OPTIMIZERS
from sortnet.rankers import context_rankers as rankers
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.rankers.load_ranker import load_ranker
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


def scored(part: Queries, config, net=None) -> np.ndarray:
    with torch.no_grad():
        return config.scores_of(net or config.net(part.n_features), part).numpy()


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


THREE = torch.tensor([[1.0, 0.0], [0.0, 2.0], [-1.0, 1.0]])


def selu(x: float) -> float:
    return 1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * (exp(x) - 1))


def filled(module, **numbers):
    with torch.no_grad():
        for name, value in numbers.items():
            getattr(module, name).copy_(torch.tensor(value))


def test_fate_net_of_three_documents_by_hand():
    """One unit each: φ(x) = s(x1 - 2 x2 + 1), U(x, μ) = 3 s(2 x1 + x2 - μ + 0.5) - 1."""
    net = FateNet(2, hidden=(1,)).eval()
    filled(net.embedding.layers[0], weight=[[1.0], [-2.0]], bias=[1.0])
    filled(net.joint.layers[0], weight=[[2.0], [1.0], [-1.0]], bias=[0.5])
    filled(net.score, weight=[[3.0]], bias=[-1.0])
    mean = (selu(2) + selu(-3) + selu(-2)) / 3
    expected = [3 * selu(own + 0.5 - mean) - 1 for own in (2, 2, -1)]
    assert net(THREE, torch.tensor([3])).tolist() == pytest.approx(expected, rel=1e-5)
    # Of two sets each has its own mean.
    apart = [3 * selu(2.5 - selu(2)) - 1, 3 * selu(2.5 - (selu(-3) + selu(-2)) / 2) - 1]
    assert net(THREE, torch.tensor([1, 2])).tolist()[:2] == pytest.approx(apart, rel=1e-5)


def test_feta_net_of_three_documents_by_hand():
    """U0(x) = 2 s(x1 + x2) + 1, and a CmpNN of one dual pair of units.

    h(x, y) = tanh(x1 - x2 + 0.5 y1 + 2 y2 + 0.25), N_>(x, y) = σ(1.5 h(x, y) - h(y, x) + 0.125).
    """
    net = FetaNet(2, hidden=(1,)).eval()
    filled(net.alone.layers[0], weight=[[1.0], [1.0]], bias=[0.0])
    filled(net.score, weight=[[2.0]], bias=[1.0])
    filled(net.pair, v=[[1.0, 0.5], [-1.0, 2.0]], b=[0.25], w_gt=[1.5], w_lt=[-1.0], c=0.125)
    x = THREE.tolist()

    def h(a, b):
        return tanh(a[0] - a[1] + 0.5 * b[0] + 2 * b[1] + 0.25)

    def over(a, b):
        return 1 / (1 + exp(-(1.5 * h(a, b) - h(b, a) + 0.125)))

    expected = [
        2 * selu(1) + 1 + over(x[0], x[1]) + over(x[0], x[2]),
        2 * selu(2) + 1 + over(x[1], x[0]) + over(x[1], x[2]),
        2 * selu(0) + 1 + over(x[2], x[0]) + over(x[2], x[1]),
    ]
    assert net(THREE, torch.tensor([3])).tolist() == pytest.approx(expected, rel=1e-5)


def test_feta_net_of_free_pairs_of_three_documents_by_hand():
    """U0(x) = s(x1), U1(x, y) = s(x1 + 2 x2 - y1 + 3 y2 - 0.5) - 1."""
    net = FetaNet(2, hidden=(1,), pair="free").eval()
    filled(net.alone.layers[0], weight=[[1.0], [0.0]], bias=[0.0])
    filled(net.score, weight=[[1.0]], bias=[0.0])
    filled(net.pair.first, weight=[[1.0], [2.0], [-1.0], [3.0]], bias=[-0.5])
    filled(net.pair.score, weight=[[1.0]], bias=[-1.0])
    # First 1, 4, 1 of the three documents, second -1, 6, 4.
    expected = [
        selu(1) + selu(1 + 6 - 0.5) + selu(1 + 4 - 0.5) - 2,
        selu(0) + selu(4 - 1 - 0.5) + selu(4 + 4 - 0.5) - 2,
        selu(-1) + selu(1 - 1 - 0.5) + selu(1 + 6 - 0.5) - 2,
    ]
    assert net(THREE, torch.tensor([3])).tolist() == pytest.approx(expected, rel=1e-5)


def test_a_cmpnn_gives_both_orders_of_a_pair_their_support_at_once():
    net = FetaNet(3, hidden=(4,)).pair
    e = net.embed(torch.eye(3))
    (gt, lt), (back_gt, back_lt) = net.outputs(e[:1], e[1:2]), net.outputs(e[1:2], e[:1])
    assert (gt, lt) == (back_lt, back_gt) and gt != lt


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


def test_a_query_of_a_thousand_documents_never_has_more_than_a_chunk_of_pairs_at_once(monkeypatch):
    config = config_of(("feta", {**SMALL, "chunk": 5000}))
    net, seen = config.net(3).train(), []
    outputs = net.pair.outputs
    monkeypatch.setattr(
        net.pair, "outputs", lambda i, j: (seen.append(len(i)), outputs(i, j))[1], raising=True
    )
    config.scores_of(net, of_sizes([1000])).sum().backward()
    assert max(seen) == 5000 and sum(seen) == 2 * 1000 * 999 // 2  # and once more for the gradient


@pytest.mark.parametrize("form", DENSE)
def test_queries_in_runs_give_the_same_scores(form, monkeypatch):
    part, config = of_sizes([1, 7, 3, 0, 5, 7]), config_of(form)
    whole = scored(part, config)
    monkeypatch.setattr(rankers, "_DOCUMENTS", 8)
    np.testing.assert_allclose(scored(part, config), whole, rtol=1e-4, atol=1e-5)


def test_batch_norm_is_of_the_batch_in_training_and_of_all_before_it_for_a_single_row():
    norm = BatchNorm(1)
    X = torch.tensor([[1.0], [3.0]])
    torch.testing.assert_close(norm(X), torch.tensor([[-1.0], [1.0]]), atol=1e-4, rtol=0)
    assert (float(norm.mean), float(norm.variance)) == pytest.approx((0.2, 1.1))  # a tenth of each
    alone = norm(X[:1]).detach()
    assert float(alone) == pytest.approx(0.8 / 1.1**0.5, rel=1e-4)
    assert float(norm.mean) == pytest.approx(0.2)
    torch.testing.assert_close(norm.eval()(X).detach()[:1], alone)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss", ["logistic", "hinge", "plackett-luce", "softmax"])
def test_queries_of_one_document_of_one_grade_and_of_none_do_no_harm(form, loss, tmp_path):
    part = of_sizes([1, 4, 0, 2, 6])
    part.grades[1:5] = 1
    config = config_of(form, loss=loss, queries=1, epochs=2, quality="mrr")
    ranker = fit_ranker(part, part, config)
    assert np.isfinite(ranker.scores(part)).all()
    ranker.save(tmp_path)
    np.testing.assert_array_equal(load_ranker(tmp_path).scores(part), ranker.scores(part))


@pytest.mark.parametrize("form", FORMS[:6])
def test_it_learns_what_depends_on_the_others(form):
    kind, _ = form
    own = {"width": 16} if kind == "setrank" else {**form[1], "hidden": (16, 16)}
    config = config_of((kind, own), epochs=15, lr=0.1, queries=8)
    ranker = fit_ranker(told_by_one(0, 100), told_by_one(1, 40), config)
    assert ranker.depends_on_query and ranker.info["quality"] > 0.85


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_every_optimizer_takes_penalties_that_make_the_weights_smaller(optimizer):
    part = of_sizes([4] * 6)

    def weights(**penalty) -> torch.Tensor:
        config = config_of(DENSE[0], optimizer=optimizer, epochs=15, lr=0.1, quality="mrr")
        net = fit_ranker(part, part, config.changed(**{"weight_decay": 0.0, **penalty})).net
        return net.joint.layers[0].weight.detach()

    free, l1, l2 = weights(), weights(l1=0.1), weights(weight_decay=0.5)
    assert float(l1.abs().sum()) < float(free.abs().sum())
    assert float((l2**2).sum()) < float((free**2).sum())


@pytest.mark.parametrize(("kind", "nesterov"), [("fate", True), ("ranknet", False)])
def test_sgd_has_the_momentum_of_nesterov(kind, nesterov, monkeypatch):
    taken, sgd = [], torch.optim.SGD
    monkeypatch.setitem(
        OPTIMIZERS, "sgd", lambda *a, **given: taken.append(given) or sgd(*a, **given)
    )
    config = settings_for(kind).changed(epochs=1, quality="mrr")
    part = of_sizes([4] * 6)
    fit_ranker(part, part, config.changed(optimizer="sgd") if nesterov else config)
    (given,) = taken
    assert (given["nesterov"], given["momentum"], given["lr"]) == (nesterov, 0.9, 0.03)


@pytest.mark.parametrize("kind", ["fate", "feta", "setrank"])
def test_the_estimator_takes_the_loss_and_sets_of_any_size(kind):
    part = told_by_one(0, 20)
    ranker = SortNetRanker(ranker=kind, loss="plackett-luce", optimizer="sgd", epochs=2)
    ranker.fit(part.features, part.grades, group=part.sizes)
    assert ranker.model_.config.loss == "plackett-luce"
    assert np.isfinite(ranker.predict(part.features[:7], qid=[0] + [1] * 6)).all()


@pytest.mark.parametrize(
    ("changes", "fault", "said"),
    [
        ({"loss": "squared"}, DataError, "unknown loss 'squared'; known are logistic, hinge, pla"),
        ({"optimizer": "lbfgs"}, DataError, "unknown optimizer 'lbfgs'; known are adamw, adam"),
        ({"units": "tanh"}, DataError, "unknown units 'tanh'; known are selu, relu"),
        ({"pair": "cnn"}, DataError, "unknown pair 'cnn'; known are cmpnn, free"),
        ({"hidden": (0,)}, ComparatorError, "hidden must be whole numbers from 1"),
        ({"chunk": 0}, DataError, "chunk must be a whole number from 1"),
        ({"l1": -1.0}, DataError, "l1 must be a number from 0, got -1.0"),
        ({"l1": float("nan")}, DataError, "l1 must be a number from 0, got nan"),
        ({"momentum": 0.5}, DataError, "of kind fate has no setting 'momentum'"),
    ],
)
def test_settings_that_are_none_are_refused_in_one_line(changes, fault, said):
    with pytest.raises(fault, match=said):
        settings_for("feta").changed(**changes)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_left_open_is_as_it_is_settled(form):
    kind, own = form
    own = {name: value for name, value in own.items() if name == "pair"}
    config, part = config_of((kind, own)), of_sizes([4])
    np.testing.assert_array_equal(scored(part, config.candidates(part)[0]), scored(part, config))


@pytest.mark.parametrize("kind", ["fate", "feta", "setrank"])
def test_data_that_are_no_sets_are_refused_in_one_line(kind):
    X, y = np.eye(4), [0, 1, 0, 1]
    for bad_X, bad_y, said in [
        ([[1.0, 2.0], [3.0]], [0, 1], "features"),
        (np.empty((0, 2)), [], "give queries whose documents differ in grade"),
        (X, [0, 1, float("nan"), 1], "data, row 2: grade 'nan' is missing"),
    ]:
        with pytest.raises((DataError, ValueError), match=said) as refused:
            part = Queries.from_arrays(bad_X, bad_y)
            fit_ranker(part, part, settings_for(kind).changed(quality="mrr"))
        assert "\n" not in str(refused.value)
    part, wide = Queries.from_arrays(X, y), Queries.from_arrays(np.eye(4, 5), y)
    with pytest.raises(DataError, match="data has 4 features, data 5"):
        fit_ranker(part, wide, settings_for(kind).changed(quality="mrr"))
    ranker = fit_ranker(part, part, settings_for(kind).changed(quality="mrr", epochs=1))
    with pytest.raises(ModelError, match="5 features, but the model was trained on 4"):
        ranker.order(wide)
