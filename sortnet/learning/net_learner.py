"""NetLearner: training steps of a net of torch, on the CPU or a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import SupportsFloat

import torch
from torch import Tensor

from sortnet.comparators.base import NeuralComparator, to_device
from sortnet.config import Training
from sortnet.core import Array
from sortnet.core.shard import ALONE, Group, summed
from sortnet.learning.mini_batches import MiniBatch

OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


class NetLearner:
    """A net of torch and its optimiser.

    Args:
        net: the net, which is trained in place.
        settings: the settings of the training.
        moments: the result of `moments` of an earlier learner, to continue its training.
        group: the processes that share the training.
    """

    def __init__(
        self,
        net: NeuralComparator,
        settings: Training,
        moments: Mapping[str, Array],
        group: Group = ALONE,
    ) -> None:
        """Make the optimiser, and put the moments into it."""
        self._group = group
        self._net = net
        self._settings = settings
        options = {"lr": settings.lr, "weight_decay": settings.fixed_weight_decay}
        if settings.optimizer == "sgd":
            options["momentum"] = settings.momentum
        else:
            options["fused"] = True  # a single operation updates all weights of a small net
        self._optimizer = OPTIMIZERS[settings.optimizer](net.parameters(), **options)
        weights_by_name = dict(net.named_parameters())
        for key, array in moments.items():
            parameter, _, name = key.rpartition(":")
            weights = weights_by_name[parameter]
            device = "cpu" if name == "step" else weights.device  # torch counts steps on the CPU
            self._optimizer.state[weights][name] = torch.tensor(array, device=device)

    def moments(self) -> dict[str, Array]:
        """Copy the tensors of the optimiser's state, by keys `parameter:name`."""
        moments = {}
        for parameter, weights in self._net.named_parameters():
            for name, value in self._optimizer.state[weights].items():
                if isinstance(value, Tensor):
                    moments[f"{parameter}:{name}"] = value.detach().cpu().numpy().copy()
        return moments

    def step(self, batch: MiniBatch, rate: float, share: float) -> SupportsFloat:
        """Change the weights by the gradient of a mini-batch's loss; return the loss before.

        If several processes train the net, each has a share of the mini-batch, and the gradients
        and the losses are added up over all processes.

        Args:
            batch: the mini-batch.
            rate: the learning rate.
            share: not used, since nets do not change during a training.
        """
        self._net.train()
        self._net.zero_grad()
        loss = self._loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        if self._group.size > 1:
            weights = [*self._net.parameters()]
            gradients = [torch.zeros_like(w) if w.grad is None else w.grad for w in weights]
            arrays = [tensor.detach().cpu().numpy() for tensor in (loss, *gradients)]
            loss, *sums = map(torch.from_numpy, summed(self._group, arrays))
            for weight, gradient in zip(weights, sums, strict=True):
                weight.grad = gradient.to(weight)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()
        return loss.detach()  # a float would wait for the GPU

    @torch.no_grad()
    def loss(self, batch: MiniBatch) -> float:
        """Compute the loss of this process's share of a mini-batch, without dropout."""
        self._net.eval()
        return float(self._loss(batch))

    def _loss(self, batch: MiniBatch) -> Tensor:
        """Compute the weighted loss of the pairs of a mini-batch, a scalar tensor."""
        net = self._net
        x, winner, loser, weight = (
            to_device(array, net.device)
            for array in (batch.x, batch.winner, batch.loser, batch.weight)
        )
        with self._products():
            embedded = net.embed(x).float()
        if self._settings.loss == "logistic":  # log(1 + exp(-logit)), as in RankNet
            return net.logistic_loss(embedded, winner, loser, weight)
        return weight @ net.loss(embedded[winner], embedded[loser])

    def _products(self) -> AbstractContextManager[None]:
        """Return a context in which a training multiplies in the precision of the settings."""
        if self._settings.precision == "float32" or not self._net.training:
            return nullcontext()
        return torch.autocast(self._net.device.type, torch.bfloat16)
