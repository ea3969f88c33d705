"""Read LETOR and SVMlight text with `qid:` into Queries, block by block into one table.

A file is read in blocks of whole lines. Python reads the grade, the query and the comment of each
line. A compiled parser reads the features of all lines of a block, and leaves to Python the values
that it cannot convert for sure. Then the values are placed into rows of a table that grows, in
memory or on disk. So little more memory is needed than for the result.
"""

from __future__ import annotations

import codecs
import io
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from sortnet.compiled import compiled
from sortnet.core import F64, I32, Queries, Str, grade_fault
from sortnet.core.memory import GrowingTable, allocate, refuse_long, texts
from sortnet.errors import DataError
from sortnet.files import data_files, encoding_of, note, note_unfinished, open_bytes, reading, shown

U8 = NDArray[np.uint8]
_Names = NDArray[np.bytes_] | Str

MAX_FEATURES = 100_000
BLOCK_BYTES = 1 << 20
_LONGEST_LINE = 64 << 20  # most bytes of a line
_LONGEST_NAME = 1024  # most bytes of a name
_LARGEST_GRADE = np.iinfo(np.int32).max

# `++` and `*+` match without backtracking, which would take an hour for a long run of digits. A
# number that ends in a point does not match, because its decimals may have been cut off.
_NUMBER = re.compile(rb"[+-]?(\d++(\.\d*+)?|\.\d++)([eE][+-]?\d++)?(?<!\.)|[+-]?(?i:inf(inity)?)")
# Files of the Istella data have the largest float64, with 14 digits or more, for "no value".
_NO_VALUE = re.compile(rb"1\.7976931348623\d*[eE]\+?308")
_TOKEN = re.compile(rb"[^\s#]*")
_DOCID = re.compile(rb"\b(?:doc_?)?id\s*[=:]\s*(\S+)")
_QID = b"qid:"
_INFINITE = 2.0**128 - 2.0**103  # numbers from this one on are infinite in float32

_LF, _SPACE, _HASH, _PLUS, _MINUS, _POINT, _COLON, _ZERO, _SMALL_E = b"\n #+-.:0e"
_TAB, _CR = b"\t\r"  # the first and the last white space but the space
_TO_SMALL = 32  # bit that turns a capital letter into a small letter
_NULL, _NAN = (np.frombuffer(word, np.uint8) for word in (b"null", b"nan"))

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
    in the file. A document id is X in a comment `# ... docid = X` or `# ... id: X`. If no line of
    any file has one, the first words of the comments are the ids in each query in which they are
    unique; the log gets a note. A line without a document id has the id '', and `Queries.docids` is
    None if no line has one.

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
def _ends_token(byte: int) -> bool:
    """Whether a byte ends a token: white space, or the hash of a comment."""
    return byte in (_SPACE, _HASH) or _TAB <= byte <= _CR


@compiled()
def _is_word(buf: U8, start: int, end: int, word: U8) -> bool:
    """Whether the token from start to end is a word of small letters, also in capital letters."""
    if end - start != len(word):
        return False
    for k in range(len(word)):  # noqa: SIM110 - numba compiles no generator here
        if buf[start + k] | _TO_SMALL != word[k]:
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
    if is_number and _ends_token(buf[p]) and abs(exponent) <= _MOST_POWER:
        power_of_ten = _POWERS[abs(exponent)]
        value = mantissa / power_of_ten if exponent < 0 else mantissa * power_of_ten
        # The float64 may be off by a few units in the last place. The float32 is right unless the
        # exact value is close to the middle between two float32 numbers.
        low = np.float32(value * (1 - _RELATIVE_ERROR))
        high = np.float32(value * (1 + _RELATIVE_ERROR))
        if not low == high < np.inf:
            value = np.inf
        return (-value if is_negative else value), p
    while not _ends_token(buf[p]):
        p += 1
    is_missing = _is_word(buf, start, p, _NULL) or _is_word(buf, start, p, _NAN)
    return (np.nan if is_missing else np.inf), p


