"""Training on pairs: the gradient's path, the kept epoch, seeds, and batches by query."""

import copy
import os
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pair_tables import table

from sortnet.comparators import CmpNN, Committee, DirectRanker
from sortnet.config import Config, Training
from sortnet.core import ComparedPairs, Queries
from sortnet.errors import ComparatorError, DataError, DivergedError
from sortnet.learning.mini_batches import QueryPairs
from sortnet.learning.step_budget import Budget, Share
from sortnet.learning.training import train_on_pairs


def made(n_queries: int, size: int, seed: int) -> tuple[Queries, ComparedPairs]:
    """Queries ordered by their first feature, and some of their pairs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(0, 1, (n_queries * size, 3)).astype(np.float32)
    queries = Queries.from_arrays(X, group=[size] * n_queries)
    i, j = rng.integers(0, size, (2, n_queries * 8)) + np.repeat(queries.offsets[:-1], 8)
    winner, loser = np.where(X[i, 0] > X[j, 0], i, j), np.where(X[i, 0] > X[j, 0], j, i)
    return queries, table(winner[i != j], loser[i != j])


def mean_loss(net, queries: Queries, pairs: ComparedPairs) -> float:
    with torch.no_grad():
        e = net.embed(torch.from_numpy(queries.features))
        return float(net.loss(e[pairs.i], e[pairs.j]).mean())


def batches_of(queries, pairs, size, most=None, seed=0, long=500):
    """Mini-batches where a query of more than `long` documents is a long one."""
    grouped = QueryPairs.of(queries, pairs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sortnet.learning.mini_batches._LONG", long)
        return list(grouped.batches(size, most, np.random.default_rng(seed)))


MADE = (st.integers(1, 6), st.integers(2, 9), st.integers(1, 40), st.integers(0, 999))


@given(*MADE, st.sampled_from([0, 500]))
@settings(max_examples=50, deadline=None)
def test_batches_hold_every_pair_once_with_its_own_features(
    n_queries, size, batch_size, seed, long
):
    queries, pairs = made(n_queries, size, seed)
    seen = []
    batches = batches_of(queries, pairs, batch_size, seed=seed, long=long)
    for batch in batches:
        x, winner, loser = batch.x, batch.winner, batch.loser
        seen += zip(map(bytes, x[winner]), map(bytes, x[loser]), strict=True)
        assert float(batch.weight.sum()) == pytest.approx(1)
    assert all(len(batch.winner) == batch_size for batch in batches[:-1])
    X = queries.features
    expected = zip(map(bytes, X[pairs.i]), map(bytes, X[pairs.j]), strict=True)
    assert sorted(seen) == sorted(expected)


def test_pairs_that_all_have_weight_zero_are_refused():
    queries, pairs = made(2, 6, 0)
    weightless = replace(queries, weights=np.zeros(12, np.float32))
    with pytest.raises(DataError, match="data: all pairs to learn from have weight 0"):
        train_on_pairs(CmpNN(3), weightless, pairs, queries, pairs, Training())


def test_pairs_are_weighed_by_the_grade_of_their_better_document():
    """The cost function r(d_i) (1 - o(d_i, d_j))^2 of section 4.5 of RankNet revisited."""
    queries, pairs = made(5, 6, 0)
    grades = np.random.default_rng(1).integers(0, 5, 30)
    queries, how = replace(queries, grades=grades), Training(loss="squared", pair_weight="grade")
    net = DirectRanker(3, hidden=3, seed=0)
    found = train_on_pairs(net, queries, pairs, queries, pairs, how).vali_loss
    r = net.prefer(net.prepare(queries.features), pairs.i, pairs.j)
    cost = grades[pairs.i] * (1 - r) ** 2
    assert found == pytest.approx(cost.sum() / grades[pairs.i].sum(), rel=1e-4)
    assert found != pytest.approx(mean_loss(net, queries, pairs), rel=1e-2)


def test_the_epoch_best_by_rank_quality_is_kept():
    train, tp = made(6, 6, 1)
    net, scores = CmpNN(3, hidden=4, seed=3), iter([0.1, 0.9, 0.3, 0.9, 0.2])
    weights = []

    def score(one):
        weights.append(one.v.detach().clone())
        return next(scores)

    trained = train_on_pairs(
        net, train, tp, train, ComparedPairs.empty(), Training(epochs=10), score=score
    )
    assert len(weights) == 5 and trained.kept_epoch == 9  # of equals the later one
    assert torch.equal(net.v, weights[3])


def test_one_full_batch_of_plain_sgd_is_one_gradient_step():
    queries, pairs = made(3, 6, 1)
    net = CmpNN(3, hidden=4, seed=2)
    by_hand = copy.deepcopy(net)
    e = by_hand.embed(torch.from_numpy(queries.features))
    by_hand.loss(e[pairs.i], e[pairs.j]).mean().backward()
    how = Training(
        loss="squared", schedule="steps", epochs=1, batch_size=10**6, lr=0.1, optimizer="sgd",
        momentum=0, weight_decay=0,
    )  # fmt: skip
    train_on_pairs(net, queries, pairs, queries, ComparedPairs.empty(), how)
    for ours, theirs in zip(net.parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs - 0.1 * theirs.grad)


@pytest.mark.parametrize("patience", [None, 3])
def test_the_kept_epoch_is_the_best_on_the_validation_pairs(patience):
    train, tp = made(6, 6, 1)
    vali, right = made(6, 6, 2)
    wrong = table(right.j, right.i)  # the better it learns, the worse it gets on these
    net, last = (CmpNN(3, hidden=4, seed=3) for _ in range(2))
    how = Training(loss="squared", epochs=8, lr=0.05, batch_size=1024, patience=patience)
    trained = train_on_pairs(net, train, tp, vali, wrong, how)
    assert (trained.epochs, trained.kept_epoch) == (8 if patience is None else 4, 1)
    assert trained.vali_loss == pytest.approx(mean_loss(net, vali, wrong), rel=1e-5)
    assert train_on_pairs(last, train, tp, vali, ComparedPairs.empty(), how).kept_epoch == 8
    assert mean_loss(last, vali, wrong) > trained.vali_loss


def test_the_same_seed_trains_the_same_weights_whatever_the_order_of_the_pairs():
    queries, pairs = made(10, 6, 1)
    turned = table(pairs.i[::-1], pairs.j[::-1])
    nets = [Committee([CmpNN(3, dropout=0.3, seed=s) for s in (1, 2)]) for _ in range(3)]
    for net, seed, p in zip(nets, (5, 5, 6), (pairs, turned, pairs), strict=True):
        train_on_pairs(net, queries, p, queries, p, Training(epochs=2, batch_size=16), seed=seed)
    weights = [net.members[1].v for net in nets]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_a_loss_that_is_no_number_ends_training_with_what_to_try():
    queries, pairs = made(3, 6, 1)
    net = DirectRanker(3, tau="identity", units="relu", seed=0)
    how = Training(lr=1e30, optimizer="sgd", epochs=5)
    with pytest.raises(DivergedError, match="try a lr lower than 1e\\+30"):
        train_on_pairs(net, queries, pairs, queries, pairs, how)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"epochs": 0}, "epochs must be a whole number from 1, got 0"),
        ({"lr": float("nan")}, "lr must be a number above 0"),
        ({"lr_decay": 1.5}, "1.5"),
        ({"epochs": True}, "epochs must be a whole number from 1, got True"),
        ({"lr": "0.1"}, "lr must be a number above 0, got '0.1'"),
        ({"lr": np.array([0.1])}, "lr must be a number above 0, got \\[0.1\\]"),
    ],
)
def test_impossible_settings_are_refused_by_value(wrong, text):
    with pytest.raises(ComparatorError, match=text):
        Training(**wrong)


def test_numbers_of_numpy_are_taken_as_those_of_python():
    numpy_s = Training(epochs=np.int64(3), lr=np.float32(0.5), loss=np.str_("squared"))
    assert numpy_s == Training(epochs=3, lr=0.5, loss="squared")
    assert [type(v) for v in (numpy_s.epochs, numpy_s.lr, numpy_s.loss)] == [int, float, str]


def test_ctrl_c_does_not_wait_for_the_members_of_a_committee():
    queries, pairs = made(3, 6, 4)
    committee = Committee([CmpNN(3, hidden=2, seed=s) for s in range(3)])
    texts = []

    def interrupt_at_10(text):
        texts.append(text)
        if len(texts) == 10:
            os.kill(os.getpid(), signal.SIGINT)  # as a terminal does: to the process

    how = Training(epochs=100_000)
    with pytest.raises(KeyboardInterrupt):
        train_on_pairs(committee, queries, pairs, queries, pairs, how, progress=interrupt_at_10)
    assert len(texts) < 10_000


def test_shares_of_a_budget_end_like_one_training_without_looks_at_validation():
    """Three shares of 8 epochs on the same pairs; the optimiser continues from its state."""
    queries, pairs = made(6, 6, 1)
    how = Training(lr=0.01, batch_size=10**6, epochs=8, query_pairs=None)
    shared, moments = CmpNN(3, hidden=4, seed=3), ()
    for first, end in ((0, 2), (2, 5), (5, 8)):
        share = Share(first, end, 8, 1)
        trained = train_on_pairs(
            shared,
            queries,
            pairs,
            queries,
            ComparedPairs.empty(),
            how,
            share=share,
            moments=moments,
        )
        moments = trained.moments
        assert trained.epochs == end - first
    whole = CmpNN(3, hidden=4, seed=3)
    train_on_pairs(whole, queries, pairs, queries, ComparedPairs.empty(), how)
    assert moments[0]["v:step"] == 8
    # Whole batches, so the order of the queries changes no more than the rounding of sums.
    for ours, theirs in zip(shared.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_budget_follows_from_the_sizes_of_the_queries_alone():
    # 10 pairs: a mini-batch of them, 32 passes; 2,000 pairs: mini-batches of 2,000 // 32 = 62.
    for n, epoch in ((10, 32), (2000, 33)):
        queries = Queries.from_arrays(np.zeros((2 * n, 1)), group=[2] * n)
        budget = Budget.of(queries, Config(max_iter=10))
        assert (budget.iterations, budget.epoch) == (10, epoch)
        assert budget.steps == budget.share(9).end == 20 * epoch
        assert Budget.of(queries, Config(max_iter=10).changed(epochs=3)).iterations == 3
