"""MODEL DATA: the arguments of commands that rank documents by a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cli.inputs.column_options import name_options
from cli.options import data_option, files, folders, threads_option
from cli.output import say
from sortnet.core import NamedColumns, Progress, Queries
from sortnet.data import fingerprint, read_queries
from sortnet.data.read import PARTS
from sortnet.errors import DataError, ModelError
from sortnet.files import check_fields

if TYPE_CHECKING:
    from sortnet.rankers.base import Ranker

C = TypeVar("C", bound=Callable[..., Any])


def data_arguments(command: C) -> C:
    """Add the arguments MODEL DATA, the names of columns, `--part`, `--cache` and `--threads`."""
    return model_argument(data_argument(data_options(threads_option(command))))


def data_options(command: C) -> C:
    """Add the names of columns, `--part` and `--cache`."""
    return name_options(_part_option(data_option(command)))


model_argument = click.argument("model", shell_complete=folders)
data_argument = click.argument("data", shell_complete=files)
_part_option = click.option(
    "--part",
    type=click.Choice(PARTS),
    help="Only this part of DATA, the one file that train divided.",
)


def read_data(
    data: str,
    model: Ranker,
    progress: Progress,
    *,
    columns: NamedColumns,
    part: str | None,
    cache: Path | None,
    labelled: bool,
) -> Queries:
    """The queries of a file, or the items of a file or folder, with the features of the model.

    Args:
        columns: the names of columns; where they leave one open, the model remembers it.
        part: of the one file that the model was trained on; None: all queries.
    """
    facts = None if part is None else _facts_of_part(data, model, part)
    progress(f"reading {data}")
    queries = read_queries(
        data, n_features=model.n_features, labelled=labelled, columns=columns, cache=cache,
        like=model, progress=progress,
    )  # fmt: skip
    if part is not None and facts is not None:
        from sortnet.data.parts import take_part

        return take_part(queries, facts, part)
    if labelled and _is_divided_file(data, model):
        say(
            f"{data} is the file that the model was trained on, all its parts: --part test takes "
            "what it has not seen"
        )
    return queries


def _facts_of_part(data: str, model: Ranker, part: str) -> dict[str, Any]:
    """Facts about a part of the one file that the model was trained on.

    Raises:
        SortNetError: if it was not trained on one file, or `data` has another content.
    """
    facts = _recorded(model, part)
    if facts is None:
        raise ModelError("--part: the model was not trained on one file that train divided")
    kind = {"queries": list[str]} if "queries" in facts else {"rows": list[int]}
    check_fields(facts, {"path": str, "fingerprint": str, **kind}, f"model.json, {part} part")
    if fingerprint(data) != facts["fingerprint"]:
        raise DataError(
            f"{data}: its content differs from that of {facts['path']}, which was divided for "
            "the training: give the unchanged file, or leave out --part"
        )
    return facts


def _recorded(model: Ranker, part: str) -> dict[str, Any] | None:
    from sortnet.data.parts import is_part

    recorded = model.info.get("data")
    facts = recorded.get(part) if isinstance(recorded, dict) else None
    return facts if isinstance(facts, dict) and is_part(facts) else None


def _is_divided_file(data: str, model: Ranker) -> bool:
    facts = _recorded(model, "test")
    return facts is not None and fingerprint(data) == facts.get("fingerprint")
