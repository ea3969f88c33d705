"""Judgements of a collection: the newest, the judgements added from a file, an export."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING, Any

from cli.console import say, write_output
from cli.printing.results import Column, Result, Step, Table
from sortnet.messages import count, cut, printable

if TYPE_CHECKING:
    from store import Collection
    from store.collections.judgement_files import Imported
    from store.service.listed_rows import NewestJudgements

_COMMENT_WIDTH = 24  # characters


def judgements_result(name: str, newest: NewestJudgements) -> Result:
    """A row for each judgement; if there are none, the command that asks for some.

    Args:
        name: name of the collection.
    """
    rows = newest.rows
    if not rows:
        command = f"sortnet label {name}"
        step = Step(command, f"no judgements yet: {command}")
        return Result("judgements", rows, next=step)
    has_sets = any(row.get("items") is not None for row in rows)
    columns = [*(_COLUMNS_OF_SETS if has_sets else _COLUMNS)]
    for fact in _OPTIONAL:
        if any(row[fact] is not None for row in rows):
            columns.append(Column(fact, partial(_fact, name=fact)))
    older = f", {newest.n_older} older ones not shown (--limit)" if newest.n_older else ""
    counts = f"{count(newest.n_answers, 'answer')} of {count(newest.n_annotators, 'annotator')}"
    table = Table(columns, rows, left=4 if has_sets else 5)
    return Result("judgements", rows, text=[table], notes=[f"{counts}{older}"])


def imported_result(name: str, imported: Imported) -> Result:
    """Count the judgements that a file added to a collection."""
    value = {"collection": name, "added": imported.added, "known": imported.known}
    line = f"{name}: {imported.added} judgements added"
    if imported.known:
        line += f", {imported.known} already known"
    return Result("imported", value, text=[line])


def export_to(output: str, collection: Collection, form: Any, **options: Any) -> None:
    """Write judgements to a file, or to stdout (`-`), and print their number on stderr.

    The number is not printed after judgements on stdout.

    Args:
        form, options: arguments of `write_judgements`.
    """
    from store.service.exported_judgements import FORMS_OF_PAIRS, write_judgements

    numbers: list[int] = []
    write_output(
        output, lambda file: numbers.append(write_judgements(collection, file, form, **options))
    )
    (number,) = numbers
    if output == "-" and number:
        return
    counted = count(number, "pair" if form in FORMS_OF_PAIRS else "judgement")
    hint = "" if number else f" yet: sortnet label {shlex.quote(collection.name)}"
    place = "" if output == "-" else f"{output}: "
    say(f"{place}{counted} of {collection.name}{hint}")


def _answer(row: dict[str, Any]) -> str:
    if row["answer"] == "undo":
        return f"undo of {row['undoes']}"
    text = _answer_in_words(row)
    if row["undone"]:
        text += " (undone)"
    if row["excluded"]:
        text += " (excluded)"
    return text


def _answer_in_words(row: dict[str, Any]) -> str:
    """The answer in words, with the items that it chooses among more than two."""
    if row["answer"] != "best":
        return str(row["answer"])
    worst = "" if row["worst"] is None else f", worst {printable(row['worst'])}"
    return f"best {printable(row['best'])}{worst}"


def _items(row: dict[str, Any]) -> str:
    """The ids of a question's items, from the first place to the last."""
    return ", ".join(map(printable, row["items"] or (row["left"], row["right"])))


def _seconds(row: dict[str, Any]) -> str:
    return "-" if row["milliseconds"] is None else f"{row['milliseconds'] / 1000:.1f}"


def _time(row: dict[str, Any]) -> str:
    return "-" if row["at"] is None else str(row["at"][:16].replace("T", " "))


def _fact(row: dict[str, Any], name: str) -> str:
    fact = row[name]
    if isinstance(fact, float):
        return f"{fact:.3g}"
    comment = " ".join((fact or "-").split())  # a model's answer about four items has two lines
    return cut(printable(comment), _COMMENT_WIDTH)


_OPTIONAL = ("p", "cost", "comment")  # columns if any judgement has a value
_COLUMNS = [
    Column("judgement", lambda row: str(row["number"])),
    Column("annotator", lambda row: printable(row["annotator"]), cut="end"),
    Column("left", lambda row: printable(row["left"]), cut="end"),
    Column("right", lambda row: printable(row["right"]), cut="end"),
    Column("answer", _answer),
    Column("seconds", _seconds),
    Column("at (UTC)", _time),
]
_COLUMNS_OF_SETS = [*_COLUMNS[:2], Column("items", _items, cut="end"), *_COLUMNS[4:]]
