"""Read LETOR and SVMlight text with `qid:` into Queries, block by block into one table.

A file is read in blocks of whole lines. A compiled parser writes the entries of a block, which are
its grades and the values of its features, into one list in the order of the text. Python converts
the entries that the parser cannot convert for sure. Then the entries are placed into rows of a
table that grows, in memory or on disk. So little more memory is needed than for the result.
"""

from __future__ import annotations

import codecs
import io
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from sortnet.compiled import compiled
from sortnet.core import F32, F64, I32, Queries, Str, grade_fault
from sortnet.core.large_arrays import GrowingTable, allocate
from sortnet.core.memory import refuse_long, texts
from sortnet.errors import DataError
from sortnet.files import data_files, encoding_of, note, note_unfinished, open_bytes, reading, shown

U8 = NDArray[np.uint8]
_Names = NDArray[np.bytes_] | Str

MAX_FEATURES = 100_000
BLOCK_BYTES = 1 << 20
_LONGEST_LINE = 64 << 20
_LONGEST_NAME = 1024
_LARGEST_GRADE = np.iinfo(np.int32).max

# `++` and `*+` match without backtracking, which would take an hour for a long run of digits. A
# number that ends in a point does not match, because its decimals may have been cut off.
_NUMBER = re.compile(rb"[+-]?(\d++(\.\d*+)?|\.\d++)([eE][+-]?\d++)?(?<!\.)|[+-]?(?i:inf(inity)?)")
# Files of the Istella data have the largest float64, with 14 digits or more, for "no value".
_NO_VALUE = re.compile(rb"1\.7976931348623\d*[eE]\+?308")
_TOKEN = re.compile(rb"[^\s#]*")
_INFINITE = 2.0**128 - 2.0**103  # numbers from this one on are infinite in float32

# Codes of the faults at which the parser stops, and their messages.
_NO_FAULT, _NO_QID, _NOT_A_PAIR, _INDEX_ZERO, _INDEX_TWICE, _INDEX_BEYOND = range(6)
_FAULTS = {
    _NO_QID: "no qid:... after the grade: {text}",
    _NOT_A_PAIR: "{text} is not index:value",
    _INDEX_ZERO: "feature indexes count from 1, here is {text}",
    _INDEX_TWICE: "a feature is given twice: {text}",
    _INDEX_BEYOND: "a feature index is beyond {most}: {text}",
}

_LF, _PLUS, _MINUS, _POINT, _COLON, _EQUALS, _ZERO, _SMALL_E = b"\n+-.:=0e"

# The kind of each byte; each kind has its bit, so that a sum of bits stands for several kinds.
_BLANK, _NEWLINE, _HASH, _LETTER = 1, 2, 4, 8
_KINDS = np.full(256, _LETTER, np.uint8)
_KINDS[list(b" \t\v\f\r")] = _BLANK
_KINDS[_LF] = _NEWLINE
_KINDS[ord("#")] = _HASH
_TO_SMALL = 32  # bit that turns a capital letter into a small letter
_QID_KEY, _DOCID_KEY, _NULL, _NAN = (
    np.frombuffer(word, np.uint8) for word in (b"qid:", b"docid", b"null", b"nan")
)
_QID, _DOCID, _WORD = range(3)  # numbers of the names of a document, see `_parse`

_MOST_POWER = 60  # numbers with larger powers of ten are rare, so Python reads them
_POWERS = np.array([float(f"1e{k}") for k in range(_MOST_POWER + 1)])
_MOST_MANTISSA = 10**17  # a mantissa below this has room for another digit in int64
_RELATIVE_ERROR = 2.0**-49  # upper bound on the relative error of three roundings


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
    with reading(Path(path)):
        documents = _Documents(str(Path(path)), n_features, first_index)
        for file_path in data_files(path):
            with reading(file_path), open_bytes(file_path) as file:
                documents.add_file(file_path, file)
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


# --------------------------------------------------------------------------- the compiled parser

# In these functions `buf` is the text as bytes, which ends with a newline, and `p` is a position
# in `buf`.


@compiled()
def _find(buf: U8, p: int, kinds: int) -> int:
    """Find the first byte from p on that is of one of these kinds."""
    while not _KINDS[buf[p]] & kinds:
        p += 1
    return p


@compiled()
def _has(buf: U8, p: int, word: U8, ignored: int) -> bool:
    """Whether the text at p begins with a word; `ignored` is a bit that may be 0 in the text."""
    for k in range(len(word)):  # noqa: SIM110 - numba compiles no generator here
        if buf[p + k] | ignored != word[k]:
            return False
    return True


