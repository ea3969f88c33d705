"""`sortnet items`: piles of things to be sorted by people."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, Any

import click

from cli.inputs.opened_store import ITEMS_MAKER, open_existing, open_to_write
from cli.options import Whole, files, json_option, store_option
from cli.output import print_json, print_table, printable, progress, put, say, width
from sortnet.errors import StoreError

if TYPE_CHECKING:
    from sortnet.items import Columns, Items
    from store import Store

_SHOWN = 20  # items that `show` lists
_COLUMNS = 80  # where nobody says how wide a line may be
_MANY = 6  # columns that are named one by one


@click.group("items", short_help="Add, list, show and remove items that people sort.")
def items() -> None:
    """The things that people sort, in collections that have a name.

    \b
    Examples:
      sortnet items add essays essays.csv
      sortnet items list
    """


@items.command()
@click.argument("name")
@click.argument("file", shell_complete=files)
@click.option("--id", "id_column", metavar="COLUMN", help="Of names; else guessed.")
@click.option("--text", "text_column", metavar="COLUMN", help="Of what is read; else guessed.")
@click.option("--image", "image_column", metavar="COLUMN", help="Of image files; else guessed.")
@click.option("--audio", "audio_column", metavar="COLUMN", help="Of sound files; else guessed.")
@click.option(
    "--ignore",
    metavar="COLUMN",
    multiple=True,
    help="Leave a column out, such as one that tells the answer; may be given again.",
)
@click.option(
    "--describe/--no-describe",
    "described",
    default=None,
    help="Make features of texts and images; by default where the file has none.",
)
@click.option("--embed", is_flag=True, help="Features from a language model too (an extra).")
@click.option("--update", is_flag=True, help="Replace items that are there; judgements stay.")
@store_option
@json_option
def add(
    name: str,
    file: str,
    described: bool | None,
    embed: bool,
    update: bool,
    store: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Add the items of FILE to the collection NAME, which is made if it is not there.

    FILE is CSV, TSV, JSONL or Parquet with a row for each item, or a folder of texts, images or
    sounds. Columns of numbers are features; --ignore those that nobody should learn from.

    \b
    Examples:
      sortnet items add essays essays.csv
      sortnet items add photos holiday/
      sortnet items add args items.tsv --ignore up --ignore down
    """
    with open_to_write(store) as opened, progress() as told:
        old = _old(opened, name)
        told(f"reading {file}")
        new, roles = _read(file, options, told, least=1 if old else 2)
        pile = _together(old, new, described, embed, update, told)
        told("writing")
        served = opened.add_items(name, pile, update=old is not None).is_served()
    _say_added(name, new, old, pile, roles, as_json)
    if served and update:
        say("the server that runs shows what items were before until it is started again")


def _old(opened: Store, name: str) -> Items | None:
    """The items of a collection that is there."""
    there = opened.collections_frame()["name"].tolist()
    return opened.collection(name).items() if name in there else None


def _read(file: str, options: dict[str, Any], told: Any, *, least: int) -> tuple[Items, Columns]:
    from sortnet.items import Columns, read_with_roles

    named = Columns(*(options[f"{kind}_column"] for kind in ("id", "text", "image", "audio")))
    return read_with_roles(file, named, ignore=options["ignore"], least=least, progress=told)


def _together(
    old: Items | None, new: Items, described: bool | None, embed: bool, update: bool, told: Any
) -> Items:
    """All items with features of one kind: what was made of the old ones is made again."""
    from sortnet.items import describe, given_only, merge

    pile = new if old is None else merge(old, new, update=update)
    made = set() if old is None else {*old.feature_names} - {*given_only(old).feature_names}
    embed = embed or any(name.startswith("text: meaning") for name in made)
    if described is None:
        described = bool(made) or embed or not pile.feature_names
    return describe(pile, embed=embed, progress=told) if described else pile


def _say_added(
    name: str, new: Items, old: Items | None, pile: Items, roles: Columns, as_json: bool
) -> None:
    replaced = len(new) + (0 if old is None else len(old)) - len(pile)
    made = [feature for feature in pile.feature_names if feature not in roles.features]
    if as_json:
        about = {"collection": name, "added": len(new) - replaced, "replaced": replaced}
        print_json({**about, "items": len(pile), "taken": vars(roles), "made": made})
        return
    also = f", {replaced} replaced" if replaced else ""
    added = f"{len(new) - replaced} item{'' if len(new) - replaced == 1 else 's'} added"
    put(f"{name}: {added}{also}, {len(pile)} in all")
    put(f"id        {roles.id or 'the number of the row'}")
    for kind in ("text", "image", "audio"):
        if column := getattr(roles, kind):
            put(f"{kind:8}  {column}")
    put(f"features  {_features(roles.features, made)}")
    if roles.ignored:
        put(f"ignored   {_some(roles.ignored)}")
    if roles.features and not made and any((*pile.texts, *pile.images)):
        say("the features are those of the file alone: --describe adds some of texts and images")
    shell = shlex.quote(name)
    say(f"next: sortnet label {shell}, or in a browser: sortnet serve {shell}")


