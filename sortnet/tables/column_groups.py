"""Tell what was made of the columns of a table: in groups by kind, and in one sentence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from sortnet.messages import count, printable
from sortnet.tables.roles import Columns, column_of

_NUMBERED = re.compile(r"(.*?)(0|[1-9]\d*)")  # a name that ends with a number, such as x10
_LEAST_SERIES = 4  # four names in a row such as x1, x2, x3, x4 are shortened to "x1 to x4"


def columns_sentence(roles: Columns, computed: Sequence[str]) -> str:
    """Tell which columns became features, by their kinds, and which are not used.

    Args:
        roles: the roles of the table's columns.
        computed: the stored names of the features that were computed from texts and images.

    >>> columns_sentence(Columns(features=("x1", "x2"), ignored=("url",)), ())
    'features are made of numbers (x1, x2); not used: url'
    """
    groups = feature_groups(roles, computed)
    made = ", ".join(f"{kind} ({names})" for kind, names in groups.items())
    sentence = f"features are made of {made}" if made else "no column is a feature"
    if roles.ignored:
        sentence += f"; not used: {listed_names(roles.ignored)}"
    return sentence


def feature_groups(roles: Columns, computed: Sequence[str]) -> dict[str, str]:
    """List the columns that became features, in groups by their kind.

    Args:
        roles: the roles of the table's columns.
        computed: the stored names of the features that were computed from texts and images.

    Returns:
        {kind of columns: their names}; kinds without columns are left out.

    >>> roles = Columns(text="note", features=("size", "born"), dates=("born",))
    >>> feature_groups(roles, ["text: log words", "text: log links"])
    {'numbers': 'size', 'dates': 'born', 'texts': 'note (2 features)'}
    """
    groups = {
        "numbers": [name for name in roles.features if name not in roles.dates],
        "dates": [*roles.dates],
        "categories": _categories(roles),
        # Items from a folder have texts or images without a column.
        "texts": _described_column(roles.text or "texts", "text: ", computed),
        "images": _described_column(roles.image or "images", "image: ", computed),
    }
    return {group: listed_names(names) for group, names in groups.items() if names}


def _categories(roles: Columns) -> list[str]:
    """Name the categorical columns, each with the number of its values."""
    # A categorical column has a feature for each value: the features are counted by their column.
    n_values = Counter(column_of(feature, ()) for feature in roles.categories)
    return [f"{column} ({count(n, 'value')})" for column, n in n_values.items()]


def _described_column(column: str, prefix: str, computed: Sequence[str]) -> list[str]:
    """Name a column of texts or images with the number of its features; empty without features.

    Args:
        column: name of the column.
        prefix: text with which the names of the column's features begin.
        computed: the stored names of all computed features.
    """
    n_features = sum(feature.startswith(prefix) for feature in computed)
    return [f"{column} ({count(n_features, 'feature')})"] if n_features else []


def listed_names(names: Sequence[str]) -> str:
    """Write names in one line, in which a series such as x1, x2, x3, x4 is written `x1 to x4`.

    >>> listed_names(["price", "x1", "x2", "x3", "x4", "y1", "y2"])
    'price, x1 to x4, y1, y2'
    """
    all_series = list[list[str]]()  # a name without neighbours is a series of one
    for name in names:
        if all_series and _next_name(all_series[-1][-1]) == name:
            all_series[-1].append(name)
        else:
            all_series.append([name])
    texts = list[str]()
    for series in all_series:
        if len(series) >= _LEAST_SERIES:
            texts.append(f"{printable(series[0])} to {printable(series[-1])}")
        else:
            texts += map(printable, series)
    return ", ".join(texts)


def _next_name(name: str) -> str | None:
    """Return the name with the next number, such as x10 after x9; None without a number."""
    numbered = _NUMBERED.fullmatch(name)
    if numbered is None:
        return None
    next_number = int(numbered[2]) + 1
    return f"{numbered[1]}{next_number}"
