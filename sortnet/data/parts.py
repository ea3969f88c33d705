"""Divide one file of labelled queries into a training, a validation and a test part.

Whole queries are divided, or the rows if all rows are one query. A hash of the seed and the query's
name decides its part, so that the order of the rows and added rows change no part.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from sortnet.core import F64, I64, NamedColumns, Progress, Queries
from sortnet.core.named_columns import ALL_ROWS, UNNAMED
from sortnet.data.cache import cached
from sortnet.data.divide import drawn_parts, only_single_documents
from sortnet.data.grades import grade_numbers
from sortnet.data.read import PARTS, Fold, are_tables, read_queries, refuse_names
from sortnet.data.read_tables import HasFeatures, named_roles, names_kept, queries_of
from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.items.table_documents import names_of
from sortnet.tables.roles import kept_as_read
from sortnet.tables.rows import Rows, read_rows

SHARES = {"train": 0.6, "vali": 0.2, "test": 0.2}
LEAST = 6  # the least number of queries, or rows, that can be divided
_SEEDS_TRIED = 1000
_NAMES_HASHED = 1_000_000  # names hashed in search of a seed, at most: about a second

RowsOfParts: TypeAlias = Mapping[str, tuple[Rows, I64]]  # a part's rows, and their numbers


class Division(Protocol):
    """A frozen dataclass that says which part each query belongs to."""

    def parts_of(self, names: Sequence[str]) -> list[str]:
        """The part of each query, or of each row, by its name."""
        ...


@dataclass(frozen=True)
class ByHash:
    """Division into 60 / 20 / 20 % by a hash of the seed and the name.

    >>> ByHash(seed=0).parts_of(["red shoes", "blue shoes"])
    ['train', 'train']
    """

    seed: int

    def parts_of(self, names: Sequence[str]) -> list[str]:
        """The part of each query, or of each row, by its name."""
        return [self._part_of(name) for name in names]

    def _part_of(self, name: str) -> str:
        text = f"{self.seed}\0{name}".encode("utf-8", "surrogatepass")
        number = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
        place = number / 2**64  # uniform from 0 to 1
        if place < SHARES["train"]:
            return "train"
        if place < SHARES["train"] + SHARES["vali"]:
            return "vali"
        return "test"


@dataclass(frozen=True)
class ByDraw:
    """Division into shares that are drawn at random, see `sortnet.data.divide.hold_out`."""

    test: float
    vali: float
    seed: tuple[int, ...]

    def parts_of(self, names: Sequence[str]) -> list[str]:
        return drawn_parts(len(names), self.test, self.vali, seed=self.seed)


def read_divided(
    path: str | os.PathLike[str],
    division: Division | None = None,
    *,
    labelled: bool = True,
    n_features: int | None = None,
    columns: NamedColumns | None = None,
    cache: str | os.PathLike[str] | None = None,
    like: HasFeatures | None = None,
    progress: Progress = lambda text: None,
) -> Fold:
    """Read a file of labelled queries, or several files as one data set, as three parts.

    Only the training part decides which columns are features, and where bins of grades begin. The
    parts' `rows` are rows of the file.

    Args:
        path: see `read_queries`.
        division: assigns queries to parts; None: a hash with seed 0.
        labelled: whether there must be grades; otherwise a part needs two documents of one query.
        n_features: number of features of sparse LETOR text that lacks the last features.
        columns: see `read_queries`. With the query `none` the rows are divided, by the document's
            id if a column is named for it, otherwise by the content of the row.
        cache, like: see `read_queries`.

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
    division = ByHash(0) if division is None else division
    progress(f"reading {path}")
    if not are_tables(path):
        refuse_names(path, columns)
        return _divided_letor(path, division, n_features, labelled, cache)
    table = _Table(path, division, labelled, columns or UNNAMED, like)
    train = table.read("train", like, cache, progress)
    vali = table.read("vali", train, cache, progress)
    test = table.read("test", train, cache, progress)
    return Fold(train, vali, test)


def facts_of(part: Queries) -> dict[str, Any]:
    """The queries of a part as JSON, or its rows if all rows of the file are one query."""
    if part.columns.query == ALL_ROWS:
        return {"rows": np.sort(part.rows).tolist()}
    return {"queries": part.qids.tolist()}


def is_part(facts: Mapping[str, Any]) -> bool:
    """Whether the facts of a data set describe a part of one file, see `facts_of`."""
    return "queries" in facts or "rows" in facts


