"""Trees that were learned load and rank without torch, as torch's formula has them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sortnet import CmpNN, Model, Queries, write_letor
from sortnet.comparators import Committee, FittedTrees, SoftTrees
from sortnet.comparators.make import fitted, trainable
from sortnet.comparators.soft_trees import leaf_values
from sortnet.config import Config
from sortnet.data.scaling import fit_scaler
from sortnet.errors import ComparatorError
from sortnet.sorting import sort

RUN = """
import sys
from cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert end.code == 0, end.code
print("torch" in sys.modules, file=sys.stderr)
"""


def queries_of(seed: int, n: int = 4, size: int = 9, features: int = 3) -> Queries:
    X = np.random.default_rng(seed).normal(0, 1, (n * size, features)).astype(np.float32)
    return Queries.from_arrays(X, np.arange(n * size) % 3, group=[size] * n)


def model_of(net: SoftTrees, queries: Queries, scaling: str) -> Model:
    sizes = {"committee": net.committee, "trees": net.trees, "depth": net.depth}
    config = Config(quality="ndcg", comparator="trees", scaling=scaling, **sizes)
    return Model(config, fit_scaler(scaling, queries), fitted(net))


@pytest.mark.parametrize("scaling", ["query+rank", "normal"])
@pytest.mark.parametrize(
    "command", [["rank"], ["evaluate"], ["importance", "--repeats", "1"]], ids=lambda c: c[0]
)
def test_a_process_that_ranks_by_trees_loads_no_torch(command, scaling, tmp_path):
    queries = queries_of(0)
    columns = 3 * len(scaling.split("+"))
    folder, data = str(tmp_path / "m"), str(tmp_path / "test.txt")
    model_of(SoftTrees(columns, committee=2, trees=2), queries, scaling).save(folder)
    write_letor(queries, data)
    name, *options = command
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            RUN,
            name,
            str(tmp_path / "m"),
            str(tmp_path / "test.txt"),
            *options,
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    assert ran.stderr.splitlines()[-1] == "False" and ran.stdout


@given(
    st.integers(0, 2**16), st.integers(1, 4), st.integers(1, 3), st.integers(1, 6),
    st.floats(0, 1), st.sampled_from([1, 8, 65, 700]),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_scores_without_torch_are_those_of_its_operations(seed, committee, trees, depth, share, n):
    net = SoftTrees(5, committee=committee, trees=trees, depth=depth, seed=seed)
    net.anneal(share)
    X = np.random.default_rng(seed).normal(0, 1, (n, 5)).astype(np.float32)
    with torch.no_grad():
        inputs = torch.from_numpy(X) @ torch.softmax(net.sharpness * net.choices, dim=0)
        right = torch.sigmoid(net.log_steepness.exp() * (inputs - net.thresholds))
        expected = leaf_values(right.view(n, committee, trees, depth), net.leaves).numpy()
    ours = net.fitted().prepare(X)
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, expected, atol=1e-6, rtol=1e-6)
    np.testing.assert_array_equal(net.prepare(X).numpy(), ours)
    i, j = np.random.default_rng(seed).integers(0, n, (2, 20))
    prepared = net.prepare(X)
    for mine, theirs in zip(
        (net.fitted().prefer(ours, i, j), net.fitted().spread(ours, i, j)),
        (net.prefer(prepared, i, j), net.spread(prepared, i, j)),
        strict=True,
    ):
        if theirs is None:
            assert mine is None
        else:
            np.testing.assert_allclose(mine, theirs, atol=1e-6)
    assert net.fitted().verdicts(ours, i[0], j[0]) == net.verdicts(prepared, i[0], j[0])


@given(st.integers(0, 2**16), st.sampled_from(["query", "query+rank", "normal", "standard"]))
@settings(max_examples=15, deadline=None)
def test_a_model_of_trees_orders_as_its_net_before_and_after_it_is_saved(
    tmp_path_factory, seed, scaling
):
    queries = queries_of(seed)
    net = SoftTrees(3 * len(scaling.split("+")), committee=3, trees=2, seed=seed)
    model = model_of(net, queries, scaling)
    folder = tmp_path_factory.mktemp("model")
    model.save(folder)
    loaded = Model.load(folder)
    assert isinstance(loaded.comparator, FittedTrees)
    for other in (loaded, replace(model, comparator=net)):
        np.testing.assert_array_equal(other.order(queries), model.order(queries))
        np.testing.assert_array_equal(other.real_scores(queries), model.real_scores(queries))
        assert other.weights_sha256() == model.weights_sha256()
        assert other.facts()["comparator"] == "trees"
    np.testing.assert_array_equal(sort(net, loaded.scaler(queries)).order, loaded.order(queries))


def test_learned_trees_become_a_net_again_to_be_trained_further():
    net = SoftTrees(4, committee=2, trees=3, depth=2, seed=5)
    net.anneal(0.5)
    again = trainable(net.fitted())
    assert isinstance(again, SoftTrees) and again is not net
    for (name, ours), theirs in zip(
        net.state_dict().items(), again.state_dict().values(), strict=True
    ):
        assert torch.equal(ours, theirs), name
    assert (again.committee, again.trees, again.depth) == (2, 3, 2)
    with torch.no_grad():
        again.leaves.zero_()
    assert bool(net.leaves.any())


def test_only_trees_of_the_cpu_become_arrays():
    class Own(SoftTrees):
        pass

    for net in (Own(2), CmpNN(2), SoftTrees(2).to("meta"), Committee([SoftTrees(2)])):
        assert fitted(net) is net
    with pytest.raises(ComparatorError, match="takes 2 features, the data has 3"):
        SoftTrees(2).fitted().prepare(np.zeros((1, 3), np.float32))
