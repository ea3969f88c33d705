"""LETOR and SVMlight text with `qid:` -> Queries, block by block into one table.

A file is read in blocks of whole lines; each is parsed by a few threads straight into the rows
of a table that grows, in memory or on disk, so that little more than the result is ever held.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from gzip import BadGzipFile
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from sortnet.errors import DataError
from sortnet.files import data_files, open_bytes, reading, shown
from sortnet.tables import letor_kernel as kernel
from sortnet.threads import cores
from sortnet.types import F32, I32, I64, Queries, Str, grade_fault
from sortnet.types.memory import GrowingTable, refuse_long, room, texts

MAX_FEATURES = 100_000
BLOCK_BYTES = 1 << 20
_LONGEST_LINE = 64 << 20
_LONGEST_NAME = 1024
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINES_A_TASK = 64
_MOST_THREADS = 8
_LONGEST_SHOWN = 60

# Possessive (++): without backtracking, or a long run of digits would take an hour.
_NUMBER = re.compile(rb"[+-]?(\d++(\.\d*+)?|\.\d++)([eE][+-]?\d++)?")
_INFINITE = re.compile(rb"[+-]?inf(inity)?", re.IGNORECASE)
# The largest float64, with 14 digits or more, is what Istella's files write for "no value".
_NO_VALUE = re.compile(rb"1\.7976931348623\d*[eE]\+?308")
# Prefixes of valid tokens, at which a truncated file may end.
_CUT_NUMBER = re.compile(rb"[+-]?|[+-]?(\d++(\.\d*+)?|\.\d*+)([eE][+-]?)?|nul?|na?", re.IGNORECASE)


def read_letor(path: str | os.PathLike[str], *, n_features: int | None = None) -> Queries:
    """Read `grade qid:Q index:value ... # comment` lines, gzipped or not.

    Lines may be dense or sparse (what a line leaves out is 0), indexes of a line in any order.
    `NULL` and `nan` are missing values and become NaN, and so does the largest float64, which some
    files write for them. A qid may be any UTF-8 text without white space or '#'; the lines of a
    query may be anywhere. Document ids come from `# ... docid = X`: None if no line has one, ''
    for lines without. Every value is `np.float32(float(token))` to the last bit.

    Args:
        path: the file, or several, see `data_files`; `Queries.rows` counts data lines from 0.
        n_features: the number expected; a sparse file with fewer is padded with zeros.

    Raises:
        DataError: naming file, line and offending text, for anything but the above; for a
            file that ends in the middle of a line, or has a number of features other than expected
            or, where all files are dense, than another one.

    Cost: linear; the memory of the result and a few MB, beyond 256 MiB on disk (see `room`). The
    very first call compiles for a few seconds.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
    ...     _ = file.write("2 qid:a 1:0.5 2:NULL #docid = d7\\n0 qid:a 2:3\\n")
    ...     file.flush()
    ...     q = read_letor(file.name)
    >>> q.features.tolist(), q.grades.tolist(), q.docids.tolist()
    ([[0.5, nan], [0.0, 3.0]], [2, 0], ['d7', ''])
    """
    files = data_files(path)
    with reading(Path(path)), ThreadPoolExecutor(_threads()) as pool:
        growing = _Growing(str(Path(path)), n_features, pool)
        for each in files:
            with reading(each), open_bytes(each) as file:
                for block in _blocks(file, each):
                    growing.add(block)
            growing.end_file(each)
        return growing.finish()


def _threads() -> int:
    return min(_MOST_THREADS, cores())


@dataclass(frozen=True)
class _Block:
    """Whole lines of a file."""

    path: Path
    first_line: int  # its number, from 1
    buf: kernel.U8  # (bytes,) ending with a newline
    unfinished: bool = False  # the last newline was not in the file

    @cached_property
    def newlines(self) -> I64:
        """(lines,) where they are in `buf`."""
        return np.flatnonzero(self.buf == ord("\n"))

    def text(self, start: int, end: int) -> bytes:
        return self.buf[start:end].tobytes()

    def fault(self, place: int, what: str) -> DataError:
        """The error for a fault at a position in `buf`."""
        line = self.first_line + int(np.searchsorted(self.newlines, place))
        return DataError(f"{self.path}, line {line}: {what}")

    def ends_at(self, end: int) -> bool:
        """Whether the file itself ends there, without a newline."""
        return self.unfinished and end == len(self.buf) - 1

    def cut(self) -> DataError:
        """The error for a truncated last line."""
        end = len(self.buf) - 1
        tail = self.text(max(0, end - _LONGEST_SHOWN), end).rpartition(b"\n")[2]
        said = ascii(tail.decode("utf-8", "replace"))
        return self.fault(end, f"the file ends in the middle of this line: ...{said}")


def _blocks(file: BinaryIO, path: Path) -> Iterator[_Block]:
    """Cut a file into blocks of whole lines; a block is valid until the next is requested."""
    buffer, held, line = bytearray(BLOCK_BYTES), 0, 1
    while got := _fill(file, buffer, held, path, line):
        held += got
        if cut := buffer.rfind(b"\n", 0, held) + 1:
            block = _Block(path, line, np.frombuffer(buffer, np.uint8, cut))
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
        yield _Block(path, line, np.frombuffer(buffer, np.uint8, held + 1), unfinished=True)


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


@dataclass(frozen=True)
class _Lines:
    """The data lines of a block and the kernel's results for them."""

    block: _Block
    starts: I64
    grades: I32
    fields: I32
    n_features: int | None

    @classmethod
    def of(cls, block: _Block, n_features: int | None) -> _Lines:
        starts = np.empty(len(block.newlines), np.int64)
        n = kernel.data_lines(block.buf, block.newlines, starts)
        fields = np.empty((n, kernel.N_FIELDS), np.int32)
        return cls(block, starts[:n], np.empty(n, np.int32), fields, n_features)

    def __len__(self) -> int:
        return len(self.starts)

    def parse(self, line: int, stop: int, table: F32) -> int:
        """Parse lines into their rows of table; returns the largest feature index."""
        limit = MAX_FEATURES if self.n_features is None else min(self.n_features, MAX_FEATURES)
        odd = np.empty((kernel.ODD_ENOUGH + limit + 1, 4), np.int64)
        largest = 0
        while line < stop:
            line, n_odd, widest, fault, start, end = kernel.parse_lines(
                self.block.buf, self.starts, line, stop, limit, table, self.grades, self.fields,
                odd,
            )  # fmt: skip
            self._read_odd(odd[:n_odd], table)
            if fault:
                raise _line_fault(self.block, fault, start, end, self.n_features)
            largest = max(largest, widest)
        return largest

    def _read_odd(self, odd: I64, table: F32) -> None:
        for line, column, start, end in odd.tolist():
            if column < 0:
                self.grades[line] = _grade(self.block, start, end)
                continue
            value = _value(self.block, column, start, end)
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