def _features(given: tuple[str, ...], made: list[str]) -> str:
    parts = [_some(given)] if given else []
    parts += [f"{len(made)} made from the items themselves"] if made else []
    return " and ".join(parts) or "none: what people say is learned item by item"


def _some(names: tuple[str, ...]) -> str:
    more = f", ... ({len(names)})" if len(names) > _MANY else ""
    return ", ".join(map(printable, names[:_MANY])) + more


@items.command("list")
@store_option
@json_option
def list_(store: str | None, as_json: bool) -> None:
    """List the collections, the oldest first.

    \b
    Examples:
      sortnet items list --json
    """
    with open_existing(store, ITEMS_MAKER) as opened:
        frame = opened.collections_frame()
        rows = [
            {"name": row["name"], "created": row["created"].isoformat()}
            | {count: int(row[count]) for count in _COUNTS}
            for row in frame.to_dict("records")
        ]
        if as_json:
            print_json(rows)
        elif not rows:
            say(f"no collections yet: {ITEMS_MAKER} makes one")
        else:
            lines = [
                [row["name"], *(str(row[count]) for count in _COUNTS), row["created"][:16]]
                for row in rows
            ]
            header = ["collection", *_COUNTS, "begun (UTC)"]
            print_table(header, [[*line[:-1], line[-1].replace("T", " ")] for line in lines])


_COUNTS = ("items", "features", "annotators", "judgements")


@items.command("show")
@click.argument("name")
@click.argument("id_", metavar="[ID]", required=False)
@click.option("--limit", type=Whole(1), default=_SHOWN, show_default=True, help="Items, at most.")
@store_option
@json_option
def show_(name: str, id_: str | None, limit: int, store: str | None, as_json: bool) -> None:
    """Show the first items of a collection, or all that is known of the one called ID.

    \b
    Examples:
      sortnet items show essays
      sortnet items show essays essay-61
    """
    with open_existing(store, ITEMS_MAKER) as opened:
        pile = opened.collection(name).items()
        if id_ is not None and id_ not in pile.ids:
            raise StoreError(f"collection {name!r} has no item {id_!r}")
        if id_ is not None:
            _show_item(_facts(pile, pile.ids.index(id_), features=True), as_json)
        elif as_json:
            print_json([_facts(pile, k) for k in range(min(limit, len(pile)))])
        else:
            _show_items(pile, limit)


def _facts(pile: Items, k: int, *, features: bool = False) -> dict[str, Any]:
    """An item as JSON can hold it."""
    about: dict[str, Any] = {"id": pile.ids[k]}
    for kind, values in (("text", pile.texts), ("image", pile.images), ("audio", pile.audio)):
        if values[k] is not None:
            about[kind] = values[k]
    if features:
        numbers = zip(pile.feature_names, pile.features[k].tolist(), strict=True)
        about["features"] = {name: None if math.isnan(x) else x for name, x in numbers}
    return about


def _show_item(about: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(about)
        return
    for kind in ("id", "image", "audio"):
        if kind in about:
            put(f"{kind:5}  {printable(about[kind])}")
    if "text" in about:
        put()
        for line in about["text"].splitlines():
            put(printable(line))
    if about["features"]:
        put()
        rows = [
            [printable(name), "-" if value is None else f"{value:.6g}"]
            for name, value in about["features"].items()
        ]
        print_table(["feature", "value"], rows)


def _show_items(pile: Items, limit: int) -> None:
    room = width() or _COLUMNS
    names = [printable(name) for name in pile.ids[:limit]]
    first = max(map(len, names))
    for k, name in enumerate(names):
        what = pile.texts[k] or pile.images[k] or pile.audio[k] or ""
        line = f"{name.ljust(first)}  {printable(' '.join(what.split()))}".rstrip()
        put(line if len(line) <= room else f"{line[: room - 3]}...")
    if len(pile) > limit:
        say(f"and {len(pile) - limit} more (--limit)")


@items.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask first.")
@store_option
def remove(name: str, yes: bool, store: str | None) -> None:
    """Remove a collection, with all that people said about its items.

    \b
    Examples:
      sortnet items remove essays --yes
    """
    with open_existing(store, ITEMS_MAKER, write=True) as opened:
        collection = opened.collection(name)
        n = len(collection.items())
        judgements = len(collection.judgements())
        what = f"{n} items and {judgements} judgements"
        if not yes and not click.confirm(f"Remove {name} with {what}?", err=True):
            say("nothing was removed")
            return
        collection.remove()
    say(f"removed {name}: {what}")
