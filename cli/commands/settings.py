"""`sortnet settings`: list the settings of a kind of ranker, or of a judge."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from itertools import groupby
from operator import itemgetter
from typing import Any

import click

from cli.console import width
from cli.options import FORMAT_HELP, format_of, json_option, output_option
from cli.printing.results import Result, write_result
from cli.training.typed_settings import known_settings
from sortnet.rankers.registry import settings_for

_FORMATS = ("table", "csv", "json")
_WIDTH = 80  # characters of a line where there is no terminal
_JUDGE = "judge"  # stands for a kind of ranker, to list the keys of a judge's file
# What a program that judges reads and answers.
_PROTOCOL = (
    "A program reads a line of JSON for each question, with id, question, instructions, left and "
    "right, and where items have groups also group and context. Each side has id, text, image, "
    "audio, shown (further columns that are no numbers) and features.",
    'It answers with a line such as {"answer": "left"}: left, right, tie, skip or cant-say; or '
    '{"p": 0.8}, the probability that the left item is better. It may add comment, flag, seconds, '
    'cost and meta. After {"retry_after": SECONDS} it is asked again later.',
    "A question about more than two items has items in place of left and right, each with its "
    "place A, B and so on, and worst, whether the worst is asked for. The answer is "
    '{"best": "B", "worst": "D"}, or {"answer": "same"}, skip or cant-say.',
)


@click.command(short_help="List the settings of a kind of ranker, or of a judge.")
@click.argument("kind", default="sortnet")
@click.option("--format", "form", type=click.Choice(_FORMATS), help=FORMAT_HELP.format("table"))
@output_option("--output", "-o", default="-", help="Output file; -: stdout.")
@json_option
def settings(kind: str, form: str | None, output: str, as_json: bool) -> None:
    """List everything that `sortnet train --set NAME=VALUE` takes for a KIND of ranker.

    Each setting has its default value, its meaning, and the values that are allowed. A default that
    depends on the data or on other settings is in the meaning.

    The kind `judge` lists the keys of a FILE.toml that describes a judge for --judge, and what a
    program reads and answers.

    \b
    Examples:
      sortnet settings
      sortnet settings ranksvm
      sortnet settings lambdamart --output settings.csv
      sortnet settings judge
    """
    form = "json" if as_json else format_of(form, output, _FORMATS) or "table"
    result = _judge_result() if kind == _JUDGE else _ranker_result(kind)
    write_result(result, form, output)


def _ranker_result(kind: str) -> Result:
    """Make the result with a row for each setting of a kind of ranker."""
    defaults = settings_for(kind)
    values = defaults.flat()
    rows = [
        {
            "section": setting.section,
            "name": name,
            "default": _as_typed(values.get(name, setting.default)),
            "meaning": setting.help,
            "allowed": setting.allowed,
        }
        for name, setting in known_settings(defaults).items()
    ]
    ranker = "" if kind == "sortnet" else f" --ranker {kind}"
    next_command = f"sortnet train FILE{ranker} --set NAME=VALUE"
    return Result("settings", rows, text=list(_lines(rows)), next=next_command)


def _judge_result() -> Result:
    """Make the result with a row for each key of a file that describes a judge."""
    from sortnet.judges import LanguageModel, Program

    rows = [
        {
            "section": section,
            "name": field.name,
            "default": _as_typed(None if field.default is MISSING else field.default),
            "meaning": _descriptions(judge)[field.name],
        }
        for section, judge in (("A language model", LanguageModel), ("A program", Program))
        for field in fields(judge)
    ]
    text = [*_lines(rows, _PROTOCOL)]
    next_command = "sortnet doctor --judge FILE.toml"
    return Result("settings", rows, text, _PROTOCOL, next_command, is_noted_in_text=True)


def _descriptions(judge: type) -> dict[str, str]:
    """Read what the arguments of a class mean from its docstring: {argument: description}."""
    paragraphs = re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", inspect.getdoc(judge) or "", re.M)
    return {name: " ".join(text.split()).replace("None:", "default:") for name, text in paragraphs}


def _as_typed(value: Any) -> str | None:
    """Write a default as users type it; None is no value."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()  # as in TOML
    return None if value is None else str(value)


def _lines(rows: Sequence[Mapping[str, str | None]], more: Sequence[str] = ()) -> Iterator[str]:
    """Write the rows section by section, a paragraph each, and further paragraphs.

    Args:
        rows: settings, of which the first key is the section.
        more: further paragraphs.
    """
    formatter = click.HelpFormatter(width=width() or _WIDTH)
    for section, rows_of_section in groupby(rows, key=itemgetter("section")):
        with formatter.section(section):
            paragraphs = []
            for row in rows_of_section:
                name = "=".join(filter(None, (row["name"], row["default"])))
                allowed = f" Allowed: {row['allowed']}." if row.get("allowed") else ""
                paragraphs.append((name, f"{row['meaning']}{allowed}"))
            formatter.write_dl(paragraphs)
    for text in more:
        formatter.write_paragraph()
        formatter.write_text(text)
    yield from formatter.getvalue().strip().splitlines()
