"""The result of a command: rows with named columns, notes and the next step.

One place makes the text, the JSON document and the CSV of all results.
"""

from __future__ import annotations

import io
import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from cli.console import logged_notes, put, say, width, write_output
from sortnet import __version__
from sortnet.files import Record
from sortnet.messages import printable, printable_lines
from store.csv_file import rows_of_frame, write_csv
from store.report.columns import COLUMNS, table_cells

if TYPE_CHECKING:
    import pandas as pd

RESERVED = ("version", "notes", "next")  # keys that every JSON document has beside the value
_BAR = 12  # length of the longest bar, in characters
_NO_LIMIT = 10**9  # characters of a line that no terminal cuts
_SHORTEST_CELL = 8  # fewest characters to which a cell is cut, if its header is no longer


class Bold(str):
    """A line of text that is bold in a terminal."""


@dataclass(frozen=True)
class Facts:
    """Lines that begin with a label; a long line is wrapped in a terminal.

    Attributes:
        texts: {label: its line or its lines}; facts without a text are left out.
    """

    texts: Mapping[str, str | Sequence[str]]

    def lines(self) -> Iterator[str]:
        """Yield the lines.

        >>> list(Facts({"id": "3f2a", "from": "", "extras": ["llm", "web"]}).lines())
        ['id      3f2a', 'extras  llm', '        web']
        """
        facts = {label: text for label, text in self.texts.items() if text}
        indent = max(map(len, facts)) + 2
        longest = max(width() or _NO_LIMIT, 2 * indent)
        for label, text in facts.items():
            lines = [text] if isinstance(text, str) else text
            for number, line in enumerate(lines):
                start = "" if number else label
                # Paths are not broken: they could not be copied from the terminal.
                yield from textwrap.wrap(
                    line, longest, initial_indent=f"{start:{indent}}",
                    subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False,
                )  # fmt: skip


@dataclass(frozen=True)
class Table:
    """A header and rows of cells, written as lines with aligned columns.

    Attributes:
        header: titles of the columns.
        rows: the texts of the cells.
        right: numbers of the columns that are flush right.
        cut: numbers of the columns that are cut in a terminal that is too narrow.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: frozenset[int] = frozenset()
    cut: frozenset[int] = frozenset()

    def lines(self, line_width: int | None = None) -> list[str]:
        """Write the header and the rows as lines.

        Args:
            line_width: the longest line; by default the width of the terminal, and no limit in a
                file or a pipe.

        >>> Table(["id", "n"], [["a", "10"]], right=frozenset({1})).lines()
        ['id   n', 'a   10']
        """
        from rich.cells import cell_len, set_cell_size

        rows = [self.header, *self.rows]
        widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
        limit = line_width or width() or _NO_LIMIT
        while self.cut and sum(widths) + 2 * (len(widths) - 1) > limit:
            widest = max(self.cut, key=widths.__getitem__)  # it gives way to the others
            if widths[widest] <= max(_SHORTEST_CELL, cell_len(self.header[widest])):
                break
            widths[widest] -= 1
        lines = []
        for row in rows:
            cells = []
            for k, text in enumerate(row):
                space = widths[k] - cell_len(text)
                if space < 0 and text.startswith("/"):  # the end of a path tells more
                    cells.append(f"...{text[3 - widths[k] :]}")
                elif space < 0:
                    cells.append(f"{set_cell_size(text, widths[k] - 3)}...")
                elif k in self.right:
                    cells.append(" " * space + text)
                else:
                    cells.append(text + " " * space)
            lines.append("  ".join(cells).rstrip())
        return lines


def table_of(
    rows: Iterable[Record],
    names: Sequence[str],
    *,
    bar: str | None = None,
    bar_title: str = "",
) -> Table:
    """Make a table of rows, with columns of `store.report.columns`.

    Args:
        rows: values by the names of their columns; a missing value is unknown.
        names: the columns that are shown, from left to right.
        bar: a column whose values are drawn as bars, too: `+` above 0, `-` below 0.
        bar_title: title of the bars.

    >>> table_of([{"feature": "x", "mean": 0.5}], ["feature", "mean"]).lines()
    ['feature    drop', 'x        0.5000']
    """
    all_rows = list(rows)
    header, cells, text = table_cells(all_rows, names)
    if bar is not None:
        lengths = [row[bar] for row in all_rows]
        header.append(bar_title)
        largest = max(map(abs, lengths), default=0) or 1  # 1 avoids a division by zero
        for row_of_cells, length in zip(cells, lengths, strict=True):
            mark = "+" if length > 0 else "-"
            row_of_cells.append(mark * round(_BAR * abs(length) / largest))
    right = frozenset(range(len(names))).difference(text)
    cut = frozenset(k for k, name in enumerate(names) if COLUMNS[name].may_be_cut)
    return Table(header, cells, right, cut)


def table_of_cells(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> Table:
    """Make a table of texts.

    Args:
        header: titles of the columns.
        rows: the texts of the cells.
        left: number of first columns that are flush left.

    >>> table_of_cells(["metric", "vali"], [["map", "0.5"]]).lines()
    ['metric  vali', 'map      0.5']
    """
    return Table(header, rows, right=frozenset(range(left, len(header))))


Block: TypeAlias = str | Facts | Table  # a part of a text


@dataclass(frozen=True)
class Result:
    """The result of a command.

    The text is printed on stdout, the notes and the next step on stderr. The JSON document has the
    version of SortNet, the value under its name, the notes, and the command to run next or null.

    Attributes:
        name: key of the value in the JSON document.
        value: rows, or one record.
        text: the lines, facts and tables that are printed if JSON is not requested.
        notes: sentences about the value, each of which is a line.
        next: the command to run next, if there is one.
        proposal: the line on stderr that proposes this command; by default `next: COMMAND`.
        is_noted_in_text: whether the text contains the notes, so that no notes are printed on
            stderr.
        csv: rows, {column: values} or a frame for the CSV file. If None, they are the value.

    >>> Result("runs", [], next="sortnet train").document()["next"]
    'sortnet train'
    """

    name: str
    value: Any
    text: Sequence[Block] = ()
    notes: Sequence[str] = ()
    next: str | None = None
    proposal: str = ""
    is_noted_in_text: bool = False
    csv: Any = None

    def document(self) -> Record:
        """Return the JSON document of the result, with the notes that the library has logged."""
        return {
            "version": __version__,
            self.name: self.value,
            "notes": [*logged_notes(), *self.notes],
            "next": self.next,
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines of the text; the headers of tables are `Bold`."""
        for block in self.text:
            if isinstance(block, str):
                yield block
                continue
            lines = block.lines()
            if isinstance(block, Table):
                header, *lines = lines
                yield Bold(printable(header))
            yield from map(printable, lines)


