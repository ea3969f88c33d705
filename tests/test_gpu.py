"""Nets in each precision on the CPU, and on a GPU if there is one."""

from __future__ import annotations

import pytest
import torch
from graded_queries import graded

from sortnet.config import Config
from sortnet.rankers.fit_ranker import fit_ranker

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here that torch sees")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("comparator", ["cmpnn", "directranker"])
def test_a_net_learns_and_ranks_in_any_precision_on_any_device(comparator, precision, device):
    settings = Config(comparator=comparator, committee=2, device=device, scaling="standard")
    model = fit_ranker(graded(0), graded(1), settings.changed(precision=precision, epochs=10))
    assert model.info["quality"] > 0.9
    weights = next(model.comparator.members[0].parameters())
    assert (weights.dtype, weights.device.type) == (torch.float32, device)
