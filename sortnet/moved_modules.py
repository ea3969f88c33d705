"""Find modules and functions by the names that they had in an earlier version.

The old names work, with a warning, until the next version.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# Names of modules up to version 0.4, and their present names.
NEW_NAMES = {
    "cli.training.picture": "store.plots.sorted_images",
    "sortnet.context.generators": "sortnet.lab.set_generators",
    "sortnet.experiments": "sortnet.lab",
    "sortnet.experiments.cells": "sortnet.lab.cells",
    "sortnet.experiments.entries": "sortnet.lab.entries",
    "sortnet.experiments.significance": "sortnet.lab.significance",
    "sortnet.experiments.splits": "sortnet.lab.splits",
    "sortnet.experiments.trackers": "sortnet.learning.trackers",
    "sortnet.experiments.tuning": "sortnet.rankers.tuning",
    "sortnet.items.describer": "sortnet.items.features",
    "sortnet.learning.budget": "sortnet.learning.step_budget",
    "sortnet.preference.fits": "sortnet.preference.fitted_model",
    "sortnet.rankers.folder": "sortnet.rankers.model_folder",
    "sortnet.sorting.gpu": "sortnet.sorting.merge_sort_on_device",
    "sortnet.sorting.levels": "sortnet.sorting.merge_sort_levels",
    "sortnet.types": "sortnet.core",
    "store.collections.other_tools": "store.collections.formats.foreign_rows",
    "store.collections.preference_records": "store.collections.formats.chosen",
}
# Functions that a module had up to version 0.4, and the module that has each function now.
MOVED_FUNCTIONS = {
    "sortnet.rankers.base": {
        "fit_ranker": "sortnet.rankers.fit_ranker",
        "load_ranker": "sortnet.rankers.load_ranker",
        "settings_for": "sortnet.rankers.registry",
    },
}


class _OldNames(MetaPathFinder, Loader):
    """Import hook that finds a moved module under its old name, with a DeprecationWarning."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the import spec of a module with an old name; None for any other name."""
        if name not in NEW_NAMES:
            return None
        # An old package must be a package here, too, so that its modules are looked up.
        return ModuleSpec(name, self, is_package=name in {"sortnet.experiments", "sortnet.types"})

    def exec_module(self, module: ModuleType) -> None:
        """Let the old module look its attributes up in the new module, imported at first use."""
        new_name = NEW_NAMES[module.__name__]

        def attribute(name: str) -> Any:
            """Find an attribute of the new module, and warn of the old module's name."""
            if name.startswith("__"):  # the import system looks for these names in the old module
                raise AttributeError(name)
            _warn(module.__name__, new_name)
            return getattr(import_module(new_name), name)

        module.__getattr__ = attribute  # type: ignore[method-assign]


def moved_function(module: str, name: str) -> Any:
    """Find a function that was moved out of a module, and warn of its old name.

    Args:
        module: name of the module that had the function in earlier versions.
        name: name of the function.

    Raises:
        AttributeError: if the module had no such function.
    """
    if name not in MOVED_FUNCTIONS[module]:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    new_module = MOVED_FUNCTIONS[module][name]
    _warn(f"{module}.{name}", f"{new_module}.{name}")
    return getattr(import_module(new_module), name)


def _warn(old_name: str, new_name: str) -> None:
    """Warn that the next version drops an old name."""
    text = f"{old_name} is {new_name} now; the old name goes with the next version"
    # The warning shows the line that uses the old name, two calls above.
    warnings.warn(text, DeprecationWarning, stacklevel=3)


def find_old_names() -> None:
    """Let import statements find moved modules by their old names."""
    if not any(isinstance(finder, _OldNames) for finder in sys.meta_path):
        sys.meta_path.insert(0, _OldNames())
