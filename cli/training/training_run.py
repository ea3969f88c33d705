"""One run of `sortnet train`: started or resumed, kept in its folder and its store."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sqlalchemy import URL

from cli.training.job import TrainingJob, differences
from cli.training.model_folder import Folder
from cli.training.trials import Trial, tuned
from sortnet import __version__
from sortnet.comparators import make_comparator
from sortnet.config import Config, least_numbers
from sortnet.errors import SortNetError, StoreError
from sortnet.learning.loop import Callback, Iteration, State
from sortnet.learning.weight_decay import settle_weight_decay
from sortnet.rankers.sortnet import Model, fit
from sortnet.rankers.weights import load_state, save_state
from sortnet.types import Progress
from store import Run, Store
from store.database.engine import parse_url, stored_url


class Interrupted(SortNetError):
    """Ctrl-C; the message says how to go on."""


@contextmanager
def _interruptible(again: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; go on with: {again}") from None


@dataclass(frozen=True)
class Origin:
    """How a run came about.

    Attributes:
        command: what was typed, without a password.
        store: the store's URL, without a password.
        tune: whether the settings are to be tuned first.
    """

    command: str
    store: str
    tune: bool

    @property
    def resumed(self) -> bool:
        return "--resume" in shlex.split(self.command)

    @property
    def again(self) -> str:
        """The command that goes on with the run."""
        words = [word for word in shlex.split(self.command) if word != "--overwrite"]
        return shlex.join(words if self.resumed else [*words, "--resume"])


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """A run that is about to learn.

    Attributes:
        task: what it learns.
        config: the settings it learns with; those of the task, or what tuning chose.
        folder: where the model goes.
        run: the run in the store.
        state: where to go on; None at the beginning.
        again: the command that resumes it.
    """

    task: TrainingJob
    config: Config
    folder: Folder
    run: Run
    state: State | None
    again: str

    @property
    def finished(self) -> bool:
        return self.state is not None and self.state.finished

    def learn(
        self,
        show: Callable[[Iteration], None],
        progress: Progress,
        callbacks: Sequence[Callback] = (),
    ) -> Model:
        """Run the loop; the model, which is in the folder too.

        After each iteration the model comes first, then its row in the store, then the state:
        whatever is killed in between is done again, and ends the same.
        """

        def keep(record: Iteration, state: State) -> None:
            self.run.record(asdict(record))
            save_state(self.folder.state, state)
            show(record)

        with self._status():
            model = fit(
                self.task.train,
                self.task.vali,
                self.config,
                sink=self.run,
                callbacks=[keep, *callbacks],
                save=lambda model: model.save(self.folder.path),
                progress=progress,
                state=self.state,
                info={"run": self.run.id, "data": self.task.data},
            )
            model.save(self.folder.path)
        return model

    @contextmanager
    def _status(self) -> Iterator[None]:
        if self.finished and self.run.status == "done":
            yield
            return
        self.run.finish("running")
        try:
            with _interruptible(self.again):
                yield
        except Interrupted:
            self.run.finish("interrupted")
            raise
        except BaseException:
            with suppress(SortNetError):  # a full disk takes no status either
                self.run.finish("failed")
            raise
        self.run.finish("done")


def begin(
    task: TrainingJob,
    folder: Folder,
    store: Store,
    known: Mapping[str, Any] | None,
    origin: Origin,
    progress: Progress,
    show_trial: Callable[[Trial], None] = lambda trial: None,
) -> TrainingRun:
    """The run to learn in: a new one, or the one that `known` says to go on with."""
    if known is None:
        if not origin.resumed:
            folder.clear()
        config, trials = task.config, None
        with _interruptible(origin.again):
            if origin.tune:
                config, trials = tuned(task, folder, show_trial, progress)
            config = settle_weight_decay(task.train, task.vali, config, progress=progress)
        return _start(task, folder, store, origin, config, trials)
    config = Config.from_json(known["config"])
    make = make_comparator(config, task.train.n_features)
    state = None
    if folder.state.exists():
        least = least_numbers(config, task.train.n_features)
        state = load_state(folder.state, make, least=least)
    return TrainingRun(task, config, folder, store.run(known["run"]), state, origin.again)


def _start(
    task: TrainingJob,
    folder: Folder,
    store: Store,
    origin: Origin,
    config: Config,
    trials: list[Trial] | None,
) -> TrainingRun:
    run = store.start_run(
        command=origin.command,
        config=config.to_json() | ({} if trials is None else {"tuning": trials}),
        seed=config.seed,
        versions=versions(),
        train=task.train,
        vali=task.vali,
        data=task.data,
        out=folder.path.resolve(),
    )
    about = {
        "run": run.id,
        "store": origin.store,
        "command": origin.command,
        "threads": torch.get_num_threads(),
        "tuned": origin.tune,
        "asked": task.config.to_json(),
        "config": config.to_json(),
        "data": task.data,
    }
    folder.write_run(about)
    return TrainingRun(task, config, folder, run, None, origin.again)


def refuse_changes(task: TrainingJob, known: Mapping[str, Any], folder: Folder) -> None:
    """A run goes on with the settings and the data it was started with, or not at all."""
    changed = differences(task.config.to_json(), known["asked"])
    changed += [
        f"{split} data {facts['path']} (its content differs from {known['data'][split]['path']})"
        for split, facts in task.data.items()
        if facts["fingerprint"] != known["data"][split]["fingerprint"]
    ]
    if changed:
        raise SortNetError(
            f"cannot go on with the run in {folder}, it was started otherwise: {'; '.join(changed)}"
        )


def store_url(typed: str | None, known: Mapping[str, Any] | None) -> tuple[URL, str]:
    """The store's URL as it is opened, and without the password as it is written down."""
    url = parse_url(known["store"] if known is not None and typed is None else typed)
    if url.drivername == "sqlite":
        url = url.set(database=str(Path(url.database or "").resolve()))
    shown = stored_url(url)
    # Older versions wrote the password down too.
    if known is not None and shown != (before := stored_url(parse_url(known["store"]))):
        raise StoreError(f"the run's pairs are in {before}, not in {shown}")
    return url, shown


def versions() -> dict[str, str]:
    """What a run was computed with."""
    return {
        "sortnet": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
