"""The rankers of an experiment by name: what the papers compare, and any kind with settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from sortnet.config import PAPER, Setting, Settings, parse_setting, settings_of
from sortnet.errors import SortNetError
from sortnet.rankers.registry import KINDS, VARIANTS, settings_for
from sortnet.rankers.tuning import Grid


@dataclass(frozen=True)
class Entry:
    """A row of the table of an experiment.

    Attributes:
        name: the name in the table.
        kind: the kind of the ranker, or a variant of a kind.
        changes: settings that differ from the defaults of the kind.
        grids: the settings that are searched, see `tune`. None: the grids of the kind. They are
            empty for SortNet, which chooses its open settings by itself.
    """

    name: str
    kind: str
    changes: Mapping[str, Any] = field(default_factory=dict, hash=False)
    grids: Sequence[Grid] | None = field(default=None, hash=False)

    def settings(self, **common: Any) -> Settings:
        """The settings of the ranker; `common`: settings of all rankers of an experiment."""
        return settings_for(self.kind).changed(**{**common, **self.changes})

    def changed(self, **changes: Any) -> Entry:
        """Change settings of the entry: the new name lists the changes, and nothing is searched."""
        typed = ",".join(f"{name}={_as_typed(value)}" for name, value in changes.items())
        return Entry(f"{self.name}:{typed}", self.kind, {**self.changes, **changes}, grids=())

    def to_json(self) -> dict[str, Any]:
        """The name, the grids (None for the grids of the kind), and all settings."""
        return {"name": self.name, "grids": self.grids, "settings": self.settings().to_json()}


def _as_typed(value: Any) -> Any:
    """The value of a setting as it is typed on a command line: sizes of layers with hyphens."""
    return "-".join(map(str, value)) if isinstance(value, tuple) else value


_SORTNETS: dict[str, Mapping[str, Any]] = {
    "sortnet": {},
    "sortnet-cmpnn": {"comparator": "cmpnn"},
    "sortnet-directranker": {"comparator": "directranker"},
    "sortnet-paper": PAPER,
}
_LEFT_OUT = ("sortnet", "posterior")  # sortnet has the entries above; posterior ranks no queries
ENTRIES: dict[str, Entry] = {
    **{name: Entry(name, "sortnet", changes, grids=()) for name, changes in _SORTNETS.items()},
    **{kind: Entry(kind, kind) for kind in (*KINDS, *VARIANTS) if kind not in _LEFT_OUT},
}


def entry_of(name: str) -> Entry:
    """The entry with a name; `NAME:SETTING=VALUE,...` changes settings of the entry.

    Raises:
        SortNetError: if no entry has the name, with similar names; if a setting is unknown or
            its value is refused.

    >>> entry_of("ranksvm").kind, entry_of("sortnet:hidden=20-20").changes
    ('ranksvm', {'hidden': (20, 20)})
    """
    base, _, text = name.partition(":")
    if base not in ENTRIES:
        similar = get_close_matches(base, ENTRIES, n=3) or list(ENTRIES)
        raise SortNetError(f"unknown ranker {base[:60]!r}; there is {', '.join(similar)}")
    entry = ENTRIES[base]
    if not text:
        return entry
    changes = dict(_change(entry.kind, typed) for typed in text.split(","))
    return replace(entry.changed(**changes), name=name)


def entries_named(names: str, every: Iterable[str] = tuple(ENTRIES)) -> list[Entry]:
    """The entries whose names are typed with commas between them; `all` stands for `every`.

    Raises:
        SortNetError: as `entry_of`; if a name is given twice.

    >>> [entry.name for entry in entries_named("ranksvm:C=1, seed=2, err")]
    ['ranksvm:C=1,seed=2', 'err']
    """
    chosen: list[str] = []
    without_spaces = re.sub(r"\s*,\s*", ",", names.strip())
    # A comma before a setting does not end the name of a ranker.
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


def _change(kind: str, typed: str) -> tuple[str, Any]:
    """The name and the value of SETTING=VALUE, for a ranker of that kind."""
    name, equals, value = typed.partition("=")
    settings: Mapping[str, Setting] = settings_of(type(settings_for(kind)))  # type: ignore[arg-type]
    if not equals or name not in settings:
        similar = get_close_matches(name, settings, n=3) or list(settings)
        raise SortNetError(
            f"a ranker of kind {kind} has no setting {name[:60]!r}; there is {', '.join(similar)}"
        )
    return name, parse_setting(name, settings[name].values, value)


def grid_of(kind: str, texts: Iterable[str]) -> dict[str, list[Any]]:
    """Parse a grid of `tune` from texts SETTING=VALUE,VALUE,...

    Raises:
        SortNetError: if a setting is unknown or a value is refused.

    >>> grid_of("directranker", ["hidden=10-5,20-5", "dropout=0,0.2"])
    {'hidden': [(10, 5), (20, 5)], 'dropout': [0.0, 0.2]}
    """
    grid = {}
    for text in texts:
        name, _, values = text.partition("=")
        grid[name] = [_change(kind, f"{name}={value}")[1] for value in values.split(",")]
    return grid
