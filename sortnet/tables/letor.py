"""Read LETOR and SVMlight text with `qid:` into Queries, block by block into one table.

A file is read in blocks of whole lines; each is parsed by a few threads straight into the rows
of a table that grows, in memory or on disk, so that little more than the result is ever held.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from sortnet.core import F32, I32, Queries, Str, grade_fault
from sortnet.core.large_arrays import GrowingTable, allocate
from sortnet.core.memory import refuse_long, texts
from sortnet.errors import DataError
from sortnet.files import data_files, note_unfinished, open_bytes, reading, shown
from sortnet.tables import letor_kernel as kernel
from sortnet.threads import cores

MAX_FEATURES = 100_000
BLOCK_BYTES = 2 << 20
_LONGEST_LINE = 64 << 20
_LONGEST_NAME = 1024
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINES_A_TASK = 64
_MOST_THREADS = 8

# Possessive (++): without backtracking, or a long run of digits would take an hour.
# A number that ends in a point is refused: its decimals were cut.
_NUMBER = re.compile(rb"[+-]?(\d++(\.\d*+)?|\.\d++)([eE][+-]?\d++)?(?<!\.)")
_INFINITE = re.compile(rb"[+-]?inf(inity)?", re.IGNORECASE)
# The largest float64, with 14 digits or more, is what Istella's files write for "no value".
_NO_VALUE = re.compile(rb"1\.7976931348623\d*[eE]\+?308")
_FAULTS = {  # message for a fault at which the kernel stopped
    kernel.NO_QID: "no qid:... after the grade: {}",
    kernel.NOT_A_PAIR: "{} is not index:value",
    kernel.INDEX_ZERO: "feature indexes count from 1, here is {}",
    kernel.INDEX_TWICE: "a feature is given twice: {}",
}


def read_letor(path: str | os.PathLike[str], *, n_features: int | None = None) -> Queries:
    """Read `grade qid:Q index:value ... # comment` lines, gzipped or not.

    Lines may be dense or sparse (a feature that a line leaves out is 0), with indexes in any order.
    A line ends with LF, CRLF or CR; a last line without an end is noted in the log. `NULL`, `nan`
    and the largest float64, which some files write for a missing value, become NaN. A qid may be
    any UTF-8 text without white space or '#'; the lines of a query may be anywhere. Document ids
    come from `# ... docid = X`: None if no line has an id, '' for a line without. Every value is
    `np.float32(float(token))` to the last bit; a number that ends in a point, as `0.`, is refused.

    Args:
        path: the file, or several files, see `data_files`; `Queries.rows` counts data lines from 0.
        n_features: the expected number of features; a sparse file with fewer features is padded
            with zeros.

    Raises:
        DataError: naming file, line and offending text, for any other text; for a file that ends in
            the middle of a line, or has another number of features than expected; for dense files
            with different numbers of features.

    Cost: linear; the memory of the result and a few MB, beyond 256 MiB on disk (see `allocate`).
    The very first call compiles for a few seconds.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
    ...     _ = file.write("2 qid:a 1:0.5 2:NULL #docid = d7\\n0 qid:a 2:3\\n")
    ...     file.flush()
    ...     q = read_letor(file.name)
    >>> q.features.tolist(), q.grades.tolist(), q.docids.tolist()
    ([[0.5, nan], [0.0, 3.0]], [2, 0], ['d7', ''])
    """
    paths = data_files(path)
    with reading(Path(path)), ThreadPoolExecutor(_threads()) as pool:
        documents = _Documents(str(Path(path)), n_features, pool)
        for file_path in paths:
            with reading(file_path), open_bytes(file_path) as file:
                for first_line, lines in _blocks(file, file_path):
                    documents.add(_Block(file_path, first_line, lines, n_features))
            documents.end_file(file_path)
        queries = documents.finish()
    for place in documents.unfinished:
        note_unfinished(place)
    return queries


def _threads() -> int:
    return min(_MOST_THREADS, cores())


def _blocks(file: BinaryIO, path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of whole lines, each block with the number of its first line.

    All lines end with a newline, but the last line of the file may lack its newline.
    """
    line = 1
    remainder = b""
    while piece := file.read(BLOCK_BYTES):
        data = remainder + piece
        del piece  # a block is held once: memory may be short
        # A CR in the last byte may be the first half of a CRLF, so it ends no line yet.
        end = 1 + max(data.rfind(b"\n"), data.rfind(b"\r", 0, len(data) - 1))
        block = data[:end]
        remainder = data[end:]
        del data
        if block:
            lines = _checked(block, line, path)
            del block
            yield line, lines
            line += lines.count(b"\n")
        if len(remainder) > _LONGEST_LINE:
            raise DataError(f"{path}, line {line}: is longer than {_LONGEST_LINE >> 20} MB")
    if remainder:
        yield line, _checked(remainder, line, path)


