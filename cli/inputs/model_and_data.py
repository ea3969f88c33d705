"""MODEL DATA: the arguments of commands that rank documents by a model."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cli.inputs.opened_store import collections_of
from cli.options import data_option, files, folders, threads_option
from sortnet.data import read_queries
from sortnet.errors import SortNetError, StoreError
from sortnet.threads import set_threads
from sortnet.types import Progress, Queries

if TYPE_CHECKING:
    from sortnet.rankers.base import Ranker

C = TypeVar("C", bound=Callable[..., Any])


def data_arguments(command: C) -> C:
    """Add the arguments MODEL DATA and the options `--cache` and `--threads`."""
    return model_argument(data_argument(data_option(threads_option(command))))


model_argument = click.argument("model", shell_complete=folders)
data_argument = click.argument("data", shell_complete=files)


def load_model(model: str, progress: Progress, threads: int | None = None) -> Ranker:
    """The model of a folder, which is to run in that number of threads."""
    from sortnet.rankers.base import load_ranker

    progress(f"loading {model}")
    set_threads(threads)
    names: list[str] = []
    if not Path(model).exists():
        with suppress(StoreError):  # then it is only a folder that is missing
            names = collections_of(None)
    if model in names:
        shown = shlex.quote(model)
        raise SortNetError(
            f"{model} is a collection, not a model: train one with sortnet train {shown} --out "
            f"MODEL, or rank the collection's own items with sortnet ranking {shown}"
        )
    return load_ranker(model)


def read_data(
    data: str, model: Ranker, progress: Progress, *, cache: Path | None, labelled: bool
) -> Queries:
    """The queries of a file, or the items of a file or folder, with the features of the model."""
    progress(f"reading {data}")
    return read_queries(
        data, n_features=model.n_features, labelled=labelled, cache=cache, like=model,
        progress=progress,
    )  # fmt: skip