@compiled()
def _parse_digits(buf: U8, p: int, number: int) -> tuple[int, int]:
    """Append the digits at p to a whole number; return the number and the end of the digits.

    Digits for which a number from 10^17 on has no room are left out.
    """
    while True:
        digit = int(buf[p]) - _ZERO
        if digit < 0 or digit > 9:
            return number, p
        if number < _MOST_MANTISSA:
            number = number * 10 + digit
        p += 1


@compiled()
def _parse_number(buf: U8, start: int) -> tuple[float, int]:
    """Parse the number at `start`, up to the end of its token.

    Returns:
        The value and the end of the token. The value is NaN for `NULL` and `nan`. It is infinite if
        it is not certain that its float32 equals the float32 of the correctly rounded float64, so
        that Python has to read the token.
    """
    p = start
    is_negative = buf[p] == _MINUS
    if is_negative or buf[p] == _PLUS:
        p += 1
    first = p
    exponent = 0
    mantissa, p = _parse_digits(buf, p, 0)
    if buf[p] == _POINT:
        decimals = p + 1
        mantissa, p = _parse_digits(buf, decimals, mantissa)
        exponent = decimals - p
    # Python has to read a number whose digits end in a point: `4.` is refused, `4.e2` is not.
    is_number = p > first and buf[p - 1] != _POINT and mantissa < _MOST_MANTISSA
    if buf[p] | _TO_SMALL == _SMALL_E:
        first = p + 1
        is_small = buf[first] == _MINUS
        if is_small or buf[first] == _PLUS:
            first += 1
        power, p = _parse_digits(buf, first, 0)
        exponent += -power if is_small else power
        is_number = is_number and p > first
    if is_number and _KINDS[buf[p]] != _LETTER and abs(exponent) <= _MOST_POWER:
        power_of_ten = _POWERS[abs(exponent)]
        value = mantissa / power_of_ten if exponent < 0 else mantissa * power_of_ten
        # The float64 may be off by a few units in the last place. The float32 is right unless the
        # exact value is close to the middle between two float32 numbers.
        low = np.float32(value * (1 - _RELATIVE_ERROR))
        high = np.float32(value * (1 + _RELATIVE_ERROR))
        if not low == high < np.inf:
            value = np.inf
        return (-value if is_negative else value), p
    end = _find(buf, p, ~_LETTER)
    is_null = end == start + 4 and _has(buf, start, _NULL, _TO_SMALL)
    is_nan = end == start + 3 and _has(buf, start, _NAN, _TO_SMALL)
    return (np.nan if is_null or is_nan else np.inf), end


@compiled()
def _find_docid(buf: U8, p: int) -> tuple[int, int]:
    """Find the start and the end of the token after `docid =` in the comment at p."""
    while _KINDS[buf[p]] != _NEWLINE:
        if _has(buf, p, _DOCID_KEY, 0):
            equals = _find(buf, p + len(_DOCID_KEY), ~_BLANK)
            if buf[equals] == _EQUALS:
                start = _find(buf, equals + 1, ~_BLANK)
                return start, _find(buf, start, _NEWLINE | _BLANK)
        p += 1
    return p, p


