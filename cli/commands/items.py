"""`sortnet items`: collections of items that people sort."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.options import Whole, files, store_and_json, store_option
from cli.output import DEFAULT_WIDTH, progress, put, say, width
from cli.printing.columns import fact_lines, feature_groups, listed_names
from cli.printing.results import Column, Result, Step, Table, print_result
from sortnet.errors import StoreError
from sortnet.files import is_table, rows_of
from sortnet.items import (
    Columns,
    Items,
    read_with_roles,
    readable_names,
)
from sortnet.items.base import words_of
from sortnet.items.item_groups import lone_groups, read_pairs, said_alone
from sortnet.messages import count, cut, printable
from sortnet.tables.values import date_text
from store.service.existing_store import ITEMS_MAKER, open_collection, open_existing, open_to_write

if TYPE_CHECKING:
    from store import Collection

_SHOWN = 20  # items that `show` lists
_NAMED = ("id", "text", "group", "context")  # roles of columns that can be named
_ROLES = (*_NAMED[:2], "image", "audio", *_NAMED[2:])
_FILES = 6  # ignored files of a folder that are listed by name


@click.group("items", short_help="Add, list, show and remove items that people sort.")
def items() -> None:
    """Manage named collections of items that people sort.

    \b
    Examples:
      sortnet items add essays essays.csv
      sortnet items list
    """


def _column_options(command: Any) -> Any:
    about = {
        "id": "Column of the item ids; default: guessed.",
        "text": "Column of the texts; default: guessed.",
        "group": "Column of the item's group (prompt, topic, ...): compare within groups only "
        "(train calls it --query).",
        "context": "Column of the group's own text, shown above its pairs.",
    }
    for kind, said in reversed(about.items()):
        command = click.option(f"--{kind}", f"{kind}_column", metavar="COLUMN", help=said)(command)
    return command


@items.command()
@click.argument("name")
@click.argument("file", shell_complete=files)
@_column_options
@click.option(
    "--show", metavar="COLUMN", multiple=True, help="Show this column beside each item; repeatable."
)
@click.option(
    "--ignore",
    metavar="COLUMN",
    multiple=True,
    help="Leave a column out, such as one that gives the answer away; repeatable.",
)
@click.option(
    "--describe/--no-describe",
    "described",
    default=None,
    help="Compute features of texts and images; default: only if the file has no numbers.",
)
@click.option(
    "--embed", is_flag=True, help="Also compute features with a language model (an extra)."
)
@click.option(
    "--pairs", metavar="PAIRS", help="File of two id columns: ask about these pairs only."
)
@click.option("--update", is_flag=True, help="Replace existing items; their judgements are kept.")
@click.option(
    "--gold", metavar="FILE", shell_complete=files, help="Gold pairs: their answer is known."
)
@store_and_json
def add(
    name: str,
    file: str,
    described: bool | None,
    embed: bool,
    pairs: str | None,
    update: bool,
    gold: str | None,
    store: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Add the items of FILE to the collection NAME, which is created if it does not exist.

    FILE is CSV, TSV, JSONL or Parquet with one row per item, a folder of texts, images or
    sounds, or LETOR text (.txt; the qid is the group). Numeric columns are features; --ignore
    those that should not be used. A column of short texts that repeat is categorical: each of
    its values is a feature, COLUMN=VALUE. More items and pairs can be added later; the
    group, context and shown columns are then taken without being named again.

    \b
    Examples:
      sortnet items add essays essays.csv
      sortnet items add photos holiday/
      sortnet items add args items.tsv --ignore up --ignore down
      sortnet items add answers answers.csv --group prompt_id --context prompt
    """
    from store.collections.collection_rows import checked_new
    from store.collections.gold_file import read_gold
    from store.service.added_items import with_features

    with open_to_write(store) as opened, progress() as status:
        there = opened.collections_frame()["name"].tolist()
        collection = opened.collection(name) if name in there else None
        if collection is None:
            checked_new(name)  # before a long file is read
        old = None if collection is None else collection.items()
        status(f"reading {file}")
        shown = tuple(dict.fromkeys(options["show"]))
        named = Columns(**{kind: options[f"{kind}_column"] for kind in _NAMED}, shown=shown)
        if collection is not None:
            named = _known_groups(named, collection, Path(file))
        few = 1 if old else 2
        new, roles = read_with_roles(
            file, named, ignore=options["ignore"], like=old, least=few, progress=status
        )
        all_items = with_features(
            old,
            new,
            has_numbers=bool(roles.features),
            described=described,
            embed=embed,
            update=update,
            progress=status,
        )
        alone = lone_groups(all_items)
        listed = None if pairs is None else read_pairs(Path(pairs), all_items)
        known = [] if gold is None else read_gold(gold, all_items)
        status("writing")
        collection = opened.add_items(
            name,
            all_items,
            update=old is not None,
            columns={kind: getattr(roles, kind) for kind in (*_ROLES, "features", "dates")},
            pairs=listed,
        )
        collection.decide(*known)
        served, listed = collection.is_served(), collection.allowed_pairs()
    n_pairs = 0 if listed is None else len(listed)
    result = _added(name, new, old, all_items, roles, n_pairs)
    notes = [said_alone(alone)] if alone else []
    if served and update:
        notes.append("the running server shows the items as they were before until it is restarted")
    print_result(replace(result, notes=[*result.notes, *notes]), as_json=as_json)


