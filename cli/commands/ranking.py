"""`sortnet ranking`: everything in order, with intervals, also what nobody compared."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from typing import IO, TYPE_CHECKING, Any

import click

from cli.commands.items import MAKER
from cli.commands.runs import open_existing
from cli.options import Whole, json_option, output_option, store_option
from cli.output import printable, put, say, table, width, write_output

if TYPE_CHECKING:
    import pandas as pd

    from sortnet.items import Items
    from sortnet.preference.intervals import Ranking, Remaining

COLUMNS = ("rank", "id", "score", "low", "high", "judgements")
_WIDE = 80  # columns, where nobody says how wide a line may be
_ID = 24  # characters of an id in a table
_LEAST = 12  # characters of a text that are worth showing


@click.command("ranking", short_help="Rank the items of a collection by what people said.")
@click.argument("name")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
)
@output_option("--output", "-o", default="-", show_default=True, help="-: stdout.")
@click.option("--top", type=Whole(1), metavar="N", help="The best N alone.")
@store_option
@json_option
def ranking(
    name: str, form: str, output: str, top: int | None, store: str | None, as_json: bool
) -> None:
    """Rank the items of the collection NAME by what people said, the best first.

    With each item its expected score, the ranks between which it is with probability 0.9, and
    how many answers it has had. What nobody compared is ranked by its features. How far the
    ranking can be trusted, and how many questions are left, is said on stderr.

    \b
    Examples:
      sortnet ranking essays --top 20
      sortnet ranking essays --format csv --output ranking.csv
    """
    from store.service.labelling import LabellingService

    with open_existing(store, MAKER) as opened:
        service = LabellingService(opened.collection(name))
        service.settle()
        ranked, remaining, items = service.ranking, service.remaining, service.items
        heard, goal = _heard(service.session.judgements()), service.session.goal
        frame = ranking_frame(ranked, items.ids).head(top or len(items))
        form = "json" if as_json else form
        write_output(output, partial(_WRITERS[form], frame, items))
        for line in _standing(name, len(items), heard, remaining, goal):
            say(line)
        if output != "-":
            say(f"{output}: {len(frame)} items of {name}")


def ranking_frame(ranked: Ranking, ids: Sequence[str]) -> pd.DataFrame:
    """One row an item, the best first; indexed by the items' numbers."""
    import pandas as pd

    columns = {c: getattr(ranked, c)[ranked.order] for c in COLUMNS if c != "id"}
    columns["id"] = [ids[k] for k in ranked.order]
    return pd.DataFrame(columns, index=ranked.order, columns=list(COLUMNS))


def ranking_json(frame: pd.DataFrame) -> str:
    """One object an item, the best first."""
    from store.database.engine import plain

    rows = [
        {column: plain(value) for column, value in row.items()} for row in frame.to_dict("records")
    ]
    return json.dumps(rows, indent=2, allow_nan=False) + "\n"


def ranking_lines(frame: pd.DataFrame, items: Items, room: int) -> list[str]:
    """A header and a line an item, no longer than `room`, with as much of its text as fits."""
    rows = [
        [str(rank), _cut(printable(str(id)), _ID), f"{score:.2f}", f"{low}-{high}", str(judged)]
        for _, rank, id, score, low, high, judged in frame.itertuples()
    ]
    lines = table(["rank", "id", "score", "90 %", "judged"], rows, left=2)
    over = room - max(map(len, lines)) - 2
    what = [_words(items, k) for k in frame.index]
    if over < _LEAST or not any(what):
        return lines
    wide = max(map(len, lines))
    return [f"{line.ljust(wide)}  {_cut(text, over)}".rstrip()
            for line, text in zip(lines, ["", *what], strict=True)]  # fmt: skip


def _words(items: Items, k: int) -> str:
    """The beginning of an item's text, or where its image or sound is."""
    what = items.texts[k] or items.images[k] or items.audio[k] or ""
    return printable(" ".join(what[:1000].split()))


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 3]}..."


def _write_table(frame: pd.DataFrame, items: Items, file: IO[str]) -> None:
    head, *lines = ranking_lines(frame, items, width() or _WIDE)
    if file is sys.stdout:
        put(head, bold=True)
    else:
        print(head, file=file)
    for line in lines:
        print(line, file=file)


def _write_csv(frame: pd.DataFrame, items: Items, file: IO[str]) -> None:
    if file.isatty():
        frame = frame.assign(id=frame["id"].map(printable))
    frame.to_csv(file, index=False, lineterminator="\n")


def _write_json(frame: pd.DataFrame, items: Items, file: IO[str]) -> None:
    file.write(ranking_json(frame))


_WRITERS: dict[str, Any] = {"table": _write_table, "csv": _write_csv, "json": _write_json}


def _heard(events: Sequence[Any]) -> tuple[int, int]:
    """How many answers stand, and of how many people."""
    undone = {event.undoes for event in events}
    people = [e.annotator for e in events if e.answer != "undo" and e.number not in undone]
    return len(people), len(set(people))


def _standing(
    name: str, n: int, heard: tuple[int, int], remaining: Remaining, goal: float
) -> list[str]:
    """How much was said, and how far it is from the goal."""
    answers, people = heard
    if not answers:
        return [f"nobody has said anything yet: sortnet label {shlex.quote(name)}"]
    by = f"{people} {'person' if people == 1 else 'people'}"
    told = f"{n} items, {answers} answer{'' if answers == 1 else 's'} by {by}; {remaining.why}"
    # Behind the goal, the check is part of the reason why.
    return [told, _checked(remaining)] if remaining.wrong_pairs > goal else [told]


def _checked(remaining: Remaining) -> str:
    """What the answers of the random arm, which choose nothing, say of the model."""
    if not remaining.holdout_n:
        return "no answers of the random arm yet that could check it"
    return (
        f"of {remaining.holdout_n} answers of the random arm {remaining.holdout_right:.0%} are as "
        f"the model expects; {remaining.holdout_expected:.0%} should be"
    )
