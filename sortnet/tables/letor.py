"""Read LETOR and SVMlight text with `qid:` into Queries, block by block into one table.

A file is read in blocks of whole lines. A compiled parser writes the entries of a block, which are
its grades and the values of its features, into one list in the order of the text. An entry that
the parser cannot convert for sure is then converted by Python. At last the entries are placed into
rows of a table that grows, in memory or on disk. So little more memory is needed than for the
result.
"""

from __future__ import annotations

import codecs
import io
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
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
_NO_LINE_YET = MAX_FEATURES  # least number of features in a line, as long as there is no line

# `++` and `*+` match without backtracking, which would take an hour for a long run of digits. A
# number that ends in a point does not match, because its decimals may have been cut off.
_NUMBER = re.compile(rb"[+-]?(\d++(\.\d*+)?|\.\d++)([eE][+-]?\d++)?(?<!\.)")
_INFINITE = re.compile(rb"[+-]?inf(inity)?", re.IGNORECASE)
# Files of the Istella data have the largest float64, with 14 digits or more, for "no value".
_NO_VALUE = re.compile(rb"1\.7976931348623\d*[eE]\+?308")
_TOKEN = re.compile(rb"[^\s#]*")

# Codes of the faults at which the parser stops, and their messages.
_NO_FAULT, _NO_QID, _NOT_A_PAIR, _INDEX_ZERO, _INDEX_TWICE, _INDEX_BEYOND = range(6)
_FAULTS = {
    _NO_QID: "no qid:... after the grade: {text}",
    _NOT_A_PAIR: "{text} is not index:value",
    _INDEX_ZERO: "feature indexes count from 1, here is {text}",
    _INDEX_TWICE: "a feature is given twice: {text}",
    _INDEX_BEYOND: "a feature index is beyond {most}: {text}",
}

# Numbers of the names of a document: its query, its id, and the first word of its comment.
_QID, _DOCID, _WORD = range(3)

# The kind of each byte, one bit each; a byte of no kind belongs to a token.
_BLANK, _NEWLINE, _HASH = 1, 2, 4
_KINDS = np.zeros(256, np.uint8)
_KINDS[list(b" \t\v\f\r")] = _BLANK
_KINDS[ord("\n")] = _NEWLINE
_KINDS[ord("#")] = _HASH
_LF, _PLUS, _MINUS, _POINT, _COLON, _EQUALS, _ZERO, _SMALL_E = b"\n+-.:=0e"
_TO_SMALL = 32  # bit that turns a capital letter into a small letter
_QID_PREFIX, _DOCID_KEY, _NULL, _NAN = (
    np.frombuffer(word, np.uint8) for word in (b"qid:", b"docid", b"null", b"nan")
)

_MOST_POWER = 60
_POWERS = np.array([float(f"1e{k}") for k in range(_MOST_POWER + 1)])
_MOST_MANTISSA = 10**17  # a mantissa below this has room for another digit in int64
# Upper bound on the relative error of three roundings and of dropping the digits after the 18th.
_RELATIVE_ERROR = 2.0**-49


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
    with reading(Path(path)):
        documents = _Documents(str(Path(path)), n_features)
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


# ------------------------------------------------------------------------------- blocks of lines


