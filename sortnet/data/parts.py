"""One file of labelled queries, divided into a training, a validation and a test part.

Whole queries are divided, or the rows where all of them are one query. A query's part follows from
a hash of the seed and its name: the order of the rows, and rows that are added, change no part.
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
LEAST = 6  # queries, or rows, that can be divided
_SEEDS_TRIED = 1000
_NAMES_HASHED = 1_000_000  # in search of a seed, about a second

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
        return [self._part_of(name) for name in names]

    def _part_of(self, name: str) -> str:
        text = f"{self.seed}\0{name}".encode("utf-8", "surrogatepass")
        number = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
        place = number / 2**64  # uniform from 0 to 1
        if place < SHARES["train"]:
            return "train"
        return "vali" if place < SHARES["train"] + SHARES["vali"] else "test"


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
    """Read a file of labelled queries, or several as one data set, as three parts.

    The training part alone decides which columns are features, and where bins of grades begin.
    The parts' `rows` are rows of the file.

    Args:
        path: see `read_queries`.
        division: the part of each query; None: by a hash with seed 0.
        labelled: whether there must be grades; otherwise a part needs two documents of one query.
        n_features: of sparse LETOR text that lacks the last features.
        columns: see `read_queries`; with the query `none` the rows are divided, by the document's
            id where one is named, otherwise by all that they hold.
        cache, like: see `read_queries`.

    Raises:
        DataError: for fewer than six queries; for a part without documents of two grades in one
            query; as `read_queries`.

    Cost: that of `read_queries`, and a copy of the rows.

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
    return Fold(train, *(table.read(part, train, cache, progress) for part in ("vali", "test")))


def facts_of(part: Queries) -> dict[str, Any]:
    """The queries of a part as JSON, or its rows where all rows of the file are one query."""
    if part.columns.query == ALL_ROWS:
        return {"rows": np.sort(part.rows).tolist()}
    return {"queries": part.qids.tolist()}


def is_part(facts: Mapping[str, Any]) -> bool:
    """Whether the facts of some data are those of a part of one file."""
    return "queries" in facts or "rows" in facts


def take_part(queries: Queries, facts: Mapping[str, Any], part: str) -> Queries:
    """The part of a whole file that `facts_of` gave the facts of."""
    if "rows" in facts:
        members = queries.only(np.isin(queries.rows, facts["rows"]))
    else:
        members = queries.take(np.flatnonzero(np.isin(queries.qids, facts["queries"])))
    if not len(members):
        raise DataError(f"{queries.source}: has no query of the {part} part")
    return replace(members, source=_source(queries.source, part))


def ids_in_two_parts(fold: Fold) -> str | None:
    """A line about documents whose id is in two parts; None if there are none."""
    ids = {part: _ids(getattr(fold, part)) for part in PARTS}
    shared = set[str]()
    example = ""
    for first, second in combinations(PARTS, 2):
        in_both = ids[first] & ids[second]
        if in_both and not example:
            example = f"{shown(min(in_both))} in {first} and {second}"
        shared |= in_both
    if not shared:
        return None
    n = len(set.union(*ids.values()))
    return (
        f"{len(shared):,} of {n:,} ids are in queries of two parts, such as {example}: what was "
        "learned of these documents is tested on them"
    )


def _ids(part: Queries | None) -> set[str]:
    if part is None or part.docids is None:
        return set()
    return {*part.docids.tolist()} - {""}


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
    of_row = queries.query_of_docs()
    part_of_name = np.array(_checked_parts(path, division, names, of_row, grades, by_rows=False))
    queries_of_part = {}
    for part in PARTS:
        members = queries.take(np.flatnonzero(part_of_name == part))
        queries_of_part[part] = replace(members, source=_source(str(path), part))
    return Fold(**queries_of_part)


class _Table:
    """A table that is read when the first of its parts is not in the cache."""

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
        """A part, with the features of `like`; None: its own."""

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
            kind = type(self.division).__name__
            how = {"kind": kind, **asdict(self.division)}  # type: ignore[call-overload]
            options: dict[str, Any] = {
                "part": part,
                "division": how,
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
    number = {name: k for k, name in enumerate(dict.fromkeys(names))}
    of_row = np.array([number[name] for name in names])
    if roles.group is not None and len(number) == len(of_row):
        advice = "with --query none all rows are one query"
        raise DataError(f"{path}: {only_single_documents(roles.group)}: {advice}")
    grades = None
    if labelled:
        assert roles.grade is not None
        are_grades = columns.bins is None
        grades = grade_numbers(rows, roles.grade, labelled=True, are_grades=are_grades)[0]
    part_of_name = _checked_parts(path, division, [*number], of_row, grades, by_rows=by_rows)
    part_of_row = np.array(part_of_name)[of_row]
    members = {part: np.flatnonzero(part_of_row == part) for part in PARTS}
    return {part: (rows_at(rows, numbers), numbers) for part, numbers in members.items()}


def _contents(rows: Rows) -> list[str]:
    """All that each row holds as one text, whatever the order of the columns."""
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
    """Some rows of a table, in their order."""
    columns = {
        name: [cells[k] for k in numbers] if isinstance(cells, list) else cells[numbers]
        for name, cells in rows.columns.items()
    }
    starts = np.searchsorted(numbers, [first for first, _ in rows.files]).tolist()
    files = [(start, path) for start, (_, path) in zip(starts, rows.files, strict=True)]
    lines = [rows.lines[k] for k in numbers]
    return replace(rows, columns=columns, lines=lines, files=files)


def _checked_parts(
    path: Path,
    division: Division,
    names: Sequence[str],
    of_row: Any,
    grades: F64 | None,
    *,
    by_rows: bool,
) -> list[str]:
    """The part of each name, where every part can choose between two of its documents.

    Args:
        of_row: (n_rows,) the number of each row's name.
        grades: (n_rows,) of the rows; None: any two rows can be chosen between.
        by_rows: whether all rows of a part are one query; otherwise a name is that of a query.

    Raises:
        DataError: saying what to do.
    """
    noun = "rows" if by_rows else "queries"
    if len(names) < LEAST:
        advice = "" if by_rows else ", or --query none, which divides the rows"
        raise DataError(
            f"{path}: has {len(names)} different {noun}, and dividing takes {LEAST} at least: give "
            f"two files, TRAIN and VALI{advice}"
        )
    query_of_row = np.zeros(len(of_row), np.int64) if by_rows else of_row
    two = "two documents" if grades is None else "documents of two grades"
    grades = np.arange(len(of_row), dtype=np.float64) if grades is None else grades
    part = _part_without_choice(division, names, of_row, query_of_row, grades)
    if part is None:
        return division.parts_of(names)
    fault = f"no query of the {part} part has {two}"
    if by_rows:
        fault = f"the {part} part has no {two.replace('documents', 'rows')}"
    advice = f"give more {noun}, or two files, TRAIN and VALI"
    if isinstance(division, ByHash):
        fault = f"by seed {division.seed} {fault}"
        for seed in range(min(_SEEDS_TRIED, _NAMES_HASHED // len(names))):
            if not _part_without_choice(ByHash(seed), names, of_row, query_of_row, grades):
                advice = f"--seed {seed} divides otherwise"
                break
    raise DataError(f"{path}: {fault}: {advice}")


def _part_without_choice(
    division: Division, names: Sequence[str], of_row: Any, query_of_row: Any, grades: F64
) -> str | None:
    """The first part in which no query has rows of two grades; None if all parts have one."""
    part_of_row = np.array(division.parts_of(names))[of_row]
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
