"""How the ranking of a collection converges, as a run: an iteration at some refits."""

from __future__ import annotations

import shlex
from contextlib import suppress
from uuid import uuid4

from sqlalchemy import insert, select

import sortnet
from sortnet.errors import StoreError
from sortnet.preference.fitted_model import milestone
from sortnet.preference.goal import Goal
from sortnet.preference.stopping import Remaining
from store.collections.collection import Collection
from store.collections.collection_rows import find_collection
from store.database.engine import utc_now
from store.database.process import this_process
from store.database.schema import IterationRow, RunRow
from store.runs.run import Run

QUALITY = "order"  # the share of pairs in the right order: expected, and of the hold-out
TOP = "top-{}"  # the share of the top items that are expected to belong there
FEW = 5  # with fewer answers to the hold-out no share is given
_SETTING = "labelling_run"


class Convergence:
    """The run of a collection's labelling, the same for all its sessions and processes.

    An iteration is a refit; its number is the number of the last judgement that was fitted. The
    first refit after each quarter more judgements is recorded, and the last refit of a process: so
    there are few, and no answer waits for them. A row that cannot be written is left out.

    Args:
        last_number: the number of the last judgement before this process.
    """

    def __init__(self, collection: Collection, last_number: int) -> None:
        self._collection = collection
        self._recorded_number = last_number
        self._refit_number = last_number
        self._last_iteration: dict[str, object] = {}
        self._run: Run | None = None
        self._is_closed = False

    def add(
        self, number: int, answers: int, remaining: Remaining, goal: Goal, seconds: float
    ) -> None:
        """Note a refit to the judgements up to a number, and record it if it is time to.

        Args:
            answers: number of answers that were fitted.
            seconds: duration of the refit.

        Cost: nothing, or two short transactions; four for the first of a process.
        """
        if number <= self._refit_number:
            return
        measures = {"train": {_measure_of(goal): 1 - remaining.wrong}}
        if remaining.holdout_n:
            measures["vali"] = {QUALITY: remaining.holdout_right}
        self._last_iteration = {
            "iteration": number,
            "comparisons_train": answers,
            "comparisons_vali": remaining.holdout_n,
            "measures": measures,
            "seconds_train": seconds,
        }
        self._refit_number = number
        if milestone(number) > milestone(self._recorded_number):
            self._record()

    def close(self) -> None:
        """Record the last refit; the run has ended, until another process resumes it."""
        if self._refit_number > self._recorded_number:
            self._record()
        self._is_closed = True
        if self._run is not None:
            with suppress(StoreError):
                self._run.finish("done")

    def _record(self) -> None:
        if self._is_closed:
            return
        with suppress(StoreError):
            if self._run is None:
                self._run = _run_of(self._collection)
                self._run.finish("running")
            self._run.record(self._last_iteration)
            self._recorded_number = self._refit_number


def recorded(collection: Collection, goal: Goal) -> list[dict[str, float | None]]:
    """The recorded refits, oldest first, each with three figures.

    `answers` is the number of answers; `expected` the share expected right, None if the goal was
    another one then; `holdout` the share right of the hold-out, None if it had few answers.

    Cost: one transaction.
    """
    with collection.database.transaction() as connection:
        row = find_collection(connection, collection.database.name, collection.name)
        query = (
            select(
                IterationRow.comparisons_train, IterationRow.comparisons_vali, IterationRow.measures
            )
            .join(RunRow, RunRow.number == IterationRow.run)
            .where(RunRow.id == row.settings.get(_SETTING))
            .order_by(IterationRow.iteration)
        )
        rows = connection.execute(query).all()
    return [
        {
            "answers": n_answers,
            "expected": measures["train"].get(_measure_of(goal)),
            "holdout": measures["vali"][QUALITY] if n_holdout >= FEW else None,
        }
        for n_answers, n_holdout, measures in rows
    ]


def _measure_of(goal: Goal) -> str:
    return TOP.format(goal.top) if goal.top else QUALITY


def _run_of(collection: Collection) -> Run:
    """The run of a collection's labelling, started if there is none."""
    id_ = collection.setting(_SETTING, uuid4().hex[:12])
    row = {
        "id": id_,
        "created": utc_now(),
        "status": "running",
        "command": shlex.join(["sortnet", "label", collection.name]),
        "config": {"quality": QUALITY, "collection": collection.name},
        "seed": collection.seed,
        "versions": {"sortnet": sortnet.__version__},
        "data": {},
        **this_process(),
    }
    with collection.database.transaction(write=True) as connection:
        number = connection.execute(select(RunRow.number).where(RunRow.id == id_)).scalar()
        if number is None:
            insertion = insert(RunRow).returning(RunRow.number)
            number = connection.execute(insertion, row).scalar_one()
    return Run(collection.database, number)
