"""Begin a run or find the run to resume, train it, and store a checkpoint after each iteration.

A run is a row of the store and a folder. After each iteration its pairs and its row are stored in
one transaction, and then its state, the weights and the optimiser with which the next iteration
begins, replaces the last state by one rename of a file. A run that is killed at any moment is
resumed from the state in its folder, with the pairs of the iterations before. If it was killed
between the transaction and the rename, the iteration is repeated: it draws the same random numbers,
finds the same pairs, and storing them again changes nothing.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import URL

from sortnet import __version__
from sortnet.comparators import make_comparator
from sortnet.comparators.make import least_weights, resolve_device
from sortnet.config import Config
from sortnet.core import I64, SPLITS, ComparedPairs, Progress, Queries, Split
from sortnet.core.shard import (
    ALONE,
    SIGTERM_CAME,
    AnotherProcessEnded,
    Group,
    broadcast,
    every,
    is_from_torchrun,
)
from sortnet.data.scaling import fit_scaler
from sortnet.errors import SortNetError, StoreError
from sortnet.learning.iterations import Iteration, State
from sortnet.learning.step_budget import Budget
from sortnet.messages import note
from sortnet.rankers.base import Ranker
from sortnet.rankers.model import load_state, save_state
from sortnet.rankers.model_folder import read_bytes
from sortnet.rankers.posterior_ranker import better_than_posterior
from sortnet.rankers.sortnet import complete_settings, fit, with_epochs
from sortnet.threads import n_threads
from store import Run, Store
from store.asking.run_judge import RunJudge, vali_pairs
from store.database.engine import parse_url, stored_url
from store.runs.judge_record import kind_of
from store.runs.pair_rows import AddedPairs
from store.store import new_run_id
from store.training.job import TrainingJob
from store.training.run_folder import JUDGED_BY, Folder, Origin


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """A run that is ready to train.

    Attributes:
        job: the requested settings and the data.
        config: the settings to train with, in which none is left open.
        folder: the folder of the run.
        run: the run in the store.
        state: the state to resume from; None for a new run.
        group: the processes of the run, of which this process is the first.
        again: the command or call that resumes the run, for messages.
        judge: the programs, models or functions that are asked. If None, the data have the answers.
    """

    job: TrainingJob
    config: Config
    folder: Folder
    run: Run
    state: State | None
    again: str
    group: Group = ALONE
    judge: RunJudge | None = None

    @property
    def finished(self) -> bool:
        """Whether the run has done its last iteration already, so that nothing is left to train."""
        return self.state is not None and self.state.finished

    def learn(self, watcher: Watcher) -> Ranker:
        """Train the run to its end, and return the model, which is also written to the folder.

        A run that learns from judged pairs keeps the comparator or a posterior ranker, whichever
        is better.
        """
        pairs = IterationPairs(self.group, self.run)
        facts_of_model = {"run": self.run.id, "data": self.job.data}
        origin = self.job.origin
        if origin is not None:
            facts_of_model["from"] = origin.facts

        def store_checkpoint(record: Iteration, state: State) -> None:
            self.run.record(asdict(record), pairs.take())
            save_state(self.folder.state, state)
            watcher.iteration_ended(record, state)

        is_stored_as_done = self.finished and self.run.status == "done"
        with nullcontext() if is_stored_as_done else self._status_stored():
            train = self.job.train
            vali = self.job.vali
            if self.judge is not None:
                # The judge answers about the validation pairs now, and about training pairs when
                # the training asks for them.
                train, vali = self.judge.parts(train, vali, vali_pairs_of(self.job))
            model = fit(
                train,
                vali,
                self.config,
                sink=pairs,
                callbacks=[store_checkpoint],
                progress=watcher.progress,
                info=facts_of_model,
                save=lambda model: model.save(self.folder.path),
                state=self.state,
                group=self.group,
                from_model=None if origin is None else origin.model,
                are_checked=self.judge is None,  # a judge's answers are checked when they have come
            )
            ranker = better_than_posterior(model, self.job.train, self.job.vali)
            ranker.save(self.folder.path)
            if not is_stored_as_done:
                self.run.finish("done", kept=ranker.info["kept"])
        return ranker

    @contextmanager
    def _status_stored(self) -> Iterator[None]:
        """Store that the run is running, and how it ended if the `with` block raises an error."""
        self.run.finish("running")
        try:
            yield
        except KeyboardInterrupt as interrupt:
            self.run.finish("interrupted")
            if self.group.size > 1 and is_from_torchrun(interrupt):
                raise AnotherProcessEnded(f"{SIGTERM_CAME}; resume with: {self.again}") from None
            raise SortNetError(f"interrupted; resume with: {self.again}") from None
        except BaseException:
            with suppress(SortNetError):  # if the disk is full, the status cannot be stored either
                self.run.finish("failed")
            raise


@dataclass(frozen=True, eq=False)
class TrainedRun:
    """A finished run.

    Attributes:
        training: settings, data, folder and stored run.
        ranker: the model that was kept, which is also in the folder.
        rows: the iterations, each a dict with the columns of `Run.iterations_frame`.
        store: the store's URL, without its password.
    """

    training: TrainingRun
    ranker: Ranker
    rows: Sequence[Mapping[str, Any]]
    store: str

    @property
    def best(self) -> Mapping[str, Any]:
        """The measures and counts of the best iteration, as a dict of `rows`."""
        iteration: int = self.ranker.info["iteration"]
        return self.rows[iteration]

    @property
    def kept(self) -> Mapping[str, Any]:
        """Facts about the ranker that was kept: its kind, the measure, the figures, the reason."""
        facts: Mapping[str, Any] = self.ranker.info["kept"]
        return facts

    @property
    def parts(self) -> dict[str, Queries]:
        """The training and the validation part, with the answers of a judge that was asked."""
        job = self.training.job
        judge = self.training.judge
        parts: dict[str, Queries] = {"train": job.train, "vali": job.vali}
        if judge is None:
            return parts
        return {split: judge.judged(split, parts[split]) for split in SPLITS}

    @property
    def measures(self) -> dict[str, dict[str, float]]:
        """The measures of the best iteration: {part: {measure: value}}."""
        names = [metric.name for metric in self.training.job.metrics]
        return {split: {name: self.best[f"{split}_{name}"] for name in names} for split in SPLITS}


class Watcher:
    """Receives each step of a training; a subclass overrides the methods of the steps it needs."""

    def progress(self, text: str) -> None:
        """Receive a line about the step that begins now."""

    def note(self, text: str) -> None:
        """Receive a message, such as a failure of the judge; by default the message is logged."""
        note(text)

    def starting(self, job: TrainingJob, origin: Origin | None) -> None:
        """Receive the checked settings and data of a new run, before the run is stored.

        Args:
            job: settings and data.
            origin: the model that the run begins with. If None, it begins with random weights.
        """

    def begun(self, training: TrainingRun) -> None:
        """Receive the run with its settings, before it trains."""

    def iteration_ended(self, record: Iteration, state: State) -> None:
        """Receive the measures of an iteration and the state after it, when both are stored."""

    def ended(self, trained: TrainedRun) -> None:
        """Receive the result, before the store and the judge are closed."""


def new_record(
    job: TrainingJob, store: str, command: str, judge: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Make the record of a new run, for `run.json`.

    The record has the settings twice: `asked` are the settings that the user asked for, `config`
    are the settings to train with, in which none is left open.

    Args:
        job: settings and data of the run.
        store: URL of the store, without its password.
        command: the command line.
        judge: {name: record} of the judges that the run asks; None without a judge.
    """
    config = complete_settings(job.config, job.train)
    if job.is_asked:
        # Some of the judge's answers are spent on validation pairs, the rest on training pairs.
        assert job.config.judgements is not None
        n_train_judgements = job.config.judgements - len(vali_pairs_of(job))
        config = config.changed(judgements=n_train_judgements)
    if job.origin is not None:
        config = with_epochs(job.train, config)
    Budget.of(job.train, config)  # refuses settings that do not go together
    record: dict[str, Any] = {
        "run": new_run_id(),
        "store": store,
        "command": command,
        "config": config.to_json(),
        "threads": n_threads(),
        "asked": job.config.to_json(),
        "data": job.data,
    }
    if judge is not None:
        kinds = [kind_of(of_judge) for of_judge in judge.values()]
        # A function must be passed again when the run is resumed, whoever else is asked.
        record["judged_by"] = JUDGED_BY["function" if "function" in kinds else kinds[0]]
    if job.origin is not None:
        record["from"] = job.origin.facts
    return record


