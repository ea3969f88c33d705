"""Files and folders of items -> Queries, with the features of a describer."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.items.base import Items
from sortnet.items.columns import Columns
from sortnet.items.features import Describer
from sortnet.items.read_items import read_with_roles
from sortnet.items.rows import TABLES
from sortnet.types import F32, Progress, Queries

LABEL = "label"  # the column of grades


def is_of_items(path: str | os.PathLike[str], describer: Describer) -> bool:
    """Whether a file or folder holds items: LETOR text may give features, but nothing else."""
    return bool(describer.made) or Path(path).is_dir() or _is_table(Path(path))


def _is_table(path: Path) -> bool:
    return path.name.lower().removesuffix(".gz").endswith(TABLES)


def read_described(
    path: str | os.PathLike[str],
    describer: Describer,
    *,
    labelled: bool = False,
    progress: Progress = lambda text: None,
) -> Queries:
    """Read items that nobody has seen before, as documents named by the items' ids.

    The columns have the roles that those of the describer's items had. A group is a query; if
    those items had no groups, all items are one query.

    Args:
        path: see `read_items`; one item is enough.
        describer: makes the features.
        labelled: whether the table has grades, in a column `label`; without, all grades are 0.
        progress: called with progress messages.

    Raises:
        DataError: see `read_items`; naming a column that is missing; if the items are of another
            kind, without the texts or images that the features are made of.

    Cost: that of reading, and of `Describer.apply`.
    """
    items, grades = _read(Path(path), describer, labelled, progress)
    _refuse_other_kind(items, describer)
    described = describer.apply(items, progress=progress)
    return Queries.from_arrays(
        described.features,
        grades,
        qid=items.groups,
        docids=described.ids,
        feature_names=described.feature_names,
        source=described.source,
    )


def _read(
    path: Path, describer: Describer, labelled: bool, progress: Progress
) -> tuple[Items, F32 | None]:
    """The items, and their grades where they are labelled."""
    needed = (*describer.given, LABEL) if labelled else describer.given
    if path.is_dir():
        if needed:
            raise DataError(f"{path}: a folder has no column {shown(needed[0])}: give a table")
        return read_with_roles(path, least=1, progress=progress)[0], None
    if not _is_table(path):
        raise DataError(f"{path}: is none of {', '.join(TABLES)} nor a folder of items")
    items, _ = read_with_roles(path, _roles(describer), features=needed, least=1, progress=progress)
    if not labelled:
        return items, None
    given = replace(items, features=items.features[:, :-1], feature_names=describer.given)
    return given, items.features[:, -1]


def _roles(describer: Describer) -> Columns:
    """The columns that a table must have: those that the ranking needs."""
    left_out = {"audio", "context"}
    left_out |= set() if describer.of_texts else {"text"}
    left_out |= set() if describer.of_images else {"image"}
    needed = {role: name for role, name in describer.columns.items() if role not in left_out}
    return Columns(**needed)  # type: ignore[arg-type]


def _refuse_other_kind(items: Items, describer: Describer) -> None:
    kinds = {"text": items.texts, "image": items.images, "sound": items.audio}
    there = [kind for kind, values in kinds.items() if any(values)]
    needed = [("text", describer.of_texts), ("image", describer.of_images)]
    for kind, is_needed in needed:
        if is_needed and kind not in there:
            have = f": they have {' and '.join(f'{kind}s' for kind in there)}" if there else ""
            raise DataError(
                f"{items.source}: the model ranks items by {kind}, these have none{have}"
            )
