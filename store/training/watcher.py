"""A base class whose methods a training calls to report its steps."""

from __future__ import annotations

from collections.abc import Sequence

from sortnet.learning.iterations import Callback, Iteration
from sortnet.messages import note
from store.training.job import TrainingJob
from store.training.origin import Origin
from store.training.trained_run import TrainedRun
from store.training.training_run import TrainingRun


class Watcher:
    """Receives each step of a training; a subclass overrides the methods of the steps it needs."""

    def progress(self, text: str) -> None:
        """Receive a line about the step that begins now."""

    def note(self, text: str) -> None:
        """Receive a message, such as a failure of the judge; by default the message is logged."""
        note(text)

    def starting(self, job: TrainingJob, origin: Origin | None, *, is_new: bool) -> None:
        """Receive the checked settings and data, before the run is stored.

        Args:
            job: settings and data.
            origin: the model that the run begins with. If None, it begins with random weights.
            is_new: whether the run is new, not resumed.
        """

    def begun(self, training: TrainingRun, *, is_new: bool) -> None:
        """Receive the run with its settings, before it trains.

        Args:
            training: the run.
            is_new: whether the run is new, not resumed.
        """

    def callbacks(self, training: TrainingRun) -> Sequence[Callback]:
        """Return functions that the training calls after each iteration."""
        return ()

    def iteration_ended(self, record: Iteration) -> None:
        """Receive the measures of an iteration, after they are stored."""

    def ended(self, trained: TrainedRun) -> None:
        """Receive the result, before the store and the judge are closed."""
