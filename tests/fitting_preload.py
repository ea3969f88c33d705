"""Load all that a fit needs, for a server whose forks fit models.

Loading takes nearly all the time of a short fit.
"""

from __future__ import annotations

import gc

import numpy as np
import torch._dynamo  # noqa: F401  an optimizer imports it

from sortnet import threads
from sortnet.config import Config
from sortnet.core import Queries
from sortnet.rankers.sortnet import fit

# Kernels run in one thread, as in its forks: they would be aborted, had theirs been at work here.
threads._LOADING_PROCESS = 0


def _load_kernels() -> None:
    """Sort and measure a little, without a training step that would start threads of torch."""
    queries = Queries.from_arrays(np.arange(8.0).reshape(4, 2), [0, 1, 0, 1], group=[2, 2])
    quick = Config(max_iter=1, scaling="query", device="cpu").changed(epochs=1, committee=1)
    fit(queries, queries, quick)


_load_kernels()
gc.freeze()  # at their end forks need not look through all that is loaded
