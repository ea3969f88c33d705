"""LETOR and SVMlight text with `qid:` -> Queries, block by block into one table.

The file is read in blocks of whole lines; each is parsed by a few threads straight into the rows
of a table that grows in place, so that little more than the result is ever in memory.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from gzip import BadGzipFile, GzipFile
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from sortnet.data import letor_kernel as kernel
from sortnet.data.letor_faults import (
    MAX_FEATURES,
    Block,
    line_fault,
    read_grade,
    read_value,
)
from sortnet.errors import DataError
from sortnet.files import open_bytes, reading
from sortnet.types import F32, F64, I32, I64, Queries, Str
from sortnet.types.free import free_memory, refuse_long, refuse_too_large, texts
from sortnet.types.precision import Differences

BLOCK_BYTES = 1 << 20
_LONGEST_LINE = 64 << 20
_LONGEST_NAME = 1024
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINES_A_TASK = 64
_COLUMNS_AT_ONCE = 16
_MOST_THREADS = 8


def read_letor(path: str | os.PathLike[str], *, n_features: int | None = None) -> Queries:
    """Read `grade qid:Q index:value ... # comment` lines, gzipped or not.

    Lines may be dense or sparse (what a line leaves out is 0), indexes of a line in any order.
    `NULL` and `nan` are missing values and become NaN, and so does the largest float64, which some
    files write for them. A qid may be any UTF-8 text without white space or '#'; the lines of a
    query may be anywhere. Document ids come from `# ... docid = X`: None if no line has one, ''
    for lines without. Every value is `np.float32(float(token))` to the last bit.

    Args:
        path: the file; `Queries.rows` counts its data lines from 0.
        n_features: the number expected; a sparse file with fewer is padded with zeros.

    Raises:
        DataError: naming file, line and offending text, for anything but the above; for a
            file that ends in the middle of a line, or has a number of features other than expected;
            with grades, for a feature whose differences within queries are lost in float32.

    Cost: linear; the memory of the result and a few MB. The very first call compiles for a few
    seconds.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
    ...     _ = file.write("2 qid:a 1:0.5 2:NULL #docid = d7\\n0 qid:a 2:3\\n")
    ...     file.flush()
    ...     q = read_letor(file.name)
    >>> q.features.tolist(), q.grades.tolist(), q.docids.tolist()
    ([[0.5, nan], [0.0, 3.0]], [2, 0], ['d7', ''])
    """
    path = Path(path)
    with reading(path), open_bytes(path) as file, ThreadPoolExecutor(_threads()) as pool:
        size = None if isinstance(file, GzipFile) else path.stat().st_size
        growing = _Growing(path, n_features, size, pool)
        for block in _blocks(file, path):
            growing.add(block)
        return growing.finish()


def _threads() -> int:
    if hasattr(os, "sched_getaffinity"):
        return min(_MOST_THREADS, len(os.sched_getaffinity(0)))
    return min(_MOST_THREADS, os.cpu_count() or 1)


def _blocks(file: BinaryIO, path: Path) -> Iterator[Block]:
    """Cut a file into blocks of whole lines; a block is valid until the next is requested."""
    buffer, held, line = bytearray(BLOCK_BYTES), 0, 1
    while got := _fill(file, buffer, held, path, line):
        held += got
        if cut := buffer.rfind(b"\n", 0, held) + 1:
            block = _block(path, line, buffer, cut)
            yield block
            line += len(block.newlines)
            buffer[: held - cut] = buffer[cut:held]
            held -= cut
        if held == len(buffer) - 1:
            if held > _LONGEST_LINE:
                raise DataError(f"{path}, line {line}: is longer than {_LONGEST_LINE >> 20} MB")
            buffer = buffer + bytearray(len(buffer))
    if held:
        buffer[held] = ord("\n")
        yield _block(path, line, buffer, held + 1, unfinished=True)


def _fill(file: BinaryIO, buffer: bytearray, held: int, path: Path, line: int) -> int:
    """Append to what is held, leaving a byte free for a last newline; returns the bytes read."""
    try:
        got: int = file.readinto(memoryview(buffer)[held:-1])  # type: ignore[attr-defined]
    except (EOFError, zlib.error, BadGzipFile) as error:
        line += buffer.count(b"\n", 0, held)
        fault = f"the compressed file is cut or damaged: {error}"
        raise DataError(f"{path}, at or after line {line}: {fault}") from None
    if (zero := buffer.find(b"\0", held, held + got)) >= 0:
        line += buffer.count(b"\n", 0, zero)
        raise DataError(f"{path}, line {line}: has a zero byte, so this is no text file")
    if line == 1 and not held and buffer.startswith(_BYTE_ORDER_MARK):
        buffer[: len(_BYTE_ORDER_MARK)] = b" " * len(_BYTE_ORDER_MARK)
    return got


def _block(
    path: Path, line: int, buffer: bytearray, end: int, *, unfinished: bool = False
) -> Block:
    buf = np.frombuffer(buffer, np.uint8, end)
    return Block(path, line, buf, np.flatnonzero(buf == ord("\n")), unfinished)


@dataclass(frozen=True)
class _Lines:
    """The data lines of a block and the kernel's results for them."""

    block: Block
    starts: I64
    grades: I32
    fields: I32
    n_features: int | None

    @classmethod
    def of(cls, block: Block, n_features: int | None) -> _Lines:
        starts = np.empty(len(block.newlines), np.int64)
        n = kernel.data_lines(block.buf, block.newlines, starts)
        fields = np.empty((n, kernel.N_FIELDS), np.int32)
        return cls(block, starts[:n], np.empty(n, np.int32), fields, n_features)

    def __len__(self) -> int:
        return len(self.starts)

    def parse(self, line: int, stop: int, table: F32) -> tuple[int, F64]:
        """Parse lines into their rows of table; returns the largest feature index and the sums."""
        limit = MAX_FEATURES if self.n_features is None else min(self.n_features, MAX_FEATURES)
        odd = np.empty((kernel.ODD_ENOUGH + limit + 1, 4), np.int64)
        largest, sums, before = 0, np.zeros((4, table.shape[1])), np.empty(table.shape[1])
        while line < stop:
            line, n_odd, widest, fault, start, end = kernel.parse_lines(
                self.block.buf, self.starts, line, stop, limit, table, self.grades, self.fields,
                odd, sums, before,
            )  # fmt: skip
            self._read_odd(odd[:n_odd], table)
            if fault:
                raise line_fault(self.block, fault, start, end, self.n_features)
            largest = max(largest, widest)
        return largest, sums

    def _read_odd(self, odd: I64, table: F32) -> None:
        for line, column, start, end in odd.tolist():
            if column < 0:
                self.grades[line] = read_grade(self.block, start, end)
                continue
            value = read_value(self.block, column, start, end)
            if column < table.shape[1]:
                table[line, column] = value

    def last_is_unfinished(self) -> bool:
        newlines = self.block.newlines
        return self.block.unfinished and (len(newlines) < 2 or self.starts[-1] > newlines[-2])

    def docids(self) -> NDArray[np.bytes_] | Str | None:
        """(lines,) document ids, as bytes where they are ASCII; None if there are none."""
        lengths = self.fields[:, kernel.DOCID_END] - self.fields[:, kernel.DOCID]
        longest = int(lengths.max())
        if longest == 0:
            return None
        if longest > _LONGEST_NAME:
            place = self.fields[lengths.argmax(), kernel.DOCID]
            raise self.block.fault(place, f"a document id of {longest} bytes is too long")
        copied = np.zeros((len(self), longest), np.uint8)
        if kernel.copy_spans(self.block.buf, self.fields, copied):
            return copied.view(f"S{longest}").ravel()
        spans = self.fields[:, kernel.DOCID : kernel.DOCID_END + 1].tolist()
        return np.array([_decoded(self.block, start, end) for start, end in spans])


