"""Several processes that learn one model: a `Group` of torch.distributed.

Each process has its share of the queries, a `Shard` of `sortnet.core.shard`. Gradients are added up
in `sortnet.learning.training`, counts and measures where they are taken. Two other modules start
processes, which share no model: `sortnet.preference.fit_process` fits while people answer, and
`sortnet.lab.executor` works out the cells of an experiment.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar, cast

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch.distributed.rendezvous import rendezvous

from sortnet.core.shard import Alone, Group
from sortnet.errors import SortNetError
from sortnet.threads import cores

_TO_JOIN = timedelta(minutes=10)
# A process may read or choose settings for hours; one that has ended is noticed at once.
_PATIENCE = timedelta(hours=6)
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
SIGTERM_CAME = "ended by SIGTERM, which torchrun sends when another process has ended"
T = TypeVar("T", bound=NDArray[Any])


class AnotherProcessEnded(SortNetError):
    """The reason why this process ends: another one of its group has ended."""


class Processes:
    """The processes that torchrun started, of which this is number `rank`.

    Arrays travel as they are, anything else as JSON: nothing is unpickled.

    Args:
        on_loss: called when a process is found to have ended, before the error is raised.
    """

    def __init__(self, on_loss: Callable[[], None] = lambda: None) -> None:
        self._on_loss = on_loss
        # What travels is in memory, also where the default group is of GPUs.
        self._group = dist.new_group(backend="gloo", timeout=_PATIENCE)
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def sum(self, values: T) -> T:
        total = torch.from_numpy(np.array(values))
        with self._noticing_ends():
            dist.all_reduce(total, group=self._group)
        return cast(T, total.numpy())

    def gather(self, values: T) -> T:
        own, each = torch.tensor([len(values)]), list(torch.empty(self.size, 1, dtype=torch.int64))
        with self._noticing_ends():
            dist.all_gather(each, own, group=self._group)
        rows = [int(number) for number in each]
        room = np.zeros((max(rows), *values.shape[1:]), values.dtype)
        room[: len(values)] = values
        # Bytes, as torch has not every type of numpy's.
        sent = torch.from_numpy(np.frombuffer(room.tobytes(), np.uint8).copy())
        received = [torch.empty_like(sent) for _ in rows]
        if len(sent):
            with self._noticing_ends():
                dist.all_gather(received, sent, group=self._group)
        parts = [
            np.frombuffer(each.numpy().tobytes(), values.dtype).reshape(room.shape)[:n]
            for each, n in zip(received, rows, strict=True)
        ]
        return cast(T, np.concatenate(parts))

    @contextmanager
    def _noticing_ends(self) -> Iterator[None]:
        """Raise AnotherProcessEnded for the error that gloo raises when a connection is closed."""
        try:
            yield
        except RuntimeError as error:
            self._on_loss()
            # Where in gloo's code, what happened, and advice: `[pair.cc:1] Connection closed. ...`.
            words = re.sub(r"^\[[^]]*\] ", "", str(error).splitlines()[0]).partition(". ")[0]
            raise AnotherProcessEnded(f"another process ended: {words[:120]}") from error


def broadcast(group: Group, value: Any) -> Any:
    """What the first process gives, as JSON."""
    numbers = np.generic.item  # of numpy as of Python
    text = json.dumps(value, default=numbers).encode() if group.rank == 0 else b""
    raw = group.gather(np.frombuffer(text, np.uint8))
    return json.loads(raw.tobytes())


def every(group: Group, value: Any) -> list[Any]:
    """What each process gives, as JSON, those of the first first."""
    raw = group.gather(np.frombuffer(json.dumps(value).encode() + b"\n", np.uint8))
    return [json.loads(line) for line in raw.tobytes().splitlines()]


def threads_of(group: Group) -> int | None:
    """Threads of each process: this machine's share of its cores; None: as they are set."""
    if group.size == 1:
        return None
    return max(1, cores() // int(os.environ.get("LOCAL_WORLD_SIZE", group.size)))


def is_from_torchrun(interrupt: KeyboardInterrupt) -> bool:
    """Whether an interrupt of a process of a group, which names its signal, is by torchrun."""
    return str(interrupt) == "SIGTERM"


@contextmanager
def joined() -> Iterator[Group]:
    """The group of the processes that torchrun started with this one; else this one alone.

    An error ends all processes. The first process that meets it raises it, the others exit. Where
    a process ended without an error, since it was killed, each other one raises that.

    Raises:
        SystemExit: with 2, where another process has raised an error.
    """
    if (size := os.environ.get("WORLD_SIZE", "1")) == "1":
        yield Alone()
        return
    if dist.is_initialized():  # by who started the processes, such as Ray
        yield Processes()
        return
    try:
        with _signals_end_it():
            store, rank, world = next(rendezvous("env://", timeout=_TO_JOIN))
            dist.init_process_group(
                "gloo", store=store, rank=rank, world_size=world, timeout=_TO_JOIN
            )
            group = Processes(on_loss=ignore_signals)
    except (ValueError, RuntimeError) as error:
        raise SortNetError(
            f"WORLD_SIZE is {size[:60]!r}, but the processes do not find each other "
            f"({str(error).splitlines()[0][:120]}): start by torchrun, or unset it"
        ) from None
    try:
        yield group
    except (Exception, KeyboardInterrupt) as error:
        reported = _reported(error, rank, store)
        if reported is error:
            raise
        raise reported from error
    finally:
        dist.destroy_process_group()


def _reported(error: BaseException, rank: int, store: Any) -> BaseException:
    """The exception by which a process ends after an error: one that is printed, or SystemExit."""
    if isinstance(error, KeyboardInterrupt):
        if not is_from_torchrun(error):
            return SystemExit(2) if rank else error
        error = AnotherProcessEnded(SIGTERM_CAME)
    is_fault = not isinstance(error, AnotherProcessEnded)
    n_faults = 0
    with suppress(RuntimeError):  # the store may have gone with the process that had it
        n_faults = store.add("failed", int(is_fault))
    if n_faults > is_fault:  # another process has met one
        return SystemExit(2)
    if rank and isinstance(error, SortNetError):
        return SortNetError(f"process {rank}: {error}")
    return error


@contextmanager
def _signals_end_it() -> Iterator[None]:
    """Signals end this process at once: while torch waits for others to join, Python hears none."""
    heard = {number: handler for number, handler in _handlers().items() if callable(handler)}
    for number in heard:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number, handler in heard.items():
            signal.signal(number, handler)


def ignore_signals() -> None:
    """Ignore signals from now on, since this process is ending.

    As another process has ended, torchrun sends a signal to this one. It must not interrupt the
    cleanup, nor take the place of the reason.
    """
    for number in _handlers():
        signal.signal(number, signal.SIG_IGN)


def _handlers() -> dict[int, Any]:
    """The handlers of the signals that end a process; none in a thread, which cannot set them."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    return {number: signal.getsignal(number) for number in numbers}
