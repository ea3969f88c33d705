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
    from store.training.train_or_resume import RunOptions, resume, train
    from store.training.training_estimate import estimate
    from store.training.training_run import TrainedRun, Watcher
    from store.training.watch_run import RunChange, watch

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
    "RunChange": "watch_run",
    "RunOptions": "train_or_resume",
    "TrainedRun": "training_run",
    "Watcher": "training_run",
    "estimate": "training_estimate",
    "resume": "train_or_resume",
    "train": "train_or_resume",
    "watch": "watch_run",
}

if not TYPE_CHECKING:  # a type checker that saw this would accept every misspelt name

    def __getattr__(name):
        if name not in _MODULE_OF_NAME:
            raise AttributeError(f"module 'store.training' has no attribute {name!r}")
        module = import_module(f"store.training.{_MODULE_OF_NAME[name]}")
        globals()[name] = getattr(module, name)
        return globals()[name]

    def __dir__():
        return sorted({*globals(), *__all__})
