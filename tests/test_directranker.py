"""DirectRanker: the theorems of its paper as properties, and its formula written out."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_comparators import margins

from sortnet.comparators import DirectRanker
from sortnet.comparators.directranker import TAUS
from sortnet.errors import ComparatorError

nets = st.builds(
    DirectRanker,
    st.just(3),
    hidden=st.sampled_from([4, (5, 2), (4, 3, 2)]),
    units=st.sampled_from(["tanh", "sigmoid", "relu"]),
    tau=st.sampled_from(sorted(TAUS)),
    seed=st.integers(0, 2**16),
)
documents = st.integers(0, 2**16).map(
    lambda seed: np.random.default_rng(seed).normal(0, 1, (8, 3)).astype(np.float32)
)


@given(nets.filter(lambda net: net.tau == "identity"), documents)
@settings(max_examples=50, deadline=None)
def test_the_absolute_margin_is_a_pseudometric_for_tau_identity(net, X):
    d = np.abs(margins(net, X)).astype(np.float64)
    assert not np.diag(d).any()
    np.testing.assert_array_equal(d, d.T)
    detour = (d[:, :, None] + d[None, :, :]).min(axis=1)
    assert (d <= detour + 1e-6 * (1 + d)).all()


@pytest.mark.parametrize(
    ("tau", "function"),
    [("tanh", np.tanh), ("identity", lambda z: z), ("sigmoid", lambda z: 2 / (1 + np.exp(-z)) - 1)],
)
def test_the_margin_is_tau_of_the_difference_of_scores(tau, function):
    net = DirectRanker(3, hidden=(5, 2), tau=tau, seed=4)
    X = np.random.default_rng(1).normal(0, 1, (2, 3)).astype(np.float32)
    f = X.astype(np.float64)
    for weight, bias in zip(net.feature_part.weights, net.feature_part.biases, strict=True):
        f = np.tanh(f @ weight.detach().numpy() + bias.detach().numpy())
    g = f @ net.w.detach().numpy()[:, 0]
    expected = function(g[0] - g[1])
    assert net.prefer(net.prepare(X), [0], [1])[0] == pytest.approx(expected, abs=1e-6)
    e = net.embed(torch.from_numpy(X))
    assert net.loss(e[:1], e[1:]).item() == pytest.approx((1 - expected) ** 2, abs=1e-6)


def test_any_torch_module_can_be_the_feature_part():
    polynomial = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Softplus())
    net = DirectRanker(3, feature_part=polynomial)
    X = np.eye(3, dtype=np.float32)
    with torch.no_grad():
        g = (polynomial(torch.eye(3)) @ net.w)[:, 0].numpy()
    expected = np.tanh(g[[0, 1]] - g[[1, 2]])
    np.testing.assert_allclose(net.prefer(net.prepare(X), [0, 1], [1, 2]), expected, atol=1e-6)


def test_an_unknown_tau_is_refused():
    with pytest.raises(ComparatorError, match="'step'"):
        DirectRanker(2, tau="step")
