"""A run that is not done: its phase in words, and the command that resumes it.

The resuming itself is in `store.training.train_or_resume`.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from sortnet.config import Config

if TYPE_CHECKING:
    from store.runs.run import Run

_NOT_SETTINGS = ("tuning", "from")  # facts that the record of a run has beside its settings


def resume_command(out: str) -> str:
    """The command that resumes the run whose model is in that folder."""
    return shlex.join(["sortnet", "train", "--resume", "--out", out])


def resume_call(out: str) -> str:
    """The call that resumes a run whose judge must be passed again, such as a function."""
    return f"store.training.resume({out!r}, judge=...)"


def again(run: Run) -> str | None:
    """The command or the call that resumes an unfinished run; None if it is done."""
    if run.status == "done" or run.out is None:
        return None
    judge = run.judge
    if judge is not None:
        from store.runs.judge_record import is_stored_whole

        if not is_stored_whole(judge):
            return resume_call(run.out)
    return resume_command(run.out)


def is_before_the_end_of_training(run: Run) -> bool:
    """Whether an unfinished run ended before its learning rate was lowered.

    A run that divides one training among its iterations lowers the rate towards its end.
    """
    if run.phase != "training":
        return False
    if run.versions.get("sortnet", "").startswith("0.3."):
        return False  # version 0.3 ran a whole cycle of the rate in each iteration
    settings = {name: value for name, value in run.config.items() if name not in _NOT_SETTINGS}
    return Config.from_json(settings).divides_one_training


def with_phase(status: str, phase: str | None) -> str:
    """A status, and the phase of the run while it is choosing its settings.

    >>> with_phase("running", "choosing"), with_phase("killed", "training")
    ('running, choosing', 'killed')
    """
    return f"{status}, {phase}" if phase == "choosing" else status
