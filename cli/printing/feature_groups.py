"""The columns of a table as lines: their roles, and the features in groups by their kind."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence

from cli.output import count, printable, put, width
from sortnet.items import Columns
from sortnet.tables.roles import column_of

_NUMBERED = re.compile(r"(.*?)(0|[1-9]\d*)")
_LEAST_RUN = 4  # numbered names that are listed as the first and the last


def feature_groups(roles: Columns, computed: Sequence[str]) -> dict[str, str]:
    """The columns that became features, all of them by name, in groups by their kind.

    Args:
        computed: the stored names of the features computed from texts and images.

    >>> roles = Columns(text="note", features=("size", "born"), dates=("born",))
    >>> feature_groups(roles, ["text: log words", "text: log links"])
    {'numbers': 'size', 'dates': 'born', 'texts': 'note (2 features)'}
    """
    levels = Counter(column_of(name, ()) for name in roles.categories)
    groups = {
        "numbers": [name for name in roles.features if name not in roles.dates],
        "dates": [*roles.dates],
        "categories": [f"{name} ({count(n, 'value')})" for name, n in levels.items()],
    }
    for group, role in (("texts", "text"), ("images", "image")):
        n = sum(name.startswith(f"{role}: ") for name in computed)
        column = getattr(roles, role) or group
        groups[group] = [f"{column} ({count(n, 'feature')})"] if n else []
    return {group: listed_names(names) for group, names in groups.items() if names}


def listed_names(names: Sequence[str]) -> str:
    """All names in one line; of four or more that count up, the first and the last.

    >>> listed_names(["price", "x1", "x2", "x3", "x4", "y1", "y2"])
    'price, x1 to x4, y1, y2'
    """
    runs = list[list[str]]()
    for name in names:
        if runs and _next_name(runs[-1][-1]) == name:
            runs[-1].append(name)
        else:
            runs.append([name])
    texts = list[str]()
    for run in runs:
        if len(run) >= _LEAST_RUN:
            texts.append(f"{printable(run[0])} to {printable(run[-1])}")
        else:
            texts += map(printable, run)
    return ", ".join(texts)


def _next_name(name: str) -> str | None:
    """The name that counts up by one, such as x10 behind x9; None of a name without a number."""
    numbered = _NUMBERED.fullmatch(name)
    return None if numbered is None else f"{numbered[1]}{int(numbered[2]) + 1}"


def put_facts(facts: Mapping[str, str]) -> None:
    """Print a line for each fact, its label in front; on a terminal long ones are wrapped."""
    column = max(map(len, facts)) + 2
    for label, text in facts.items():
        first = label.ljust(column)
        if (terminal := width()) is None:
            put(first + text)
            continue
        put(
            textwrap.fill(
                text,
                max(terminal, 2 * column),
                initial_indent=first,
                subsequent_indent=" " * column,
                break_long_words=False,
                break_on_hyphens=False,
            )
        )
