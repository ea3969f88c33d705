"""Divide one file of labelled queries into a training, a validation and a test part.

Whole queries are divided, or the rows if all rows are one query. By default the part of a query is
a hash of the seed and the query's name. So a query stays in its part if rows are added or change
their order. Only a part without a query to learn from gets one from another part.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from sortnet.core import F64, I64, NamedColumns, Progress, Queries, Str
from sortnet.core.named_columns import ALL_ROWS
from sortnet.data.divide import only_single_documents
from sortnet.data.grades import grade_numbers
from sortnet.data.read import PARTS, Fold, are_tables, read_queries, refuse_names
from sortnet.data.read_tables import (
    HasFeatures,
    known_names,
    named_roles,
    names_kept,
    queries_of,
)
from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.items.table_documents import names_of
from sortnet.tables.read_rows import read_rows
from sortnet.tables.roles import kept_as_read
from sortnet.tables.rows import Rows

Division: TypeAlias = Callable[[Sequence[str]], Sequence[str]]  # from names to parts

SHARES = {"train": 0.6, "vali": 0.2, "test": 0.2}
LEAST = 6  # the least number of queries, or rows, that can be divided


def by_hash(seed: int) -> Division:
    """Divide names into 60 / 20 / 20 % by a hash of the seed and the name.

    >>> by_hash(seed=0)(["red shoes", "blue shoes"])
    ['train', 'train']
    """

    def part_of(name: str) -> str:
        """Assign a name to `train`, `vali` or `test`."""
        text = f"{seed}\0{name}".encode("utf-8", "surrogatepass")
        hash_bytes = hashlib.blake2b(text, digest_size=8).digest()
        fraction = int.from_bytes(hash_bytes, "big") / 2**64  # the hash as a number from 0 to 1
        if fraction < SHARES["train"]:
            return "train"
        if fraction < SHARES["train"] + SHARES["vali"]:
            return "vali"
        return "test"

    return lambda names: [part_of(name) for name in names]


def read_divided(
    path: str | os.PathLike[str],
    division: Division | None = None,
    *,
    labelled: bool = True,
    n_features: int | None = None,
    columns: NamedColumns | None = None,
    like: HasFeatures | None = None,
    progress: Progress = lambda text: None,
) -> Fold:
    """Read labelled queries and divide them into a training, a validation and a test part.

    Only the training part decides which columns are features, and where bins of grades begin. In
    each part, `Queries.rows` counts the rows of the whole file.

    Args:
        path: a file, or several files as one data set, see `read_queries`.
        division: assigns the names of queries, or of rows, to parts. If None, `by_hash(0)`.
        labelled: whether every document must have a grade. If False, a part is large enough if one
            of its queries has two documents.
        n_features: number of features of sparse LETOR text that lacks the last features.
        columns: names of the columns, see `read_queries`. With the query `none` the rows are
            divided: by the id of the document if an id column is named, otherwise by the content
            of the row.
        like: data or a ranker with the features that the documents shall have, see `read_queries`.
        progress: called with a text before the file is read.

    Raises:
        DataError: if there are fewer than six queries, if a part has no query with documents of two
            grades, or as `read_queries`.

    Cost: reading, see `read_queries`, and a copy of the rows.

    >>> import tempfile
    >>> rows = [f"q{k // 2},{k % 2},{k}\\n" for k in range(60)]
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("search,stars,age\\n" + "".join(rows))
    ...     file.flush()
    ...     fold = read_divided(file.name, columns=NamedColumns(query="search", grade="stars"))
    >>> len(fold.train), len(fold.vali), len(fold.test)
    (19, 5, 6)
    """
    path = Path(path)
    division = division or by_hash(0)
    progress(f"reading {path}")
    if not are_tables(path):
        refuse_names(path, columns)
        return _divide_letor(path, division, n_features, labelled, like)
    rows = read_rows(path, keep=kept_as_read(*names_kept(columns, like)))
    if not len(rows):
        raise DataError(f"{path}: there are no documents")
    part_of_row = _parts_of_rows(rows, division, labelled, columns, like)

    def read(part: str, like: HasFeatures | None) -> Queries:
        """Make Queries of a part, with the features of `like`."""
        numbers = np.flatnonzero(part_of_row == part)
        queries = queries_of(
            rows.take(numbers),
            labelled=labelled,
            columns=columns,
            like=like,
            is_part=True,
            progress=progress,
        )
        return replace(queries, rows=numbers[queries.rows], source=_source(str(path), part))

    train = read("train", like)
    return Fold(train, read("vali", train), read("test", train))


def facts_of(part: Queries) -> dict[str, Any]:
    """Describe a part as JSON: by its query names, or by its rows if all rows are one query."""
    if part.columns.query == ALL_ROWS:
        return {"rows": np.sort(part.rows).tolist()}
    return {"queries": part.qids.tolist()}


def is_part(facts: Mapping[str, Any]) -> bool:
    """Whether the facts of a data set are those that `facts_of` writes for a part of one file."""
    return "queries" in facts or "rows" in facts


def take_part(queries: Queries, facts: Mapping[str, Any], part: str) -> Queries:
    """Take a part from the queries of a whole file.

    Args:
        queries: the queries of the file.
        facts: which queries or rows are in the part, as `facts_of` describes them.
        part: name of the part, for messages.

    Raises:
        DataError: if no query of the part is in the file.
    """
    if "rows" in facts:
        members = queries.only(np.isin(queries.rows, facts["rows"]))
    else:
        members = queries.take(np.flatnonzero(np.isin(queries.qids, facts["queries"])))
    if not len(members):
        raise DataError(f"{queries.source}: has no query of the {part} part")
    return replace(members, source=_source(queries.source, part))


def ids_in_two_parts(fold: Fold) -> str | None:
    """Write a warning about document ids that occur in two parts; None if there are no such ids."""
    ids_of_parts = []
    for part in (fold.train, fold.vali, fold.test):
        ids = () if part is None or part.docids is None else part.docids.tolist()
        ids_of_parts.append({*ids} - {""})  # a document without an id has an empty id
    shared = set[str]().union(*(a & b for a, b in combinations(ids_of_parts, 2)))
    if not shared:
        return None
    n_ids = len(set.union(*ids_of_parts))
    return (
        f"{len(shared):,} of {n_ids:,} ids are in queries of two parts, such as "
        f"{shown(min(shared))}: what was learned of these documents is tested on them"
    )


def _source(path: str, part: str) -> str:
    return f"{path} ({part} part)"


def _divide_letor(
    path: Path,
    division: Division,
    n_features: int | None,
    labelled: bool,
    like: HasFeatures | None,
) -> Fold:
    """Read LETOR text and divide its queries into three parts; the queries stay whole."""
    queries = read_queries(path, n_features=n_features, like=like)
    query_of_docs = queries.query_of_docs()
    grades = queries.grades.astype(np.float64) if labelled else None
    names = queries.qids[query_of_docs].tolist()
    part_of_doc = _checked_parts(str(path), names, grades, division, are_queries=True)
    queries_of_parts = {}
    for part in PARTS:
        members = queries.take(np.unique(query_of_docs[part_of_doc == part]))
        queries_of_parts[part] = replace(members, source=_source(str(path), part))
    return Fold(**queries_of_parts)


def _parts_of_rows(
    rows: Rows,
    division: Division,
    labelled: bool,
    columns: NamedColumns | None,
    like: HasFeatures | None,
) -> Str:
    """Assign each row of a table to a part, by its query, its id or its content.

    Raises:
        DataError: if a column is missing, every query has one document, or a grade is wrong.
    """
    roles = named_roles(rows, columns, like, labelled=labelled)
    known_columns = known_names(columns, like)
    if roles.group is not None:
        names = names_of(rows, roles.group, needed=True)
        if len({*names}) == len(names):
            advice = "with --query none all rows are one query"
            raise DataError(f"{rows.path}: {only_single_documents(roles.group)}: {advice}")
    elif known_columns.id is not None and known_columns.id in rows.columns:
        names = rows.texts(known_columns.id)
    else:
        names = _contents(rows)
    grades = None
    if labelled:
        assert roles.grade is not None
        are_grades = known_columns.bins is None
        grades, _ = grade_numbers(rows, roles.grade, labelled=True, are_grades=are_grades)
    are_queries = roles.group is not None
    return _checked_parts(str(rows.path), names, grades, division, are_queries=are_queries)


def _contents(rows: Rows) -> list[str]:
    """Write the content of each row as a text that does not depend on the order of the columns."""
    columns = sorted(rows.columns)
    number_columns = [name for name in columns if isinstance(rows.columns[name], np.ndarray)]
    text_columns = [name for name in columns if name not in number_columns]
    numbers = np.empty((len(rows), len(number_columns)))
    for k, name in enumerate(number_columns):
        numbers[:, k] = rows.columns[name] + 0.0  # turns -0 into 0, which has other bytes
    numbers_as_hex = [row.tobytes().hex() for row in numbers]
    texts = [rows.texts(name) for name in text_columns]
    return [json.dumps([*cells]) for cells in zip(numbers_as_hex, *texts, strict=True)]


def _checked_parts(
    path: str,
    names: Sequence[str],
    grades: F64 | None,
    division: Division,
    *,
    are_queries: bool,
) -> Str:
    """Assign each row to a part, and check that every part has two documents to compare.

    A part without such a query gets a query of another part, see `_give_each_part_one_of`.

    Args:
        path: the file, for messages.
        names: (n_rows,) the names of the rows; rows with the same name go to the same part.
        grades: (n_rows,) the grades of the rows. If None, any two documents of a query can be
            compared.
        division: assigns names to parts.
        are_queries: whether the names are the names of queries. If not, all rows of a part are one
            query.

    Returns:
        (n_rows,) the names of the parts.

    Raises:
        DataError: if there are fewer than six names, or if a part has no pair to compare.
    """
    different_names = [*dict.fromkeys(names)]
    noun = "queries" if are_queries else "rows"
    advice = f"give more {noun}, or two files, TRAIN and VALI"
    if len(different_names) < LEAST:
        if are_queries:
            advice += ", or --query none, which divides the rows"
        raise DataError(
            f"{path}: has {len(different_names)} different {noun}, and dividing takes {LEAST} at "
            f"least: {advice}"
        )
    number_of_name = {name: k for k, name in enumerate(different_names)}
    number_of_row = np.array([number_of_name[name] for name in names])
    part_of_name: Str = np.array(division(different_names))
    if grades is None:  # numbers that all differ make every pair of documents comparable
        grades = np.arange(len(names), dtype=np.float64)
    if are_queries:
        comparable = _queries_with_pair(number_of_row, grades).tolist()
        # Sorted by name, so that the order of the rows does not decide which queries move.
        comparable.sort(key=lambda number: different_names[number])
        _give_each_part_one_of(comparable, part_of_name)  # changes `part_of_name` in place
    part_of_row: Str = part_of_name[number_of_row]
    queries = number_of_row if are_queries else np.zeros_like(number_of_row)
    for part in PARTS:
        is_member = part_of_row == part
        if not len(_queries_with_pair(queries[is_member], grades[is_member])):
            fault = f"no two documents of a query in the {part} part differ in grade"
            retry = "" if are_queries else "try another --seed, "
            raise DataError(f"{path}: {fault}: {retry}{advice}")
    return part_of_row


def _queries_with_pair(queries: I64, grades: F64) -> I64:
    """List the queries that have two documents of different grades, in ascending order.

    Args:
        queries: (n_docs,) the number of each document's query.
        grades: (n_docs,) the grades.
    """
    order = np.lexsort((grades, queries))
    is_same_query = np.diff(queries[order]) == 0
    is_pair = is_same_query & (np.diff(grades[order]) > 0)
    return np.unique(queries[order][1:][is_pair])


def _give_each_part_one_of(queries: Sequence[int], part_of_query: Str) -> None:
    """Move a query to each part that has none of these queries, from the part with most of them.

    So a few queries can be divided by a hash, which may leave a part empty.

    Args:
        queries: numbers of queries; the first query of a part is moved.
        part_of_query: (n_queries,) the names of the parts, which are changed in place.
    """
    members = {part: [k for k in queries if part_of_query[k] == part] for part in PARTS}
    for part in PARTS:
        largest = max(PARTS, key=lambda name: len(members[name]))
        if not members[part] and len(members[largest]) > 1:
            moved = members[largest].pop(0)
            members[part].append(moved)
            part_of_query[moved] = part