@compiled()
def _parse(
    buf: U8, spans: I32, bounds: tuple[int, int], indexes: I32, places: I32, values: F64, sizes: I32
) -> int:
    """Parse the features of documents up to the first token that cannot be a feature.

    Args:
        buf: the text.
        spans: (n_docs, 2) where the features of each document start and end.
        bounds: the smallest and the largest index that a feature may have.
        indexes, places, values: (most_features,) the index, the position and the value of each
            feature, which are written. A value is infinite if Python has to read it.
        sizes: (n_docs,) the number of features of each document, which is written.

    Returns:
        The position of a token that is no feature, or -1.
    """
    first_index, last_index = bounds
    last_document = np.zeros(last_index + 1, np.int32)  # with each index; documents count from 1
    n_features = 0
    for document in range(len(spans)):
        p = int(spans[document, 0])
        end = int(spans[document, 1])
        begin = n_features
        while True:
            while p < end and _ends_token(buf[p]):
                p += 1
            if p == end:
                break
            index, colon = _parse_digits(buf, p, 0)
            if colon == p or buf[colon] != _COLON:
                return p
            if index < first_index or index > last_index or last_document[index] > document:
                return p
            last_document[index] = document + 1
            indexes[n_features] = index
            places[n_features] = colon + 1
            values[n_features], p = _parse_number(buf, colon + 1)
            n_features += 1
        sizes[document] = n_features - begin
    return -1


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
        text: the lines. Each line ends with a newline, but the last line of the file may lack its
            newline.
    """

    path: Path
    first_line: int
    text: bytes

    def place(self, position: int) -> str:
        """Write the file and the line of a position in the block, for messages."""
        line = self.first_line + self.text.count(b"\n", 0, position)
        return f"{self.path}, line {line}"

    def may_be_cut(self, position: int) -> bool:
        """Whether the line at a position lacks its newline in the file."""
        return self.text.find(b"\n", position) < 0

    def fault(self, position: int, message: str, kind: type[DataError] = DataError) -> DataError:
        """Make the error about the line at a position in the block."""
        if self.may_be_cut(position):
            message += ": the file ends in the middle of this line"
        return kind(f"{self.place(position)}: {message}")

    def fault_of_head(self, position: int, message: str) -> DataError:
        """Make the error about a line at a position that does not begin like LETOR text."""
        if self.first_line == 1 and not self.text[:position].strip():
            message += (
                "; the file is read as LETOR text, grade qid:Q 1:0.5 ...: name a table .csv, "
                "and a list of texts, below a first line such as text, .tsv"
            )
        return self.fault(position, message)

    def token(self, position: int) -> bytes:
        """Read the text at a position up to white space or a comment."""
        match = _TOKEN.match(self.text, position)
        return match[0] if match else b""

    def checked_name(self, position: int, name: bytes) -> bytes:
        """Return the name of a query or document in the line at a position.

        Raises:
            DataError: if the name is too long or is not UTF-8.
        """
        if len(name) > _LONGEST_NAME:
            raise self.fault(position, f"a name of {len(name)} bytes is too long")
        if not _is_utf8(name):
            raise self.fault(position, f"the name {name!r} is not UTF-8")
        return name

    def grade(self, position: int, token: bytes) -> int:
        """Convert the grade of the line at a position; raise DataError if it is no grade."""
        if not _NUMBER.fullmatch(token):
            raise self.fault_of_head(position, f"the grade {_shown(token)} is not a number")
        value = float(token)
        if not (0 <= value <= _LARGEST_GRADE and value.is_integer()):
            raise self.fault(position, grade_fault(token.decode(), value))
        return int(value)

    def value(self, position: int, index: int) -> float:
        """Convert the value at a position, of the feature with the given index.

        Raises:
            DataError: if the value is no number that is finite in float32.
        """
        token = self.token(position)
        if not token:
            raise self.fault(position, f"feature {index} has no value")
        if _NO_VALUE.fullmatch(token):
            return float("nan")
        if not _NUMBER.fullmatch(token):
            raise self.fault(position, f"feature {index}: {_shown(token)} is not a number")
        value = float(token)
        if abs(value) >= _INFINITE:
            fault = f"feature {index}: {_shown(token)} is infinite in float32"
            raise self.fault(position, fault)
        return value


def _shown(text: bytes) -> str:
    """Quote a part of a text, for messages."""
    return shown(text.decode("utf-8", "replace"))


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _array_of_names(names: Sequence[bytes]) -> _Names:
    """Make an array (n_docs,) of names, as bytes if all are ASCII."""
    if b"".join(names).isascii():
        return np.array(names)
    return np.array([name.decode() for name in names])


# ----------------------------------------------------------------------------- all the documents


class _Documents:
    """Collects the documents of one file or several files, block by block.

    Attributes:
        table: the features.
        n_bytes: number of bytes read.
        grades: the grades of each block.
        codes: the number of the query of each document, for each block.
        docids: the document ids of each block, '' for a document without an id.
        has_docids: whether a document has an id.
        words: the first words of the comments of each block; empty if there are document ids.
        number_of_qid: {name of a query: its number}, in the order in which queries appear.
        bounds: the smallest and the largest index that a feature may have.
        widths: for each file with documents, the file, the least number of features in a line, and
            the number of features up to the largest index.
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
        most = MAX_FEATURES if n_features is None else min(n_features, MAX_FEATURES)
        self.bounds = first_index, first_index + most - 1
        self.table = GrowingTable(source, n_features or 0)
        self.n_bytes = 0
        self.grades: list[I32] = []
        self.codes: list[I32] = []
        self.docids: list[_Names] = []
        self.has_docids = False
        self.words: list[_Names] = []
        self.number_of_qid: dict[bytes, int] = {}
        self.widths: list[tuple[Path, int, int]] = []
        self.unfinished: list[str] = []
        self._known_grades: dict[bytes, int] = {}

    def add_file(self, path: Path, file: BinaryIO) -> None:
        """Add the documents of a file.

        Raises:
            DataError: if the file has a fault, or its unfinished last line seems to be cut.
        """
        fewest = MAX_FEATURES
        width = 0
        n_before = self.table.n
        for first_line, text in _blocks(file, path):
            block = _Block(path, first_line, text)
            zero = text.find(b"\0")
            if zero >= 0:
                fault = "has a zero byte, so this is no text file"
                raise DataError(f"{block.place(zero)}: {fault}")
            self.n_bytes += len(text)
            spans = self._read_heads(block)
            if not len(spans):
                continue
            columns, values, sizes = self._parse_features(block, spans)
            width = max(width, int(columns.max(initial=-1)) + 1)
            position = int(spans[-1, 1])
            if block.may_be_cut(position):
                # In a dense file, in which all earlier lines have all features, the last line must
                # have all features, too. In a sparse file it must have at least one feature.
                is_dense = min([fewest, *sizes[:-1]]) == width
                if sizes[-1] < (width if is_dense else min(1, width)):
                    raise block.fault(position, f"{sizes[-1]} features")
                self.unfinished.append(block.place(position))
            fewest = min(fewest, int(sizes.min()))
            rows = self.table.next_rows(len(spans), max(width, self.table.width))
            rows[:] = 0
            rows[np.repeat(np.arange(len(spans)), sizes), columns] = values
            self.table.n += len(spans)
        if self.table.n > n_before:
            self.widths.append((path, fewest, width))

    def _read_heads(self, block: _Block) -> I32:
        """Read the grades, queries and names of the documents in a block.

        A line that is blank or only a comment has no document.

        Returns:
            (n_docs, 2) where the features of each document start and end.
        """
        spans: list[tuple[int, int]] = []
        grades: list[int] = []
        codes: list[int] = []
        comments: list[tuple[int, bytes]] = []
        begin = 0
        for line in block.text.split(b"\n"):
            head, _, comment = line.partition(b"#")
            fields = head.split(None, 2)
            if fields:
                grade, *later_fields = fields
                if grade not in self._known_grades:
                    self._known_grades[grade] = block.grade(begin, grade)
                if (
                    not later_fields
                    or not later_fields[0].startswith(_QID)
                    or later_fields[0] == _QID
                ):
                    text = _shown(b" ".join(fields[:2]))
                    raise block.fault_of_head(begin, f"no qid:... after the grade: {text}")
                qid = later_fields[0].removeprefix(_QID)
                if qid not in self.number_of_qid:
                    self.number_of_qid[block.checked_name(begin, qid)] = len(self.number_of_qid)
                end = begin + len(head)
                start = end - len(later_fields[1]) if len(later_fields) > 1 else end
                spans.append((start, end))
                grades.append(self._known_grades[grade])
                codes.append(self.number_of_qid[qid])
                comments.append((begin, comment))
            begin += len(line) + 1
        if spans:
            self.grades.append(np.array(grades, np.int32))
            self.codes.append(np.array(codes, np.int32))
            self._add_names(block, comments)
        return np.array(spans, np.int32).reshape(-1, 2)

    def _add_names(self, block: _Block, comments: Sequence[tuple[int, bytes]]) -> None:
        """Add the document ids, or the first words of the comments, of the documents in a block.

        Args:
            block: the block.
            comments: where the line of each document begins, and its comment.
        """
        docids = []
        for begin, comment in comments:
            match = _DOCID.search(comment) if b"id" in comment else None
            docids.append(block.checked_name(begin, match[1]) if match else b"")
        self.docids.append(_array_of_names(docids))
        self.has_docids = self.has_docids or any(docids)
        if self.has_docids:
            self.words.clear()
            return
        words = []
        for _, comment in comments:
            word = b"".join(comment.split(None, 1)[:1])
            can_be_id = len(word) <= _LONGEST_NAME and _is_utf8(word)
            words.append(word if can_be_id else b"")
        self.words.append(_array_of_names(words))

    def _parse_features(self, block: _Block, spans: I32) -> tuple[I32, F64, I32]:
        """Parse the features in a block by the compiled parser, and by Python where it is not sure.

        Returns:
            The columns and the values of the features, and the number of features of each document.

        Raises:
            DataError: for a feature with a fault.
        """
        buf = np.frombuffer(block.text + b"\n", np.uint8)
        most_features = int(np.count_nonzero(buf == _COLON))
        indexes = np.zeros(most_features, np.int32)
        places = np.empty(most_features, np.int32)
        values = np.zeros(most_features)
        sizes = np.zeros(len(spans), np.int32)
        fault = _parse(buf, spans, self.bounds, indexes, places, values, sizes)
        for k in np.flatnonzero(np.isinf(values)).tolist():
            values[k] = block.value(int(places[k]), int(indexes[k]))
        if fault >= 0:
            raise self._fault_of_index(block, fault)
        n = int(sizes.sum())
        return indexes[:n] - np.int32(self.bounds[0]), values[:n], sizes

    def _fault_of_index(self, block: _Block, position: int) -> DataError:
        """Make the error about the token at a position, which is no feature of its line."""
        token = block.token(position)
        index, colon, _ = token.partition(b":")
        first_index, last_index = self.bounds
        if not (colon and index.isdigit()):
            return block.fault(position, f"{_shown(token)} is not index:value")
        if float(index) < first_index:
            message = f"feature indexes count from 1, here is {_shown(token)}"
            return block.fault(position, message, IndexZero)
        if float(index) > last_index:
            most = f"the {self.n_features} features expected"
            if self.n_features is None:
                most = f"the largest a file may have, {MAX_FEATURES}"
            return block.fault(position, f"a feature index is beyond {most}: {_shown(token)}")
        return block.fault(position, f"a feature is given twice: {_shown(token)}")

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
        docids = self._joined_names(self.docids) if self.has_docids else self._unique_words(codes)
        names = [qid.decode() for qid in self.number_of_qid]
        qids = texts(names, f"{self.source}: query ids")
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
        words = self._joined_names(self.words)
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

    def _joined_names(self, names_of_blocks: list[_Names]) -> Str:
        """Join the names of all blocks."""
        dtype = np.result_type("U1", *[names.dtype for names in names_of_blocks])
        longest = dtype.itemsize // np.dtype("U1").itemsize
        source = f"{self.source}: document ids"
        refuse_long(longest, self.table.n, self.n_bytes, source)
        joined: Str = allocate((self.table.n,), dtype, source)
        return np.concatenate(names_of_blocks, out=joined)
