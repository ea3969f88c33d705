"""Several processes that learn one model: a `Group` of torch.distributed.

Gradients are added up in `sortnet.learning.training`, counts and measures where they are taken.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar, cast

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch.distributed.rendezvous import rendezvous

from sortnet.errors import SortNetError
from sortnet.threads import cores
from sortnet.types.shard import Alone, Group

_TO_JOIN = timedelta(minutes=10)
_PATIENCE = timedelta(hours=6)  # for one that reads or settles; one that ends is noticed at once
T = TypeVar("T", bound=NDArray[Any])


class Processes:
    """The processes that torchrun started, of which this is number `rank`.

    Arrays travel as they are, anything else as JSON: nothing is unpickled.
    """

    def __init__(self) -> None:
        # What travels is in memory, also where the default group is of GPUs.
        self._group = dist.new_group(backend="gloo", timeout=_PATIENCE)
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def sum(self, values: T) -> T:
        total = torch.from_numpy(np.array(values))
        with _others():
            dist.all_reduce(total, group=self._group)
        return cast(T, total.numpy())

    def gather(self, values: T) -> T:
        own, each = torch.tensor([len(values)]), list(torch.empty(self.size, 1, dtype=torch.int64))
        with _others():
            dist.all_gather(each, own, group=self._group)
        rows = [int(number) for number in each]
        room = np.zeros((max(rows), *values.shape[1:]), values.dtype)
        room[: len(values)] = values
        # Bytes, as torch has not every type of numpy's.
        sent = torch.from_numpy(np.frombuffer(room.tobytes(), np.uint8).copy())
        received = [torch.empty_like(sent) for _ in rows]
        if len(sent):
            with _others():
                dist.all_gather(received, sent, group=self._group)
        parts = [
            np.frombuffer(each.numpy().tobytes(), values.dtype).reshape(room.shape)[:n]
            for each, n in zip(received, rows, strict=True)
        ]
        return cast(T, np.concatenate(parts))


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


@contextmanager
def joined() -> Iterator[Group]:
    """The group of the processes that torchrun started with this one; else this one alone.

    Of an error that ends them all one process raises it, the first that met it; the others exit.

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
            group = Processes()
    except (ValueError, RuntimeError) as error:
        raise SortNetError(
            f"WORLD_SIZE is {size[:60]!r}, but the processes do not find each other "
            f"({str(error).splitlines()[0][:120]}): start by torchrun, or unset it"
        ) from None
    try:
        yield group
    except Exception as error:
        first = not rank  # where the store has gone with the process that had it
        with suppress(RuntimeError):
            first = store.add("failed", 1) == 1
        if not first:
            raise SystemExit(2) from None
        if rank and isinstance(error, SortNetError):
            raise SortNetError(f"process {rank}: {error}") from error
        raise
    except KeyboardInterrupt:  # by the user, or since another process ended
        if rank:
            raise SystemExit(2) from None
        raise
    finally:
        dist.destroy_process_group()


@contextmanager
def _signals_end_it() -> Iterator[None]:
    """Signals end this process at once: while torch waits for others to join, Python hears none."""
    names, heard = ("SIGINT", "SIGTERM", "SIGHUP"), {}
    if threading.current_thread() is threading.main_thread():
        known = [getattr(signal, name) for name in names if hasattr(signal, name)]
        handlers = {number: signal.getsignal(number) for number in known}
        heard = {number: each for number, each in handlers.items() if callable(each)}
    for number in heard:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number, handler in heard.items():
            signal.signal(number, handler)


@contextmanager
def _others() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # what gloo says when a connection is closed
        words = str(error).splitlines()[0].rpartition("] ")[2]
        raise SortNetError(f"another process ended: {words[:120]}") from error