def _blocks(file: BinaryIO, path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of whole lines, each block with the number of its first line.

    All lines end with a newline, but the last line of the file may lack its newline.
    """
    line = 1
    remainder = b""
    for piece in _pieces(file, path):
        data = remainder + piece
        end = data.rfind(b"\n") + 1
        lines = data[:end]
        remainder = data[end:]
        del piece, data  # memory may be short, so no block is in memory twice
        if lines:
            yield line, lines
            line += lines.count(b"\n")
        if len(remainder) > _LONGEST_LINE:
            raise DataError(f"{path}, line {line}: is longer than {_LONGEST_LINE >> 20} MB")
    if remainder:
        yield line, remainder


def _pieces(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yield pieces of a text in UTF-8, with LF for each CR or CRLF.

    A byte order mark, which names the encoding of the file, is left out.
    """
    piece = file.read(BLOCK_BYTES)
    encoding = encoding_of(piece)
    piece = piece.removeprefix(codecs.BOM_UTF8)
    # Bytes in UTF-8 stay as they are, since Latin-1 has a character for each byte.
    is_utf8 = encoding == "utf-8-sig"
    decoder_of_file = codecs.getincrementaldecoder("latin-1" if is_utf8 else encoding)()
    decoder = io.IncrementalNewlineDecoder(decoder_of_file, translate=True)
    while piece:
        next_piece = file.read(BLOCK_BYTES)
        try:
            text = decoder.decode(piece, final=not next_piece)
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: is not {encoding.upper()}: {error.reason}") from None
        yield text.encode("latin-1" if is_utf8 else "utf-8")
        piece = next_piece


class _Block:
    """Whole lines of a file, and the results of parsing these lines.

    Attributes:
        unfinished: whether the last line lacks its newline, so that the file may be cut.
        columns: (n_entries,) the column of each entry: 0 for a grade, from 1 for a feature.
        starts: (n_entries,) the position at which each entry begins.
        values: (n_entries,) the values.
        grades: (n_docs,) the entries that are grades. Each begins the entries of a document.
        spans: (n_docs, 3, 2) starts and ends of the names of each document, see `_parse`.
    """

    def __init__(
        self,
        path: Path,
        first_line: int,
        lines: bytes,
        n_features: int | None,
        first_index: int,
    ) -> None:
        """Parse a block of whole lines.

        Args:
            path: the file, for messages.
            first_line: number of the first line in the file.
            lines: the text of the lines.
            n_features: the largest number of features allowed; None for the largest of all.
            first_index: the number from which features are counted, 0 or 1.

        Raises:
            DataError: for the first line with a fault.
        """
        self.path = path
        self.first_line = first_line
        self.n_features = n_features
        self.first_index = first_index
        self.unfinished = not lines.endswith(b"\n")
        self.lines = lines + b"\n" if self.unfinished else lines
        zero = lines.find(b"\0")
        if zero >= 0:
            raise DataError(f"{self.place(zero)}: has a zero byte, so this is no text file")
        self._parse()

    def _parse(self) -> None:
        """Parse the lines by the compiled parser, and by Python where that is not sure."""
        limit = MAX_FEATURES if self.n_features is None else min(self.n_features, MAX_FEATURES)
        # A feature has a colon. A grade is followed by a colon, too, unless its line has no qid.
        most_entries = self.lines.count(b":") + 1
        columns = np.empty(most_entries, np.int32)
        starts = np.empty(most_entries, np.int32)
        values = np.empty(most_entries)
        spans = np.zeros((self.lines.count(b"qid:"), 3, 2), np.int32)
        buf = np.frombuffer(self.lines, np.uint8)
        n_entries, n_docs, fault, position = _parse(
            buf, limit, self.first_index, columns, starts, values, spans
        )
        self.columns = columns[:n_entries]
        self.starts = starts[:n_entries]
        self.values = values[:n_entries]
        self.spans = spans[:n_docs]
        for entry in np.flatnonzero(np.isinf(self.values)).tolist():
            self.values[entry] = self._value(int(self.columns[entry]), int(self.starts[entry]))
        if fault:
            raise self._fault_of_code(fault, position)
        self.grades = np.flatnonzero(self.columns == 0)

    def __len__(self) -> int:
        return len(self.spans)

    def place(self, position: int) -> str:
        """Write the file and the line of a position in the block, for messages."""
        line = self.first_line + self.lines.count(b"\n", 0, position)
        return f"{self.path}, line {line}"

    def fault(self, position: int, message: str) -> DataError:
        """Make the error about the line at a position in the block."""
        is_last_line = self.lines.find(b"\n", position) == len(self.lines) - 1
        if self.unfinished and is_last_line:
            message += ": the file ends in the middle of this line"
        return DataError(f"{self.place(position)}: {message}")

    def _fault_of_code(self, code: int, position: int) -> DataError:
        """Make the error for a code of a fault and the position of the faulty token."""
        start = position
        if code == _NO_QID:
            start = self.lines.rfind(b"\n", 0, position) + 1
        text = self._shown(self.lines[start:position] + self._token(position))
        most = f"the largest a file may have, {MAX_FEATURES}"
        if self.n_features is not None:
            most = f"the {self.n_features} features expected"
        fault = self.fault(position, _FAULTS[code].format(text=text, most=most))
        return IndexZero(str(fault)) if code == _INDEX_ZERO else fault

    def _token(self, start: int) -> bytes:
        """Return the token at a position."""
        token = _TOKEN.match(self.lines, start)
        return token[0] if token else b""

    def _shown(self, text: bytes) -> str:
        """Quote a part of the block, for messages."""
        return shown(text.strip().decode("utf-8", "replace"))

    def _value(self, column: int, start: int) -> float:
        """Convert an entry that the parser could not convert; raise DataError if it is no number.

        Args:
            column: the column of the entry, 0 for a grade.
            start: the position of the entry.
        """
        text = self._token(start)
        is_number = _NUMBER.fullmatch(text) is not None
        if column == 0:
            return self._grade(start, text, is_number)
        feature = f"feature {column - 1 + self.first_index}"
        if not text:
            raise self.fault(start, f"{feature} has no value")
        if _NO_VALUE.fullmatch(text):
            return float("nan")
        if is_number:
            value = float(text)
            with np.errstate(over="ignore"):
                if np.isfinite(np.float32(value)):
                    return value
        fault = "is not a number"
        if is_number or _INFINITE.fullmatch(text):
            fault = "is infinite in float32"
        raise self.fault(start, f"{feature}: {self._shown(text)} {fault}")

    def _grade(self, start: int, text: bytes, is_number: bool) -> float:
        """Convert a grade that the parser could not convert; raise DataError if it is no grade."""
        if not is_number:
            raise self.fault(start, f"the grade {self._shown(text)} is not a number")
        value = float(text)
        if not (0 <= value <= np.iinfo(np.int32).max and value.is_integer()):
            raise self.fault(start, grade_fault(text.decode(), value))
        return value

    def ends_in_data(self) -> bool:
        """Whether the last line lacks its newline and has a document."""
        start_of_last_line = self.lines.rfind(b"\n", 0, -1) + 1
        return self.unfinished and bool(self.starts[self.grades[-1]] >= start_of_last_line)

    def n_in_lines(self) -> NDArray[np.int64]:
        """Count the features of each document, (n_docs,)."""
        return np.diff(self.grades, append=len(self.columns)) - 1

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

    def names(self, number: int) -> _Names | None:
        """Read the ids or the first words (n_docs,), as bytes if the text is ASCII.

        Args:
            number: `_DOCID` or `_WORD`.

        Returns:
            None if all names are empty.
        """
        spans = self.spans[:, number]
        longest = np.diff(spans).max()
        if longest == 0:
            return None
        if longest <= _LONGEST_NAME and self.lines.isascii():
            return np.array([self.lines[start:end] for start, end in spans.tolist()])
        return np.array([self.name(start, end) for start, end in spans.tolist()])


# --------------------------------------------------------------------------- the compiled parser

# In these functions `buf` is the text as bytes, which ends with a newline, and `p` is a position
# in `buf`.


@compiled()
def _skip(buf: U8, p: int, kinds: int) -> int:
    """Find the first byte from p on that is of none of these kinds."""
    while _KINDS[buf[p]] & kinds:
        p += 1
    return p


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
def _are_equal(buf: U8, p: int, end: int, other: int, other_end: int) -> bool:
    """Whether the text from p to `end` is equal to the text from `other` to `other_end`."""
    while p < end and other < other_end and buf[p] == buf[other]:
        p += 1
        other += 1
    return p == end and other == other_end


@compiled()
def _parse_digits(buf: U8, p: int) -> tuple[int, int]:
    """Parse the digits at p as a whole number; return the number and the end of the digits.

    A number beyond 10^12 may become any other number beyond 10^12.
    """
    number = np.int64(0)
    digit = np.int64(buf[p]) - _ZERO
    while 0 <= digit <= 9:
        if number < 10**12:
            number = number * 10 + digit
        p += 1
        digit = np.int64(buf[p]) - _ZERO
    return number, p


@compiled()
def _parse_decimal(buf: U8, p: int) -> tuple[int, int, int]:
    """Parse the digits at p, which may have a decimal point, as mantissa * 10^exponent.

    Returns:
        The mantissa, the exponent and the end of the digits. The end is p if there is no digit, or
        if the last digit is followed by a point, because Python has to read such a number: `4.` is
        refused, `4.e2` is not.
    """
    first = p
    mantissa = np.int64(0)
    exponent = np.int64(0)
    n_points = 0
    while True:
        digit = np.int64(buf[p]) - _ZERO
        if 0 <= digit <= 9:
            # A digit after the point lowers the exponent. A digit before the point for which the
            # mantissa has no room raises the exponent.
            if mantissa < _MOST_MANTISSA:
                mantissa = mantissa * 10 + digit
                exponent -= n_points
            else:
                exponent += 1 - n_points
        elif digit == _POINT - _ZERO and n_points == 0:
            n_points = 1
        else:
            break
        p += 1
    if p > first and buf[p - 1] == _POINT:
        p = first
    return mantissa, exponent, p


@compiled()
def _parse_number(buf: U8, p: int) -> tuple[float, int]:
    """Parse the number at p, up to the end of its token.

    Returns:
        The value and the end of the token. The value is NaN for `NULL` and `nan`. It is infinite if
        it is not certain that its float32 equals the float32 of the correctly rounded float64, so
        that Python has to read the token.
    """
    start = p
    is_negative = buf[p] == _MINUS
    if is_negative or buf[p] == _PLUS:
        p += 1
    first = p
    mantissa, exponent, p = _parse_decimal(buf, p)
    is_number = p > first
    if is_number and buf[p] | _TO_SMALL == _SMALL_E:
        is_small = buf[p + 1] == _MINUS
        first = p + 1
        if is_small or buf[first] == _PLUS:
            first += 1
        power, p = _parse_digits(buf, first)
        exponent += -power if is_small else power
        is_number = p > first
    if is_number and _KINDS[buf[p]] and abs(exponent) <= _MOST_POWER:
        power_of_ten = _POWERS[abs(exponent)]
        value = mantissa / power_of_ten if exponent < 0 else mantissa * power_of_ten
        low = np.float32(value * (1 - _RELATIVE_ERROR))
        high = np.float32(value * (1 + _RELATIVE_ERROR))
        if not low == high < np.inf:
            value = np.inf
        return (-value if is_negative else value), p
    end = _find(buf, start, _BLANK | _NEWLINE | _HASH)
    if end == start + 4 and _has(buf, start, _NULL, _TO_SMALL):
        return np.nan, end
    if end == start + 3 and _has(buf, start, _NAN, _TO_SMALL):
        return np.nan, end
    return np.inf, end


@compiled()
def _parse_grade(buf: U8, p: int) -> tuple[float, int]:
    """Parse the grade at p; the value is infinite if Python has to read it."""
    value, end = _parse_number(buf, p)
    if value >= 0 and value == np.floor(value) and value < 2**31:
        return value, end
    return np.inf, end


@compiled()
def _parse_index(
    buf: U8, p: int, first_index: int, last_document: I32, document: int
) -> tuple[int, int, int]:
    """Parse the feature index at p, and record it in `last_document`.

    Args:
        buf, p: the text and the position.
        first_index: the number from which the text counts the features, 0 or 1.
        last_document: (limit + 1,) the last document that has each index, counted from 1.
        document: the number of this document.

    Returns:
        The index, counted from 1; the position of its colon; and the code of the fault.
    """
    index, colon = _parse_digits(buf, p)
    index += 1 - first_index
    fault = _NO_FAULT
    if colon == p or buf[colon] != _COLON:
        fault = _NOT_A_PAIR
    elif index == 0:
        fault = _INDEX_ZERO
    elif index >= len(last_document):
        fault = _INDEX_BEYOND
    elif last_document[index] == document:
        fault = _INDEX_TWICE
    else:
        last_document[index] = document
    return index, colon, fault


@compiled()
def _find_docid(buf: U8, p: int) -> tuple[int, int]:
    """Find the start and the end of the token after `docid =` in the comment at p."""
    while buf[p] != _LF:
        if _has(buf, p, _DOCID_KEY, 0):
            equals = _skip(buf, p + len(_DOCID_KEY), _BLANK)
            if buf[equals] == _EQUALS:
                p = _skip(buf, equals + 1, _BLANK)
                return p, _find(buf, p, _BLANK | _NEWLINE)
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
) -> tuple[int, int, int, int]:
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
        spans: (most_docs, 3, 2) zeros, which become start and end of the query's name, of the
            document id and of the first word of the comment. The query's name stays empty if it is
            the name in the line before.

    Returns:
        The number of entries, the number of documents, the code of the fault and its position.
    """
    last_document = np.zeros(limit + 1, np.int32)
    n_entries = 0
    n_docs = 0
    qid = 0
    qid_end = 0
    p = 0
    while p < len(buf):
        p = _skip(buf, p, _BLANK)
        if not _KINDS[buf[p]]:
            columns[n_entries] = 0
            starts[n_entries] = p
            values[n_entries], p = _parse_grade(buf, p)
            n_entries += 1

            p = _skip(buf, p, _BLANK)
            start = p + len(_QID_PREFIX)
            end = _find(buf, p, _BLANK | _NEWLINE | _HASH)
            if end <= start or not _has(buf, p, _QID_PREFIX, 0):
                return n_entries, n_docs, _NO_QID, p
            if not _are_equal(buf, start, end, qid, qid_end):
                spans[n_docs, _QID] = start, end
            qid = start
            qid_end = end
            n_docs += 1

            p = _skip(buf, end, _BLANK)
            while not _KINDS[buf[p]]:
                index, colon, fault = _parse_index(buf, p, first_index, last_document, n_docs)
                if fault:
                    return n_entries, n_docs, fault, p
                columns[n_entries] = index
                starts[n_entries] = colon + 1
                values[n_entries], p = _parse_number(buf, colon + 1)
                n_entries += 1
                p = _skip(buf, p, _BLANK)

            spans[n_docs - 1, _DOCID] = _find_docid(buf, p)
            p = _skip(buf, p, _BLANK | _HASH)
            end = _find(buf, p, _BLANK | _NEWLINE)
            spans[n_docs - 1, _WORD] = p, end
        p = _find(buf, p, _NEWLINE) + 1
    return n_entries, n_docs, _NO_FAULT, p


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
        n_in_file: number of features of the current file: the largest index of a feature so far.
        fewest: least number of features in a line of the current file.
        widths: for each file that has been read, the file, the least number of features in a line,
            and the largest index of a feature.
        unfinished: file and line of each last line that lacks its newline.
    """

    def __init__(self, source: str, n_features: int | None) -> None:
        """Start without documents.

        Args:
            source: name of the data, for messages.
            n_features: the expected number of features; None if the files decide.
        """
        self.source = source
        self.n_features = n_features
        self.table = GrowingTable(source, n_features or 0)
        self.n_bytes = 0
        self.grades: list[I32] = []
        self.codes: list[I32] = []
        self.docids: list[tuple[int, _Names]] = []
        self.words: list[tuple[int, _Names]] = []
        self.number_of_qid: dict[str, int] = {}
        self.n_in_file = 0
        self.fewest = _NO_LINE_YET
        self.widths: list[tuple[Path, int, int]] = []
        self.unfinished: list[str] = []

    def add(self, block: _Block) -> None:
        """Add the documents of a block of the current file.

        Raises:
            DataError: if the unfinished last line of the file seems to be cut, see `_refuse_cut`,
                or a name is too long or not UTF-8.
        """
        self.n_bytes += len(block.lines)
        if not len(block):
            return
        largest = int(block.columns.max())
        rows = self.table.next_rows(len(block), max(largest, self.table.width))
        _place(block.columns, block.values, rows)
        self.n_in_file = max(self.n_in_file, largest)
        n_in_lines = block.n_in_lines()
        if block.ends_in_data():
            self._refuse_cut(block, n_in_lines)
            self.unfinished.append(block.place(len(block.lines) - 1))
        self.fewest = min(self.fewest, int(n_in_lines.min()))
        self.codes.append(self._query_numbers(block))
        self.grades.append(block.values[block.grades].astype(np.int32))
        docids = block.names(_DOCID)
        if docids is not None:
            self.docids.append((self.table.n, docids))
            self.words.clear()
        if not self.docids:
            self._add_words(block)
        self.table.n += len(block)

    def _refuse_cut(self, block: _Block, n_in_lines: NDArray[np.int64]) -> None:
        """Raise DataError if the unfinished last line seems to be cut, because it lacks features.

        In a dense file, in which all earlier lines have all features, the last line must have all
        features, too. In a sparse file it must have at least one feature.
        """
        fewest = min(self.fewest, int(n_in_lines[:-1].min(initial=_NO_LINE_YET)))
        n_needed = self.n_in_file if fewest == self.n_in_file else min(1, self.n_in_file)
        if n_in_lines[-1] < n_needed:
            raise block.fault(len(block.lines) - 1, f"{n_in_lines[-1]} features")

    def _query_numbers(self, block: _Block) -> I32:
        """Look up or assign the number of each document's query.

        The name of a query is decoded once for a run of lines with the same name.
        """
        spans = block.spans[:, _QID]
        first_docs = np.flatnonzero(spans[:, 1])
        numbers = []
        for start, end in spans[first_docs].tolist():
            qid = block.name(start, end)
            numbers.append(self.number_of_qid.setdefault(qid, len(self.number_of_qid)))
        run_lengths = np.diff(first_docs, append=len(block))
        return np.repeat(np.array(numbers, np.int32), run_lengths)

    def _add_words(self, block: _Block) -> None:
        """Collect the first words of the comments, unless a word of the block cannot be an id."""
        with suppress(DataError):
            words = block.names(_WORD)
            if words is not None:
                self.words.append((self.table.n, words))

    def end_file(self, path: Path) -> None:
        """Record the least and the largest number of features of a file that has been read.

        A file without documents is left out.
        """
        if self.fewest < _NO_LINE_YET:
            self.widths.append((path, self.fewest, self.n_in_file))
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
