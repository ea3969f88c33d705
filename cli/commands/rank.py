"""`sortnet rank`: put the documents of every query in order."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import IO, NamedTuple

import click

from cli.inputs.model_and_data import data_arguments, read_data
from cli.options import output_option
from cli.output import progress, write_output
from sortnet.core import I64, NamedColumns, Queries
from sortnet.core.named_columns import UNNAMED
from sortnet.errors import DataError
from store.service.named_model import load_model


class Ranked(NamedTuple):
    """A ranked document."""

    qid: str
    docid: str | None
    row: int  # of the data, from 0
    rank: int  # from 1
    score: float


@click.command(short_help="Put the documents of every query in order.")
@output_option(
    "--output", "-o", inputs=["model", "data"], default="-", help="Output file; -: stdout."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["trec", "csv", "jsonl"]),
    help="Output format; trec: qid Q0 docid rank score tag; default: trec, csv for items and "
    "where train was given names of columns.",
)
@click.option("--tag", default="sortnet", help="Tag in the last column of trec.")
@data_arguments
def rank(
    model: str,
    data: str,
    output: str,
    form: str | None,
    tag: str,
    columns: NamedColumns,
    part: str | None,
    cache: Path | None,
    threads: int | None,
) -> None:
    """Rank the documents of every query in DATA with the model in the folder MODEL.

    Tables need no labels. The score is the number of documents of the query that rank below. A
    document without an id is named by its row (from 0) in trec. For a model of items, DATA is a
    file or folder of items as in `sortnet items add`; the default is csv, as ids may have spaces.
    The model remembers the names of columns that `train` was given: no option repeats them.

    \b
    Examples:
      sortnet rank model new.txt --output run.trec
      sortnet rank model new.csv --output ranked.csv
      sortnet rank model new.csv --format jsonl | head
    """
    if tag.split() != [tag]:
        raise click.UsageError(f"--tag {tag!r}: a trec tag is a single word")
    with progress() as status:
        loaded = load_model(model, status, threads)
        queries = read_data(
            data, loaded, status, columns=columns, part=part, cache=cache, labelled=False
        )
        status("ranking")
        plain = queries.describer is None and loaded.columns == UNNAMED
        form = form or ("trec" if plain else "csv")
        ranked = _ranked(queries, loaded.order(queries))
        write = partial(_write, form, ranked, tag, queries.source)
        write_output(output, write)


def _ranked(queries: Queries, order: I64) -> Iterator[Ranked]:
    rows = queries.rows[order].tolist()
    docids = None if queries.docids is None else queries.docids[order].tolist()
    for qid, (begin, end) in zip(
        queries.qids.tolist(), pairwise(queries.offsets.tolist()), strict=True
    ):
        for at in range(begin, end):
            docid = (docids[at] or None) if docids else None
            yield Ranked(qid, docid, rows[at], at - begin + 1, float(end - 1 - at))


def _write(form: str, ranked: Iterator[Ranked], tag: str, source: str, file: IO[str]) -> None:
    if form == "csv":
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Ranked._fields)
        writer.writerows(ranked)
    for r in ranked:
        jsonl = form == "jsonl"
        file.write(json.dumps(r._asdict(), ensure_ascii=False) if jsonl else _trec(r, tag, source))
        file.write("\n")


def _trec(r: Ranked, tag: str, source: str) -> str:
    docid = str(r.row) if r.docid is None else r.docid
    for name in (r.qid, docid):
        if name.split() != [name]:
            raise DataError(
                f"{source}: trec ids cannot contain spaces, as {name!r} does; use csv, --format csv"
            )
    return f"{r.qid} Q0 {docid} {r.rank} {r.score:g} {tag}"