@compiled()
def _parse(
    buf: U8,
    limit: int,
    first_index: int,
    columns: I32,
    starts: I32,
    values: F64,
    spans: I32,
) -> tuple[int, int, int, int, int]:
    """Parse lines up to the first fault; write the entries and the names of their documents.

    A line that is blank or only a comment has no document. The first entry of a document is its
    grade, and the others are its features in the order of the line. A value is infinite if Python
    has to read it.

    Args:
        buf: (n_bytes,) the text, which ends with a newline.
        limit: the largest feature index allowed, counted from 1.
        first_index: the number from which the text counts the features, 0 or 1.
        columns, starts, values: (most_entries,) column, position and value of each entry. The
            column of a grade is 0, that of a feature its index, counted from 1.
        spans: (3, 2, most_docs) the starts and the ends of the names of the queries, of the
            document ids, and of the first words of the comments.

    Returns:
        The number of entries, the number of documents, the code of the fault, and start and end of
        the text with the fault.
    """
    last_document = np.zeros(limit + 1, np.int32)  # with each index; documents count from 1
    n_entries = 0
    n_docs = 0
    p = 0
    while p < len(buf):
        p = _find(buf, p, ~_BLANK)
        if _KINDS[buf[p]] == _LETTER:
            begin = p
            columns[n_entries] = 0
            starts[n_entries] = begin
            grade, p = _parse_number(buf, p)
            is_grade = 0 <= grade <= _LARGEST_GRADE and grade == np.floor(grade)
            values[n_entries] = grade if is_grade else np.inf
            n_entries += 1

            p = _find(buf, p, ~_BLANK)
            start = p + len(_QID_KEY)
            end = _find(buf, p, ~_LETTER)
            if end <= start or not _has(buf, p, _QID_KEY, 0):
                return n_entries, n_docs, _NO_QID, begin, end
            spans[_QID, 0, n_docs] = start
            spans[_QID, 1, n_docs] = end
            n_docs += 1

            p = _find(buf, end, ~_BLANK)
            while _KINDS[buf[p]] == _LETTER:
                index, colon = _parse_digits(buf, p, 0)
                column = index + 1 - first_index
                fault = _NO_FAULT
                if colon == p or buf[colon] != _COLON:
                    fault = _NOT_A_PAIR
                elif column == 0:
                    fault = _INDEX_ZERO
                elif column > limit:
                    fault = _INDEX_BEYOND
                elif last_document[column] == n_docs:
                    fault = _INDEX_TWICE
                if fault:
                    return n_entries, n_docs, fault, p, _find(buf, p, ~_LETTER)
                last_document[column] = n_docs
                columns[n_entries] = column
                starts[n_entries] = colon + 1
                values[n_entries], p = _parse_number(buf, colon + 1)
                n_entries += 1
                p = _find(buf, p, ~_BLANK)

            spans[_DOCID, 0, n_docs - 1], spans[_DOCID, 1, n_docs - 1] = _find_docid(buf, p)
            p = _find(buf, p, _NEWLINE | _LETTER)
            spans[_WORD, 0, n_docs - 1] = p
            p = _find(buf, p, _NEWLINE | _BLANK)
            spans[_WORD, 1, n_docs - 1] = p
        p = _find(buf, p, _NEWLINE) + 1
    return n_entries, n_docs, _NO_FAULT, p, p


@compiled()
def _place(columns: I32, values: F64, rows: F32) -> None:
    """Write the entries of documents into rows (n_docs, width), with 0 for features left out."""
    row = -1
    for entry in range(len(columns)):
        column = columns[entry]
        if column == 0:
            row += 1
            rows[row] = 0
        else:
            rows[row, column - 1] = values[entry]


# ------------------------------------------------------------------------------- blocks of lines


