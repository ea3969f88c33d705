"""What a training makes of the columns of its table, and how it divides the rows, in lines."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cli.output import count, printable, width
from sortnet.data.near_grades import features_near_grades
from sortnet.tables.roles import column_of
from sortnet.types import Queries

_PURPOSES = {"train": "to train on", "vali": "to choose by", "test": "to test with"}
_FIRST = 12  # characters of a line before its names
_COLUMNS = 80  # if the width of a line is unknown


def column_lines(train: Queries) -> Iterator[str]:
    """Every column of a table by its role; nothing for LETOR text and collections."""
    roles = train.roles
    if roles is None:
        return
    values = Counter(column_of(name, ()) for name in roles.categories)
    texts = [name for name in (roles.text, roles.image) if name is not None]
    n_made = train.n_features - len(roles.features) - len(roles.categories)
    names_of_role = {
        "query": [f"{roles.group}, {_queries(len(train))}"]
        if roles.group
        else ["all rows are one"],
        "id": [roles.id or "row number"],
        "grade": [_grades(train)],
        "numbers": roles.features,
        "categories": [f"{name} ({count(n, 'value')})" for name, n in values.items()],
        "texts": [f"{', '.join(texts)} ({count(n_made, 'feature')})"] if n_made else [],
        "ignored": roles.ignored,
    }
    for role, names in names_of_role.items():
        if names:
            yield _wrapped(role, names)


def near_grade_lines(train: Queries) -> Iterator[str]:
    """A warning of each column that orders the training documents nearly as the grade does."""
    if train.roles is None:
        return
    names = train.feature_names or ()
    for k, correlation in features_near_grades(train).items():
        column = printable(column_of(names[k], train.roles.features))
        yield (
            f"warning: {column} is nearly the grade (rank correlation {correlation:.3f}): "
            f"if it is made of the grade, leave it out with --ignore"
        )


def division_line(path: str, data: Mapping[str, Mapping[str, Any]], seed: int) -> str:
    """Number of queries, or rows, in each part of a divided file."""
    by_rows = "rows" in data["train"]
    n_members = {part: len(facts["rows" if by_rows else "queries"]) for part, facts in data.items()}
    sizes = ", ".join(f"{n_members[part]:,} {purpose}" for part, purpose in _PURPOSES.items())
    return f"{path} is divided by {'row' if by_rows else 'query'}, seed {seed}: {sizes}"


def _queries(n: int) -> str:
    return "one query" if n == 1 else f"{n:,} queries"


def _grades(train: Queries) -> str:
    """The grade column, with the training part's grades or the bins."""
    name, edges = train.roles.grade, train.columns.edges
    if edges:
        below = ", ".join(f"{edge:.6g}" for edge in edges)
        return f"{name} in {len(edges) + 1} bins, divided at {below}"
    grades = np.unique(train.grades)
    return f"{name}, {count(len(grades), 'grade')} from {grades[0]} to {grades[-1]}"


def _wrapped(role: str, names: Sequence[str]) -> str:
    """All names behind their role, in lines that fit the terminal."""
    return textwrap.fill(
        printable(", ".join(names)),
        max(width() or _COLUMNS, 2 * _FIRST),
        initial_indent=role.ljust(_FIRST),
        subsequent_indent=" " * _FIRST,
        break_long_words=False,
        break_on_hyphens=False,
    )
