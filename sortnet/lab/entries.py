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
        kind: of the ranker, or a variant.
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
        """One with other settings, which are not searched; its name says which."""
        typed = {
            k: "-".join(map(str, v)) if isinstance(v, tuple) else v for k, v in changes.items()
        }
        said = ",".join(f"{key}={value}" for key, value in typed.items())
        return Entry(f"{self.name}:{said}", self.kind, {**self.changes, **changes}, grids=())

    def to_json(self) -> dict[str, Any]:
        """Its name, its grids where they are not the kind's, and all its settings."""
        return {"name": self.name, "grids": self.grids, "settings": self.settings().to_json()}


_OTHERS = ("sortnet", "posterior")  # named above, or no ranker of queries
ENTRIES: dict[str, Entry] = {
    name: Entry(name, "sortnet", changes, grids=())
    for name, changes in (
        ("sortnet", {}),
        ("sortnet-cmpnn", {"comparator": "cmpnn"}),
        ("sortnet-directranker", {"comparator": "directranker"}),
        ("sortnet-paper", PAPER),
    )
} | {kind: Entry(kind, kind) for kind in (*KINDS, *VARIANTS) if kind not in _OTHERS}


def entry_of(name: str) -> Entry:
    """An entry by its name, or `NAME:SETTING=VALUE,...` for one with other settings.

    Raises:
        SortNetError: if there is none of that name, naming near ones; or as `settings_from`.

    >>> entry_of("ranksvm").kind, entry_of("sortnet:hidden=20-20").changes
    ('ranksvm', {'hidden': (20, 20)})
    """
    base, _, text = name.partition(":")
    if base not in ENTRIES:
        near = get_close_matches(base, ENTRIES, n=3) or list(ENTRIES)
        raise SortNetError(f"unknown ranker {base[:60]!r}; there is {', '.join(near)}")
    entry = ENTRIES[base]
    if not text:
        return entry
    changes = dict(_change(entry.kind, each) for each in text.split(","))
    return replace(entry.changed(**changes), name=name)


def entries_named(names: str, every: Iterable[str] = tuple(ENTRIES)) -> list[Entry]:
    """Entries by their names as typed, comma by comma; `all` stands for `every`.

    Raises:
        SortNetError: on an unknown one, or one given twice.

    >>> [entry.name for entry in entries_named("ranksvm:C=1, seed=2, err")]
    ['ranksvm:C=1,seed=2', 'err']
    """
    found: list[str] = []
    # A word that is a setting belongs to the ranker before it.
    for name in re.split(r",(?![^,:]*=)", re.sub(r"\s*,\s*", ",", names.strip())):
        found += every if name == "all" else filter(None, [name])
    entries = [entry_of(name) for name in found]
    for name in found:
        if found.count(name) > 1:
            raise SortNetError(f"ranker {name[:60]!r} is given twice")
    return entries


def _change(kind: str, text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    known: Mapping[str, Setting] = settings_of(type(settings_for(kind)))  # type: ignore[arg-type]
    if not equals or name not in known:
        near = get_close_matches(name, known, n=3) or list(known)
        said = f"a ranker of kind {kind} has no setting {name[:60]!r}"
        raise SortNetError(f"{said}; there is {', '.join(near)}")
    return name, parse_setting(name, known[name].values, value)


def grid_of(kind: str, texts: Iterable[str]) -> dict[str, list[Any]]:
    """A grid of `tune` as typed, SETTING=VALUE,VALUE each.

    Raises:
        SortNetError: as of `entry_of`.

    >>> grid_of("directranker", ["hidden=10-5,20-5", "dropout=0,0.2"])
    {'hidden': [(10, 5), (20, 5)], 'dropout': [0.0, 0.2]}
    """
    split = [text.partition("=") for text in texts]
    return {
        name: [_change(kind, f"{name}={value}")[1] for value in values.split(",")]
        for name, _, values in split
    }