def _known_groups(named: Columns, collection: Collection, file: Path) -> Columns:
    """Take the group and context columns that the collection has, where none are named."""
    known = collection.settings.get("columns", {})
    if named.group or not known.get("group") or not is_table(file):
        return named
    return replace(named, group=known["group"], context=named.context or known.get("context"))


def _added(
    name: str, new: Items, old: Items | None, all_items: Items, roles: Columns, pairs: int
) -> Result:
    """Count the items added to a collection, and name the role of each column."""
    replaced = len(new) + (0 if old is None else len(old)) - len(all_items)
    groups = len(set(all_items.groups or ()))
    from_columns = {*roles.features, *roles.categories}
    computed = [feature for feature in all_items.feature_names if feature not in from_columns]
    about = {"collection": name, "added": len(new) - replaced, "replaced": replaced}
    about |= {"groups": groups, "pairs": pairs, "items": len(all_items)}
    readable = readable_names(computed, vars(roles))
    also = f", {replaced} replaced" if replaced else ""
    facts = {kind: getattr(roles, kind) for kind in _ROLES}
    facts["id"] = roles.id or "row number"
    facts["group"] = roles.group and f"{roles.group}, {count(groups, 'group')}"
    facts["shown"] = listed_names(roles.shown)
    facts["pairs"] = f"{count(pairs, 'pair')} may be asked, no others" if pairs else ""
    n_features = len(all_items.feature_names)
    facts["features"] = str(n_features or "none: answers are learned item by item")
    for group, columns in feature_groups(roles, computed).items():
        facts[f"  {group}"] = columns
    facts["ignored"] = _ignored(roles)
    added = f"{name}: {count(len(new) - replaced, 'item')} added{also}, {len(all_items)} in all"
    notes = list(roles.notes)
    if roles.features and not computed and any((*all_items.texts, *all_items.images)):
        notes.append(
            "only the features of the file are used: --describe adds features of texts and images"
        )
    command = f"sortnet label {shlex.quote(name)}"
    sentence = f"next: {command}, or in a browser: sortnet serve {shlex.quote(name)}"
    return Result(
        "added",
        {**about, "taken": vars(roles), "made": readable},
        text=[added, *fact_lines({kind: text for kind, text in facts.items() if text})],
        notes=notes,
        next=Step(command, sentence),
    )


def _ignored(roles: Columns) -> str:
    """The ignored columns, all of them; or the first ignored files of a folder."""
    if roles.id != "files" or len(roles.ignored) <= _FILES:
        return listed_names(roles.ignored)
    first = ", ".join(map(printable, roles.ignored[:_FILES]))
    return f"{first}, ... ({len(roles.ignored)})"


def _iso_time(text: str | None) -> str | None:
    """A time as ISO 8601 writes it; None where a damaged store has none."""
    return None if text is None else text.replace(" ", "T")


@items.command("list")
@store_and_json
def list_(store: str | None, as_json: bool) -> None:
    """List the collections, oldest first.

    \b
    Examples:
      sortnet items list --json
    """
    counts = ["items", "features", "annotators", "judgements"]
    with open_existing(store, ITEMS_MAKER) as opened:
        rows = rows_of(opened.collections_frame()[["name", "created", *counts]])
    rows = [row | {"created": _iso_time(row["created"])} for row in rows]
    if rows:
        result = Result("collections", rows, text=[Table(_COLUMNS, rows)])
    else:
        step = Step(ITEMS_MAKER, f"no collections yet: {ITEMS_MAKER} makes one")
        result = Result("collections", rows, next=step)
    print_result(result, as_json=as_json)


_COLUMNS = [
    Column("collection", lambda row: str(row["name"])),
    Column("items", lambda row: str(row["items"])),
    Column("features", lambda row: str(row["features"])),
    Column("annotators", lambda row: str(row["annotators"])),
    Column("judgements", lambda row: str(row["judgements"])),
    Column("started UTC", lambda row: str(row["created"])[:16].replace("T", " ")),
]


@items.command("show")
@click.argument("name")
@click.argument("id_", metavar="[ID]", required=False)
@click.option("--limit", type=Whole(1), default=_SHOWN, help="Maximum number of items shown.")
@store_and_json
def show_(name: str, id_: str | None, limit: int, store: str | None, as_json: bool) -> None:
    """Show the first items of a collection, or all details of the item ID.

    \b
    Examples:
      sortnet items show essays
      sortnet items show essays essay-61
    """
    with open_collection(store, name) as collection:
        all_items = collection.items()
        if id_ is not None:
            k = _number(name, all_items, id_)
            columns = collection.settings.get("columns") or {}
            about = {**_facts(all_items, k), "features": _features(all_items, k, columns)}
            result = Result("item", about, text=_item_text(about))
        else:
            result = _items_result(all_items, limit)
    print_result(result, as_json=as_json)