def stored_run(
    job: TrainingJob,
    folder: Folder,
    record: Mapping[str, Any],
    store: Store,
    judge: Mapping[str, Any] | None,
) -> Run:
    """Return the run in the store, and add it first if the store does not have it.

    The store lacks a new run, and a resumed run whose process was killed before it was stored.
    """
    # A run with a state was stored before. If the store does not have it, `Store.run` raises.
    if folder.state.exists() or store.has_run(record["run"]):
        return store.run(record["run"])
    origin = {"from": record["from"]} if "from" in record else {}
    return store.start_run(
        command=record["command"],
        config={**record["config"], **origin},
        seed=job.config.seed,
        versions={
            "sortnet": __version__,
            "python": platform.python_version(),
            "torch": version("torch"),
            "numpy": np.__version__,
        },
        train=job.train,
        vali=job.vali,
        data=job.data,
        out=folder.path.resolve(),
        run_id=record["run"],
        judge=judge,
    )


def vali_pairs_of(job: TrainingJob) -> I64:
    """Choose the pairs of the validation part that a run's judge is asked about.

    Each call of the same job chooses the same pairs.
    """
    n_judgements = job.config.judgements
    assert n_judgements is not None  # a run with a judge has a budget of judgements
    make_with_seed = make_comparator(job.config.with_defaults, job.train.n_features)
    comparator = make_with_seed(job.config.seed)
    return vali_pairs(job.vali, comparator, n_judgements, job.config.seed)


