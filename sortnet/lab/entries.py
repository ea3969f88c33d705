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
        name: what the table calls it.
        kind: kind of the ranker, or a variant.
        changes: settings that are not the kind's defaults.
        grids: what is searched, see `tune`: None: the kind's own; nothing of SortNet, which
            chooses what its settings leave open by itself.
    """

    name: str
    kind: str
    changes: Mapping[str, Any] = field(default_factory=dict, hash=False)
    grids: Sequence[Grid] | None = field(default=None, hash=False)

    def settings(self, **common: Any) -> Settings:
        """The settings of its kind, with those that all rankers of an experiment have."""
        return settings_for(self.kind).changed(**{**common, **self.changes})

    def changed(self, **changes: Any) -> Entry:
        """The entry with other settings, which its name lists; none of its settings is searched."""
        typed = ",".join(f"{name}={_as_typed(value)}" for name, value in changes.items())
        return Entry(f"{self.name}:{typed}", self.kind, {**self.changes, **changes}, grids=())

    def to_json(self) -> dict[str, Any]:
        """Its name, its grids where they are not the kind's, and all its settings."""
        return {"name": self.name, "grids": self.grids, "settings": self.settings().to_json()}


def _as_typed(value: Any) -> Any:
    """The value of a setting as a command line has it: numbers of layers with hyphens."""
    return "-".join(map(str, value)) if isinstance(value, tuple) else value


_SORTNETS: dict[str, Mapping[str, Any]] = {
    "sortnet": {},
    "sortnet-cmpnn": {"comparator": "cmpnn"},
    "sortnet-directranker": {"comparator": "directranker"},
    "sortnet-paper": PAPER,
}
_LEFT_OUT = ("sortnet", "posterior")  # has rows of its own; ranks no queries
ENTRIES: dict[str, Entry] = {
    **{name: Entry(name, "sortnet", changes, grids=()) for name, changes in _SORTNETS.items()},
    **{kind: Entry(kind, kind) for kind in (*KINDS, *VARIANTS) if kind not in _LEFT_OUT},
}


def entry_of(name: str) -> Entry:
    """An entry by its name, or `NAME:SETTING=VALUE,...` for one with other settings.

    Raises:
        SortNetError: if there is none of that name, naming near ones; or as `settings_from`.

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
    """Entries by their names as typed, comma by comma; `all` stands for `every`.

    Raises:
        SortNetError: on an unknown one, or one given twice.

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
    """A grid of `tune` as typed, SETTING=VALUE,VALUE each.

    Raises:
        SortNetError: as of `entry_of`.

    >>> grid_of("directranker", ["hidden=10-5,20-5", "dropout=0,0.2"])
    {'hidden': [(10, 5), (20, 5)], 'dropout': [0.0, 0.2]}
    """
    grid = {}
    for text in texts:
        name, _, values = text.partition("=")
        grid[name] = [_change(kind, f"{name}={value}")[1] for value in values.split(",")]
    return grid
