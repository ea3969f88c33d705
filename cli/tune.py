"""`--tune`: settings chosen on the validation part, before the run that learns with them."""

from __future__ import annotations

from typing import Any

from cli.folder import Folder
from cli.task import Task
from sortnet.config import Config
from sortnet.types import Progress


def tuned(task: Task, folder: Folder, progress: Progress) -> tuple[Config, list[dict[str, Any]]]:
    """The settings chosen and what was tried; what the folder remembers is not tried again."""
    prints = {split: facts["fingerprint"] for split, facts in task.data.items()}
    question = {"asked": task.config.to_json(), "data": prints}
    kept = folder.tuning()
    if kept is not None and all(kept[name] == value for name, value in question.items()):
        return Config.from_json(kept["config"]), kept["trials"]
    from sortnet.tuning import tune

    found = tune(task.train, task.vali, task.config, progress=progress)
    answer = {"config": found.config.to_json(), "trials": found.trials}
    folder.write_tuning({**question, **answer})
    return found.config, found.trials
