"""Load the model that a command or a training names; errors name the next step."""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sortnet.core import Progress
from sortnet.errors import ModelError, SortNetError, StoreError
from sortnet.threads import set_threads
from store.service.existing_store import collections_of

if TYPE_CHECKING:
    from sortnet.rankers.base import Ranker


def load_model(model: str, progress: Progress, threads: int | None = None) -> Ranker:
    """Load the model in a folder, and set the number of threads for ranking.

    Args:
        model: path of the folder.
        threads: number of threads; None: the number stays.

    Raises:
        SortNetError: if the folder has no model, or `model` is the name of a collection.
    """
    from sortnet.rankers.load_ranker import load_ranker

    progress(f"loading {model}")
    set_threads(threads)
    if _is_collection(model):
        argument = shlex.quote(model)
        raise SortNetError(
            f"{model} is a collection, not a model: train one with sortnet train {argument} --out "
            f"MODEL, or rank the collection's own items with sortnet ranking {argument}"
        )
    try:
        return load_ranker(model)
    except ModelError as error:
        if (Path(model) / "model.json").exists():
            raise
        raise ModelError(f"{error}: sortnet runs lists the model of each run") from None


def _is_collection(name: str) -> bool:
    """Tell whether a name is that of a collection of the default store, and not a path."""
    if Path(name).exists():
        return False
    with suppress(StoreError):  # a store that cannot be read has no collections
        return name in collections_of(None)
    return False
