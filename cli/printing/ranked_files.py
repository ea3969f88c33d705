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
    """A ranked document, with the columns of CSV.

    Attributes:
        docid: id of the document; None if the data have no ids.
        row: row of the document in the data, from 0.
        rank: rank in its query, from 1.
        score: number of documents below it in its query.
    """

    qid: str
    docid: str | None
    row: int
    rank: int
    score: float


def usual_form(ranker: Ranker, queries: Queries) -> str:
    """The default format: `csv` for items and for tables with named columns, else `trec`."""
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
    documents = _ranked_documents(queries, order)
    write_output(output, partial(_write, form, documents, tag, queries.source))


def _ranked_documents(queries: Queries, order: I64) -> Iterator[Ranked]:
    """Yield the documents of each query, the best first."""
    rows = queries.rows[order].tolist()
    docids = None if queries.docids is None else queries.docids[order].tolist()
    bounds = pairwise(queries.offsets.tolist())
    for qid, (begin, end) in zip(queries.qids.tolist(), bounds, strict=True):
        for place in range(begin, end):
            docid = docids[place] if docids else None
            score = float(end - 1 - place)
            yield Ranked(qid, docid or None, rows[place], place - begin + 1, score)


def _write(form: str, documents: Iterator[Ranked], tag: str, source: str, file: IO[str]) -> None:
    """Write the documents as `form`: `csv` with a header, `jsonl` or `trec`."""
    if form == "csv":
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Ranked._fields)
        writer.writerows(documents)
        return
    for document in documents:
        if form == "jsonl":
            line = json.dumps(document._asdict(), ensure_ascii=False)
        else:
            line = _trec_line(document, tag, source)
        file.write(f"{line}\n")


def _trec_line(document: Ranked, tag: str, source: str) -> str:
    docid = str(document.row) if document.docid is None else document.docid
    for name in (document.qid, docid):
        if name.split() != [name]:
            raise DataError(
                f"{source}: trec ids cannot contain spaces, as {name!r} does; use csv, --format csv"
            )
    return f"{document.qid} Q0 {docid} {document.rank} {document.score:g} {tag}"
