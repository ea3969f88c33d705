"""Describe a run that is not done, and the command that resumes it.

`store.training.train_or_resume` resumes the run.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from sortnet.config import Config

if TYPE_CHECKING:
    from store.runs.run import Run


def resume_command(out: str) -> str:
    """Return the command that resumes the run in the folder `out`."""
    return shlex.join(["sortnet", "train", "--resume", "--out", out])


def resume_call(out: str) -> str:
    """Return the Python call that resumes the run in the folder `out` with a judge as argument."""
    return f"store.training.resume({out!r}, judge=...)"


def again(run: Run) -> str | None:
    """Return the command or the Python call that resumes a run; None if the run is done."""
    if run.status == "done" or run.out is None:
        return None
    judge = run.judge
    if judge is not None:
        from store.runs.judge_record import is_stored_whole

        if not all(map(is_stored_whole, judge.values())):
            return resume_call(run.out)
    return resume_command(run.out)


def is_before_the_end_of_training(run: Run) -> bool:
    """Whether an unfinished run ended before it lowered its learning rate.

    A run that divides one training among its iterations lowers the rate only towards its end.
    """
    if "training" not in run.config or run.status == "done":
        return False
    settings = {name: value for name, value in run.config.items() if name != "from"}
    return Config.from_json(settings).divides_one_training
