"""One run of `sortnet train`: start or resume it, and keep its folder and store up to date."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sqlalchemy import URL

from sortnet import __version__
from sortnet.comparators import make_comparator
from sortnet.comparators.device import resolve_device
from sortnet.comparators.make import least_numbers
from sortnet.config import Config
from sortnet.core import I64, Progress, Queries, Split
from sortnet.core.shard import Alone, Group
from sortnet.data.scaling import fit_scaler
from sortnet.errors import SortNetError, StoreError
from sortnet.learning.distributed import (
    SIGTERM_CAME,
    AnotherProcessEnded,
    broadcast,
    every,
    is_from_torchrun,
)
from sortnet.learning.iterations import Callback, Iteration, State
from sortnet.learning.step_budget import Budget
from sortnet.rankers.base import Ranker
from sortnet.rankers.better_ranker import better_than_posterior
from sortnet.rankers.choose_inputs import Trial, choose
from sortnet.rankers.from_model import with_epochs
from sortnet.rankers.model_folder import read_bytes
from sortnet.rankers.sortnet import ALONE, fit
from sortnet.rankers.weights import load_state, save_state
from store import Run, Store
from store.database.engine import parse_url, stored_url
from store.runs.judge_record import kind_of
from store.runs.unfinished import resume_command
from store.service.existing_store import open_existing
from store.service.run_judge import RunJudge, vali_pairs
from store.store import new_run_id
from store.training.job import TrainingJob
from store.training.origin import Origin
from store.training.run_folder import CHOOSING, JUDGED_BY, TRAINING, Folder


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """A run that is ready to train."""

    job: TrainingJob
    config: Config  # used for training: that of the job, or the tuned one
    folder: Folder
    run: Run
    state: State | None  # to resume from; None for a new run
    group: Group = field(default_factory=Alone)  # of which the first alone keeps folder and run
    again: str | None = None  # the command or call that does it again; None: what resumes it
    judge: RunJudge | None = None  # a program, a model or a function that is asked
    origin: Origin | None = None  # the model that the run begins with; None: random weights

    @property
    def finished(self) -> bool:
        return self.state is not None and self.state.finished

    def judged(self, split: Split) -> Queries:
        """A part, with the answers about it where a program or a model was asked."""
        part = self.job.train if split == "train" else self.job.vali
        return part if self.judge is None else self.judge.judged(split, part)

    def learn(
        self,
        show: Callable[[Iteration], None],
        progress: Progress,
        callbacks: Sequence[Callback] = (),
    ) -> Ranker:
        """Run the loop; return the model, which is also in the folder.

        Of judged pairs the better one of the comparator and the posterior.

        After each iteration the model is written first, then its row in the store, then the
        state: a run killed in between repeats the iteration with the same result.
        """

        def keep(record: Iteration, state: State) -> None:
            if self.group.rank:
                return
            self.run.record(asdict(record))
            save_state(self.folder.state, state)
            show(record)

        info = {"run": self.run.id, "data": self.job.data}
        from_model = None
        if self.origin is not None:
            info["from"] = self.origin.facts
            from_model = self.origin.model
        is_kept_already = self.finished and self.run.status == "done"
        changes_status = not (self.group.rank or is_kept_already)
        again = self.again or resume_command(str(self.folder))
        interrupted = "interrupted"
        if self.config.divides_one_training:
            interrupted = "interrupted before the learning rate came down"
        status = partial(_status, self.run, again, self.group, interrupted=interrupted)
        with status() if changes_status else nullcontext():
            train, vali = self.job.train, self.job.vali
            if self.judge is not None:
                train, vali = self.judge.parts(train, vali, vali_pairs_of(self.job))
            model = fit(
                train, vali, self.config,
                sink=self.run, callbacks=[keep, *callbacks], progress=progress, info=info,
                save=lambda model: model.save(self.folder.path), state=self.state, group=self.group,
                from_model=from_model, are_checked=self.judge is None,
            )  # fmt: skip
            ranker = better_than_posterior(model, self.job.train, self.job.vali)
            if not self.group.rank:
                self.run.keep(ranker.info["kept"], lambda: ranker.save(self.folder.path))
                self.folder.finish()
        if changes_status:
            self.run.finish("done")
        return ranker


@contextmanager
def _status(
    run: Run, again: str, group: Group, *, interrupted: str = "interrupted"
) -> Iterator[None]:
    """Store that the run is running, and how it ends if the body raises an error.

    Args:
        run: the run.
        again: the command that resumes it, for the message of an interrupted run.
        group: the processes of the run.
        interrupted: the beginning of that message.
    """
    run.finish("running")
    try:
        yield
    except KeyboardInterrupt as interrupt:
        run.finish("interrupted")
        if group.size > 1 and is_from_torchrun(interrupt):
            raise AnotherProcessEnded(f"{SIGTERM_CAME}; resume with: {again}") from None
        raise SortNetError(f"{interrupted}; resume with: {again}") from None
    except BaseException:
        with suppress(SortNetError):  # a full disk cannot store the status either
            run.finish("failed")
        raise


def begin(
    job: TrainingJob,
    folder: Folder,
    store: Store,
    known: Mapping[str, Any] | None,
    command: str,
    shown: str,
    progress: Progress,
    show_trial: Callable[[Trial], None] = lambda trial: None,
    *,
    group: Group = ALONE,
    again: str | None = None,
    judge: Mapping[str, Any] | None = None,
    origin: Origin | None = None,
    clear: bool = True,
) -> TrainingRun:
    """Start a new run, or resume the run that `known` records, and choose its settings.

    The record of a new run, `run.json`, is written first, then the row in the store, then the
    settings are chosen: a run that is killed in between is resumed by its folder alone.

    Args:
        job: settings and data.
        folder: the folder of the run.
        store: the store of the run.
        known: the record of the run in the folder; None for a new run.
        command: the command line.
        shown: the store's URL to record.
        progress: told what is being done.
        show_trial: called with each trial that chooses settings, trials that had ended included.
        group: the processes of the run; this process is the first.
        again: the command or call that repeats the run; None: the command that resumes it.
        judge: the record of the judge that a new run asks; None without a judge.
        origin: the model that the run begins with, which its folder keeps.
        clear: whether a new run removes the record of an earlier run in the folder.
    """
    if known is None:
        Budget.of(job.train, job.config)  # refuses settings while the last run is still there
        if clear:
            folder.clear()
        known = _new_record(job, command, shown)
        if judge is not None:
            known["judged_by"] = JUDGED_BY[kind_of(judge)]
        if origin is not None:
            origin.model.save(folder.origin)
            known["from"] = origin.facts
        folder.write_run(known)
    run = _stored_run(job, folder, store, known, judge)
    if known.get("phase") == CHOOSING:
        with _status(run, again or resume_command(str(folder)), group):
            config = _choose(job, folder, run, known, progress, show_trial)
        return TrainingRun(job, config, folder, run, None, again=again, origin=origin)
    config, state = Config.from_json(known["config"]), None
    if folder.state.exists():
        state = _state(folder, job, config, read_bytes(folder.state), origin)
    if "budget" not in known and not (state is not None and state.finished):
        raise SortNetError(
            f"the run in {folder} was begun by version 0.3 or before, which trained otherwise: "
            "start it again with --overwrite"
        )
    return TrainingRun(job, config, folder, run, state, again=again, origin=origin)


def _new_record(job: TrainingJob, command: str, shown: str) -> dict[str, Any]:
    """The record of a new run, whose settings are yet to be chosen."""
    settings = job.config.to_json()
    return {
        "run": new_run_id(),
        "store": shown,
        "command": command,
        "phase": CHOOSING,
        "config": settings,
        "threads": torch.get_num_threads(),
        "asked": settings,
        "data": job.data,
        "trials": [],
    }


def _stored_run(
    job: TrainingJob,
    folder: Folder,
    store: Store,
    record: Mapping[str, Any],
    judge: Mapping[str, Any] | None,
) -> Run:
    """The run in the store, which is added if the process was killed before it had added it."""
    if record.get("phase") != CHOOSING or store.has_run(record["run"]):
        return store.run(record["run"])
    versions = {
        "sortnet": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
    return store.start_run(
        command=record["command"],
        config=_stored_config(record, record["config"], []),
        seed=job.config.seed,
        versions=versions,
        train=job.train,
        vali=job.vali,
        data=job.data,
        out=folder.path.resolve(),
        run_id=record["run"],
        judge=judge,
    )


def _choose(
    job: TrainingJob,
    folder: Folder,
    run: Run,
    record: Mapping[str, Any],
    progress: Progress,
    show_trial: Callable[[Trial], None],
) -> Config:
    """Choose the settings that are left open; each trial is recorded when it has ended.

    The store gets the chosen settings before the folder, which ends the phase: a run that is killed
    in between chooses them again, from all of the trials.
    """
    trials = [*record["trials"]]
    for trial in trials:
        show_trial(_to_show(trial))

    def keep(trial: Trial) -> None:
        trials.append(trial)
        folder.write_run({**record, "trials": trials})
        run.settle(_stored_config(record, record["config"], trials))
        show_trial(_to_show(trial))

    config, _ = choose(
        job.train, job.vali, job.config, progress=progress, ended=record["trials"], on_trial=keep
    )
    if job.is_asked:
        assert job.config.judgements is not None  # of these the validation part has its share
        config = config.changed(judgements=job.config.judgements - len(vali_pairs_of(job)))
    if "from" in record:
        config = with_epochs(job.train, config)
    settings = config.to_json()
    run.settle(_stored_config(record, settings, trials))
    budget = Budget.of(job.train, config)
    chosen = {
        "phase": TRAINING,
        "config": settings,
        "budget": {"steps": budget.steps, "iterations": budget.iterations},
        "trials": [],
    }
    folder.write_run({**record, **chosen})
    return config


def _stored_config(
    record: Mapping[str, Any], settings: Mapping[str, Any], trials: Sequence[Trial]
) -> dict[str, Any]:
    """The settings as the store has them: with the trials, and the model to begin with."""
    stored = dict(settings)
    if trials:
        stored["tuning"] = [*map(_to_show, trials)]
    if "from" in record:
        stored["from"] = record["from"]
    return stored


def _to_show(trial: Trial) -> dict[str, Any]:
    """The settings and the RankQuality of a trial, without its outcomes of every query."""
    return {name: value for name, value in trial.items() if name != "outcomes"}


def vali_pairs_of(job: TrainingJob) -> I64:
    """The pairs of the validation part that a program or a model is asked about."""
    assert job.config.judgements is not None
    seed = job.config.seed
    comparator = make_comparator(job.config.with_defaults, job.train.n_features)(seed)
    return vali_pairs(job.vali, comparator, job.config.judgements, seed)


def shared(training: TrainingRun, group: Group) -> TrainingRun:
    """The run of the first process, which the others `follow`."""
    broadcast(group, {"run": training.run.id, "config": training.config.to_json()})
    state = training.folder.state
    raw = read_bytes(state) if training.state is not None and group.size > 1 else b""
    group.gather(np.frombuffer(raw, np.uint8))
    return replace(training, group=group)


@contextmanager
def follow(
    job: TrainingJob, folder: Folder, url: URL, group: Group, origin: Origin | None = None
) -> Iterator[TrainingRun]:
    """Take part in the run that the first process has started; folder and run are its to keep.

    Raises:
        StoreError: if this process does not reach the store that has the run.
    """
    about = broadcast(group, None)
    raw = group.gather(np.empty(0, np.uint8)).tobytes()
    config = Config.from_json(about["config"])
    state = _state(folder, job, config, raw, origin) if raw else None
    with open_existing(url, write=True) as store:
        run = store.run(about["run"])
        yield TrainingRun(job, config, folder, run, state, group, origin=origin)


def agree(job: TrainingJob, group: Group) -> None:
    """Refuse processes of different data or kinds of device, and more of them than queries."""
    if group.size == 1:
        return
    if job.is_asked:
        raise SortNetError("one process asks a program or a model: leave torchrun out")
    if job.train.judged is not None:
        raise SortNetError("judgements are learned from by one process: leave torchrun out")
    marks = {split: facts["fingerprint"] for split, facts in job.data.items()}
    own = {**marks, "device": resolve_device(job.config.device).type}
    for what, first in own.items():
        for rank, theirs in enumerate(every(group, own)):
            if theirs[what] != first:
                noun = "a device" if what == "device" else f"{what} data"
                raise SortNetError(
                    f"process {rank} has {noun} other than process {group.rank}: "
                    f"{theirs[what]}, not {first}"
                )
    queries = min(len(job.train), len(job.vali))
    if group.size > queries:
        raise SortNetError(f"{group.size} processes for {queries} queries: start no more than that")


def _state(
    folder: Folder, job: TrainingJob, config: Config, raw: bytes, origin: Origin | None
) -> State:
    if origin is None:
        scaler = fit_scaler(str(config.scaling), job.train, seed=config.seed)
    else:
        scaler = origin.model.scaler
    n_columns = scaler.n_columns
    make = make_comparator(config, n_columns)
    return load_state(folder.state, make, least=least_numbers(config, n_columns), raw=raw)


def differences(asked: Config, before: Config) -> list[str]:
    """What differs in two sets of settings, such as `lr 0.01, not 0.005`."""
    known = before.flat()
    others = {name: value for name, value in asked.flat().items() if value != known[name]}
    return [f"{name} {value}, not {known[name]}" for name, value in others.items()]


def _names_in(data: Mapping[str, Any]) -> dict[str, Any]:
    """The names of columns as they were given: edges of bins follow from the data."""
    columns = data["train"].get("columns", {})
    return {name: value for name, value in columns.items() if name != "edges"}


def refuse_changes(job: TrainingJob, known: Mapping[str, Any], folder: Folder) -> None:
    """Reject settings or data that differ from those the run was started with."""
    changed = differences(job.config, Config.from_json(known["asked"]))
    for split, facts in job.data.items():
        recorded = known["data"].get(split, facts)
        name = "data" if job.is_divided else f"{split} data"
        fault = f"{name} {facts['path']} (its content differs from {recorded['path']})"
        if facts["fingerprint"] != recorded["fingerprint"] and fault not in changed:
            changed.append(fault)
    if _names_in(job.data) != _names_in(known["data"]):
        changed.append("other columns are named")
    if changed:
        raise SortNetError(
            f"cannot resume the run in {folder}, it was started otherwise: {'; '.join(changed)}"
            f"{_how_to_train_on(folder)}"
        )


def _how_to_train_on(folder: Folder) -> str:
    """The command that trains the model of a run further, if the run has a model yet."""
    if not (folder.path / "model.json").exists():
        return ""
    return f"; train on: sortnet train DATA --from {shlex.quote(str(folder))} --out NEW"


def store_url(typed: str | None, known: Mapping[str, Any] | None) -> tuple[URL, str]:
    """The store's URL to open, and the URL without its password to record."""
    url = parse_url(known["store"] if known is not None and typed is None else typed)
    if url.drivername == "sqlite":
        url = url.set(database=str(Path(url.database or "").resolve()))
    shown = stored_url(url)
    # Older versions also recorded the password.
    if known is not None and shown != (before := stored_url(parse_url(known["store"]))):
        raise StoreError(f"the run's pairs are in {before}, not in {shown}")
    return url, shown
