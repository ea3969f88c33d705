"""Divide one file of labelled queries into a training, a validation and a test part.

Whole queries are divided, or the rows if all rows are one query. The part of a query is a hash of
the seed and the query's name. So a query stays in its part if rows are added or change their order.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from sortnet.core import F64, I32, I64, NamedColumns, Progress, Queries
from sortnet.core.named_columns import ALL_ROWS, UNNAMED
from sortnet.data.cache import cached
from sortnet.data.divide import drawn_parts, only_single_documents
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

SHARES = {"train": 0.6, "vali": 0.2, "test": 0.2}
LEAST = 6  # the least number of queries, or rows, that can be divided
_SEEDS_TRIED = 1000
_NAMES_HASHED = 1_000_000  # names hashed in search of a seed, at most: about a second


class Division(Protocol):
    """A frozen dataclass that says which part each query belongs to."""

    def parts_of(self, names: Sequence[str]) -> list[str]:
        """Assign each name of a query, or of a row, to `train`, `vali` or `test`."""
        ...


@dataclass(frozen=True)
class ByHash:
    """Division into 60 / 20 / 20 % by a hash of the seed and the name.

    >>> ByHash(seed=0).parts_of(["red shoes", "blue shoes"])
    ['train', 'train']
    """

    seed: int

    def parts_of(self, names: Sequence[str]) -> list[str]:
        """Assign each name of a query, or of a row, to `train`, `vali` or `test`."""
        return [self._part_of(name) for name in names]

    def _part_of(self, name: str) -> str:
        """Assign a name to `train`, `vali` or `test`, by a hash of the seed and the name."""
        text = f"{self.seed}\0{name}".encode("utf-8", "surrogatepass")
        hash_bytes = hashlib.blake2b(text, digest_size=8).digest()
        fraction = int.from_bytes(hash_bytes, "big") / 2**64  # the hash as a number from 0 to 1
        if fraction < SHARES["train"]:
            return "train"
        if fraction < SHARES["train"] + SHARES["vali"]:
            return "vali"
        return "test"


@dataclass(frozen=True)
class ByDraw:
    """Division into random shares of given sizes, as `sortnet.data.divide.hold_out` draws them.

    Attributes:
        test: share of the names that the test part gets.
        vali: share of the remaining names that the validation part gets.
        seed: seed of the draw.
    """

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
    """Read labelled queries and divide them into a training, a validation and a test part.

    Only the training part decides which columns are features, and where bins of grades begin. In
    each part, `Queries.rows` counts the rows of the whole file.

    Args:
        path: a file, or several files as one data set, see `read_queries`.
        division: assigns queries to parts. If None, `ByHash` with seed 0.
        labelled: whether every document must have a grade. If False, a part is large enough if one
            of its queries has two documents.
        n_features: number of features of sparse LETOR text that lacks the last features.
        columns: names of the columns, see `read_queries`. With the query `none` the rows are
            divided: by the id of the document if an id column is named, otherwise by the content
            of the row.
        cache: cache folder, see `read_queries`.
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
    division = ByHash(0) if division is None else division
    progress(f"reading {path}")
    if not are_tables(path):
        refuse_names(path, columns)
        return _divide_letor(path, division, n_features, labelled, cache, like)
    table = _Table(path, division, labelled, columns or UNNAMED, like)
    train = table.read("train", like, cache, progress)
    vali = table.read("vali", train, cache, progress)
    test = table.read("test", train, cache, progress)
    return Fold(train, vali, test)


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
    ids_of_part = {name: _docids(getattr(fold, name)) for name in PARTS}
    shared = set[str]()
    example = ""
    for first, second in combinations(PARTS, 2):
        in_both = ids_of_part[first] & ids_of_part[second]
        if in_both and not example:
            example = f"{shown(min(in_both))} in {first} and {second}"
        shared |= in_both
    if not shared:
        return None
    n_ids = len(set.union(*ids_of_part.values()))
    return (
        f"{len(shared):,} of {n_ids:,} ids are in queries of two parts, such as {example}: what "
        "was learned of these documents is tested on them"
    )


def _docids(part: Queries | None) -> set[str]:
    """Collect the ids of a part's documents; empty if there is no part, or if it has no ids."""
    if part is None or part.docids is None:
        return set()
    return {*part.docids.tolist()} - {""}  # a document without an id has an empty id


def _source(path: str, part: str) -> str:
    return f"{path} ({part} part)"


