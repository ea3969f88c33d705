"""Read documents in the form that a judge sees: texts, images, fields and features.

A judge that is a function gets rows instead: dicts of a table, or arrays of numbers of LETOR text.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sortnet.core import Queries, Split
from sortnet.data.read_tables import names_kept
from sortnet.errors import DataError
from sortnet.items import Columns, Items
from sortnet.items.table_documents import TableDocuments
from sortnet.judges import LanguageModel
from sortnet.judges.any_judge import MachineJudge
from sortnet.tables.read_rows import read_rows
from sortnet.tables.roles import GRADES, kept_as_read
from sortnet.tables.rows import Rows
from sortnet.tables.values import is_numeric
from store.service.run_answers import AskedDocuments, item_ids

# Roles that have one column each. Such a column is not shown once more as a further field.
_ROLES_OF_ONE_COLUMN = ("id", "text", "image", "audio", "group", "context", "grade")


def asked_documents(
    parts: Mapping[Split, Queries], paths: Mapping[Split, str], *, as_rows: bool
) -> AskedDocuments:
    """Read the documents of both parts for a judge.

    Args:
        parts: the training and the validation part.
        paths: the file or files that each part was read from.
        as_rows: whether the judge is a function, which gets rows. It is shown the unique ids,
            because a document may be in several queries under one id.

    Cost: a table is read again.
    """
    train = parts["train"]
    shown = _in_one_folder(
        {split: documents_of(part, paths[split], train) for split, part in parts.items()}
    )
    items = {
        split: replace(documents, ids=item_ids(split, documents.ids))
        for split, documents in shown.items()
    }
    if not as_rows:
        return AskedDocuments(shown, items)
    value_of_id: dict[str, Any] = {}
    for split, part in parts.items():
        rows = _rows_of_documents(part, paths[split], train)
        value_of_id |= zip(items[split].ids, rows, strict=True)
    return AskedDocuments(items, items, value_of_id)


def _in_one_folder(documents: Mapping[Split, Items]) -> Mapping[Split, Items]:
    """Name the files of both parts relative to one folder, because a collection has one folder."""
    roots = {part.root for part in documents.values() if part.root is not None}
    if len(roots) < 2:
        return documents
    root = Path(os.path.commonpath(roots))

    def moved(part: Items) -> Items:
        folder = (part.root or root).relative_to(root)
        images, audio = (
            tuple(None if file is None else str(folder / file) for file in files)
            for files in (part.images, part.audio)
        )
        return replace(part, images=images, audio=audio, root=root)

    return {split: moved(part) for split, part in documents.items()}


def _rows_of_documents(part: Queries, path: str, train: Queries) -> list[Any]:
    """Read a part's documents as the rows that a function gets, without ignored columns and grades.

    A row of a table is a dict. A document of LETOR text is an array of features. Columns of grades
    are columns that a part reads as grades, and columns with a usual name of grades.
    """
    if part.roles is None:  # LETOR text
        return [*part.features]
    rows = _read_again(path, train).take(part.rows)
    hidden = {part.roles.grade, train.roles.grade, *train.columns.ignore}
    hidden |= {name for name in rows.columns if name.lower() in GRADES}
    shown_columns = {name: cells for name, cells in rows.columns.items() if name not in hidden}
    return replace(rows, columns=shown_columns).dicts()


def documents_of(part: Queries, path: str, train: Queries) -> Items:
    """Read a part's documents as items, in the order of their numbers; each query is a group.

    The texts, images and sounds of a table are shown. All other columns are further fields, except
    numbers, ignored columns and grades. Features have the values of the file; features computed
    from texts and images are left out.

    Args:
        part: the part.
        path: the file or files that the part was read from.
        train: the training part, which has the roles of the columns.

    Cost: a table is read again.
    """
    qids = part.qids[part.query_of_docs()].tolist()
    ids = _ids_of_documents(part)
    if part.roles is None:  # LETOR text, which numbers its features from 1
        feature_names = part.feature_names
        if feature_names is None:
            feature_names = tuple(str(number + 1) for number in range(part.n_features))
        missing = (None,) * len(ids)
        return Items(
            ids=tuple(ids),
            texts=missing,
            images=missing,
            audio=missing,
            features=part.features,
            feature_names=feature_names,
            source=part.source,
            groups=tuple(qids),
        )
    rows = _read_again(path, train).take(part.rows)
    # The features of columns come before the features computed from texts and images.
    n_columns = len(part.roles.features) + len(part.roles.categories)
    feature_names = (part.feature_names or ())[:n_columns]
    roles = replace(_shown_roles(rows, part, train), features=feature_names)
    groups = None if part.roles.group is None else qids
    features = part.exact_features()[:, :n_columns].astype("float64")
    return TableDocuments(rows, roles, features, groups, ids).items()


def _ids_of_documents(part: Queries) -> list[str]:
    """List the ids of documents; a document without an id is named by its row, from 1."""
    row_numbers = [str(row + 1) for row in part.rows.tolist()]
    if part.docids is None:
        return row_numbers
    ids_and_rows = zip(part.docids.tolist(), row_numbers, strict=True)
    return [docid or row_number for docid, row_number in ids_and_rows]


def refuse_without_content(documents: Items, judge: MachineJudge, names: Mapping[str, str]) -> None:
    """Refuse documents that a language model cannot compare, by their content or their ids.

    Args:
        documents: the documents to ask about.
        judge: the judge. A program, a function, or a model with a prompt of its own may be shown
            features, so for these judges no document is refused.
        names: {argument: its name in messages}, where the two differ.

    Raises:
        DataError: on documents without content; the message tells the next step.
    """
    if not isinstance(judge, LanguageModel) or judge.prompt is not None:
        return
    if any(documents.texts) or any(documents.images) or documents.shown is not None:
        return
    # Ids may be names, such as cities, which a model can compare. Ids in LETOR text are only codes,
    # and ids of digits and dots are only numbers. Only a table has a folder of images. LETOR text
    # has none, and its first feature is named 1.
    is_letor = documents.root is None and documents.feature_names[:1] == ("1",)
    if not is_letor and not all(id.replace(".", "").isdigit() for id in documents.ids):
        return
    raise DataError(
        f"{documents.source}: has numbers only, of which a language model is shown nothing: "
        "give a table with texts, or a template that shows item.features "
        f"({names.get('prompt', 'prompt')}), or a program ({names.get('judge', 'judge')})"
    )


def _read_again(path: str, train: Queries) -> Rows:
    """Read a table again with all its columns, by the rules used for the training part."""
    columns = names_kept(train.columns, train)
    roles = train.roles
    return read_rows(Path(path), keep=kept_as_read(*columns, roles.text, roles.id, roles.group))


def _shown_roles(rows: Rows, part: Queries, train: Queries) -> Columns:
    """Return the columns of a part to show to a judge, and the role of each column.

    Texts, images and sounds have the roles of the training part, if the rows have these columns.
    All other columns are shown below the text, without columns that have a role of their own,
    columns of grades, ignored columns and numbers.
    """
    not_shown = {*train.columns.ignore}
    for roles in (train.roles, part.roles):
        not_shown |= {getattr(roles, role) for role in _ROLES_OF_ONE_COLUMN}
    further_columns = tuple(
        name
        for name, cells in rows.columns.items()
        if name not in not_shown and name.lower() not in GRADES and not is_numeric(cells)
    )
    content_columns = {role: getattr(train.roles, role) for role in ("text", "image", "audio")}
    return Columns(
        id=part.roles.id,
        group=part.roles.group,
        shown=further_columns,
        **{role: name for role, name in content_columns.items() if name in rows.columns},
    )