def print_result(result: Result, *, as_json: bool) -> None:
    """Print a result on stdout as JSON, or as text with its notes and the next step on stderr."""
    write_result(result, "json" if as_json else "table", "-")


def write_result(result: Result, form: str, to: str) -> None:
    """Write a result to a file, or to stdout (`-`).

    JSON contains the notes and the next step. With other formats they are printed on stderr.

    Args:
        result: the result.
        form: format of the file: `table`, `json` or `csv`.
        to: path of the file, or `-`.
    """
    if form == "table" and to == "-":
        for line in result.lines():
            put(line, bold=isinstance(line, Bold))
    else:
        write_output(to, lambda file: file.write(text_of(result, form)))
    if form == "json":
        return
    if not result.is_noted_in_text:
        for note in result.notes:
            say(note)
    if result.next is not None:
        say(result.proposal or f"next: {result.next}")


def text_of(result: Result, form: str) -> str:
    """Return a result as a text in the format `table`, `json` or `csv`."""
    if form == "json":
        return json.dumps(result.document(), indent=2, allow_nan=False) + "\n"
    if form == "table":
        return "".join(f"{printable_lines(line)}\n" for line in result.lines())
    file = io.StringIO(newline="")
    _write_csv(result.value if result.csv is None else result.csv, file)
    return file.getvalue()


def write_csv_file(columns: Record | Sequence[Any] | pd.DataFrame, to: str) -> None:
    """Write columns, rows or a frame to a CSV file, or to stdout (`-`).

    A missing number is left blank.
    """
    write_output(to, partial(_write_csv, columns))


def _write_csv(columns: Any, file: IO[str]) -> None:
    """Write columns, rows or a frame to an open file as CSV."""
    if isinstance(columns, Mapping):
        write_csv(file, list(columns), zip(*columns.values(), strict=True))
    elif isinstance(columns, Sequence):
        names = list(dict.fromkeys(name for row in columns for name in row))
        write_csv(file, names, ([row.get(name) for name in names] for row in columns))
    else:
        write_csv(file, list(columns.columns), rows_of_frame(columns))
