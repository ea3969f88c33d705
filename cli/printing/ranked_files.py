"""Write the ranked documents of every query as TREC, CSV or JSON lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import IO, TYPE_CHECKING, NamedTuple

from cli.console import write_output
from sortnet.core import I64, Queries
from sortnet.core.named_columns import UNNAMED
from sortnet.errors import DataError

if TYPE_CHECKING:
    from sortnet.rankers.base import Ranker


class Ranked(NamedTuple):
    """A ranked document."""

    qid: str
    docid: str | None
    row: int  # of the data, from 0
    rank: int  # from 1
    score: float


def usual_form(ranker: Ranker, queries: Queries) -> str:
    """The format for ids without spaces, `trec`; `csv` for items and for named columns."""
    is_letor = queries.describer is None and ranker.columns == UNNAMED
    return "trec" if is_letor else "csv"


def write_ranked(queries: Queries, order: I64, form: str, tag: str, output: str) -> None:
    """Write the documents of each query in their order to a file, or to stdout (`-`).

    Args:
        form: `trec`, `csv` or `jsonl`.
        tag: last column of `trec`.

    Raises:
        DataError: if an id has a space, which `trec` cannot hold.
    """
    write_output(output, partial(_write, form, _ranked(queries, order), tag, queries.source))


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