def take_part(queries: Queries, facts: Mapping[str, Any], part: str) -> Queries:
    """Take the part of a whole file that the facts describe, see `facts_of`."""
    if "rows" in facts:
        members = queries.only(np.isin(queries.rows, facts["rows"]))
    else:
        members = queries.take(np.flatnonzero(np.isin(queries.qids, facts["queries"])))
    if not len(members):
        raise DataError(f"{queries.source}: has no query of the {part} part")
    return replace(members, source=_source(queries.source, part))


def ids_in_two_parts(fold: Fold) -> str | None:
    """A warning about documents whose id is in two parts; None if no id is."""
    ids = {}
    for name in PARTS:
        part = getattr(fold, name)
        ids[name] = set[str]()
        if part is not None and part.docids is not None:
            ids[name] = {*part.docids.tolist()} - {""}
    shared = set[str]()
    example = ""
    for first, second in combinations(PARTS, 2):
        in_both = ids[first] & ids[second]
        if in_both and not example:
            example = f"{shown(min(in_both))} in {first} and {second}"
        shared |= in_both
    if not shared:
        return None
    n_ids = len(set.union(*ids.values()))
    return (
        f"{len(shared):,} of {n_ids:,} ids are in queries of two parts, such as {example}: what "
        "was learned of these documents is tested on them"
    )


def _source(path: str, part: str) -> str:
    return f"{path} ({part} part)"


def _divided_letor(
    path: Path,
    division: Division,
    n_features: int | None,
    labelled: bool,
    cache: str | os.PathLike[str] | None,
) -> Fold:
    queries = read_queries(path, n_features=n_features, cache=cache)
    names = queries.qids.tolist()
    grades = queries.grades.astype(np.float64) if labelled else None
    query_of_row = queries.query_of_docs()
    part_of_query = np.array(
        _checked_parts(path, division, names, query_of_row, grades, by_rows=False)
    )
    queries_of_parts = {}
    for part in PARTS:
        members = queries.take(np.flatnonzero(part_of_query == part))
        queries_of_parts[part] = replace(members, source=_source(str(path), part))
    return Fold(**queries_of_parts)


class _Table:
    """A table whose file is read as soon as one of its parts is not in the cache."""

    def __init__(
        self,
        path: Path,
        division: Division,
        labelled: bool,
        columns: NamedColumns,
        like: HasFeatures | None,
    ) -> None:
        self.path = path
        self.division = division
        self.labelled = labelled
        self.columns = columns
        self.like = like
        self._parts: RowsOfParts | None = None

    def read(
        self,
        part: str,
        like: HasFeatures | None,
        cache: str | os.PathLike[str] | None,
        progress: Progress,
    ) -> Queries:
        """Read a part with the features of `like`; None: the part chooses the features."""

        def parse() -> Queries:
            if self._parts is None:
                self._parts = _divided_rows(
                    self.path, self.division, self.labelled, self.columns, self.like
                )
            rows, numbers = self._parts[part]
            queries = queries_of(
                rows, labelled=self.labelled, columns=self.columns, like=like, progress=progress
            )
            return replace(queries, rows=numbers[queries.rows])

        if cache is None or (like is not None and like.describer is not None):
            queries = parse()
        else:
            division = asdict(self.division)  # type: ignore[call-overload]
            options: dict[str, Any] = {
                "part": part,
                "division": {"kind": type(self.division).__name__, **division},
                "columns": self.columns.to_json(),
                "names": None if like is None else like.feature_names,
                "remembered": None if like is None else like.columns.to_json(),
            }
            if not self.labelled:
                options["labelled"] = False
            queries = cached(self.path, Path(cache), options, parse)
        return replace(queries, source=_source(str(self.path), part))


def _divided_rows(
    path: Path, division: Division, labelled: bool, columns: NamedColumns, like: HasFeatures | None
) -> RowsOfParts:
    """Read the rows of a table and divide them by their query, or by their id or content."""
    rows = read_rows(path, keep=kept_as_read(*names_kept(columns, like)))
    if not len(rows):
        raise DataError(f"{path}: there are no documents")
    roles = named_roles(rows, columns, like, labelled=labelled)
    columns = columns if like is None else columns.over(like.columns)
    by_rows = roles.group is None
    if roles.group is not None:
        names = names_of(rows, roles.group, needed=True)
    elif columns.id is not None and columns.id in rows.columns:
        names = rows.texts(columns.id)
    else:
        names = _contents(rows)
    number_of_name = {name: k for k, name in enumerate(dict.fromkeys(names))}
    name_of_row = np.array([number_of_name[name] for name in names])
    if roles.group is not None and len(number_of_name) == len(name_of_row):
        advice = "with --query none all rows are one query"
        raise DataError(f"{path}: {only_single_documents(roles.group)}: {advice}")
    grades = None
    if labelled:
        assert roles.grade is not None
        are_grades = columns.bins is None
        grades = grade_numbers(rows, roles.grade, labelled=True, are_grades=are_grades)[0]
    part_of_name = _checked_parts(
        path, division, [*number_of_name], name_of_row, grades, by_rows=by_rows
    )
    part_of_row = np.array(part_of_name)[name_of_row]
    rows_of_parts = {}
    for part in PARTS:
        numbers = np.flatnonzero(part_of_row == part)
        rows_of_parts[part] = (rows_at(rows, numbers), numbers)
    return rows_of_parts


