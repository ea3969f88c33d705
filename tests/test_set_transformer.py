"""The set transformer by brute force; what nets of queries share is in `test_context_nets`."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sortnet.context import SetEncoder
from sortnet.core import Queries
from sortnet.errors import ComparatorError, DataError
from sortnet.rankers import context_rankers
from sortnet.rankers.context_rankers import SetSettings
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.rankers.load_ranker import load_ranker

FORMS = [{"points": 0}, {"points": 3}]


def of_sizes(sizes, seed: int = 0) -> Queries:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(sum(sizes), 3)).astype(np.float32)
    return Queries.from_arrays(X, rng.integers(0, 3, len(X)), group=sizes)


def scored(part: Queries, config, net=None) -> np.ndarray:
    with torch.no_grad():
        return config.scores_of(net or config.net(part.n_features), part).numpy()


def by_hand(net: SetEncoder, X: torch.Tensor) -> torch.Tensor:
    """The scores of one query, head by head and document by document."""

    def attend(attention, x, y):
        parts = [(layer(z)) for layer, z in zip(
            (attention.query, attention.key, attention.value), (x, y, y), strict=True)]  # fmt: skip
        heads = [part.chunk(attention.heads, dim=1) for part in parts]
        rows = []
        for q, k, v in zip(*heads, strict=True):
            weights = [[float(a @ b) / k.shape[1] ** 0.5 for b in k] for a in q]
            rows.append(torch.tensor(weights).softmax(1) @ v)
        return attention.out(torch.cat(rows, dim=1))

    x = net.embed(X)
    for block in net.blocks:
        seen = block.norms[0](x)
        by = seen if block.points is None else attend(block.gather, block.points, seen)
        x = x + attend(block.attention, seen, by)
        x = x + block.back(torch.relu(block.hidden(block.norms[1](x))))
    return net.score(net.norm(x))[:, 0]


@pytest.mark.parametrize("form", FORMS)
def test_scores_are_those_of_attention_worked_out_head_by_head(form):
    config, part = SetSettings(width=8, **form), of_sizes([5])
    with torch.no_grad():
        expected = by_hand(config.net(3), torch.from_numpy(part.features))
    np.testing.assert_allclose(scored(part, config), expected, rtol=1e-4, atol=1e-5)


def told_by_one(seed: int, n: int = 60) -> Queries:
    """One document of a query says by its second feature whether a high or a low first is good."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n, 4, 2))
    X[..., 0], sign = rng.uniform(-1, 1, size=(n, 4)), rng.choice([-1, 1], n)
    X[np.arange(n), rng.integers(0, 4, n), 1] = sign
    grades = 2 * np.argsort(np.argsort(sign[:, None] * X[..., 0], axis=1), axis=1)
    return Queries.from_arrays(X.reshape(-1, 2), grades.ravel(), group=[4] * n)


def test_long_queries_are_attended_to_by_points_and_dropout_is_repeatable(tmp_path, monkeypatch):
    part = of_sizes([6, 2, 4])
    assert fit_ranker(part, part, SetSettings(epochs=1, quality="mrr")).config.points == 0
    monkeypatch.setattr(context_rankers, "_MANY", 5)
    config = SetSettings(epochs=2, quality="mrr", dropout=0.5)
    ranker = fit_ranker(part, part, config)
    assert ranker.config.points == 32
    torch.manual_seed(5)  # another's generator
    np.testing.assert_array_equal(fit_ranker(part, part, config).scores(part), ranker.scores(part))
    ranker.save(tmp_path)
    np.testing.assert_array_equal(load_ranker(tmp_path).scores(part), ranker.scores(part))


def test_too_long_a_query_without_points_is_refused(monkeypatch):
    monkeypatch.setattr("sortnet.core.memory.free_memory", lambda: 1 << 20)
    with pytest.raises(DataError, match="the attention among 400 documents of a query need"):
        scored(of_sizes([400]), SetSettings(width=8))


def test_a_width_that_the_heads_do_not_divide_is_refused():
    with pytest.raises(ComparatorError, match="width must be a multiple of heads, got 9 and 2"):
        SetSettings(width=9).net(3)
