"""MODEL DATA A B: the arguments of commands on two documents of a query."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cli.options import data_option, files, folders, read_data

if TYPE_CHECKING:
    from sortnet.rankers.base import Ranker
    from sortnet.types import Progress, Queries

C = TypeVar("C", bound=Callable[..., Any])


def pair_arguments(command: C) -> C:
    """Add the arguments MODEL DATA A B and the options `--qid` and `--cache`."""
    for add in (
        data_option,
        click.option("--qid", help="Query id, if both documents are in several queries."),
        click.argument("b"),
        click.argument("a"),
        click.argument("data", shell_complete=files),
        click.argument("model", shell_complete=folders),
    ):
        command = add(command)
    return command


def load_pair(
    model: str,
    data: str,
    names: tuple[str, str],
    qid: str | None,
    progress: Progress,
    *,
    cache: bool,
) -> tuple[Ranker, Queries, int, int]:
    """The model, the query that has both documents, and their numbers in it."""
    from sortnet.data.find_documents import find_both
    from sortnet.rankers.base import load_ranker

    progress(f"loading {model}")
    loaded = load_ranker(model)
    progress(f"reading {data}")
    queries = read_data(data, loaded.n_features, cache=cache, labelled=False)
    return loaded, *find_both(queries, *names, qid)