def _decoded(block: _Block, start: int, end: int) -> str:
    """A query's or document's name."""
    if end - start > _LONGEST_NAME:
        raise block.fault(start, f"a name of {end - start} bytes is too long")
    text = block.text(start, end)
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise block.fault(start, f"the name {text!r} is not UTF-8") from None


class _Growing:
    """The documents read so far, of one file or of several."""

    def __init__(self, source: str, n_features: int | None, pool: ThreadPoolExecutor) -> None:
        self.source, self.n_features, self.pool = source, n_features, pool
        self.table = GrowingTable(source, n_features or 0)
        self.n_bytes = 0
        self.grades: list[I32] = []
        self.codes: list[I32] = []
        self.docids: list[tuple[int, NDArray[np.bytes_] | Str]] = []
        self.number_of: dict[bytes, int] = {}
        self.qids: list[str] = []
        self.largest, self.fewest = 0, MAX_FEATURES  # of the file at hand
        self.widths: dict[Path, int] = {}  # of the files whose lines all have the same features
        self.n_files, self.widest = 0, 0

    def add(self, block: _Block) -> None:
        """Parse a block and keep what it holds."""
        lines = _Lines.of(block, self.n_features)
        self.n_bytes += len(block.buf)
        if not len(lines):
            return
        if self.table.width == 0:  # the first line shows how wide most tables are
            width = lines.parse(0, 1, np.empty((1, 0), np.float32))
            self.table.next_rows(len(lines), width)
        largest = self._parse(lines, self.table.width)
        if largest > self.table.width:
            self._parse(lines, largest)
        self.largest = max(self.largest, largest)
        self._count_features(lines)
        self._keep(lines)

    def end_file(self, path: Path) -> None:
        """Note the features of a file that is read."""
        if self.largest or self.fewest == 0:
            self.n_files += 1
            if self.fewest == self.largest:
                self.widths[path] = self.largest
        self.widest = max(self.widest, self.largest)
        self.largest, self.fewest = 0, MAX_FEATURES

    def _parse(self, lines: _Lines, width: int) -> int:
        """Parse the lines in several threads, into the rows after the existing ones."""
        rows = self.table.next_rows(len(lines), width)
        parts = max(1, min(_threads(), len(lines) // _LINES_A_TASK))
        cuts = [len(lines) * part // parts for part in range(parts + 1)]
        tasks = [self.pool.submit(lines.parse, *part, rows) for part in pairwise(cuts)]
        return max([task.result() for task in tasks])

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
            self.docids.append((self.table.n, docids))
        self.table.n += len(lines)

    def _query(self, block: _Block, start: int, end: int) -> int:
        """The number of a query by its name; a new name gets the next number."""
        name = block.text(start, end)
        number = self.number_of.setdefault(name, len(self.number_of))
        if number == len(self.qids):
            self.qids.append(_decoded(block, start, end))
        return number

    def finish(self) -> Queries:
        """The Queries read, or an error that only the whole shows."""
        if self.table.n == 0:
            raise DataError(f"{self.source}: the file is empty: it has no documents")
        if self.table.width == 0:
            raise DataError(f"{self.source}: no line has a feature")
        self._refuse_other_widths()
        features = self.table.finished()
        codes, grades = np.concatenate(self.codes), np.concatenate(self.grades)
        docids = self._all_docids()
        qids = texts(self.qids, f"{self.source}: query ids")
        return Queries.from_codes(features, grades, codes, qids, docids=docids, source=self.source)

    def _refuse_other_widths(self) -> None:
        """Refuse a dense file with another number of features than expected or than the others."""
        expected = self.n_features or self.widest
        if len(self.widths) < self.n_files:
            return  # lines leave out what is 0
        for path, width in self.widths.items():
            if width != expected:
                fault = f"every line has {width} features, but {expected} are expected"
                raise DataError(f"{path}: {fault}")

    def _all_docids(self) -> Str | None:
        if not self.docids:
            return None
        letters = [d.dtype.itemsize // (4 if d.dtype.kind == "U" else 1) for _, d in self.docids]
        refuse_long(max(letters), self.table.n, self.n_bytes, f"{self.source}: document ids")
        docids: Str = room((self.table.n,), f"U{max(letters)}", f"{self.source}: document ids")
        docids[:] = ""
        for start, part in self.docids:
            docids[start : start + len(part)] = part
        return docids


def _words(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _grade(block: _Block, start: int, end: int) -> int:
    """Read a grade that the kernel was not sure of, or raise its error."""
    text = block.text(start, end)
    if not _NUMBER.fullmatch(text):
        if block.ends_at(end) and _CUT_NUMBER.fullmatch(text):
            raise block.cut()
        raise block.fault(start, f"the grade {shown(_words(text))} is not a number")
    value = float(text)
    if not (0 <= value <= np.iinfo(np.int32).max and value.is_integer()):
        raise block.fault(start, grade_fault(text.decode()))
    return int(value)


def _value(block: _Block, column: int, start: int, end: int) -> float:
    """Read a value that the kernel was not sure of, or raise its error."""
    text = block.text(start, end)
    if _NO_VALUE.fullmatch(text):
        return float("nan")
    if _NUMBER.fullmatch(text):
        value = float(text)
        with np.errstate(over="ignore"):
            if np.isfinite(np.float32(value)):
                return value
    elif block.ends_at(end) and _CUT_NUMBER.fullmatch(text):
        raise block.cut()
    elif not text:
        raise block.fault(start, f"feature {column + 1} has no value")
    elif not _INFINITE.fullmatch(text):
        raise block.fault(start, f"feature {column + 1}: {shown(_words(text))} is not a number")
    raise block.fault(start, f"feature {column + 1}: {shown(_words(text))} is infinite in float32")


def _line_fault(
    block: _Block, fault: int, start: int, end: int, n_features: int | None
) -> DataError:
    """The error for a line at which the kernel stopped."""
    text = block.text(start, end)
    if fault == kernel.NO_QID:
        after_grade = text.split(maxsplit=1)[1:]
        if block.ends_at(end) and b"qid:".startswith(after_grade[0] if after_grade else b""):
            return block.cut()
        return block.fault(start, f"no qid:... after the grade: {shown(_words(text))}")
    index, colon, _ = text.partition(b":")
    if fault == kernel.NOT_A_PAIR:
        if block.ends_at(end) and not colon and index.isdigit():
            return block.cut()
        return block.fault(start, f"{shown(_words(text))} is not index:value")
    if fault == kernel.INDEX_ZERO:
        return block.fault(start, f"feature indexes count from 1, here is {shown(_words(text))}")
    if fault == kernel.INDEX_TWICE:
        return block.fault(
            start, f"feature {index.lstrip(b'0').decode()} is given twice: {shown(_words(text))}"
        )
    if n_features is None:
        limit = f"the largest a file may have, {MAX_FEATURES}"
    else:
        limit = f"the {n_features} features expected"
    return block.fault(start, f"a feature index is beyond {limit}: {shown(_words(text))}")
