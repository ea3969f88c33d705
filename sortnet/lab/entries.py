"""Rankers for experiments, by name: those of the papers, and any kind with other settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sortnet.config import PAPER, Setting, Settings, parse_settings, settings_of
from sortnet.errors import SortNetError
from sortnet.messages import known_names
from sortnet.rankers.registry import KINDS, VARIANTS, settings_for
from sortnet.rankers.tuning import Grid


@dataclass(frozen=True)
class Entry:
    """A ranker that an experiment compares, with its settings.

    Attributes:
        name: the name in the table of results.
        kind: the kind of the ranker, or a variant of a kind.
        changes: settings that differ from the defaults of the kind.
        grids: the settings that are searched, see `tune`. If None, the grids of the kind; SortNet
            has none, because it chooses its open settings by itself.
    """

    name: str
    kind: str
    changes: Mapping[str, Any] = field(default_factory=dict, hash=False)
    grids: Sequence[Grid] | None = field(default=None, hash=False)

    def settings(self, **common: Any) -> Settings:
        """Make the settings of the ranker.

        Args:
            common: settings that all rankers of an experiment share; the entry's own settings have
                precedence.
        """
        return settings_for(self.kind).changed(**{**common, **self.changes})

    def changed(self, **changes: Any) -> Entry:
        """Make an entry with changed settings, which has no search; its name lists the changes.

        >>> ENTRIES["sortnet"].changed(hidden=(20, 20), seed=1).name
        'sortnet:hidden=20-20,seed=1'
        """
        typed = ",".join(f"{name}={_as_typed(value)}" for name, value in changes.items())
        return Entry(f"{self.name}:{typed}", self.kind, {**self.changes, **changes}, grids=())

    def to_json(self) -> dict[str, Any]:
        """Describe the entry as JSON: its name, all its settings and its grids."""
        return {"name": self.name, "grids": self.grids, "settings": self.settings().to_json()}


def _as_typed(value: Any) -> Any:
    """Write the value of a setting as on a command line: sizes of layers joined by hyphens."""
    return "-".join(map(str, value)) if isinstance(value, tuple) else value


_SORTNETS: dict[str, Mapping[str, Any]] = {
    "sortnet": {},
    "sortnet-cmpnn": {"comparator": "cmpnn"},
    "sortnet-directranker": {"comparator": "directranker"},
    "sortnet-paper": PAPER,
}
# The entries of the kind `sortnet` are those in `_SORTNETS`. A ranker of the kind `posterior` ranks
# no labelled queries.
_LEFT_OUT = ("sortnet", "posterior")
ENTRIES: dict[str, Entry] = {
    **{name: Entry(name, "sortnet", changes, grids=()) for name, changes in _SORTNETS.items()},
    **{kind: Entry(kind, kind) for kind in (*KINDS, *VARIANTS) if kind not in _LEFT_OUT},
}


def entry_of(name: str) -> Entry:
    """Look up an entry by its name; `NAME:SETTING=VALUE,...` changes settings of the entry NAME.

    Raises:
        SortNetError: if no entry has the name, or a setting or its value is invalid; the message
            lists similar names.

    >>> entry_of("ranksvm").kind, entry_of("sortnet:hidden=20-20").changes
    ('ranksvm', {'hidden': (20, 20)})
    """
    base, _, text = name.partition(":")
    if base not in ENTRIES:
        raise SortNetError(f"unknown ranker {base[:60]!r}; there is {known_names(ENTRIES, base)}")
    entry = ENTRIES[base]
    if not text:
        return entry
    changes = dict(_parsed_setting(entry.kind, typed) for typed in text.split(","))
    return replace(entry.changed(**changes), name=name)


def entries_named(names: str, every: Iterable[str] = tuple(ENTRIES)) -> list[Entry]:
    """Look up the entries in a list of names that are separated by commas.

    Args:
        names: the names, as typed by a user. `all` stands for the names in `every`.
        every: names of entries.

    Raises:
        SortNetError: if a name is invalid, see `entry_of`, or is given twice.

    >>> [entry.name for entry in entries_named("ranksvm:C=1, seed=2, err")]
    ['ranksvm:C=1,seed=2', 'err']
    """
    chosen: list[str] = []
    without_spaces = re.sub(r"\s*,\s*", ",", names.strip())
    # A comma before `SETTING=` continues the name of a ranker, any other comma ends it.
    for name in re.split(r",(?![^,:]*=)", without_spaces):
        if name == "all":
            chosen += every
        elif name:
            chosen.append(name)
    entries = [entry_of(name) for name in chosen]
    for name in chosen:
        if chosen.count(name) > 1:
            raise SortNetError(f"ranker {name[:60]!r} is given twice")
    return entries


def _parsed_setting(kind: str, typed: str) -> tuple[str, Any]:
    """Parse SETTING=VALUE into the name and the value of a setting of a kind of ranker."""
    name, _, value = typed.partition("=")
    settings: Mapping[str, Setting] = settings_of(type(settings_for(kind)))  # type: ignore[arg-type]
    return name, parse_settings(kind, settings, {name: value})[name]


def grid_of(kind: str, texts: Iterable[str]) -> dict[str, list[Any]]:
    """Parse texts SETTING=VALUE,VALUE,... into a grid of settings for `tune`.

    Raises:
        SortNetError: if a setting is unknown or a value is invalid.

    >>> grid_of("directranker", ["hidden=10-5,20-5", "dropout=0,0.2"])
    {'hidden': [(10, 5), (20, 5)], 'dropout': [0.0, 0.2]}
    """
    grid: dict[str, list[Any]] = {}
    for text in texts:
        name, _, typed_values = text.partition("=")
        grid[name] = []
        for typed in typed_values.split(","):
            _, value = _parsed_setting(kind, f"{name}={typed}")
            grid[name].append(value)
    return grid
