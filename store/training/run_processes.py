"""Train in several processes: the first process starts the run, and all others join the run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from sortnet.comparators.make import resolve_device
from sortnet.config import Config
from sortnet.core import Progress
from sortnet.core.shard import ALONE, Group, broadcast, every
from sortnet.errors import SortNetError
from sortnet.learning.iterations import State
from sortnet.rankers.model_folder import read_bytes
from sortnet.rankers.sortnet import fit
from store.training.job import TrainingJob
from store.training.run_folder import Folder
from store.training.training_run import IterationPairs, TrainingRun, parse_state


@contextmanager
def joined() -> Iterator[Group]:
    """Join the group of the processes that torchrun started.

    Without torchrun the group is `ALONE`. An error in the context ends all processes: the first
    process that meets the error raises it, and the other processes exit. If a process was killed,
    every other process raises `AnotherProcessEnded`.

    Raises:
        SystemExit: with the status 2, if another process has raised an error.
    """
    if os.environ.get("WORLD_SIZE", "1") == "1":
        yield ALONE
        return
    from sortnet.learning.torchrun import joined_processes  # imports torch

    with joined_processes() as group:
        yield group


def share_run(training: TrainingRun, group: Group) -> TrainingRun:
    """Send the run of the first process to all other processes, which call `join_run`.

    Return the run as one that all processes of the group train.
    """
    broadcast(group, {"config": training.config.to_json()})
    state_bytes = b""
    if training.state is not None and group.size > 1:
        state_bytes = read_bytes(training.folder.state)
    # `gather` joins the bytes of all processes. The processes in `join_run` add no bytes.
    group.gather(np.frombuffer(state_bytes, np.uint8))
    return replace(training, group=group)


def join_run(job: TrainingJob, folder: Folder, group: Group, progress: Progress) -> None:
    """Receive the run that the first process shares, and train it to its end.

    Only the first process, which calls `share_run`, writes to the store and the folder.
    """
    shared = broadcast(group, None)
    # `gather` joins the bytes of all processes, and only the first process adds the saved state.
    state_bytes = group.gather(np.empty(0, np.uint8)).tobytes()
    config = Config.from_json(shared["config"])
    state: State | None = None
    if state_bytes:
        state = parse_state(folder, job, config, state_bytes)
    fit(
        job.train,
        job.vali,
        config,
        sink=IterationPairs(group),
        progress=progress,
        state=state,
        group=group,
        from_model=None if job.origin is None else job.origin.model,
        are_checked=True,
    )


def check_processes(job: TrainingJob, group: Group) -> None:
    """Check that all processes of the group can train together; a single process always can.

    Raises:
        SortNetError: if the job asks a judge or learns from judgements, if the processes have
            different data or kinds of device, or if a part has fewer queries than processes.
    """
    if group.size == 1:
        return
    if job.is_asked or job.train.judged is not None:
        raise SortNetError(
            "one process asks a judge, or learns from judgements: leave torchrun out"
        )
    facts = {f"{name} data": of_part["fingerprint"] for name, of_part in job.data.items()}
    facts["device"] = resolve_device(job.config.device).type
    for rank, facts_of_process in enumerate(every(group, facts)):
        for name, value in facts_of_process.items():
            if value != facts[name]:
                raise SortNetError(
                    f"process {rank} has {name} other than process {group.rank}: {value}, not "
                    f"{facts[name]}"
                )
    n_queries = min(len(job.train), len(job.vali))
    if group.size > n_queries:
        raise SortNetError(
            f"{group.size} processes for {n_queries} queries: start no more than that"
        )