def _decoded(block: Block, start: int, end: int) -> str:
    """A query's or document's name."""
    if end - start > _LONGEST_NAME:
        raise block.fault(start, f"a name of {end - start} bytes is too long")
    text = block.text(start, end)
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise block.fault(start, f"the name {text!r} is not UTF-8") from None


class _Growing:
    """The documents read so far."""

    def __init__(
        self, path: Path, n_features: int | None, size: int | None, pool: ThreadPoolExecutor
    ) -> None:
        self.path, self.n_features, self.size, self.pool = path, n_features, size, pool
        self.table: F32 = np.empty((0, n_features or 0), np.float32)
        self.n_docs, self.n_bytes = 0, 0
        self.grades: list[I32] = []
        self.codes: list[I32] = []
        self.docids: list[tuple[int, NDArray[np.bytes_] | Str]] = []
        self.number_of: dict[bytes, int] = {}
        self.qids: list[str] = []
        self.largest, self.fewest = 0, MAX_FEATURES
        self.seen = Differences(MAX_FEATURES)

    def add(self, block: Block) -> None:
        """Parse a block and keep what it holds."""
        lines = _Lines.of(block, self.n_features)
        self.n_bytes += len(block.buf)
        if not len(lines):
            return
        if self.table.shape[1] == 0:  # the first line shows how wide most tables are
            self._make_room(len(lines), lines.parse(0, 1, self.table)[0])
        self._make_room(len(lines), self.table.shape[1])
        largest = self._parse(lines)
        if largest > self.table.shape[1]:
            self._make_room(len(lines), largest)
            self._parse(lines)
        self.largest = max(self.largest, largest)
        self._count_features(lines)
        self._keep(lines)

    def _parse(self, lines: _Lines) -> int:
        """Parse the lines in several threads, into the rows after the existing ones."""
        rows = self.table[self.n_docs : self.n_docs + len(lines)]
        parts = max(1, min(_threads(), len(lines) // _LINES_A_TASK))
        cuts = [len(lines) * part // parts for part in range(parts + 1)]
        tasks = [self.pool.submit(lines.parse, *part, rows) for part in pairwise(cuts)]
        results = [task.result() for task in tasks]
        for _, sums in results:
            self.seen.add_sums(sums)
        return max(largest for largest, _ in results)

    def _make_room(self, n_lines: int, width: int) -> None:
        """Enlarge the table for more or wider rows."""
        needed, row_bytes = self.n_docs + n_lines, 4 * max(1, width)
        if needed <= len(self.table) and width == self.table.shape[1]:
            return
        in_place = width == self.table.shape[1] and self.n_docs > 0
        there = self.n_docs if in_place else 0
        what = f"{self.path}: {needed} rows of {width} features"
        refuse_too_large((needed - there) * row_bytes, what)
        guess = needed * 9 // 8
        if self.size is not None:
            guess = int(needed * (self.size / self.n_bytes) * 1.01) + 16
        # Guess at most what is free: memory that is never touched is not really allocated.
        rows = max(needed, min(guess, there + free_memory() // row_bytes))
        if in_place:
            self.table.resize((rows, width), refcheck=False)  # in place, unlike a new array
            return
        old, n = self.table, self.n_docs
        self.table = np.empty((rows, width), np.float32)
        self.table[:n, : old.shape[1]] = old[:n]
        self.table[:n, old.shape[1] :] = 0

    def _count_features(self, lines: _Lines) -> None:
        """Track whether the file is dense; refuse a truncated last line."""
        counts = lines.fields[:, kernel.FEATURES]
        if lines.last_is_unfinished():
            last, counts = int(counts[-1]), counts[:-1]
            fewest = min(self.fewest, int(counts.min(initial=MAX_FEATURES)))
            dense = fewest == self.largest
            if (last < fewest and dense) or (last == 0 < self.largest):
                raise lines.block.cut()
            self.fewest = min(fewest, last)
        else:
            self.fewest = min(self.fewest, int(counts.min()))

    def _keep(self, lines: _Lines) -> None:
        """Keep the grades, queries and document ids of lines just parsed."""
        fields = lines.fields
        firsts = np.flatnonzero(fields[:, kernel.NEW_QID])
        spans = fields[firsts, kernel.QID : kernel.QID_END + 1].tolist()
        numbers = [self._query(lines.block, start, end) for start, end in spans]
        self.codes.append(
            np.repeat(np.array(numbers, np.int32), np.diff(firsts, append=len(lines)))
        )
        self.grades.append(lines.grades)
        docids = lines.docids()
        if docids is not None:
            self.docids.append((self.n_docs, docids))
        self.n_docs += len(lines)

    def _query(self, block: Block, start: int, end: int) -> int:
        """The number of a query by its name; a new name gets the next number."""
        name = block.text(start, end)
        number = self.number_of.setdefault(name, len(self.number_of))
        if number == len(self.qids):
            self.qids.append(_decoded(block, start, end))
        return number

    def finish(self) -> Queries:
        """The Queries read, or an error that only the whole file shows."""
        if self.n_docs == 0:
            raise DataError(f"{self.path}: the file is empty: it has no documents")
        if self.table.shape[1] == 0:
            raise DataError(f"{self.path}: no line has a feature")
        expected = self.n_features or self.largest
        if self.fewest == self.largest != expected:
            fault = f"every line has {self.largest} features, but {expected} are expected"
            raise DataError(f"{self.path}: {fault}")
        self.table.resize((self.n_docs, self.table.shape[1]), refcheck=False)
        codes, rows = np.concatenate(self.codes), None
        grades, docids = np.concatenate(self.grades), self._all_docids()
        if grades.any():  # without grades the documents are only ranked
            self.seen.refuse(None, str(self.path))
        if np.any(codes[1:] < codes[:-1]):
            rows = np.argsort(codes, kind="stable")
            codes, grades = codes[rows], grades[rows]
            docids = None if docids is None else docids[rows]
            self._reorder(rows)
        qids = texts(self.qids, f"{self.path}: query ids")
        queries = Queries.from_codes(
            self.table, grades, codes, qids, docids=docids, source=str(self.path)
        )
        return queries if rows is None else replace(queries, rows=rows)

    def _reorder(self, rows: I64) -> None:
        """Reorder the table's rows, a few columns at a time to save memory."""
        for start in range(0, self.table.shape[1], _COLUMNS_AT_ONCE):
            columns = slice(start, start + _COLUMNS_AT_ONCE)
            self.table[:, columns] = self.table[rows, columns]

    def _all_docids(self) -> Str | None:
        if not self.docids:
            return None
        letters = [d.dtype.itemsize // (4 if d.dtype.kind == "U" else 1) for _, d in self.docids]
        refuse_long(max(letters), self.n_docs, self.n_bytes, f"{self.path}: document ids")
        docids = np.zeros(self.n_docs, f"U{max(letters)}")
        for start, part in self.docids:
            docids[start : start + len(part)] = part
        return docids
