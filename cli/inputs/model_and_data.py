"""MODEL DATA: the arguments of commands that rank documents by a model."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cli.options import data_option, files, folders, threads_option
from sortnet.errors import SortNetError, StoreError

if TYPE_CHECKING:
    from sortnet.rankers.base import Ranker
    from sortnet.types import Progress, Queries

C = TypeVar("C", bound=Callable[..., Any])


def data_arguments(command: C) -> C:
    """Add the arguments MODEL DATA and the options `--cache` and `--threads`."""
    return model_argument(data_argument(data_option(threads_option(command))))


model_argument = click.argument("model", shell_complete=folders)
data_argument = click.argument("data", shell_complete=files)


def load_model(model: str, progress: Progress, threads: int | None = None) -> Ranker:
    """The model of a folder, which is to run in that number of threads."""
    from sortnet.rankers.base import load_ranker
    from sortnet.threads import set_threads

    progress(f"loading {model}")
    set_threads(threads)
    if not Path(model).exists():
        _refuse_collection(model)
    return load_ranker(model)


def _refuse_collection(name: str) -> None:
    from cli.inputs.judged_source import collections_of

    with suppress(StoreError):  # then it is only a folder that is missing
        if name in collections_of(None):
            shown = shlex.quote(name)
            raise SortNetError(
                f"{name} is a collection, not a model: train one with sortnet train {shown} --out "
                f"MODEL, or rank the collection's own items with sortnet ranking {shown}"
            )


def read_data(
    data: str, model: Ranker, progress: Progress, *, cache: Path | None, labelled: bool
) -> Queries:
    """The queries of a file, or the items of a file or folder, with the features of the model."""
    from sortnet.data import read_queries

    progress(f"reading {data}")
    return read_queries(
        data,
        n_features=model.n_features,
        labelled=labelled,
        cache=cache,
        like=model,
        progress=progress,
    )
