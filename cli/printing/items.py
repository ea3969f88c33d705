"""Results about items: the items added from a file, a list of items, the details of one item."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from cli.console import DEFAULT_WIDTH, width
from cli.printing.columns import fact_lines
from cli.printing.results import Column, Result, Step, Table
from sortnet.items import Columns, Items, readable_names
from sortnet.items.base import words_of
from sortnet.items.item_groups import note_on_lone_groups
from sortnet.messages import count, cut, printable
from sortnet.tables.column_groups import feature_groups, listed_names
from store.service.named_item import item_facts

if TYPE_CHECKING:
    from store.service.added_items import AddedItems

_FILES = 6  # number of a folder's ignored files that are listed by name


def added_result(added: AddedItems) -> Result:
    """Make the result of adding a file: how many items were added, and the roles of its columns."""
    roles = added.roles
    computed = _computed_features(added.items, roles)
    n_groups = len(set(added.items.groups or ()))
    n_added = added.n_new - added.n_replaced
    value = {
        "collection": added.collection,
        "added": n_added,
        "replaced": added.n_replaced,
        "groups": n_groups,
        "pairs": added.n_pairs,
        "items": len(added.items),
        "taken": {role: column for role, column in vars(roles).items() if role != "grade"},
        "made": readable_names(computed, vars(roles)),
    }
    replaced = f", {added.n_replaced} replaced" if added.n_replaced else ""
    counts = f"{count(n_added, 'item')} added{replaced}, {len(added.items)} in all"
    facts = _column_facts(added, computed, n_groups)
    command = f"sortnet label {shlex.quote(added.collection)}"
    sentence = f"next: {command}, or in a browser: sortnet serve {shlex.quote(added.collection)}"
    return Result(
        "added",
        value,
        text=[f"{added.collection}: {counts}", *fact_lines(facts)],
        notes=_notes(added, computed),
        next=Step(command, sentence),
    )


def _computed_features(items: Items, roles: Columns) -> list[str]:
    """Return the names of the features that were computed from texts and images."""
    from_columns = {*roles.features, *roles.categories}
    return [feature for feature in items.feature_names if feature not in from_columns]


def _column_facts(added: AddedItems, computed: list[str], n_groups: int) -> dict[str, str]:
    """Describe the columns of each role, with counts of groups, pairs and features.

    Roles without a column are left out.

    Args:
        added: the items that were added, and the roles of the file's columns.
        computed: names of the features that were computed from texts and images.
        n_groups: number of groups of the collection.

    Returns:
        {role: description of its columns}.
    """
    from store.service.added_items import ROLES

    roles = added.roles
    n_features = len(added.items.feature_names)
    facts = {role: getattr(roles, role) for role in ROLES}
    facts["id"] = roles.id or "row number"
    if roles.group:
        facts["group"] = f"{roles.group}, {count(n_groups, 'group')}"
    facts["shown"] = listed_names(roles.shown)
    if added.n_pairs:
        facts["pairs"] = f"{count(added.n_pairs, 'pair')} may be asked, no others"
    facts["features"] = str(n_features or "none: answers are learned item by item")
    for group, columns in feature_groups(roles, computed).items():
        facts[f"  {group}"] = columns
    facts["ignored"] = _ignored(roles)
    return {role: text for role, text in facts.items() if text}


def _notes(added: AddedItems, computed: list[str]) -> list[str]:
    """List notes about columns, features, groups of one item, and pages of a running server."""
    notes = list(added.roles.notes)
    has_contents = any((*added.items.texts, *added.items.images))
    if added.roles.features and not computed and has_contents:
        notes.append(
            "only the features of the file are used: --describe adds features of texts and images"
        )
    if added.lone_groups:
        notes.append(note_on_lone_groups(added.lone_groups))
    if added.is_outdated_on_pages:
        notes.append("the running server shows the items as they were before until it is restarted")
    return notes


def _ignored(roles: Columns) -> str:
    """List all ignored columns of a table, or the first ignored files of a folder."""
    is_folder = roles.id == "files"
    if not is_folder or len(roles.ignored) <= _FILES:
        return listed_names(roles.ignored)
    first = ", ".join(map(printable, roles.ignored[:_FILES]))
    return f"{first}, ... ({len(roles.ignored)})"


def items_result(items: Items, limit: int) -> Result:
    """Make the result with a line for each of the first `limit` items of a collection."""
    numbers = range(min(limit, len(items)))
    ids = [printable(items.ids[number]) for number in numbers]
    longest_id = max(map(len, ids), default=0)  # a run that has asked nothing yet has no items
    line_width = width() or DEFAULT_WIDTH
    lines = []
    for number, item_id in zip(numbers, ids, strict=True):
        line = f"{item_id.ljust(longest_id)}  {words_of(items, number)}"
        lines.append(cut(line.rstrip(), line_width))
    n_more = len(items) - len(ids)
    notes = [f"and {n_more} more (--limit)"] if n_more else []
    return Result(
        "items",
        [item_facts(items, number) for number in numbers],
        text=lines,
        notes=notes,
    )


def item_result(record: dict[str, Any]) -> Result:
    """Make the result with all details of an item and its full texts.

    Args:
        record: the item, as `store.service.named_item.item_record` returns it.
    """
    text = list[str | Table]()
    for name in ("id", "group", "image", "audio"):
        if name in record:
            text.append(f"{name:5}  {printable(record[name])}")
    for column, cell in record.get("shown", {}).items():
        text.append(f"{printable(column)}: {printable(cell)}")
    for name in ("context", "text"):
        if name in record:
            text += ["", *map(printable, record[name].splitlines())]
    if record["features"]:
        text += ["", Table(_FEATURES, list(record["features"].items()))]
    return Result("item", record, text=text)


def _feature_text(value: str | float | None) -> str:
    """Write the value of a feature; a hyphen if it is missing."""
    if isinstance(value, str):
        return value
    return "-" if value is None else f"{value:.6g}"


_FEATURES = [
    Column("feature", lambda feature: printable(feature[0])),
    Column("value", lambda feature: _feature_text(feature[1])),
]