def _divide_letor(
    path: Path,
    division: Division,
    n_features: int | None,
    labelled: bool,
    cache: str | os.PathLike[str] | None,
    like: HasFeatures | None,
) -> Fold:
    """Read LETOR text and divide its queries into three parts; the queries stay whole."""
    queries = read_queries(path, n_features=n_features, cache=cache, like=like)
    documents = _NamedRows(
        path,
        names=queries.qids.tolist(),
        name_of_row=queries.query_of_docs(),
        grades=queries.grades.astype(np.float64) if labelled else None,
        are_queries=True,
    )
    part_of_query = np.array(_checked_parts(documents, division))
    queries_of_parts = {}
    for part in PARTS:
        members = queries.take(np.flatnonzero(part_of_query == part))
        queries_of_parts[part] = replace(members, source=_source(str(path), part))
    return Fold(**queries_of_parts)


class _RowsOfPart(NamedTuple):
    """Rows of a part, and the numbers (n_rows,) of these rows in the whole file."""

    rows: Rows
    numbers: I64


@dataclass(frozen=True, eq=False)
class _Table:
    """A table to divide. Its file is read at most once: for the first part that is not cached.

    Attributes:
        path: the file.
        division: assigns queries, or rows, to parts.
        labelled: whether every document must have a grade.
        columns: names of the columns that the user gave.
        like: data or a ranker with the features that the documents shall have; None for all
            features.
    """

    path: Path
    division: Division
    labelled: bool
    columns: NamedColumns
    like: HasFeatures | None

    def read(
        self,
        part: str,
        like: HasFeatures | None,
        cache: str | os.PathLike[str] | None,
        progress: Progress,
    ) -> Queries:
        """Read a part with the features of `like`; without `like` the part decides its features.

        Args:
            part: name of the part.
            like: data or a ranker with features.
            cache: cache folder; None for no cache.
            progress: called with a text while texts and images are read.
        """
        parse = partial(self._parse, part, like, progress)
        makes_features = like is not None and like.describer is not None
        if cache is None or makes_features:  # features of texts and images are not cached
            queries = parse()
        else:
            queries = cached(self.path, Path(cache), self._cache_options(part, like), parse)
        return replace(queries, source=_source(str(self.path), part))

    def _parse(self, part: str, like: HasFeatures | None, progress: Progress) -> Queries:
        """Make Queries of a part, with the features of `like`."""
        rows, numbers = self._rows_of_parts[part]
        queries = queries_of(
            rows, labelled=self.labelled, columns=self.columns, like=like, progress=progress
        )
        return replace(queries, rows=numbers[queries.rows])

    def _cache_options(self, part: str, like: HasFeatures | None) -> dict[str, Any]:
        """List the options, as JSON, with which the cache finds a part again."""
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
        return options

    @cached_property
    def _rows_of_parts(self) -> Mapping[str, _RowsOfPart]:
        """The rows of each part, {name of the part: its rows}; the file is read at first use."""
        rows = read_rows(self.path, keep=kept_as_read(*names_kept(self.columns, self.like)))
        if not len(rows):
            raise DataError(f"{self.path}: there are no documents")
        named_rows = self._name_rows(rows)
        part_of_name = np.array(_checked_parts(named_rows, self.division))
        part_of_row = part_of_name[named_rows.name_of_row]
        rows_of_parts = {}
        for part in PARTS:
            numbers = np.flatnonzero(part_of_row == part)
            rows_of_parts[part] = _RowsOfPart(rows_at(rows, numbers), numbers)
        return rows_of_parts

    def _name_rows(self, rows: Rows) -> _NamedRows:
        """Name each row by its query, its id or its content, and read the grades of the rows.

        Raises:
            DataError: if a column is missing, every query has one document, or a grade is wrong.
        """
        roles = named_roles(rows, self.columns, self.like, labelled=self.labelled)
        known_columns = known_names(self.columns, self.like)
        names = _names_to_divide(rows, roles.group, known_columns.id)
        different_names = [*dict.fromkeys(names)]
        if roles.group is not None and len(different_names) == len(names):
            advice = "with --query none all rows are one query"
            raise DataError(f"{self.path}: {only_single_documents(roles.group)}: {advice}")
        number_of_name = {name: k for k, name in enumerate(different_names)}
        grades = None
        if self.labelled:
            assert roles.grade is not None
            are_grades = known_columns.bins is None
            grades, _ = grade_numbers(rows, roles.grade, labelled=True, are_grades=are_grades)
        return _NamedRows(
            self.path,
            names=different_names,
            name_of_row=np.array([number_of_name[name] for name in names]),
            grades=grades,
            are_queries=roles.group is not None,
        )


