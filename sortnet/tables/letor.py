"""Read LETOR and SVMlight text with `qid:` into Queries, block by block into one table.

A file is read in blocks of whole lines. A few threads parse each block directly into the rows of a
table that grows, in memory or on disk. So little more memory is needed than for the result.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sortnet.core import F32, I32, I64, Queries, Str, grade_fault
from sortnet.core.large_arrays import GrowingTable, allocate
from sortnet.core.memory import refuse_long, texts
from sortnet.errors import DataError
from sortnet.files import data_files, encoding_of, note, note_unfinished, open_bytes, reading, shown
from sortnet.tables import letor_kernel as kernel
from sortnet.threads import cores

MAX_FEATURES = 100_000
BLOCK_BYTES = 2 << 20
_LONGEST_LINE = 64 << 20
_LONGEST_NAME = 1024
_NO_LINE_YET = MAX_FEATURES  # least number of features in a line, as long as there is no line
_LINES_A_TASK = 64
_MOST_THREADS = 8

# `++` and `*+` match without backtracking, which would take an hour for a long run of digits. A
# number that ends in a point does not match, because its decimals may have been cut off.
_NUMBER = re.compile(rb"[+-]?(\d++(\.\d*+)?|\.\d++)([eE][+-]?\d++)?(?<!\.)")
_INFINITE = re.compile(rb"[+-]?inf(inity)?", re.IGNORECASE)
# Files of the Istella data have the largest float64, with 14 digits or more, for "no value".
_NO_VALUE = re.compile(rb"1\.7976931348623\d*[eE]\+?308")
# {code of a fault at which the kernel stops: the message, with {} for the text with the fault}
_FAULTS = {
    kernel.NO_QID: "no qid:... after the grade: {}",
    kernel.NOT_A_PAIR: "{} is not index:value",
    kernel.INDEX_ZERO: "feature indexes count from 1, here is {}",
    kernel.INDEX_TWICE: "a feature is given twice: {}",
}


class IndexZero(DataError):
    """Raised for a feature 0 in a file whose features are counted from 1."""


def read_letor(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    first_index: int | None = None,
) -> Queries:
    """Read `grade qid:Q index:value ... # comment` lines, gzipped or not.

    A feature that a line leaves out is 0, and the indexes of a line may be in any order. `NULL`,
    `nan` and the largest float64, which some files have for a missing value, become NaN. Every
    value is `np.float32(float(token))` to the last bit; a number that ends in a point, such as
    `0.`, is refused.

    A qid may be any UTF-8 text without white space or '#', and the lines of a query may be anywhere
    in the file. A document id is X in a comment `# ... docid = X`. If no line of any file has one,
    the first words of the comments are the ids in each query in which they are unique; the log gets
    a note. A line without a document id has the id '', and `Queries.docids` is None if no line has
    one.

    A line ends with LF, CRLF or CR. If the last line has no end, the log gets a note.

    Args:
        path: the file, or several files, see `data_files`. `Queries.rows` counts the data lines
            from 0.
        n_features: the expected number of features. In a sparse file with fewer features the last
            features are 0. If None, the file decides.
        first_index: the number from which features are counted, 0 or 1. If None, it is 0 if a file
            has a feature 0. Features that are counted from 0 are named `0`, `1`, ..., and the log
            gets a note.

    Raises:
        DataError: if a line cannot be read, the file ends in the middle of a line, the number of
            features is not the expected number, or dense files have different numbers of features.
            The message names file and line and shows the text.

    Cost: linear; the memory of the result and a few MB. Features of more than 256 MiB are on disk,
    see `allocate`. The first call on a machine compiles for a few seconds.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
    ...     _ = file.write("2 qid:a 1:0.5 2:NULL #docid = d7\\n0 qid:a 2:3\\n")
    ...     file.flush()
    ...     q = read_letor(file.name)
    >>> q.features.tolist(), q.grades.tolist(), q.docids.tolist()
    ([[0.5, nan], [0.0, 3.0]], [2, 0], ['d7', ''])
    """
    if first_index is None:
        try:
            return _read_letor(path, n_features, first_index=1)
        except IndexZero:
            first_index = 0
    return _read_letor(path, n_features, first_index)


def _read_letor(path: str | os.PathLike[str], n_features: int | None, first_index: int) -> Queries:
    """Read LETOR text whose features are counted from `first_index`, as `read_letor` does."""
    paths = data_files(path)
    with reading(Path(path)), ThreadPoolExecutor(_threads()) as pool:
        documents = _Documents(str(Path(path)), n_features, pool)
        for file_path in paths:
            with reading(file_path), open_bytes(file_path) as file:
                for first_line, lines in _blocks(file, file_path):
                    documents.add(_Block(file_path, first_line, lines, n_features, first_index))
            documents.end_file(file_path)
        queries = documents.finish()
    for place in documents.unfinished:
        note_unfinished(place)
    if first_index:
        return queries
    note(path, "features are counted from 0")
    return replace(queries, feature_names=names_from_zero(queries.n_features))


def names_from_zero(n_features: int) -> tuple[str, ...]:
    """Name the features of text that counts its features from 0."""
    return tuple(map(str, range(n_features)))


def _threads() -> int:
    return min(_MOST_THREADS, cores())


def _blocks(file: BinaryIO, path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of whole lines, each block with the number of its first line.

    All lines end with a newline, but the last line of the file may lack its newline.
    """
    line = 1
    remainder = b""
    for piece in _utf8_pieces(file, path):
        data = remainder + piece
        del piece  # memory may be short, so no block is in memory twice
        end = _end_of_last_line(data)
        block = data[:end]
        remainder = data[end:]
        del data
        if block:
            lines = _as_text_lines(block, line, path)
            del block
            yield line, lines
            line += lines.count(b"\n")
        if len(remainder) > _LONGEST_LINE:
            raise DataError(f"{path}, line {line}: is longer than {_LONGEST_LINE >> 20} MB")
    if remainder:
        yield line, _as_text_lines(remainder, line, path)


