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
TOP = "top-{}"  # the share of that many top items that are expected to belong there
FEW = 5  # answers to the hold-out, of which a share says nothing
_SETTING = "labelling_run"


class Convergence:
    """The run of a collection's labelling, the same for all its sessions and processes.

    An iteration is a refit; its number is that of the last judgement that was fitted. Recorded is
    the first refit after each quarter more judgements, and the last of a process: so there are few,
    and an answer waits for none. A row that cannot be written is left out. `known` is the number of
    the last judgement before this process.
    """

    def __init__(self, collection: Collection, known: int) -> None:
        self._collection = collection
        self._recorded = self._seen = known
        self._last: dict[str, object] = {}
        self._run: Run | None = None
        self._over = False

    def add(
        self, number: int, answers: int, remaining: Remaining, goal: Goal, seconds: float
    ) -> None:
        """Take in a refit to the judgements up to that number, and record it if it is time to.

        Cost: nothing, or two short transactions; four for the first of a process.
        """
        if number <= self._seen:
            return
        checked = {"vali": {QUALITY: remaining.holdout_right}} if remaining.holdout_n else {}
        self._last = {
            "iteration": number,
            "comparisons_train": answers,
            "comparisons_vali": remaining.holdout_n,
            "measures": {"train": {_measured(goal): 1 - remaining.wrong}} | checked,
            "seconds_train": seconds,
        }
        self._seen = number
        if milestone(number) > milestone(self._recorded):
            self._record()

    def close(self) -> None:
        """Record the last refit; the run has ended, until another process resumes it."""
        if self._seen > self._recorded:
            self._record()
        self._over = True
        if self._run is not None:
            with suppress(StoreError):
                self._run.finish("done")

    def _record(self) -> None:
        if self._over:
            return
        with suppress(StoreError):
            if self._run is None:
                self._run = _run_of(self._collection)
                self._run.finish("running")
            self._run.record(self._last)
            self._recorded = self._seen


def recorded(collection: Collection, goal: Goal) -> list[dict[str, float | None]]:
    """The recorded refits, oldest first: number of answers, share expected right, None if that was
    of another goal, and share right of the hold-out, None of few answers.

    Cost: one transaction.
    """
    read = (IterationRow.comparisons_train, IterationRow.comparisons_vali, IterationRow.measures)
    with collection.database.transaction() as connection:
        row = find_collection(connection, collection.database.name, collection.name)
        these = select(*read).join(RunRow, RunRow.number == IterationRow.run)
        these = these.where(RunRow.id == row.settings.get(_SETTING))
        rows = connection.execute(these.order_by(IterationRow.iteration)).all()
    return [
        {
            "answers": answers,
            "expected": measures["train"].get(_measured(goal)),
            "holdout": measures["vali"][QUALITY] if checked >= FEW else None,
        }
        for answers, checked, measures in rows
    ]


def _measured(goal: Goal) -> str:
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
            made = insert(RunRow).returning(RunRow.number)
            number = connection.execute(made, row).scalar_one()
    return Run(collection.database, number)
