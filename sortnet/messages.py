"""Texts of messages: write numbers with nouns, cut long texts, make texts safe to print."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Any

# Control characters, marks, overrides and isolates of the writing direction, line and paragraph
# separators, and lone surrogates, which a terminal must not get from data.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_COMPARED = 10_000  # names that are compared with an unknown one, which takes a moment
_LISTED = 12  # names of a list
_LONGEST_NAME = 60  # characters of a name in a list
_LONGEST_ARRAY = 1000  # values of a list or an array that are converted

# Called with a text when a function is about to be compiled, which takes seconds.
WHEN_COMPILING: list[Callable[[str], None]] = []

ANSWERED = "that pair was already answered elsewhere: this answer does not count"


def count(n: int, noun: str) -> str:
    """Format a number with its noun, in the plural unless the number is 1.

    >>> count(1, "item"), count(2, "item")
    ('1 item', '2 items')
    """
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def cut(text: str, width: int) -> str:
    """Cut a text to a number of characters; a text that was cut ends in dots.

    >>> cut("a long name", 9)
    'a long...'
    """
    return text if len(text) <= width else f"{text[: width - 3]}..."


def known_names(names: Iterable[str], wanted: str = "") -> str:
    """List twelve names, first those that are most similar to a wanted name.

    >>> known_names(["a", "b", "rank"], "ranks"), known_names([])
    ('rank, a, b', 'none yet')
    >>> known_names(str(k) for k in range(14))
    '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more'
    """
    all_names = [*names]
    similar = get_close_matches(wanted, all_names[:_COMPARED])
    similar_first = [*dict.fromkeys([*similar, *all_names])]
    listed = [printable(cut(name, _LONGEST_NAME)) for name in similar_first[:_LISTED]]
    n_more = len(all_names) - len(listed)
    more = f" and {n_more:,} more" if n_more else ""
    return f"{', '.join(listed)}{more}" if listed else "none yet"


def python_values(value: Any) -> Any:
    """Convert numpy's numbers, texts and short arrays to Python's, also within lists and dicts.

    Python writes such values for a message as a user has typed them.

    >>> import numpy as np
    >>> python_values([np.int64(3), {"a": np.str_("x")}])
    [3, {'a': 'x'}]
    """
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        if value.dtype.kind in "mM":  # dates and durations
            return str(value)
        return value.tolist() if value.size <= _LONGEST_ARRAY else value
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(python_values(item) for item in islice(value, _LONGEST_ARRAY))
    if type(value) is dict:
        return {python_values(key): python_values(item) for key, item in value.items()}
    return value


def printable(line: str) -> str:
    """Replace characters that move the cursor or change the writing direction.

    >>> printable("a\\x1b[2J, b")
    'a\ufffd[2J, b'
    """
    return _UNSAFE.sub("\ufffd", line)


def printable_lines(text: str) -> str:
    """Make each line of a text printable; line feeds are kept.

    >>> printable_lines("a\\x1b[2J\\nb")
    'a\ufffd[2J\\nb'
    """
    return "\n".join(map(printable, text.split("\n")))


def note(text: str) -> None:
    """Log a note in the log `sortnet`, which the commands print on stderr."""
    logging.getLogger("sortnet").warning("%s", printable(text))