def _utf8_pieces(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yield pieces of a text in UTF-8, without a byte order mark, which names the encoding."""
    piece = file.read(BLOCK_BYTES)
    encoding = encoding_of(piece)
    decoder = None
    if encoding != "utf-8-sig":
        decoder = codecs.getincrementaldecoder(encoding)()
    piece = piece.removeprefix(codecs.BOM_UTF8)
    while piece:
        try:
            utf8 = piece if decoder is None else decoder.decode(piece).encode()
            piece = file.read(BLOCK_BYTES)
            if decoder is not None and not piece:
                decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: is not {encoding.upper()}: {error.reason}") from None
        yield utf8


def _end_of_last_line(data: bytes) -> int:
    """Find the position after the last line that is whole; 0 if no line is whole.

    A CR at the end of the data may be the first half of a CRLF, so it is not taken as a line end.
    """
    last_newline = data.rfind(b"\n")
    last_cr = data.rfind(b"\r", 0, len(data) - 1)
    return 1 + max(last_newline, last_cr)


def _as_text_lines(block: bytes, first_line: int, path: Path) -> bytes:
    """Replace each CR or CRLF by a newline.

    Raises:
        DataError: if there is a zero byte.
    """
    if b"\r" in block:
        block = block.replace(b"\r\n", b" \n").replace(b"\r", b"\n")
    zero = block.find(b"\0")
    if zero >= 0:
        line = first_line + block.count(b"\n", 0, zero)
        raise DataError(f"{path}, line {line}: has a zero byte, so this is no text file")
    return block


class _Block:
    """Whole lines of a file, and the results of parsing these lines.

    A data line is a line that is neither blank nor a comment.

    Attributes:
        unfinished: whether the last line lacks its newline, so that the file may be cut.
        starts: (n_data_lines,) the position at which each data line begins.
        grades: (n_data_lines,) the grades.
        fields: (n_data_lines, N_FIELDS) positions and counts, see `letor_kernel.QID`.
    """

    def __init__(
        self,
        path: Path,
        first_line: int,
        lines: bytes,
        n_features: int | None,
        first_index: int,
    ) -> None:
        """Find the data lines of a block of whole lines, which `parse` then parses.

        Args:
            path: the file, for messages.
            first_line: number of the first line in the file.
            lines: the text of the lines.
            n_features: the largest number of features allowed; None for the largest of all.
            first_index: the number from which features are counted, 0 or 1.
        """
        self.path = path
        self.first_line = first_line
        self.n_features = n_features
        self.first_index = first_index
        self.unfinished = not lines.endswith(b"\n")
        self.lines = lines + b"\n" if self.unfinished else lines
        self.buf = np.frombuffer(self.lines, np.uint8)
        self.newlines = np.flatnonzero(self.buf == ord("\n"))
        starts = np.empty(len(self.newlines), np.int64)
        n_data_lines = kernel.data_lines(self.buf, self.newlines, starts)
        self.starts = starts[:n_data_lines]
        self.grades = np.empty(len(self), np.int32)
        self.fields = np.empty((len(self), kernel.N_FIELDS), np.int32)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def ends_in_data(self) -> bool:
        """Whether the last line lacks its newline and is a data line."""
        if not self.unfinished or len(self) == 0:
            return False
        start_of_last_line = self.newlines[-2] + 1 if len(self.newlines) > 1 else 0
        return bool(self.starts[-1] >= start_of_last_line)

    def _line_of(self, position: int) -> int:
        """Find the line, from 0, of a position: how many newlines are before it."""
        return int(np.searchsorted(self.newlines, position))

    def place(self, position: int) -> str:
        """Write the file and the line of a position in the block, for messages."""
        return f"{self.path}, line {self.first_line + self._line_of(position)}"

    def fault(self, position: int, message: str) -> DataError:
        """Make the error about the line at a position in the block."""
        is_last_line = self._line_of(position) == len(self.newlines) - 1
        if self.unfinished and is_last_line:
            message += ": the file ends in the middle of this line"
        return DataError(f"{self.place(position)}: {message}")

    def shown(self, start: int, end: int) -> str:
        """Quote a part of the block, for messages."""
        return shown(self.lines[start:end].rstrip().decode("utf-8", "replace"))

    def name(self, start: int, end: int) -> str:
        """Decode the name of a query or a document.

        Raises:
            DataError: if the name is too long or is not UTF-8.
        """
        if end - start > _LONGEST_NAME:
            raise self.fault(start, f"a name of {end - start} bytes is too long")
        try:
            return self.lines[start:end].decode()
        except UnicodeDecodeError:
            name = self.lines[start:end]
            raise self.fault(start, f"the name {name!r} is not UTF-8") from None

    def parse(self, line: int, stop: int, table: F32) -> int:
        """Parse the data lines from `line` to `stop`; row k of the table gets data line k.

        The compiled kernel parses most values. It returns early at a fault, or when it has
        collected many odd values, which only Python can convert. Features beyond the width of the
        table are checked, but not stored.

        Returns:
            The largest feature index in these lines, counted from 1.
        """
        limit = MAX_FEATURES if self.n_features is None else min(self.n_features, MAX_FEATURES)
        # The line at which the kernel returns may have an odd grade and `limit` odd features.
        odd = np.empty((kernel.ODD_ENOUGH + limit + 1, 4), np.int64)
        largest = 0
        while line < stop:
            line, n_odd, largest_index, fault, fault_start, fault_end = kernel.parse_lines(
                self.buf,
                self.starts,
                line,
                stop,
                limit,
                self.first_index,
                table,
                self.grades,
                self.fields,
                odd,
            )
            self._read_odd_values(odd[:n_odd], table)
            if fault:
                raise self._fault_of_code(fault, fault_start, fault_end)
            largest = max(largest, largest_index)
        return largest

    def _read_odd_values(self, odd: I64, table: F32) -> None:
        """Convert the values that the compiled kernel of the parser cannot convert with certainty.

        Grades are stored in `self.grades`, values of features in the table.

        Args:
            odd: (n_odd, 4) line, column, start and end of each value; the column of a grade is -1.
            table: (n_data_lines, width) the features; values beyond the width are checked only.
        """
        for row, column, start, end in odd.tolist():
            if column < 0:
                self.grades[row] = self._grade(start, end)
                continue
            value = self._value(column, start, end)
            if column < table.shape[1]:
                table[row, column] = value

    def _fault_of_code(self, code: int, start: int, end: int) -> DataError:
        """Make the error for a code of a fault and the position of the faulty text."""
        most = f"the largest a file may have, {MAX_FEATURES}"
        if self.n_features is not None:
            most = f"the {self.n_features} features expected"
        message = _FAULTS.get(code, f"a feature index is beyond {most}: {{}}")
        fault = self.fault(start, message.format(self.shown(start, end)))
        return IndexZero(str(fault)) if code == kernel.INDEX_ZERO else fault

    def _grade(self, start: int, end: int) -> int:
        """Convert a grade that the kernel could not convert; raise DataError if it is no grade."""
        text = self.lines[start:end]
        if not _NUMBER.fullmatch(text):
            raise self.fault(start, f"the grade {self.shown(start, end)} is not a number")
        value = float(text)
        if not (0 <= value <= np.iinfo(np.int32).max and value.is_integer()):
            raise self.fault(start, grade_fault(text.decode(), value))
        return int(value)

    def _value(self, column: int, start: int, end: int) -> float:
        """Convert a value that the kernel could not convert; raise DataError if it is no number."""
        text = self.lines[start:end]
        if _NO_VALUE.fullmatch(text):
            return float("nan")
        if not text:
            raise self.fault(start, f"feature {column + self.first_index} has no value")
        is_number = _NUMBER.fullmatch(text)
        if is_number:
            value = float(text)
            with np.errstate(over="ignore"):
                if np.isfinite(np.float32(value)):
                    return value
        fault = "is not a number"
        if is_number or _INFINITE.fullmatch(text):
            fault = "is infinite in float32"
        feature = f"feature {column + self.first_index}"
        raise self.fault(start, f"{feature}: {self.shown(start, end)} {fault}")

    def refuse_cut(self, fewest_before: int, n_features: int) -> None:
        """Raise DataError if the unfinished last line seems to be cut, because it lacks features.

        In a dense file, in which all earlier lines have all features, the last line must have all
        features, too. In a sparse file it must have at least one feature.

        Args:
            fewest_before: least number of features in a line of the file's earlier blocks.
            n_features: number of features of the file: the largest index of a feature so far.
        """
        *n_in_earlier_lines, n_in_last_line = self.fields[:, kernel.FEATURES].tolist()
        fewest_in_earlier_line = min([fewest_before, *n_in_earlier_lines])
        if _is_dense(fewest_in_earlier_line, n_features):
            is_cut = n_in_last_line < n_features
        else:
            is_cut = n_in_last_line == 0 and n_features > 0
        if is_cut:
            raise self.fault(self.newlines[-1], f"{n_in_last_line} features")

    def docids(self) -> NDArray[np.bytes_] | Str | None:
        """Read the document ids (n_data_lines,), as bytes if all are ASCII; None without ids."""
        return self._names(self.fields[:, kernel.DOCID : kernel.DOCID_END + 1])

    def words(self) -> NDArray[np.bytes_] | Str | None:
        """Read the first words of the comments, as `docids`; None if a word cannot be an id."""
        spans = self.fields[:, kernel.WORD : kernel.WORD_END + 1]
        try:
            return None if np.diff(spans).max() > _LONGEST_NAME else self._names(spans)
        except DataError:  # a word is not UTF-8
            return None

    def _names(self, spans: I32) -> NDArray[np.bytes_] | Str | None:
        """Read the names at the starts and ends (n_data_lines, 2); None if all are empty."""
        longest = int(np.diff(spans).max())
        if longest == 0:
            return None
        if longest <= _LONGEST_NAME:
            letters = np.zeros((len(self), longest), np.uint8)
            is_ascii = kernel.copy_spans(self.buf, spans, letters)
            if is_ascii:
                return letters.view(f"S{longest}").ravel()
        return np.array([self.name(start, end) for start, end in spans.tolist()])


def _is_dense(fewest: int, n_features: int) -> bool:
    """Check whether every line of a file has all features, given the least number in a line."""
    return fewest == n_features


class _FileWidth(NamedTuple):
    """Numbers of features of a file that has been read.

    Attributes:
        path: the file.
        fewest: least number of features in a line.
        n_features: number of features of the file: the largest index of a feature.
    """

    path: Path
    fewest: int
    n_features: int


class _Documents:
    """Collects the documents of one file or several files, block by block.

    Attributes:
        table: the features.
        n_bytes: number of bytes read.
        grades: the grades of each block.
        codes: the number of the query of each document, for each block.
        docids: for each block with document ids, its first document and its ids.
        words: for each block with comments, its first document and the first words; empty if there
            are document ids.
        number_of_qid: {name of a query: its number}, in the order in which queries appear.
        n_in_file: number of features of the current file: the largest index of a feature so far.
        fewest: least number of features in a line of the current file.
        widths: the numbers of features of each file that has been read.
        unfinished: file and line of each last line that lacks its newline.
    """

    def __init__(self, source: str, n_features: int | None, pool: ThreadPoolExecutor) -> None:
        """Start without documents.

        Args:
            source: name of the data, for messages.
            n_features: the expected number of features; None if the files decide.
            pool: the threads in which blocks are parsed.
        """
        self.source = source
        self.n_features = n_features
        self.pool = pool
        self.table = GrowingTable(source, n_features or 0)
        self.n_bytes = 0
        self.grades: list[I32] = []
        self.codes: list[I32] = []
        self.docids: list[tuple[int, NDArray[np.bytes_] | Str]] = []
        self.words: list[tuple[int, NDArray[np.bytes_] | Str]] = []
        self.number_of_qid: dict[str, int] = {}
        self.n_in_file = 0
        self.fewest = _NO_LINE_YET
        self.widths: list[_FileWidth] = []
        self.unfinished: list[str] = []

    def add(self, block: _Block) -> None:
        """Parse a block of the current file, and add its documents.

        Raises:
            DataError: if a line has a fault, or the unfinished last line of the file seems to be
                cut, see `refuse_cut`.
        """
        self.n_bytes += len(block.buf)
        if not len(block):
            return
        self.n_in_file = max(self.n_in_file, self._parse(block))
        if block.ends_in_data:
            block.refuse_cut(self.fewest, self.n_in_file)
            self.unfinished.append(block.place(len(block.lines) - 1))
        self.fewest = min(self.fewest, int(block.fields[:, kernel.FEATURES].min()))
        self.codes.append(self._query_numbers(block))
        self.grades.append(block.grades)
        docids = block.docids()
        if docids is not None:
            self.docids.append((self.table.n, docids))
            self.words.clear()
        words = None if self.docids else block.words()
        if words is not None:
            self.words.append((self.table.n, words))
        self.table.n += len(block)

    def _query_numbers(self, block: _Block) -> I32:
        """Look up or assign the number of each line's query.

        The name of a query is decoded once for a run of lines with the same name.
        """
        first_lines = np.flatnonzero(block.fields[:, kernel.NEW_QID])
        spans = block.fields[first_lines, kernel.QID : kernel.QID_END + 1].tolist()
        numbers = []
        for start, end in spans:
            qid = block.name(start, end)
            numbers.append(self.number_of_qid.setdefault(qid, len(self.number_of_qid)))
        run_lengths = np.diff(first_lines, append=len(block))
        return np.repeat(np.array(numbers, np.int32), run_lengths)

    def _parse(self, block: _Block) -> int:
        """Parse a block into new rows of the table, which becomes wide enough for all features.

        Returns:
            The largest feature index in the block.
        """
        if self.table.width == 0:
            # The first lines have the width of most tables. They are parsed into an array without
            # columns, which stores no value.
            n_lines = min(len(block), _LINES_A_TASK)
            width = block.parse(0, n_lines, np.empty((n_lines, 0), np.float32))
            self.table.next_rows(len(block), width)
        largest = self._parse_in_threads(block, self.table.width)
        if largest > self.table.width:
            # Parse again into a wider table, because values beyond the width were not stored.
            self._parse_in_threads(block, largest)
        return largest

    def _parse_in_threads(self, block: _Block, width: int) -> int:
        """Parse a block in several threads into new rows of a table of this width.

        Returns:
            The largest feature index in the block, which may be beyond the width.
        """
        rows = self.table.next_rows(len(block), width)
        n_tasks = max(1, min(_threads(), len(block) // _LINES_A_TASK))
        cuts = [len(block) * k // n_tasks for k in range(n_tasks + 1)]
        tasks = [self.pool.submit(block.parse, start, end, rows) for start, end in pairwise(cuts)]
        return max([task.result() for task in tasks])

    def end_file(self, path: Path) -> None:
        """Record the least and the largest number of features of a file that has been read.

        A file without data lines is left out.
        """
        if self.fewest < _NO_LINE_YET:
            self.widths.append(_FileWidth(path, self.fewest, self.n_in_file))
        self.n_in_file = 0
        self.fewest = _NO_LINE_YET

    def finish(self) -> Queries:
        """Make Queries of all documents.

        Raises:
            DataError: if there is no document or no feature, or the numbers of features differ.
        """
        if self.table.n == 0:
            raise DataError(f"{self.source}: the file is empty: it has no documents")
        if self.table.width == 0:
            raise DataError(f"{self.source}: no line has a feature")
        self._refuse_other_widths()
        features = self.table.finished()
        codes = np.concatenate(self.codes)
        grades = np.concatenate(self.grades)
        docids = self._all_names(self.docids)
        if docids is None:
            docids = self._unique_words(codes)
        qids = texts([*self.number_of_qid], f"{self.source}: query ids")
        return Queries.from_codes(features, grades, codes, qids, docids=docids, source=self.source)

    def _refuse_other_widths(self) -> None:
        """Raise DataError if dense files have different or unexpected numbers of features.

        Sparse files are accepted, because their lines leave out zeros.
        """
        are_dense = all(_is_dense(file.fewest, file.n_features) for file in self.widths)
        if not are_dense:
            return
        expected = self.n_features or max(file.n_features for file in self.widths)
        for file in self.widths:
            if file.n_features != expected:
                fault = f"every line has {file.n_features} features, but {expected} are expected"
                raise DataError(f"{file.path}: {fault}")

    def _unique_words(self, codes: I32) -> Str | None:
        """Select the first words of comments that can be ids, and log a note.

        In a query with an equal or a missing word all ids are ''. The result is None if this is so
        in every query.

        Args:
            codes: (n_docs,) the number of each document's query.
        """
        words = self._all_names(self.words)
        if words is None:
            return None
        _, number_of_word = np.unique(words, return_inverse=True)
        pairs = codes * np.int64(len(words)) + number_of_word
        _, first_row, n_equal = np.unique(pairs, return_index=True, return_counts=True)
        is_bad = words == ""
        is_bad[first_row[n_equal > 1]] = True
        has_bad = np.bincount(codes, is_bad) > 0
        words[has_bad[codes]] = ""
        if has_bad.all():
            return None
        note(self.source, "the first words of the comments are the ids, unique in their query")
        return words

    def _all_names(self, names_of_blocks: list[tuple[int, NDArray[np.bytes_] | Str]]) -> Str | None:
        """Join the names of all blocks; None if no document has a name."""
        if not names_of_blocks:
            return None
        longest = 0
        for _, block_docids in names_of_blocks:
            is_unicode = block_docids.dtype.kind == "U"
            bytes_per_character = 4 if is_unicode else 1
            longest = max(longest, block_docids.dtype.itemsize // bytes_per_character)
        refuse_long(longest, self.table.n, self.n_bytes, f"{self.source}: document ids")
        docids: Str = allocate((self.table.n,), f"U{longest}", f"{self.source}: document ids")
        docids[:] = ""
        for start, block_docids in names_of_blocks:
            docids[start : start + len(block_docids)] = block_docids
        return docids
