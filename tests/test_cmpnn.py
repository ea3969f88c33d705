"""CmpNN against the equations of the SortNet paper, written out unit by unit."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sortnet.comparators import CmpNN
from sortnet.errors import ComparatorError

nets = st.builds(
    CmpNN,
    st.just(4),
    hidden=st.sampled_from([1, 5, (6, 3), (4, 3, 2)]),
    units=st.sampled_from(["tanh", "sigmoid"]),
    seed=st.integers(0, 2**16),
)
documents = st.integers(0, 2**16).map(
    lambda seed: np.random.default_rng(seed).normal(0, 2, (9, 4)).astype(np.float32)
)


def outputs(net: CmpNN, X: np.ndarray, i: list[int], j: list[int]) -> tuple[np.ndarray, np.ndarray]:
    e = net.prepare(X)
    with torch.no_grad():
        gt, lt = net.outputs(e[i], e[j])
    return gt.numpy(), lt.numpy()


def by_the_paper(net: CmpNN, x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """N_>, N_< of one pair: 2H units with an explicit table of shared weights, in float64."""
    s = {"tanh": np.tanh, "sigmoid": lambda z: 1 / (1 + np.exp(-z))}[net.units]
    v_x, v_y, b, w_gt, w_lt, c = (
        p.detach().numpy().astype(np.float64)
        for p in (*net.v.hsplit(2), net.b, net.w_gt, net.w_lt, net.c)
    )
    # Rows of the full input layer: units i, then their duals i' with crossed weights.
    layer = np.vstack([np.hstack([v_x.T, v_y.T]), np.hstack([v_y.T, v_x.T])])  # (2H, 2d)
    h = s(layer @ np.concatenate([x, y]).astype(np.float64) + np.concatenate([b, b]))
    for A, B, bias in zip(net.direct, net.dual, net.biases, strict=True):
        A_, B_, b_ = (p.detach().numpy().astype(np.float64) for p in (A, B, bias))
        layer = np.vstack([np.hstack([A_.T, B_.T]), np.hstack([B_.T, A_.T])])
        h = s(layer @ h + np.concatenate([b_, b_]))
    sigma = lambda z: 1 / (1 + np.exp(-z))  # noqa: E731
    gt = sigma(np.concatenate([w_gt, w_lt]) @ h + c)
    lt = sigma(np.concatenate([w_lt, w_gt]) @ h + c)
    return float(gt), float(lt)


@given(nets, documents)
@settings(max_examples=50, deadline=None)
def test_outputs_are_those_of_the_full_net_with_the_papers_shared_weights(net, X):
    i, j = [0, 1, 2, 3], [4, 5, 2, 0]
    gt, lt = outputs(net, X, i, j)
    expected = np.array([by_the_paper(net, X[a], X[b]) for a, b in zip(i, j, strict=True)])
    np.testing.assert_allclose(gt, expected[:, 0], atol=2e-6)
    np.testing.assert_allclose(lt, expected[:, 1], atol=2e-6)


@given(nets, documents)
@settings(max_examples=50, deadline=None)
def test_more_of_x_over_y_is_less_of_y_over_x_to_the_last_bit(net, X):
    i, j = np.triu_indices(9)
    gt, lt = outputs(net, X, i, j)
    gt_swapped, lt_swapped = outputs(net, X, j, i)
    np.testing.assert_array_equal(gt, lt_swapped)
    np.testing.assert_array_equal(lt, gt_swapped)
    prepared = net.prepare(X)
    margin = net.prefer(prepared, i, j)
    np.testing.assert_array_equal(margin, -net.prefer(prepared, j, i))
    clear = np.abs(gt - lt) > 1e-6
    np.testing.assert_array_equal(np.sign(margin[clear]), np.sign(gt - lt)[clear])


@given(nets, documents)
def test_the_loss_is_the_squared_error_to_the_targets_one_and_zero(net, X):
    gt, lt = by_the_paper(net, X[0], X[1])
    e = net.embed(torch.from_numpy(X[:2]))
    assert net.loss(e[:1], e[1:]).item() == pytest.approx((1 - gt) ** 2 + lt**2, abs=1e-5)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"hidden": 0}, "got 0"),
        ({"hidden": ()}, r"got \(\)"),
        ({"hidden": (3, 1.5)}, "1.5"),
        ({"units": "relu"}, "'relu'"),
        ({"dropout": 1.0}, "1.0"),
    ],
)
def test_impossible_settings_are_refused_by_value(wrong, text):
    with pytest.raises(ComparatorError, match=text):
        CmpNN(3, **wrong)