def _names_to_divide(rows: Rows, query_column: str | None, id_column: str | None) -> list[str]:
    """Name each row by its query, or else by its id or its content.

    Rows with the same name get the same part.
    """
    if query_column is not None:
        return names_of(rows, query_column, needed=True)
    if id_column is not None and id_column in rows.columns:
        return rows.texts(id_column)
    return _contents(rows)


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


def rows_at(rows: Rows, numbers: I64) -> Rows:
    """Make a table of the rows with the given numbers, which must be ascending."""
    columns: dict[str, Any] = {}
    for name, cells in rows.columns.items():
        if isinstance(cells, list):
            columns[name] = [cells[k] for k in numbers]
        else:
            columns[name] = cells[numbers]
    # Each file now starts at the row after the last selected row of the files before it.
    starts = np.searchsorted(numbers, [first for first, _ in rows.files]).tolist()
    files = [(start, path) for start, (_, path) in zip(starts, rows.files, strict=True)]
    lines = [rows.lines[k] for k in numbers]
    return replace(rows, columns=columns, lines=lines, files=files)


@dataclass(frozen=True, eq=False)
class _NamedRows:
    """Rows of a file, each with a name; rows with the same name go to the same part.

    Attributes:
        path: the file, for messages.
        names: the different names: of queries, or of rows.
        name_of_row: (n_rows,) position in `names` of each row's name.
        grades: (n_rows,) grades of the rows. Two documents of a query can be compared if their
            grades differ. If None, any two documents of a query can be compared.
        are_queries: whether the names are the names of queries. If not, all rows of a part are one
            query.
    """

    path: Path
    names: Sequence[str]
    name_of_row: I32 | I64
    grades: F64 | None
    are_queries: bool

    def part_without_pair(self, division: Division) -> str | None:
        """Find the first part without two documents to compare; None if all parts have a pair."""
        n_rows = len(self.name_of_row)
        query_of_row = self.name_of_row if self.are_queries else np.zeros(n_rows, np.int64)
        n_queries = int(query_of_row.max()) + 1
        grades = self.grades
        if grades is None:  # numbers that all differ make every pair of documents comparable
            grades = np.arange(n_rows, dtype=np.float64)
        part_of_row = np.array(division.parts_of(self.names))[self.name_of_row]
        for part in PARTS:
            members = part_of_row == part
            lowest = np.full(n_queries, np.inf)
            highest = np.full(n_queries, -np.inf)
            np.minimum.at(lowest, query_of_row[members], grades[members])
            np.maximum.at(highest, query_of_row[members], grades[members])
            if not (lowest < highest).any():
                return part
        return None

    def find_good_seed(self) -> int | None:
        """Find the first seed of `ByHash` with a pair in every part; None if all seeds fail."""
        n_seeds = min(_SEEDS_TRIED, _NAMES_HASHED // len(self.names))
        for seed in range(n_seeds):
            if self.part_without_pair(ByHash(seed)) is None:
                return seed
        return None


def _checked_parts(rows: _NamedRows, division: Division) -> list[str]:
    """Assign each name to a part, and check that every part has two documents to compare.

    Args:
        rows: the rows of the file with their names.
        division: assigns names to parts.

    Raises:
        DataError: if there are fewer than six names, or if a part has no pair to compare. The
            message says what the user can do.
    """
    if len(rows.names) < LEAST:
        noun = "queries" if rows.are_queries else "rows"
        advice = ", or --query none, which divides the rows" if rows.are_queries else ""
        raise DataError(
            f"{rows.path}: has {len(rows.names)} different {noun}, and dividing takes {LEAST} at "
            f"least: give two files, TRAIN and VALI{advice}"
        )
    part = rows.part_without_pair(division)
    if part is not None:
        raise DataError(f"{rows.path}: {_fault_without_pair(rows, division, part)}")
    return division.parts_of(rows.names)


def _fault_without_pair(rows: _NamedRows, division: Division, part: str) -> str:
    """Write that a part has no pair to compare, and what the user can do.

    Args:
        rows: the rows of the file with their names.
        division: assigns names to parts.
        part: name of the part.
    """
    documents = "documents" if rows.are_queries else "rows"
    pair = f"two {documents}" if rows.grades is None else f"{documents} of two grades"
    if rows.are_queries:
        fault = f"no query of the {part} part has {pair}"
        advice = "give more queries, or two files, TRAIN and VALI"
    else:
        fault = f"the {part} part has no {pair}"
        advice = "give more rows, or two files, TRAIN and VALI"
    if isinstance(division, ByHash):
        fault = f"by seed {division.seed} {fault}"
        seed = rows.find_good_seed()
        if seed is not None:
            advice = f"--seed {seed} divides otherwise"
    return f"{fault}: {advice}"
