"""Values that the processes of a `Group` share, whose processes train one model together.

All processes have all queries. The loop divides its sorts among them, and the learners add up the
gradients of their shares of each mini-batch.
`sortnet.learning.torchrun` has the group of the processes that torchrun started. Another module
starts processes that share no model: `sortnet.lab.executor` computes the cells of an experiment.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from sortnet.core.shard import Group
from sortnet.errors import SortNetError
from sortnet.threads import cores

SIGTERM_CAME = "ended by SIGTERM, which torchrun sends when another process has ended"


class AnotherProcessEnded(SortNetError):
    """Raised when another process of the group has ended, so that this process must end too."""


def broadcast(group: Group, value: Any) -> Any:
    """Send a JSON value from the first process to all processes; all of them return it."""
    text = b""
    if group.rank == 0:
        text = json.dumps(value, default=np.generic.item).encode()  # numpy's numbers as Python's
    # All other processes send no bytes, so the gathered bytes are the text of the first process.
    raw = group.gather(np.frombuffer(text, np.uint8))
    return json.loads(raw.tobytes())


def every(group: Group, value: Any) -> list[Any]:
    """Collect one value from each process, sent as JSON, in the order of the processes."""
    raw = group.gather(np.frombuffer(json.dumps(value).encode() + b"\n", np.uint8))
    return [json.loads(line) for line in raw.tobytes().splitlines()]


def threads_of(group: Group) -> int | None:
    """Return the number of threads for this process, its share of the machine's cores.

    Return None for a process that learns by itself, which needs no limit.
    """
    if group.size == 1:
        return None
    n_processes_here = int(os.environ.get("LOCAL_WORLD_SIZE", group.size))
    return max(1, cores() // n_processes_here)


def is_from_torchrun(interrupt: KeyboardInterrupt) -> bool:
    """Whether torchrun's SIGTERM caused the interrupt; its text is the name of the signal."""
    return str(interrupt) == "SIGTERM"