def _items_result(all_items: Items, limit: int) -> Result:
    """The first items of a collection, a line for each."""
    shown = range(min(limit, len(all_items)))
    names = [printable(all_items.ids[k]) for k in shown]
    widest = max(map(len, names))
    lines = [f"{name.ljust(widest)}  {words_of(all_items, k)}" for k, name in enumerate(names)]
    n_more = len(all_items) - len(names)
    return Result(
        "items",
        [_facts(all_items, k) for k in shown],
        text=[cut(line.rstrip(), width() or DEFAULT_WIDTH) for line in lines],
        notes=[f"and {n_more} more (--limit)"] if n_more else [],
    )


def _facts(all_items: Items, k: int) -> dict[str, Any]:
    kinds = {"text": all_items.texts, "image": all_items.images, "audio": all_items.audio}
    some = {"group": all_items.groups, "context": all_items.contexts, "shown": all_items.shown}
    known = {kind: values[k] for kind, values in {**kinds, **some}.items() if values}
    return {"id": all_items.ids[k]} | {kind: x for kind, x in known.items() if x is not None}


def _features(all_items: Items, k: int, columns: Mapping[str, Any]) -> dict[str, Any]:
    """The features of an item by their names for people; dates as text, None where one is missing.

    Args:
        columns: {role: column} of the collection, and the features that are `dates`.
    """
    readable = readable_names(all_items.feature_names, columns)
    dates = columns.get("dates") or ()
    features = dict[str, Any]()
    for stored, name, value in zip(
        all_items.feature_names, readable, all_items.features[k].tolist(), strict=True
    ):
        if math.isnan(value):
            features[name] = None
        else:
            features[name] = date_text(value) if stored in dates else value
    return features


def _item_text(about: dict[str, Any]) -> list[str | Table]:
    lines = list[str | Table]()
    for kind in ("id", "group", "image", "audio"):
        if kind in about:
            lines.append(f"{kind:5}  {printable(about[kind])}")
    for column, shown in about.get("shown", {}).items():
        lines.append(f"{printable(column)}: {printable(shown)}")
    for kind in ("context", "text"):
        if kind in about:
            lines += ["", *map(printable, about[kind].splitlines())]
    if about["features"]:
        lines += ["", Table(_FEATURES, list(about["features"].items()))]
    return lines


_FEATURES = [
    Column("feature", lambda feature: printable(feature[0])),
    Column("value", lambda feature: _value_text(feature[1])),
]


def _value_text(value: str | float | None) -> str:
    if isinstance(value, str):
        return value
    return "-" if value is None else f"{value:.6g}"


@items.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@store_option
def remove(name: str, yes: bool, store: str | None) -> None:
    """Remove a collection with its items and all judgements of them.

    \b
    Examples:
      sortnet items remove essays --yes
    """
    with open_collection(store, name, write=True) as collection:
        what = f"{len(collection.items())} items and {collection.n_judgements} judgements"
        if not yes and not click.confirm(f"Remove {name} with {what}?", err=True):
            say("nothing was removed")
            return
        collection.remove()
    say(f"removed {name}: {what}")


# What each action says when it is done, and its help.
_ACTIONS = {
    "retire": (
        "retired from",
        """Retire the item ID: it is asked about no more, and not ranked.

    Its judgements stay stored, and still teach what its features say.

    \b
    Examples:
      sortnet items retire essays essay-61 --reason duplicate
    """,
    ),
    "restore": (
        "restored in",
        """Restore the retired item ID.

    \b
    Examples:
      sortnet items restore paused essay-2
    """,
    ),
}


def _add_action(kind: str, done: str, text: str) -> None:
    @items.command(kind, help=text)
    @click.argument("name")
    @click.argument("id_", metavar="ID")
    @click.option("--reason", metavar="TEXT", help="Reason, which is stored.")
    @store_option
    def action(name: str, id_: str, reason: str | None, store: str | None) -> None:
        from sortnet.preference.study import Decision

        with open_collection(store, name, write=True) as collection:
            number = _number(name, collection.items(), id_)
            collection.decide(Decision(kind, item=number, reason=reason))
        put(f"{printable(id_)}: {done} {name}")


for _kind, (_done, _text) in _ACTIONS.items():
    _add_action(_kind, _done, _text)


def _number(name: str, all_items: Items, id_: str) -> int:
    if id_ not in all_items.ids:
        raise StoreError(f"collection {name!r} has no item {id_[:60]!r}")
    return all_items.ids.index(id_)