def parse_state(folder: Folder, job: TrainingJob, config: Config, raw: bytes) -> State:
    """Read the state to resume from in the bytes of a state file.

    Args:
        folder: the folder of the run, for messages.
        job: the job; the model that the run began with has the scaling of the features, and without
            such a model the data decide.
        config: the settings of the run.
        raw: the bytes of the folder's state file.
    """
    if job.origin is None:
        scaler = fit_scaler(str(config.scaling), job.train, seed=config.seed)
    else:
        scaler = job.origin.model.scaler
    n_columns = scaler.n_columns
    make = make_comparator(config, n_columns)
    return load_state(folder.state, make, least=least_weights(config, n_columns), raw=raw)


def store_url(named_store: str | None, record: Mapping[str, Any] | None) -> URL:
    """Return the URL of the store to open; `stored_url` makes the URL to record of it.

    Args:
        named_store: the store that the user named. If None, the store is that of the record, and
            without a record the default store.
        record: the record of the run to resume; None for a new run.

    Raises:
        StoreError: if the named store is not the store of the run.
    """
    recorded_store = None if record is None else record["store"]
    url = parse_url(recorded_store if named_store is None else named_store)
    if url.drivername == "sqlite":
        url = url.set(database=str(Path(url.database or "").resolve()))
    if recorded_store not in (None, stored_url(url)):
        raise StoreError(f"the run's pairs are in {recorded_store}, not in {stored_url(url)}")
    return url


class IterationPairs:
    """A `PairSink` that keeps the pairs of an iteration, for the first process to store.

    Args:
        group: the processes of the run.
        run: the run, whose stored pairs are read; None in all processes but the first.
    """

    def __init__(self, group: Group, run: Run | None = None) -> None:
        self._group = group
        self._run = run
        self._added: list[AddedPairs] = []

    def add(
        self,
        split: Split,
        iteration: int,
        pairs: ComparedPairs,
        wrong: ComparedPairs | None = None,
    ) -> None:
        """Keep an iteration's pairs, see `PairSink.add`."""
        self._added.append(AddedPairs.of(split, iteration, pairs, wrong))

    def pairs(self, split: Split, before: int | None = None) -> ComparedPairs:
        """Send the stored pairs of the first process to all processes, see `PairSink.pairs`."""
        keys = np.empty(0, np.int64)
        if self._run is not None:
            keys = self._run.pairs(split, before).key
        return ComparedPairs.of_keys(self._group.gather(keys))

    def take(self) -> list[AddedPairs]:
        """Return the pairs that were added since the last call."""
        added, self._added = self._added, []
        return added


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