def _contents(rows: Rows) -> list[str]:
    """The content of each row as a text that does not depend on the order of the columns."""
    columns = sorted(rows.columns)
    are_numbers = [name for name in columns if isinstance(rows.columns[name], np.ndarray)]
    are_texts = [name for name in columns if name not in are_numbers]
    numbers = np.empty((len(rows), len(are_numbers)))
    for k, name in enumerate(are_numbers):
        numbers[:, k] = rows.columns[name] + 0.0  # -0 is 0
    digits = [row.tobytes().hex() for row in numbers]
    texts = [rows.texts(name) for name in are_texts]
    return [json.dumps([*words]) for words in zip(digits, *texts, strict=True)]


def rows_at(rows: Rows, numbers: I64) -> Rows:
    """Take the rows with these ascending numbers out of a table."""
    columns: dict[str, Any] = {}
    for name, cells in rows.columns.items():
        if isinstance(cells, list):
            columns[name] = [cells[k] for k in numbers]
        else:
            columns[name] = cells[numbers]
    starts = np.searchsorted(numbers, [first for first, _ in rows.files]).tolist()
    files = [(start, path) for start, (_, path) in zip(starts, rows.files, strict=True)]
    lines = [rows.lines[k] for k in numbers]
    return replace(rows, columns=columns, lines=lines, files=files)


def _checked_parts(
    path: Path,
    division: Division,
    names: Sequence[str],
    name_of_row: Any,
    grades: F64 | None,
    *,
    by_rows: bool,
) -> list[str]:
    """Assign each name to a part; every part must have two documents to choose between.

    Args:
        path: the file, for messages.
        division: assigns names to parts.
        names: the names of queries, or of rows.
        name_of_row: (n_rows,) the number of each row's name.
        grades: (n_rows,) the grades of the rows; None: a choice is possible between any two rows
            of a query.
        by_rows: whether all rows of a part are one query; otherwise names are names of queries.

    Raises:
        DataError: if a part cannot have two such documents; the message proposes what to do.
    """
    noun = "rows" if by_rows else "queries"
    if len(names) < LEAST:
        advice = "" if by_rows else ", or --query none, which divides the rows"
        raise DataError(
            f"{path}: has {len(names)} different {noun}, and dividing takes {LEAST} at least: give "
            f"two files, TRAIN and VALI{advice}"
        )
    query_of_row = np.zeros(len(name_of_row), np.int64) if by_rows else name_of_row
    documents = "rows" if by_rows else "documents"
    choice = f"{documents} of two grades"
    if grades is None:
        choice = f"two {documents}"
        grades = np.arange(len(name_of_row), dtype=np.float64)
    part = _part_without_choice(division, names, name_of_row, query_of_row, grades)
    if part is None:
        return division.parts_of(names)
    fault = f"no query of the {part} part has {choice}"
    if by_rows:
        fault = f"the {part} part has no {choice}"
    advice = f"give more {noun}, or two files, TRAIN and VALI"
    if isinstance(division, ByHash):
        fault = f"by seed {division.seed} {fault}"
        for seed in range(min(_SEEDS_TRIED, _NAMES_HASHED // len(names))):
            if not _part_without_choice(ByHash(seed), names, name_of_row, query_of_row, grades):
                advice = f"--seed {seed} divides otherwise"
                break
    raise DataError(f"{path}: {fault}: {advice}")


def _part_without_choice(
    division: Division, names: Sequence[str], name_of_row: Any, query_of_row: Any, grades: F64
) -> str | None:
    """The first part in which no query has rows of two grades; None if all parts have one."""
    part_of_row = np.array(division.parts_of(names))[name_of_row]
    n_queries = int(query_of_row.max()) + 1
    for part in PARTS:
        members = part_of_row == part
        lowest = np.full(n_queries, np.inf)
        highest = np.full(n_queries, -np.inf)
        np.minimum.at(lowest, query_of_row[members], grades[members])
        np.maximum.at(highest, query_of_row[members], grades[members])
        if not (lowest < highest).any():
            return part
    return None
