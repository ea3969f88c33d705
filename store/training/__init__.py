"""Runs of training: `train` begins a run, `resume` continues it, `watch` follows it.

`train_or_resume` reads and checks the settings and data, `training_run` begins the run, or finds it
by its folder (`run_folder`), and trains it. How a killed run is resumed is described at
`training_run`.

`estimate` predicts the calls and the cost of a run that asks a language model or a program.

Names are imported when first used: a module of this package can be used without PyTorch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from store.runs.run import RunChange, watch
    from store.training.train_or_resume import RunOptions, estimate, resume, train
    from store.training.training_run import TrainedRun, Watcher

__all__ = [
    "RunChange",
    "RunOptions",
    "TrainedRun",
    "Watcher",
    "estimate",
    "resume",
    "train",
    "watch",
]

_MODULE_OF_NAME = {
    "RunChange": "store.runs.run",
    "RunOptions": "store.training.train_or_resume",
    "TrainedRun": "store.training.training_run",
    "Watcher": "store.training.training_run",
    "estimate": "store.training.train_or_resume",
    "resume": "store.training.train_or_resume",
    "train": "store.training.train_or_resume",
    "watch": "store.runs.run",
}

if not TYPE_CHECKING:  # a type checker that saw this would accept every misspelt name

    def __getattr__(name):
        if name not in _MODULE_OF_NAME:
            raise AttributeError(f"module 'store.training' has no attribute {name!r}")
        module = import_module(_MODULE_OF_NAME[name])
        globals()[name] = getattr(module, name)
        return globals()[name]

    def __dir__():
        return sorted({*globals(), *__all__})
