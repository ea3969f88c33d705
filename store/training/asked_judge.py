"""The judge that a training asks about its documents, as `train` and `resume` take it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from sortnet.config import Config
from sortnet.core import Progress, Split
from sortnet.items import Items
from store.training.job import TrainingJob
from store.training.training_run import TrainingRun


class AskedJudge(Protocol):
    """Options of a program or a model that judges pairs of a run's documents."""

    def is_asked(self, record: Mapping[str, Any] | None) -> bool:
        """Whether a judge is asked in a new run, or in the resumed run with the record `record`."""

    def check_budget(self, config: Config) -> None:
        """Refuse settings that let a judge give any number of answers, or too few."""

    def documents(self, job: TrainingJob, progress: Progress) -> dict[Split, Items]:
        """The documents of both parts as they are shown; an empty dict if no judge is asked."""

    def record(self) -> dict[str, Any] | None:
        """The options as a new run keeps them; None without a judge."""

    def asking(
        self,
        training: TrainingRun,
        documents: Mapping[Split, Items],
        progress: Progress,
        *,
        is_own_store: bool,
    ) -> Any:
        """A context with the run and its judge, which ends with the context.

        Args:
            is_own_store: whether the user chose the store, so that its commands may be run.
        """


class NoJudge:
    """The judge of a run that learns from grades or from judgements that exist."""

    def is_asked(self, record: Mapping[str, Any] | None) -> bool:
        return False

    def check_budget(self, config: Config) -> None:
        """Accept all settings."""

    def documents(self, job: TrainingJob, progress: Progress) -> dict[Split, Items]:
        return {}

    def record(self) -> None:
        return None

    @contextmanager
    def asking(
        self,
        training: TrainingRun,
        documents: Mapping[Split, Items],
        progress: Progress,
        *,
        is_own_store: bool,
    ) -> Iterator[TrainingRun]:
        yield training
