"""Results about items: collections, added and listed items, an item, and rankings."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cli.printing.labelling import standing_notes
from cli.printing.results import Block, Facts, Result, Table, table_of
from sortnet.files import Record, rows_of
from sortnet.items import Items, readable_names
from sortnet.items.base import file_of, note_on_lone_groups, words_of
from sortnet.messages import count, printable
from sortnet.tables.roles import NAMED, feature_groups, listed_names
from store.service.collection_items import item_facts
from store.service.existing_store import ITEMS_MAKER

if TYPE_CHECKING:
    import pandas as pd

    from store.service.added_items import AddedItems
    from store.service.labelling import LabellingService

# Facts in JSON; `run_id` is the id of the run that owns a collection, None for a user's collection.
_COLLECTION_FACTS = (
    *("name", "created", "items", "features", "annotators", "judgements", "run_id"),
)
_COLLECTIONS = ("collection", "items", "features", "annotators", "judgements", "created")
_RANKING = ("group", "rank", "id", "score", "ranks", "judged", "among_top", "text")


def collections_result(frame: pd.DataFrame) -> Result:
    """Make the result with a row for each collection.

    In an empty store, the next step is the command that makes a collection.

    Args:
        frame: a row for each collection, as `Store.collections_frame` makes it.
    """
    rows = rows_of(frame[[*_COLLECTION_FACTS]])
    for row in rows:
        row["created"] = row["created"].replace(" ", "T")  # ISO 8601
    if not rows:
        proposal = f"no collections yet: {ITEMS_MAKER} makes one"
        return Result("collections", rows, next=ITEMS_MAKER, proposal=proposal)
    named_rows = [{**row, "collection": row["name"]} for row in rows]
    notes = []
    if any(str(row["name"]).startswith("run:") for row in rows):
        notes.append("run:ID: the answers of the judge of a run (sortnet runs)")
    return Result("collections", rows, [table_of(named_rows, _COLLECTIONS)], notes)


def added_result(added: AddedItems) -> Result:
    """Make the result of adding a file: how many items were added, and the roles of its columns."""
    roles = added.roles
    from_columns = {*roles.features, *roles.categories}
    computed = [name for name in added.items.feature_names if name not in from_columns]
    n_groups = len(set(added.items.groups or ()))
    known = "replaced" if added.is_update else "known"
    value = {
        "collection": added.collection,
        "added": added.n_added,
        "known": 0,
        "replaced": 0,
        known: added.n_known,
        "groups": n_groups,
        "pairs": added.n_pairs,
        "items": len(added.items),
        "taken": {role: column for role, column in vars(roles).items() if role != "grade"},
        "made": readable_names(computed, vars(roles)),
    }
    counts = [f"{count(added.n_added, 'item')} added", f"{len(added.items)} in all"]
    if added.n_known:
        counts.insert(1, f"{added.n_known} {known}")
    facts = Facts(_column_facts(added, computed, n_groups))
    command = f"sortnet label {shlex.quote(added.collection)}"
    sentence = f"next: {command}, or in a browser: sortnet serve {shlex.quote(added.collection)}"
    text: list[Block] = [f"{added.collection}: {', '.join(counts)}", facts]
    return Result("added", value, text, _notes(added, computed), command, sentence)


def _column_facts(added: AddedItems, computed: list[str], n_groups: int) -> dict[str, str]:
    """Describe the columns of each role, with counts of groups, pairs and features.

    Args:
        added: the items that were added, and the roles of the file's columns.
        computed: names of the features that were computed from texts and images.
        n_groups: number of groups of the collection.

    Returns:
        {role: description of its columns}.
    """
    roles = added.roles
    n_features = len(added.items.feature_names)
    facts = {role: getattr(roles, role) for role in NAMED}
    facts["id"] = roles.id or "row number"
    if roles.group:
        facts["group"] = f"{roles.group}, {count(n_groups, 'group')}"
    facts["shown"] = listed_names(roles.shown)
    if added.n_pairs:
        facts["pairs"] = f"{count(added.n_pairs, 'pair')} may be asked, no others"
    facts["features"] = str(n_features or "none: answers are learned item by item")
    for group, columns in feature_groups(roles, computed).items():
        facts[f"  {group}"] = columns
    facts["ignored"] = listed_names(roles.ignored)
    return facts


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


def items_result(items: Items, limit: int) -> Result:
    """Make the result with a row for each of the first `limit` items of a collection."""
    numbers = range(min(limit, len(items)))
    rows = [{"id": items.ids[number], "text": words_of(items, number)} for number in numbers]
    n_more = len(items) - len(rows)
    return Result(
        "items",
        [item_facts(items, number) for number in numbers],
        text=[table_of(rows, ["id", "text"])],
        notes=[f"and {n_more} more (--limit)"] if n_more else [],
    )


def item_result(record: Record) -> Result:
    """Make the result with all details of an item and its full texts.

    Args:
        record: the item, as `store.service.collection_items.item_record` returns it.
    """
    facts = {name: record.get(name, "") for name in ("id", "group", "image", "audio")}
    text: list[Block] = [Facts(facts)]
    for column, value in record.get("shown", {}).items():
        text.append(f"{printable(column)}: {printable(value)}")
    for name in ("context", "text"):
        if name in record:
            text += ["", *map(printable, record[name].splitlines())]
    if record["features"]:
        rows = [
            {"feature": name, "item_value": value} for name, value in record["features"].items()
        ]
        text += ["", table_of(rows, ["feature", "item_value"])]
    return Result("item", record, text=text)


def ranking_result(
    rankings: Sequence[tuple[LabellingService, pd.DataFrame]], group: str | None, *, verbose: bool
) -> Result:
    """Make the result with a row for each item of each ranking; JSON has one list of all rows.

    Args:
        rankings: the service and the frame of a collection, or of each of its criteria.
        group: the only group that is ranked; None: all groups.
        verbose: whether the notes say more about how sure the ranking is.
    """
    import pandas as pd

    text = list[Block]()
    notes = list[str]()
    for service, frame in rankings:
        if len(rankings) > 1:
            text += ["", printable(service.collection.name)]
        text.append(_ranking_table(frame, service.items))
        notes += standing_notes(service, group, verbose=verbose)
    all_rows = pd.concat([frame for _, frame in rankings])
    return Result("ranking", rows_of(all_rows), text, notes, csv=all_rows)


def ranking_lines(
    frame: pd.DataFrame, items: Items, width: int, *, files: bool = True
) -> list[str]:
    """Write a ranking as lines: a header, and a line for each item with the start of its text.

    Args:
        frame: the ranking, one row for each item.
        items: the items of the collection.
        width: the largest length of a line, in characters.
        files: whether to show the names of files, and the ids of items that have a file. An
            annotator may see from them which item is better.
    """
    return _ranking_table(frame, items, files=files).lines(width)


def _ranking_table(frame: pd.DataFrame, items: Items, *, files: bool = True) -> Table:
    """Make the table of a ranking; for the arguments see `ranking_lines`."""
    rows = rows_of(frame)
    for item, row in zip(frame.index, rows, strict=True):
        row["ranks"] = f"{row['low']}-{row['high']}"
        row["judged"] = row["judgements"]
        row["text"] = words_of(items, item, files=files)
        if not files and file_of(items, item):
            row["id"] = None
    names = [*frame.columns, "ranks", "judged"]
    if any(row["text"] for row in rows):
        names.append("text")
    return table_of(rows, [name for name in _RANKING if name in names])
