"""Processes that torchrun started and that train one model, as a `Group` over torch.distributed."""

from __future__ import annotations

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
from torch.distributed.rendezvous import rendezvous

from sortnet.core import Array
from sortnet.core.shard import SIGTERM_CAME, AnotherProcessEnded, Group, is_from_torchrun
from sortnet.errors import SortNetError

_TIME_TO_JOIN = timedelta(minutes=10)
# A process may spend hours reading or choosing settings, while a crash is detected immediately.
_PATIENCE = timedelta(hours=6)
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
T = TypeVar("T", bound=Array)


class Processes(Group):
    """Group of the processes that torchrun started; this process is number `rank` of `size`.

    Arrays are sent as bytes and other values as JSON, so that nothing is unpickled.

    Args:
        on_loss: a function that is called when another process has ended, before the error is
            raised.
    """

    def __init__(self, on_loss: Callable[[], None] = lambda: None) -> None:
        """Make the group of all processes; call `on_loss` when another process has ended."""
        self._on_loss = on_loss
        # The arrays are in main memory, so gloo sends them even if the default group is for GPUs.
        self._group = dist.new_group(backend="gloo", timeout=_PATIENCE)
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()

    def sum(self, values: T) -> T:
        total = torch.from_numpy(np.array(values))
        with self._noticing_ends():
            dist.all_reduce(total, group=self._group)
        return cast(T, total.numpy())

    def gather(self, values: T) -> T:
        """Concatenate the arrays of all processes, which may differ in their numbers of rows."""
        lengths = self._gather_messages(torch.tensor([len(values)]))
        n_rows = [int(length) for length in lengths]
        # All processes must send messages of the same length, so the array is padded. It is sent as
        # bytes, since torch lacks some of numpy's types.
        padded = np.zeros((max(n_rows), *values.shape[1:]), values.dtype)
        padded[: len(values)] = values
        message = torch.from_numpy(np.frombuffer(padded.tobytes(), np.uint8).copy())
        arrays = [
            received.numpy().view(values.dtype).reshape(padded.shape)[:n]
            for received, n in zip(self._gather_messages(message), n_rows, strict=True)
        ]
        return cast(T, np.concatenate(arrays))

    def _gather_messages(self, message: torch.Tensor) -> list[torch.Tensor]:
        """Send a tensor to all processes, and return their tensors, which have the same shape."""
        messages = [torch.empty_like(message) for _ in range(self.size)]
        if len(message):
            with self._noticing_ends():
                dist.all_gather(messages, message, group=self._group)
        return messages

    @contextmanager
    def _noticing_ends(self) -> Iterator[None]:
        """Raise AnotherProcessEnded when gloo, which sends messages, reports a lost connection."""
        try:
            yield
        except RuntimeError as error:
            self._on_loss()
            # A message of gloo is `[pair.cc:1] Connection closed. ...`: it starts with a place in
            # gloo's source code and ends with advice. Users need only the reason in the middle.
            first_line = str(error).splitlines()[0]
            reason = re.sub(r"^\[[^]]*\] ", "", first_line).partition(". ")[0]
            raise AnotherProcessEnded(f"another process ended: {reason[:120]}") from error


@contextmanager
def joined_processes() -> Iterator[Group]:
    """Join the group of the processes that torchrun started.

    An error in the context ends all processes: the first process that meets the error raises it,
    and the other processes exit. If a process was killed, every other process raises
    `AnotherProcessEnded`.

    Raises:
        SystemExit: with the status 2, if another process has raised an error.
    """
    if dist.is_initialized():  # another program, such as Ray, has started the processes
        yield Processes()
        return
    try:
        with _default_signal_handlers():
            store, rank, world = next(rendezvous("env://", timeout=_TIME_TO_JOIN))
            dist.init_process_group(
                "gloo", store=store, rank=rank, world_size=world, timeout=_TIME_TO_JOIN
            )
            group = Processes(on_loss=ignore_signals)
    except (ValueError, RuntimeError) as error:
        size = os.environ["WORLD_SIZE"]
        raise SortNetError(
            f"WORLD_SIZE is {size[:60]!r}, but the processes do not find each other "
            f"({str(error).splitlines()[0][:120]}): start by torchrun, or unset it"
        ) from None
    try:
        yield group
    except (Exception, KeyboardInterrupt) as error:
        final_error = _final_error(error, rank, store)
        if final_error is error:
            raise
        raise final_error from error
    finally:
        dist.destroy_process_group()


def _final_error(error: BaseException, rank: int, store: Any) -> BaseException:
    """Return the exception that ends this process after an error: the error, or SystemExit.

    The first process with an error of its own raises this error, and the others exit with the
    status 2. After Ctrl-C process 0 raises KeyboardInterrupt. If no process has an error of its
    own, because a process was killed, each of the others raises `AnotherProcessEnded`.

    Args:
        error: the error that ended the work of this process.
        rank: the number of this process.
        store: the store of torch that all processes share, which counts their errors.
    """
    is_first_process = rank == 0
    if isinstance(error, KeyboardInterrupt):
        if not is_from_torchrun(error):  # Ctrl-C interrupts every process
            return error if is_first_process else SystemExit(2)
        # torchrun stops this process, because another process has ended.
        error = AnotherProcessEnded(SIGTERM_CAME)
    n_own_errors = n_errors = int(not isinstance(error, AnotherProcessEnded))
    with suppress(RuntimeError):  # the store may have ended with the process that held it
        n_errors = store.add("failed", n_own_errors)  # the new count of all processes
    if n_errors > n_own_errors:
        return SystemExit(2)
    if not is_first_process and isinstance(error, SortNetError):
        return SortNetError(f"process {rank}: {error}")
    return error


@contextmanager
def _default_signal_handlers() -> Iterator[None]:
    """Let signals end this process at once, without Python's handlers.

    Python calls no handlers while torch waits for other processes to join. Ignored signals
    are left as they are.
    """
    handlers = {number: handler for number, handler in _handlers().items() if callable(handler)}
    for number in handlers:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def ignore_signals() -> None:
    """Ignore signals from now on, since this process is ending.

    When another process has ended, torchrun sends a signal to this process. The signal must not
    interrupt the cleanup, nor replace the reason in the message.
    """
    for number in _handlers():
        signal.signal(number, signal.SIG_IGN)


def _handlers() -> dict[int, Any]:
    """Return the handlers of the signals that end a process, by number.

    The result is empty in a thread, which cannot set handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    return {number: signal.getsignal(number) for number in numbers}
