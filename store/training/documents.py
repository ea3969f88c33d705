"""The documents of a training part as a judge is shown them: texts, images, fields and features.

A function is given rows in place of them: dicts of a table, arrays of numbers of LETOR text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sortnet.core import Queries, Split
from sortnet.data.parts import rows_at
from sortnet.data.read_tables import names_kept
from sortnet.errors import DataError
from sortnet.items import Columns, Items
from sortnet.items.table_documents import items_of
from sortnet.judges import LanguageModel
from sortnet.judges.any_judge import MachineJudge
from sortnet.tables.roles import GRADES, kept_as_read
from sortnet.tables.rows import Rows, read_rows
from sortnet.tables.values import is_numeric

_SPECIAL = ("id", "text", "image", "audio", "group", "context", "grade")


@dataclass(frozen=True, eq=False)
class AskedDocuments:
    """The documents of a run that a judge is asked about.

    Attributes:
        items: of each part, in the order of its numbers; empty where nobody is asked.
        value_of_id: {id of an item: the document as a function is given it}; empty of other judges.
    """

    items: Mapping[Split, Items] = field(default_factory=dict)
    value_of_id: Mapping[str, Any] = field(default_factory=dict)


def documents_for_function(
    parts: Mapping[Split, Queries], paths: Mapping[Split, str]
) -> AskedDocuments:
    """The documents of both parts for a function, which is given their rows.

    A document may be in several queries under one id, so that the items have ids of their own.

    Args:
        paths: the file or files that each part was read from.

    Cost: a table is read again.
    """
    items: dict[Split, Items] = {}
    value_of_id: dict[str, Any] = {}
    for split, part in parts.items():
        ids = tuple(f"{split} {k}" for k in range(part.n_docs))
        values = _values_of(part, paths[split], parts["train"])
        value_of_id |= zip(ids, values, strict=True)
        nothing = ((None,) * part.n_docs,) * 3
        no_features = np.empty((part.n_docs, 0), np.float32)
        items[split] = Items(ids, *nothing, no_features, (), source=part.source)
    return AskedDocuments(items, value_of_id)


def _values_of(part: Queries, path: str, train: Queries) -> list[Any]:
    """The documents of a part as rows, without ignored columns and grades."""
    if part.roles is None:
        return [*part.features]
    rows = rows_at(_read_again(path, train), part.rows)
    left_out = {part.roles.grade, train.roles.grade, *train.columns.ignore}
    columns = {
        name: cells
        for name, cells in rows.columns.items()
        if name not in left_out and name.lower() not in GRADES
    }
    return replace(rows, columns=columns).dicts()


def documents_of(part: Queries, path: str, train: Queries) -> Items:
    """The documents of a part, in the order of its numbers; `groups` are their queries.

    Of a table texts, images and sounds are shown, and as further fields all other columns that are
    no numbers; ignored columns and grades are not. Features are as they are read, without those
    that are computed from texts and images.

    Args:
        path: the file or files that the part was read from.
        train: the training part, which says what the columns are.

    Cost: a table is read again.
    """
    query = part.qids[part.query_of_docs()].tolist()
    names = part.docids.tolist() if part.docids is not None else [""] * part.n_docs
    ids = [name or str(row + 1) for name, row in zip(names, part.rows.tolist(), strict=True)]
    if part.roles is None:
        features = tuple(str(k + 1) for k in range(part.n_features))
        nothing = ((None,) * part.n_docs,) * 3
        return Items(
            tuple(ids), *nothing, part.features, features, source=part.source, groups=tuple(query)
        )
    rows = rows_at(_read_again(path, train), part.rows)
    roles = _roles_in(rows, part, train)
    n_given = len(part.roles.features) + len(part.roles.categories)
    roles = replace(roles, features=(part.feature_names or ())[:n_given])
    groups = None if part.roles.group is None else query
    return items_of(rows, roles, ids, groups, part.features[:, :n_given])


def refuse_without_content(
    documents: Items, judge: MachineJudge, names: Mapping[str, str] | None = None
) -> None:
    """Refuse documents of which a model would be told nothing but a number.

    Args:
        names: {argument: how messages call it}, where that is not its name.

    Raises:
        DataError: saying what to do.
    """
    if not isinstance(judge, LanguageModel) or judge.prompt is not None:
        return
    has_content = any(documents.texts) or any(documents.images) or documents.shown is not None
    are_named = any(not name.replace(".", "").isdigit() for name in documents.ids)
    is_letor = documents.root is None and documents.feature_names[:1] == ("1",)
    if not has_content and (is_letor or not are_named):
        names = names or {}
        raise DataError(
            f"{documents.source}: has numbers only, of which a language model is shown nothing: "
            "give a table with texts, or a template that shows item.features "
            f"({names.get('prompt', 'prompt')}), or a program ({names.get('judge', 'judge')})"
        )


def _read_again(path: str, train: Queries) -> Rows:
    columns = names_kept(train.columns, train)
    roles = train.roles
    return read_rows(Path(path), keep=kept_as_read(*columns, roles.text, roles.id, roles.group))


def _roles_in(rows: Rows, part: Queries, train: Queries) -> Columns:
    """Roles of the columns that are shown: the training part's, as far as the rows have them."""
    roles = train.roles
    named = {role: getattr(roles, role) for role in ("text", "image", "audio")}
    present = {role: name for role, name in named.items() if name in rows.columns}
    special = {getattr(each, role) for each in (roles, part.roles) for role in _SPECIAL}
    shown = [
        name
        for name, cells in rows.columns.items()
        if name not in special
        and name not in train.columns.ignore
        and name.lower() not in GRADES
        and not is_numeric(cells)
    ]
    return Columns(id=part.roles.id, group=part.roles.group, shown=tuple(shown), **present)
