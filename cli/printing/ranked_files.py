"""Write the ranked documents of every query as TREC, CSV or JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import IO, TYPE_CHECKING, NamedTuple

from cli.console import write_output
from sortnet.core import I64, Queries
from sortnet.core.named_columns import UNNAMED
from sortnet.errors import DataError
from store.csv_file import write_csv

if TYPE_CHECKING:
    from sortnet.rankers.base import Ranker


class Ranked(NamedTuple):
    """A ranked document; its fields are the columns of CSV.

    Attributes:
        qid: name of the query.
        docid: id of the document; None if it has no id.
        row: row of the document in the data, from 0.
        rank: rank of the document in the query, from 1.
        score: number of documents of the query that rank below the document.
    """

    qid: str
    docid: str | None
    row: int
    rank: int
    score: float


def usual_form(ranker: Ranker, queries: Queries) -> str:
    """Return the default format: `csv` for items and tables with named columns, else `trec`."""
    is_letor = queries.describer is None and ranker.columns == UNNAMED
    return "trec" if is_letor else "csv"


def write_ranked(queries: Queries, order: I64, form: str, tag: str, output: str) -> None:
    """Write the documents of each query, the best first, to a file or to stdout (`-`).

    Args:
        queries: the queries and their documents.
        order: the numbers of the documents, query after query, the best document first.
        form: format of the file: `trec`, `csv` or `jsonl`.
        tag: text in the last column of `trec`.
        output: path of the file, or `-`.

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
            n_below = end - 1 - place
            yield Ranked(
                qid=qid,
                docid=docid or None,  # an empty id is no id
                row=rows[place],
                rank=place - begin + 1,
                score=float(n_below),
            )


def _write(form: str, documents: Iterator[Ranked], tag: str, source: str, file: IO[str]) -> None:
    """Write the documents to an open file, as CSV with a header, as JSON lines or as TREC.

    Args:
        form: format of the file: `trec`, `csv` or `jsonl`.
        documents: the ranked documents.
        tag: text in the last column of `trec`.
        source: name of the data, for errors.
        file: the file.
    """
    if form == "csv":
        write_csv(file, Ranked._fields, documents)
        return
    for document in documents:
        if form == "jsonl":
            line = json.dumps(document._asdict(), ensure_ascii=False)
        else:
            line = _trec_line(document, tag, source)
        file.write(f"{line}\n")


def _trec_line(document: Ranked, tag: str, source: str) -> str:
    """Write a document as a line of TREC: qid Q0 docid rank score tag.

    Raises:
        DataError: if an id has a space; the error names the data `source`.
    """
    docid = str(document.row) if document.docid is None else document.docid
    for name in (document.qid, docid):
        if name.split() != [name]:
            raise DataError(
                f"{source}: trec ids cannot contain spaces, as {name!r} does; use csv, --format csv"
            )
    return f"{document.qid} Q0 {docid} {document.rank} {document.score:g} {tag}"
