"""`--tune`: choose settings on the validation part before the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from cli.training.job import TrainingJob
from cli.training.run_folder import Folder
from sortnet.config import Config
from sortnet.experiments.tuning import tune
from sortnet.files import check_fields
from sortnet.rankers.base import kind_module
from sortnet.types import Progress
from store.database.engine import plain

Trial: TypeAlias = dict[str, Any]


def tuned(
    job: TrainingJob, folder: Folder, show: Callable[[Trial], None], progress: Progress
) -> tuple[Config, list[Trial]]:
    """Choose settings by trials; trials recorded in the folder are not repeated."""
    prints = {split: facts["fingerprint"] for split, facts in job.data.items()}
    grids = kind_module(job.config.kind).grids_for(job.train)
    question = {"asked": job.config.to_json(), "data": prints, "grid": plain(list(grids))}
    trials = _remembered(folder, question)
    for trial in trials:
        show(trial)

    def keep(trial: Trial) -> None:
        trials.append(trial)
        folder.write_tuning({**question, "trials": trials})
        show(trial)

    progress("tuning")
    found = tune(
        job.train,
        job.vali,
        job.config,
        grid=grids,
        progress=progress,
        on_trial=keep,
        trials=list(trials),
    )
    folder.write_tuning({**question, "trials": found.trials, "chosen": found.config.to_json()})
    return found.config, found.trials


def trial_shower(quality: str, line: Callable[[str], None]) -> Callable[[Trial], None]:
    """Format each trial as a line of settings and RankQuality, with a header above the first."""
    headed = False

    def show(trial: Trial) -> None:
        nonlocal headed
        names = _settings_of(trial)
        width = max(map(len, (*names, quality))) + 2
        if not headed:
            line("".join(f"{name:>{width}}" for name in (*names, quality)))
            headed = True
        cells = [_typed(trial[name]) for name in names]
        line("".join(f"{cell:>{width}}" for cell in (*cells, f"{trial['quality']:.4f}")))

    return show


def chosen(config: Config, trials: list[Trial]) -> str:
    """The tuned settings in their command-line form."""
    values = config.flat()
    return ", ".join(f"{name} {_typed(values[name])}" for name in _settings_of(trials[0]))


def _settings_of(trial: Trial) -> list[str]:
    return [name for name in trial if name not in ("quality", "iteration")]


def _remembered(folder: Folder, question: Mapping[str, Any]) -> list[Trial]:
    kept = folder.tuning() or {}
    if any(kept.get(name) != value for name, value in question.items()):
        return []
    names = {name for grid in question["grid"] for name in grid}
    for trial in kept["trials"]:
        check_fields(trial, dict.fromkeys(names, object), folder)
    return list(kept["trials"])


def _typed(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
