"""Results about judgements: the newest judgements, an import from a file, an export."""

from __future__ import annotations

import shlex
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from cli.console import say, write_output
from cli.printing.results import Column, Result, Step, Table
from sortnet.judges.budget import amount
from sortnet.messages import count, cut, printable

if TYPE_CHECKING:
    from store import Collection
    from store.collections.judgement_files import Imported
    from store.service.listed_rows import NewestJudgements

_COMMENT_WIDTH = 24  # characters


def judgements_result(name: str, newest: NewestJudgements) -> Result:
    """Make the result with a row for each judgement.

    Without judgements, the next step is the command that asks annotators.

    Args:
        name: name of the collection.
        newest: the newest judgements, and the counts of all judgements.
    """
    rows = newest.rows
    if not rows:
        command = f"sortnet label {name}"
        step = Step(command, f"no judgements yet: {command}")
        return Result("judgements", rows, next=step)
    columns = list(_COLUMNS)
    for fact in _OPTIONAL:
        if any(row[fact] is not None for row in rows):
            columns.append(Column(fact, partial(_optional_cell, name=fact)))
    older = f", {newest.n_older} older ones not shown (--limit)" if newest.n_older else ""
    counts = f"{count(newest.n_answers, 'answer')} of {count(newest.n_annotators, 'annotator')}"
    table = Table(columns, rows, left=4)
    return Result("judgements", rows, text=[table], notes=[f"{counts}{older}"])


def imported_result(name: str, imported: Imported) -> Result:
    """Make the result with the number of judgements that a file added to a collection."""
    value = {"collection": name, "added": imported.added, "known": imported.known}
    line = f"{name}: {imported.added} judgements added"
    if imported.known:
        line += f", {imported.known} already known"
    return Result("imported", value, text=[line])


def export_to(output: str, collection: Collection, form: Any, **options: Any) -> None:
    """Write judgements to a file, or to stdout (`-`), and print their number on stderr.

    After judgements on stdout the number is not printed.

    Args:
        output: path of the file, or `-`.
        collection: the collection that has the judgements.
        form: format of the file, see `write_judgements`.
        options: further arguments of `write_judgements`.
    """
    from store.service.exported_judgements import FORMS_OF_PAIRS, write_judgements

    n_written = 0

    def write(file: IO[str]) -> None:
        nonlocal n_written
        n_written = write_judgements(collection, file, form, **options)

    write_output(output, write)
    is_stdout = output == "-"
    if is_stdout and n_written > 0:
        return
    unit = "pair" if form in FORMS_OF_PAIRS else "judgement"
    message = f"{count(n_written, unit)} of {collection.name}"
    if not is_stdout:
        message = f"{output}: {message}"
    if n_written == 0:
        message += f" yet: sortnet label {shlex.quote(collection.name)}"
    say(message)


def _answer(row: dict[str, Any]) -> str:
    """Write the answer of a judgement, and whether the judgement is undone or excluded."""
    if row["answer"] == "undo":
        return f"undo of {row['undoes']}"
    text = _answer_in_words(row)
    if row["undone"]:
        text += " (undone)"
    if row["excluded"]:
        text += " (excluded)"
    return text


def _answer_in_words(row: dict[str, Any]) -> str:
    """Write an answer, with the ids of the best and the worst item."""
    if row["answer"] != "best":
        return str(row["answer"])
    worst = "" if row["worst"] is None else f", worst {printable(row['worst'])}"
    return f"best {printable(row['best'])}{worst}"


def _items(row: dict[str, Any]) -> str:
    """List the ids of a question's items, from the first place to the last."""
    return ", ".join(map(printable, row["items"]))


def _seconds(row: dict[str, Any]) -> str:
    """Write the time of an answer in seconds; a hyphen if it was not measured."""
    return "-" if row["milliseconds"] is None else f"{row['milliseconds'] / 1000:.1f}"


def _time(row: dict[str, Any]) -> str:
    """Write when a judgement was made, to the minute; a hyphen if it is not known."""
    return "-" if row["at"] is None else str(row["at"][:16].replace("T", " "))


def _optional_cell(row: dict[str, Any], name: str) -> str:
    """Write a probability, a cost or the start of a comment; a hyphen if there is none."""
    value: float | str | None = row[name]
    if isinstance(value, float):
        return amount(value) if name == "cost" else f"{value:.3g}"
    if not value:
        return "-"
    comment_in_one_line = " ".join(value.split())
    return cut(printable(comment_in_one_line), _COMMENT_WIDTH)


_OPTIONAL = ("p", "cost", "comment")  # facts that have a column only if a judgement has a value
_COLUMNS = [
    Column("judgement", lambda row: str(row["number"])),
    Column("annotator", lambda row: printable(row["annotator"]), cut="end"),
    Column("items", _items, cut="end"),
    Column("answer", _answer, cut="end"),
    Column("seconds", _seconds),
    Column("at (UTC)", _time),
]
