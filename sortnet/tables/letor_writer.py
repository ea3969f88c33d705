"""Write Queries as LETOR text."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

import numpy as np

from sortnet.core import Queries
from sortnet.errors import DataError
from sortnet.files import write_atomically

_VALUES_AT_ONCE = 1 << 17
_NOT_A_QID = re.compile(r"[\s#\0\ud800-\udfff]|^$", re.ASCII)
_NOT_A_DOCID = re.compile(r"[\s\0\ud800-\udfff]", re.ASCII)


def write_letor(queries: Queries, path: str | os.PathLike[str]) -> None:
    """Write lines `grade qid:Q 1:v 2:v ... #docid = X`, query by query.

    A value is written with the fewest digits that are read as the same float32, and NaN as NULL. So
    `read_letor` returns the same features, grades, offsets, query and document ids. The file is
    written atomically, and compressed if its name ends with .gz.

    Args:
        queries: the queries.
        path: the file to write.

    Raises:
        DataError: if there are no documents, a feature is infinite, a name has white space, or a
            qid contains '#'.
        SortNetError: if the file cannot be written.

    Cost: about a microsecond per value.

    >>> import tempfile
    >>> q = Queries.from_arrays([[0.1, np.nan]], [2], qid=["a"], docids=["d7"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_letor(q, Path(folder) / "x.txt")
    ...     (Path(folder) / "x.txt").read_text()
    '2 qid:a 1:0.1 2:NULL #docid = d7\\n'
    """
    path = Path(path)
    _refuse_unwritable(queries, path)

    def write(temporary: Path) -> None:
        """Write the lines to a temporary file, which then replaces `path`."""
        with temporary.open("wb") as raw:
            file: IO[bytes] = raw
            if path.suffix == ".gz":
                # No name and no time are stored, so that the same data give the same bytes.
                file = cast(IO[bytes], gzip.GzipFile("", "wb", fileobj=raw, mtime=0))
            with file:
                for lines in _texts(queries):
                    file.write(lines.encode())

    write_atomically(path, write)


def _refuse_unwritable(queries: Queries, path: Path) -> None:
    """Raise DataError if there are no values, or LETOR text cannot hold a qid or document id."""
    if queries.n_docs == 0 or queries.n_features == 0:
        raise DataError(f"{path}: there is nothing to write in {queries!r}")
    for qid in queries.qids.tolist():
        if _NOT_A_QID.search(qid):
            raise DataError(f"{path}: LETOR text cannot hold the qid {qid!r}")
    docids = [] if queries.docids is None else queries.docids.tolist()
    for docid in docids:
        if _NOT_A_DOCID.search(docid):
            raise DataError(f"{path}: LETOR text cannot hold the document id {docid!r}")


def _texts(queries: Queries) -> Iterator[str]:
    """Yield texts of whole lines, each with about 130,000 values."""
    docs_at_once = max(1, _VALUES_AT_ONCE // queries.n_features)
    query_of_docs = queries.query_of_docs()
    indexes = [f"{k}:" for k in range(1, queries.n_features + 1)]
    all_features = queries.exact_features()
    for start in range(0, queries.n_docs, docs_at_once):
        docs = slice(start, start + docs_at_once)
        features = all_features[docs]
        if np.isinf(features).any():
            raise DataError(f"{queries.source}: LETOR text cannot hold infinite features")
        values = np.where(np.isnan(features), "NULL", features.astype(np.str_)).tolist()
        grades = queries.grades[docs].tolist()
        qids = queries.qids[query_of_docs[docs]].tolist()
        docids = [""] * len(grades)
        if queries.docids is not None:
            docids = queries.docids[docs].tolist()
        lines = []
        for grade, qid, values_of_doc, docid in zip(grades, qids, values, docids, strict=True):
            features_text = " ".join(map(str.__add__, indexes, values_of_doc))  # 1:0.5 2:0.25
            comment = f" #docid = {docid}" if docid else ""
            lines.append(f"{grade} qid:{qid} {features_text}{comment}\n")
        yield "".join(lines)