def _blocks(file: BinaryIO, path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of whole lines in UTF-8, each block with the number of its first line.

    Each line ends with a newline, but the last line of the file may lack its newline.
    """
    start = file.read(4)
    file.seek(len(codecs.BOM_UTF8) if start.startswith(codecs.BOM_UTF8) else 0)
    encoding = encoding_of(start)
    is_utf8 = encoding == "utf-8-sig"
    line = 1
    try:
        # Bytes in UTF-8 stay as they are, since Latin-1 has a character for each byte.
        with io.TextIOWrapper(file, "latin-1" if is_utf8 else encoding) as characters:
            while text := characters.read(BLOCK_BYTES):
                text += characters.readline(_LONGEST_LINE)
                lines = text.encode("latin-1" if is_utf8 else "utf-8")
                del text  # memory may be short, so no block is in memory twice
                # This is several times faster than bytes.count.
                n_lines = int(np.count_nonzero(np.frombuffer(lines, np.uint8) == _LF))
                if len(lines) >= _LONGEST_LINE and not lines.endswith(b"\n"):
                    fault = f"is longer than {_LONGEST_LINE >> 20} MB"
                    raise DataError(f"{path}, line {line + n_lines}: {fault}")
                yield line, lines
                del lines
                line += n_lines
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not {encoding.upper()}: {error.reason}") from None


@dataclass(frozen=True)
class _Block:
    """Whole lines of a file.

    Attributes:
        path: the file, for messages.
        first_line: number of the first line in the file.
        lines: the text of the lines. Each line ends with a newline, but the last line of the file
            may lack its newline.
        first_index: the number from which features are counted, 0 or 1.
        limit: the largest feature index allowed, counted from 1.
        most: a text about the limit, for messages.
    """

    path: Path
    first_line: int
    lines: bytes
    first_index: int
    limit: int
    most: str

    def parse(self) -> tuple[I32, F64, I32]:
        """Parse the lines by the compiled parser, and by Python where that is not sure.

        Returns:
            The columns and the values of the entries, and the positions of the names, see `_parse`.

        Raises:
            DataError: for the first line with a fault.
        """
        zero = self.lines.find(b"\0")
        if zero >= 0:
            raise DataError(f"{self.place(zero)}: has a zero byte, so this is no text file")
        buf = np.frombuffer(self.lines + b"\n", np.uint8)
        # Each feature has a colon, and each grade with a qid, and only one grade may lack its qid.
        most_entries = int(np.count_nonzero(buf == _COLON)) + 1
        columns = np.empty(most_entries, np.int32)
        starts = np.empty(most_entries, np.int32)
        values = np.empty(most_entries)
        most_docs = int(np.count_nonzero(buf == _LF))
        spans = np.empty((3, 2, most_docs), np.int32)
        n_entries, n_docs, fault, start, end = _parse(
            buf, self.limit, self.first_index, columns, starts, values, spans
        )
        columns = columns[:n_entries]
        values = values[:n_entries]
        for entry in np.flatnonzero(np.isinf(values)).tolist():
            values[entry] = self._value(int(columns[entry]), int(starts[entry]))
        if fault:
            text = _shown(self.lines[start:end])
            message = _FAULTS[fault].format(text=text, most=self.most)
            raise self.fault(start, message, IndexZero if fault == _INDEX_ZERO else DataError)
        return columns, values, spans[..., :n_docs]

    def place(self, position: int) -> str:
        """Write the file and the line of a position in the block, for messages."""
        line = self.first_line + self.lines.count(b"\n", 0, position)
        return f"{self.path}, line {line}"

    def may_be_cut(self, position: int) -> bool:
        """Whether the line at a position lacks its newline in the file."""
        return self.lines.find(b"\n", position) < 0

    def fault(self, position: int, message: str, kind: type[DataError] = DataError) -> DataError:
        """Make the error about the line at a position in the block."""
        if self.may_be_cut(position):
            message += ": the file ends in the middle of this line"
        return kind(f"{self.place(position)}: {message}")

    def _value(self, column: int, start: int) -> float:
        """Convert an entry that the parser could not convert, given its column and position.

        Raises:
            DataError: if the entry is no grade, or no number that is finite in float32.
        """
        match = _TOKEN.match(self.lines, start)
        token = match[0] if match else b""
        feature = f"feature {column - 1 + self.first_index}"
        if not token:
            raise self.fault(start, f"{feature} has no value")
        if column and _NO_VALUE.fullmatch(token):
            return float("nan")
        named = f"{feature}: {_shown(token)}" if column else f"the grade {_shown(token)}"
        if not _NUMBER.fullmatch(token):
            raise self.fault(start, f"{named} is not a number")
        value = float(token)
        if column == 0 and not (0 <= value <= _LARGEST_GRADE and value.is_integer()):
            raise self.fault(start, grade_fault(token.decode(), value))
        if abs(value) >= _INFINITE:
            raise self.fault(start, f"{named} is infinite in float32")
        return value

    def name(self, start: int, end: int) -> str:
        """Decode the name of a query or a document.

        Raises:
            DataError: if the name is too long or is not UTF-8.
        """
        if end - start > _LONGEST_NAME:
            raise self.fault(start, f"a name of {end - start} bytes is too long")
        name = self.lines[start:end]
        try:
            return name.decode()
        except UnicodeDecodeError:
            raise self.fault(start, f"the name {name!r} is not UTF-8") from None

    def names(self, spans: I32) -> _Names:
        """Read names from their starts and ends (2, n_docs), as bytes if the text is ASCII.

        Raises:
            DataError: if a name is too long or is not UTF-8.
        """
        starts, ends = spans
        longest = int((ends - starts).max())
        if longest > _LONGEST_NAME or not self.lines.isascii():
            return np.array([self.name(start, end) for start, end in spans.T.tolist()])
        buf = np.frombuffer(self.lines, np.uint8)
        letters = np.zeros((len(starts), max(longest, 1)), np.uint8)
        for k in range(longest):
            letters[:, k] = buf[np.minimum(starts + k, ends - 1)] * (starts + k < ends)
        return letters.view(f"S{letters.shape[1]}").ravel()


def _shown(text: bytes) -> str:
    """Quote a part of a text, for messages."""
    return shown(text.strip().decode("utf-8", "replace"))


# ----------------------------------------------------------------------------- all the documents


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
        limit: the largest feature index allowed, counted from 1.
        most: a text about the limit, for messages.
        widths: for each file with documents, the file, the least number of features in a line, and
            the largest index of a feature.
        unfinished: file and line of each last line that lacks its newline.
    """

    def __init__(self, source: str, n_features: int | None, first_index: int) -> None:
        """Start without documents.

        Args:
            source: name of the data, for messages.
            n_features: the expected number of features; None if the files decide.
            first_index: the number from which features are counted, 0 or 1.
        """
        self.source = source
        self.n_features = n_features
        self.first_index = first_index
        self.limit = MAX_FEATURES
        self.most = f"the largest a file may have, {MAX_FEATURES}"
        if n_features is not None:
            self.limit = min(n_features, MAX_FEATURES)
            self.most = f"the {n_features} features expected"
        self.table = GrowingTable(source, n_features or 0)
        self.n_bytes = 0
        self.grades: list[I32] = []
        self.codes: list[I32] = []
        self.docids: list[tuple[int, _Names]] = []
        self.words: list[tuple[int, _Names]] = []
        self.number_of_qid: dict[str, int] = {}
        self.widths: list[tuple[Path, int, int]] = []
        self.unfinished: list[str] = []

    def add_file(self, path: Path, file: BinaryIO) -> None:
        """Add the documents of a file.

        Raises:
            DataError: if the file has a fault, or its unfinished last line seems to be cut.
        """
        fewest = MAX_FEATURES
        width = 0
        n_before = self.table.n
        for first_line, lines in _blocks(file, path):
            block = _Block(path, first_line, lines, self.first_index, self.limit, self.most)
            columns, values, spans = block.parse()
            self.n_bytes += len(lines)
            n_docs = spans.shape[2]
            if n_docs == 0:
                continue
            width = max(width, int(columns.max()))
            grades = np.flatnonzero(columns == 0)
            n_in_lines = np.diff(grades, append=len(columns)) - 1
            position = int(spans[_WORD, 0, -1])
            if block.may_be_cut(position):
                # In a dense file, in which all earlier lines have all features, the last line must
                # have all features, too. In a sparse file it must have at least one feature.
                is_dense = min([fewest, *n_in_lines[:-1]]) == width
                if n_in_lines[-1] < (width if is_dense else min(1, width)):
                    raise block.fault(position, f"{n_in_lines[-1]} features")
                self.unfinished.append(block.place(position))
            fewest = min(fewest, int(n_in_lines.min()))
            rows = self.table.next_rows(n_docs, max(width, self.table.width))
            _place(columns, values, rows)
            self.grades.append(values[grades].astype(np.int32))
            self._add_names(block, spans)
            self.table.n += n_docs
        if self.table.n > n_before:
            self.widths.append((path, fewest, width))

    def _add_names(self, block: _Block, spans: I32) -> None:
        """Add the names of the queries and the documents of a block, see `_parse`."""
        names = block.names(spans[_QID])
        # A query is looked up once for a run of documents with the same query.
        first_docs = np.flatnonzero(np.append(True, names[1:] != names[:-1]))
        numbers = []
        for qid in names[first_docs].astype(np.str_).tolist():
            numbers.append(self.number_of_qid.setdefault(qid, len(self.number_of_qid)))
        run_lengths = np.diff(first_docs, append=len(names))
        self.codes.append(np.repeat(np.array(numbers, np.int32), run_lengths))
        docids = block.names(spans[_DOCID])
        if docids.any():
            self.docids.append((self.table.n, docids))
            self.words.clear()
        if not self.docids:
            with suppress(DataError):  # a word that cannot be an id
                words = block.names(spans[_WORD])
                if words.any():
                    self.words.append((self.table.n, words))

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
        are_dense = all(fewest == width for _, fewest, width in self.widths)
        if not are_dense:
            return
        expected = self.n_features or self.table.width
        for path, _, width in self.widths:
            if width != expected:
                fault = f"every line has {width} features, but {expected} are expected"
                raise DataError(f"{path}: {fault}")

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
        _, number_of_pair, n_equal = np.unique(pairs, return_inverse=True, return_counts=True)
        is_bad = (words == "") | (n_equal[number_of_pair] > 1)
        has_bad = np.bincount(codes, is_bad) > 0
        words[has_bad[codes]] = ""
        if has_bad.all():
            return None
        note(self.source, "the first words of the comments are the ids, unique in their query")
        return words

    def _all_names(self, names_of_blocks: list[tuple[int, _Names]]) -> Str | None:
        """Join the names of all blocks; None if no document has a name."""
        if not names_of_blocks:
            return None
        dtype = np.result_type("U1", *[names.dtype for _, names in names_of_blocks])
        longest = dtype.itemsize // np.dtype("U1").itemsize
        name = f"{self.source}: document ids"
        refuse_long(longest, self.table.n, self.n_bytes, name)
        docids: Str = allocate((self.table.n,), dtype, name)
        docids[:] = ""
        for first, names in names_of_blocks:
            docids[first : first + len(names)] = names
        return docids
