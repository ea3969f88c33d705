"""`sortnet items`: add, list, show and remove items that people sort."""

from __future__ import annotations

from typing import Any

import click

from cli.console import progress, put, say
from cli.options import Whole, files, store_and_json, store_option
from cli.printing.items import added_result, collections_result, item_result, items_result
from cli.printing.results import print_result
from sortnet.items import Columns
from sortnet.messages import printable
from store.service.collection_items import decide_about_item, item_record
from store.service.existing_store import ITEMS_MAKER, open_collection, open_existing

_DEFAULT_LIMIT = 20  # number of items that are listed without `--limit`
# The roles of columns that have an option, with the help text of the option.
_ROLES = {
    "id": "Column of the item ids; default: guessed.",
    "text": "Column of the texts; default: guessed.",
    "group": "Column of the item's group (prompt, topic, ...): compare within groups only "
    "(train calls it --query).",
    "context": "Column of the group's own text, shown above its pairs.",
}


@click.group("items", short_help="Add, list, show and remove items that people sort.")
def items() -> None:
    """Manage named collections of items that people sort.

    \b
    Examples:
      sortnet items add essays essays.csv
      sortnet items list
    """


def _column_options(command: Any) -> Any:
    """Decorate a command with an option for each role of a column."""
    for role, help_text in reversed(_ROLES.items()):
        command = click.option(f"--{role}", metavar="COLUMN", help=help_text)(command)
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
    name: str, file: str, show: tuple[str, ...], store: str | None, as_json: bool, **options: Any
) -> None:
    """Add the items of FILE to the collection NAME, which is created if it does not exist.

    FILE is CSV, TSV, JSONL or Parquet with one row per item, a folder of texts, images or
    sounds, or LETOR text (.txt; the qid is the group). Numeric columns are features; --ignore
    leaves columns out. A column of short texts that repeat is categorical: each of its values is
    a feature, COLUMN=VALUE. More items and pairs can be added later; the group, context and shown
    columns need not be named again.

    \b
    Examples:
      sortnet items add essays essays.csv
      sortnet items add photos holiday/
      sortnet items add args items.tsv --ignore up --ignore down
      sortnet items add answers answers.csv --group prompt_id --context prompt
    """
    from store import open_store
    from store.service.added_items import add_file

    roles = {role: options.pop(role) for role in _ROLES}
    shown = tuple(dict.fromkeys(show))  # without repeated columns, in the typed order
    columns = Columns(**roles, shown=shown)
    with open_store(store) as opened, progress() as status:
        added = add_file(opened, name, file, columns, status, **options)
    print_result(added_result(added), as_json=as_json)


@items.command("list")
@store_and_json
def list_(store: str | None, as_json: bool) -> None:
    """List the collections, oldest first.

    \b
    Examples:
      sortnet items list --json
    """
    with open_existing(store, ITEMS_MAKER) as opened:
        result = collections_result(opened.collections_frame())
    print_result(result, as_json=as_json)


@items.command("show")
@click.argument("name")
@click.argument("id_", metavar="[ID]", required=False)
@click.option(
    "--limit", type=Whole(1), default=_DEFAULT_LIMIT, help="Maximum number of items shown."
)
@store_and_json
def show_(name: str, id_: str | None, limit: int, store: str | None, as_json: bool) -> None:
    """Show the first items of a collection, or all details of the item ID.

    \b
    Examples:
      sortnet items show essays
      sortnet items show essays essay-61
    """
    with open_collection(store, name) as collection:
        if id_ is None:
            result = items_result(collection.items(), limit)
        else:
            result = item_result(item_record(collection, id_))
    print_result(result, as_json=as_json)


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
        contents = f"{len(collection.items())} items and {collection.n_judgements} judgements"
        is_confirmed = yes or click.confirm(f"Remove {name} with {contents}?", err=True)
        if not is_confirmed:
            say("nothing was removed")
            return
        collection.remove()
    say(f"removed {name}: {contents}")


# {name of a command, and kind of the decision that it stores: (text that is printed after the
# decision, help text)}
_ACTIONS = {
    "retire": (
        "retired from",
        """Retire the item ID: it is no longer asked about, and not ranked.

    Its judgements stay stored, and the model still learns from them about features.

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


def _add_action(kind: str, done: str, help_text: str) -> None:
    """Add the command for a kind of decision to the group `items`."""

    @items.command(kind, help=help_text)
    @click.argument("name")
    @click.argument("id_", metavar="ID")
    @click.option("--reason", metavar="TEXT", help="Reason, which is stored.")
    @store_option
    def decide(name: str, id_: str, reason: str | None, store: str | None) -> None:
        with open_collection(store, name, write=True) as collection:
            decide_about_item(collection, kind, id_, reason)
        put(f"{printable(id_)}: {done} {name}")


for _kind, _action in _ACTIONS.items():
    _add_action(_kind, *_action)
