"""Calls by which a training reports its steps to the program that started it."""

from __future__ import annotations

from collections.abc import Sequence

from sortnet.core.shard import Group
from sortnet.learning.iterations import Callback, Iteration
from sortnet.messages import note
from sortnet.rankers.choose_inputs import Trial
from store.training.job import TrainingJob
from store.training.origin import Origin
from store.training.trained_run import TrainedRun
from store.training.training_run import TrainingRun


class Watcher:
    """Called at each step of a training; methods do nothing unless a subclass replaces them."""

    def progress(self, text: str) -> None:
        """Take a line about the present step."""

    def note(self, text: str) -> None:
        """Take a message, such as a failure of the judge; by default it is logged."""
        note(text)

    def starting(
        self, job: TrainingJob, origin: Origin | None, group: Group, *, is_new: bool, chooses: bool
    ) -> None:
        """Take the settings and data, which are checked, before the run is in the store.

        Args:
            job: settings and data.
            origin: the model that the run begins with; None: random weights.
            group: the processes of the run.
            is_new: whether the run is new, not resumed.
            chooses: whether settings are to be chosen by trials.
        """

    def trial_ended(self, trial: Trial) -> None:
        """Take a trial of settings, with its RankQuality."""

    def begun(self, training: TrainingRun, *, chose: bool) -> None:
        """Take the run with its settings; `chose`: whether trials have just chosen them."""

    def callbacks(self, training: TrainingRun) -> Sequence[Callback]:
        """Return functions that are called after each iteration, see `learn_to_sort`."""
        return ()

    def iteration_ended(self, record: Iteration) -> None:
        """Take the measures of an iteration, which are in the store."""

    def ended(self, trained: TrainedRun) -> None:
        """Take the result, while the store and the judge are open."""