def _checked(block: bytes, first_line: int, path: Path) -> bytes:
    """Replace each CR and CRLF of a block by a newline; refuse zero bytes."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b" \n").replace(b"\r", b"\n")
    if first_line == 1 and block.startswith(_BYTE_ORDER_MARK):
        block = block.replace(_BYTE_ORDER_MARK, b" ", 1)
    zero = block.find(b"\0")
    if zero >= 0:
        line = first_line + block.count(b"\n", 0, zero)
        raise DataError(f"{path}, line {line}: has a zero byte, so this is no text file")
    return block


class _Block:
    """Whole lines of a file, and the results of parsing them.

    Attributes:
        unfinished: whether the last line lacks its newline, so that the file may be cut.
        starts: (n,) where each data line begins, a line that is neither comment nor blank.
        grades, fields: (n,) and (n, N_FIELDS), filled by the kernel.
    """

    def __init__(self, path: Path, first_line: int, lines: bytes, n_features: int | None) -> None:
        self.path = path
        self.first_line = first_line
        self.n_features = n_features
        self.unfinished = not lines.endswith(b"\n")
        self.lines = lines + b"\n" if self.unfinished else lines
        self.buf = np.frombuffer(self.lines, np.uint8)
        self.newlines = np.flatnonzero(self.buf == ord("\n"))
        starts = np.empty(len(self.newlines), np.int64)
        self.starts = starts[: kernel.data_lines(self.buf, self.newlines, starts)]
        self.grades = np.empty(len(self), np.int32)
        self.fields = np.empty((len(self), kernel.N_FIELDS), np.int32)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def ends_in_data(self) -> bool:
        """Whether the last line lacks its newline and is a data line."""
        last_line = self.newlines[-2] + 1 if len(self.newlines) > 1 else 0
        return self.unfinished and len(self) > 0 and bool(self.starts[-1] >= last_line)

    def place(self, position: int) -> str:
        """File and line of a position in the lines, for messages."""
        line = int(np.searchsorted(self.newlines, position))
        return f"{self.path}, line {self.first_line + line}"

    def fault(self, position: int, message: str) -> DataError:
        """Make the error for a fault at a position in the lines."""
        if self.unfinished and np.searchsorted(self.newlines, position) == len(self.newlines) - 1:
            message += ": the file ends in the middle of this line"
        return DataError(f"{self.place(position)}: {message}")

    def shown(self, start: int, end: int) -> str:
        return shown(self.lines[start:end].rstrip().decode("utf-8", "replace"))

    def name(self, start: int, end: int) -> str:
        """Decode the name of a query or a document."""
        if end - start > _LONGEST_NAME:
            raise self.fault(start, f"a name of {end - start} bytes is too long")
        try:
            return self.lines[start:end].decode()
        except UnicodeDecodeError:
            name = self.lines[start:end]
            raise self.fault(start, f"the name {name!r} is not UTF-8") from None

    def parse(self, line: int, stop: int, table: F32) -> int:
        """Parse lines into the same rows of the table; return the largest feature index."""
        limit = MAX_FEATURES if self.n_features is None else min(self.n_features, MAX_FEATURES)
        odd = np.empty((kernel.ODD_ENOUGH + limit + 1, 4), np.int64)
        largest = 0
        while line < stop:
            line, n_odd, widest, fault, start, end = kernel.parse_lines(
                self.buf, self.starts, line, stop, limit, table, self.grades, self.fields, odd
            )
            for row, column, first, after in odd[:n_odd].tolist():
                if column < 0:
                    self.grades[row] = self._grade(first, after)
                    continue
                value = self._value(column, first, after)
                if column < table.shape[1]:
                    table[row, column] = value
            if fault:
                most = f"the largest a file may have, {MAX_FEATURES}"
                if self.n_features is not None:
                    most = f"the {self.n_features} features expected"
                message = _FAULTS.get(fault, f"a feature index is beyond {most}: {{}}")
                raise self.fault(start, message.format(self.shown(start, end)))
            largest = max(largest, widest)
        return largest

    def _grade(self, start: int, end: int) -> int:
        """Read a grade that the kernel could not read; raise an error if it is none."""
        text = self.lines[start:end]
        if not _NUMBER.fullmatch(text):
            raise self.fault(start, f"the grade {self.shown(start, end)} is not a number")
        value = float(text)
        if not (0 <= value <= np.iinfo(np.int32).max and value.is_integer()):
            raise self.fault(start, grade_fault(text.decode()))
        return int(value)

    def _value(self, column: int, start: int, end: int) -> float:
        """Read a value that the kernel could not read; raise an error if it is no number."""
        text = self.lines[start:end]
        if _NO_VALUE.fullmatch(text):
            return float("nan")
        if not text:
            raise self.fault(start, f"feature {column + 1} has no value")
        is_number = _NUMBER.fullmatch(text)
        if is_number:
            value = float(text)
            with np.errstate(over="ignore"):
                if np.isfinite(np.float32(value)):
                    return value
        fault = "is not a number"
        if is_number or _INFINITE.fullmatch(text):
            fault = "is infinite in float32"
        raise self.fault(start, f"feature {column + 1}: {self.shown(start, end)} {fault}")

    def refuse_cut(self, fewest_before: int, largest: int) -> None:
        """Refuse an unfinished last line that lacks features, because the file was cut there.

        In a dense file each earlier line has all features up to the largest index: a last line with
        fewer features is refused. In a sparse file only a last line without features is refused.

        Args:
            fewest_before: least number of features in a line of the file's earlier blocks.
            largest: largest feature index in the file up to this block.
        """
        n_last = self.fields[-1, kernel.FEATURES]
        fewest_in_block = int(self.fields[:-1, kernel.FEATURES].min(initial=MAX_FEATURES))
        fewest = min(fewest_before, fewest_in_block)
        is_dense = fewest == largest
        lacks_some = is_dense and n_last < fewest
        lacks_all = n_last == 0 and largest > 0
        if lacks_some or lacks_all:
            raise self.fault(self.newlines[-1], f"{n_last} features")

    def docids(self) -> NDArray[np.bytes_] | Str | None:
        """Document ids (n,), as bytes if all are ASCII; None if no line has an id."""
        spans = self.fields[:, kernel.DOCID : kernel.DOCID_END + 1]
        longest = int(np.diff(spans).max())
        if longest == 0:
            return None
        if longest <= _LONGEST_NAME:
            letters = np.zeros((len(self), longest), np.uint8)
            if kernel.copy_spans(self.buf, self.fields, letters):
                return letters.view(f"S{longest}").ravel()
        return np.array([self.name(start, end) for start, end in spans.tolist()])


class _Documents:
    """The documents read so far, from one file or several files."""

    def __init__(self, source: str, n_features: int | None, pool: ThreadPoolExecutor) -> None:
        self.source = source
        self.n_features = n_features
        self.pool = pool
        self.table = GrowingTable(source, n_features or 0)
        self.n_bytes = 0
        self.grades: list[I32] = []
        self.codes: list[I32] = []
        self.docids: list[tuple[int, NDArray[np.bytes_] | Str]] = []
        self.number_of: dict[str, int] = {}
        # The largest index and the least number of features in the lines of the current file.
        self.largest = 0
        self.fewest = MAX_FEATURES
        self.widths: list[tuple[Path, int, int]] = []  # path, fewest and largest of all files
        self.unfinished: list[str] = []  # places of data lines without a line end

    def add(self, block: _Block) -> None:
        """Parse a block and add its documents."""
        self.n_bytes += len(block.buf)
        if not len(block):
            return
        if self.table.width == 0:  # a few lines show how wide most tables are
            n_lines = min(len(block), _LINES_A_TASK)
            width = block.parse(0, n_lines, np.empty((n_lines, 0), np.float32))
            self.table.next_rows(len(block), width)
        largest = self._parse(block, self.table.width)
        if largest > self.table.width:
            self._parse(block, largest)
        self.largest = max(self.largest, largest)
        if block.ends_in_data:
            block.refuse_cut(self.fewest, self.largest)
            self.unfinished.append(block.place(len(block.lines) - 1))
        self.fewest = min(self.fewest, int(block.fields[:, kernel.FEATURES].min()))
        # A query's name is read once for a run of lines with the same name.
        first_lines = np.flatnonzero(block.fields[:, kernel.NEW_QID])
        spans = block.fields[first_lines, kernel.QID : kernel.QID_END + 1].tolist()
        names = (block.name(start, end) for start, end in spans)
        numbers = [self.number_of.setdefault(name, len(self.number_of)) for name in names]
        run_lengths = np.diff(first_lines, append=len(block))
        self.codes.append(np.repeat(np.array(numbers, np.int32), run_lengths))
        self.grades.append(block.grades)
        docids = block.docids()
        if docids is not None:
            self.docids.append((self.table.n, docids))
        self.table.n += len(block)

    def _parse(self, block: _Block, width: int) -> int:
        """Parse a block in several threads into new rows; return the largest feature index."""
        rows = self.table.next_rows(len(block), width)
        n_tasks = max(1, min(_threads(), len(block) // _LINES_A_TASK))
        cuts = [len(block) * k // n_tasks for k in range(n_tasks + 1)]
        tasks = [self.pool.submit(block.parse, start, end, rows) for start, end in pairwise(cuts)]
        return max([task.result() for task in tasks])

    def end_file(self, path: Path) -> None:
        """Record the numbers of features of a file that has been read."""
        if self.fewest < MAX_FEATURES:
            self.widths.append((path, self.fewest, self.largest))
        self.largest = 0
        self.fewest = MAX_FEATURES

    def finish(self) -> Queries:
        """Make Queries of all documents; refuse faults that only the whole shows."""
        if self.table.n == 0:
            raise DataError(f"{self.source}: the file is empty: it has no documents")
        if self.table.width == 0:
            raise DataError(f"{self.source}: no line has a feature")
        self._refuse_other_widths()
        features = self.table.finished()
        codes = np.concatenate(self.codes)
        grades = np.concatenate(self.grades)
        docids = self._all_docids()
        qids = texts([*self.number_of], f"{self.source}: query ids")
        return Queries.from_codes(features, grades, codes, qids, docids=docids, source=self.source)

    def _refuse_other_widths(self) -> None:
        """Refuse dense files whose number of features differs, or is not the expected number."""
        expected = self.n_features or max(largest for _, _, largest in self.widths)
        if any(fewest < largest for _, fewest, largest in self.widths):
            return  # the file is sparse: its lines leave out zeros
        for path, width, _ in self.widths:
            if width != expected:
                fault = f"every line has {width} features, but {expected} are expected"
                raise DataError(f"{path}: {fault}")

    def _all_docids(self) -> Str | None:
        if not self.docids:
            return None
        longest = 0
        for _, block_docids in self.docids:
            letter_bytes = 4 if block_docids.dtype.kind == "U" else 1
            longest = max(longest, block_docids.dtype.itemsize // letter_bytes)
        refuse_long(longest, self.table.n, self.n_bytes, f"{self.source}: document ids")
        docids: Str = allocate((self.table.n,), f"U{longest}", f"{self.source}: document ids")
        docids[:] = ""
        for start, block_docids in self.docids:
            docids[start : start + len(block_docids)] = block_docids
        return docids
