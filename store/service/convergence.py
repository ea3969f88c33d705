"""Record how the ranking of a collection converges: some refits are iterations of a run."""

from __future__ import annotations

import shlex
from contextlib import suppress
from uuid import uuid4

from sqlalchemy import insert, select

import sortnet
from sortnet.errors import StoreError
from sortnet.preference.fitting import milestone
from sortnet.preference.goal import Goal
from sortnet.preference.stopping import Remaining
from store.collections.collection import Collection
from store.collections.collection_rows import find_collection
from store.database.engine import utc_now
from store.database.schema import IterationRow, RunRow
from store.runs.run import Run

QUALITY = "order"  # name of a measure: the share of pairs in the right order
TOP = "top-{}"  # name of a measure: the share of the top items that are expected to belong there
FEW = 5  # fewest held-out answers from which a share is computed
_RUN_ID_SETTING = "labelling_run"  # the setting of a collection that holds the id of its run


class Convergence:
    """Records refits as iterations of a run; each collection has one run for all its labelling.

    The number of an iteration is the number of the last judgement that was fitted. A refit is
    recorded whenever the judgements have grown by a quarter, and at the end of a process. So there
    are few records, and they do not delay answers. A record that cannot be written is left out.

    Args:
        collection: the collection that is labelled.
        last_number: the number of the last judgement that earlier processes stored.
    """

    def __init__(self, collection: Collection, last_number: int) -> None:
        """Start without a refit to record; `add` notes each refit."""
        self._collection = collection
        self._recorded_number = last_number
        self._refit_number = last_number
        self._last_iteration: dict[str, object] = {}
        self._run: Run | None = None
        self._is_closed = False

    def add(self, number: int, answers: int, remaining: Remaining, seconds: float) -> None:
        """Note a refit, and record it if a record is due.

        Args:
            number: number of the last judgement that was fitted.
            answers: number of answers that were fitted.
            remaining: the distance from the goal after the refit.
            seconds: duration of the refit.

        Cost: two short transactions if the refit is recorded; four the first time in a process.
        """
        if number <= self._refit_number:  # there are no new judgements
            return
        # The training measure is the share of pairs or top items that are expected to be right. The
        # validation measure is the share of held-out answers that the model predicts.
        measures = {"train": {_measure_of(remaining.goal): 1 - remaining.wrong}}
        if remaining.check.n:
            measures["vali"] = {QUALITY: remaining.check.right}
        self._last_iteration = {
            "iteration": number,
            "comparisons_train": answers,
            "comparisons_vali": remaining.check.n,
            "measures": measures,
            "seconds_train": seconds,
        }
        self._refit_number = number
        # Milestones are numbers of judgements from 8 on, each a quarter higher than the one before.
        # A record is due if a milestone was passed since the last record.
        if milestone(number) > milestone(self._recorded_number):
            self._record()

    def close(self) -> None:
        """Record the last refit, and mark the run as done until another process continues it."""
        if self._refit_number > self._recorded_number:
            self._record()
        self._is_closed = True
        if self._run is not None:
            with suppress(StoreError):
                self._run.finish("done")

    def _record(self) -> None:
        """Write the last refit to the store, and mark the run as running at the first record."""
        if self._is_closed:
            return
        with suppress(StoreError):
            if self._run is None:
                self._run = _find_or_add_run(self._collection)
                self._run.finish("running")
            self._run.record(self._last_iteration)
            self._recorded_number = self._refit_number


def recorded(collection: Collection, goal: Goal) -> list[dict[str, float | None]]:
    """Return a row for each recorded refit, oldest first.

    Args:
        goal: the goal whose measure becomes `expected`.

    Returns:
        Rows with `answers`, the number of answers; `expected`, the share of the pairs or of the
        top items that the model expected to be right, None if another goal applied at the refit;
        and `holdout`, the share of the held-out answers that the model predicted, None if there
        were fewer than 5 held-out answers.

    Cost: one transaction.
    """
    with collection.database.transaction() as connection:
        row = find_collection(connection, collection.database.name, collection.name)
        query = (
            select(
                IterationRow.comparisons_train, IterationRow.comparisons_vali, IterationRow.measures
            )
            .join(RunRow, RunRow.number == IterationRow.run)
            .where(RunRow.id == row.settings.get(_RUN_ID_SETTING))
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
    """Return the name of the measure that a goal is about."""
    return TOP.format(goal.top) if goal.top else QUALITY


def _find_or_add_run(collection: Collection) -> Run:
    """Find the run of a collection's labelling; add the run if there is none.

    A setting of the collection holds the id of the run.
    """
    run_id = collection.setting(_RUN_ID_SETTING, uuid4().hex[:12])
    with collection.database.transaction(write=True) as connection:
        number = connection.execute(select(RunRow.number).where(RunRow.id == run_id)).scalar()
        if number is None:
            row = _new_run_row(collection, run_id)
            insertion = insert(RunRow).returning(RunRow.number)
            number = connection.execute(insertion, row).scalar_one()
    return Run(collection.database, number)


def _new_run_row(collection: Collection, run_id: str) -> dict[str, object]:
    """Make the row {column: value} of the run of a collection's labelling."""
    return {
        "id": run_id,
        "created": utc_now(),
        "status": "running",
        "command": shlex.join(["sortnet", "label", collection.name]),
        "config": {"quality": QUALITY, "collection": collection.name},
        "seed": collection.seed,
        "versions": {"sortnet": sortnet.__version__},
        "data": {},
    }
