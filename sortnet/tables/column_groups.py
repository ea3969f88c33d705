"""Tell what was made of the columns of a table: in groups by kind, and in one sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sortnet.messages import count, printable
from sortnet.tables.roles import Columns, column_of

_LISTED = 20  # largest number of names in a line


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
    """Write names in one line: the first 20, and how many there are.

    >>> listed_names(["price", "x1", "x2"])
    'price, x1, x2'
    """
    first = ", ".join(map(printable, names[:_LISTED]))
    return first if len(names) <= _LISTED else f"{first}, ... ({len(names)} in all)"
