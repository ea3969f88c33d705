# mypy: allow-untyped-defs, allow-untyped-calls
"""Compiled part of the LETOR reader, which parses bytes of whole lines into rows of a table.

A number that this parser cannot convert for sure is called odd and is converted by Python. At a
malformed line the parser stops and returns the code of a fault; `sortnet.tables.letor` has the
messages. In all functions `buf` is the text as bytes, which ends with a newline, and `p` is a
position in `buf`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sortnet.compiled import compiled
from sortnet.core import F32, I32, I64

U8 = NDArray[np.uint8]

# Bytes with a meaning in a LETOR file.
_NEWLINE = ord("\n")
_SPACE = ord(" ")
_HASH = ord("#")
_PLUS = ord("+")
_MINUS = ord("-")
_POINT = ord(".")
_COLON = ord(":")
_EQUALS = ord("=")
_ZERO = ord("0")
_NINE = ord("9")
_CAPITAL_E = ord("E")
_SMALL_E = ord("e")
_TAB = ord("\t")  # all white space but the space is between the tab and the carriage return
_CARRIAGE_RETURN = ord("\r")
_TO_SMALL = 32  # bit that turns a capital letter into a small letter
_NULL = tuple(b"null")
_NAN = tuple(b"nan")
_QID_PREFIX = tuple(b"qid:")
_DOCID = tuple(b"docid")

# Codes of faults; 0 means no fault.
NO_QID, NOT_A_PAIR, INDEX_ZERO, INDEX_TWICE, INDEX_BEYOND = 1, 2, 3, 4, 5

# Numbers of the columns of `fields`, which has a row for each line: start and end of the qid;
# whether the line before has another qid (0 or 1); start and end of the document id; number of
# features; start and end of the first word of the comment; and the number of these columns.
QID, QID_END, NEW_QID, DOCID, DOCID_END, FEATURES, WORD, WORD_END, N_FIELDS = range(9)

# The parser returns at the end of a line when it has collected this many odd values.
ODD_ENOUGH = 1 << 14

# Powers of ten up to 10^22 are exact in float64. So a whole number below 2^53, divided or
# multiplied by such a power, is rounded correctly (Clinger, "How to read floating point numbers
# accurately", PLDI 1990).
_MOST_POWER = 60
_MOST_EXACT_POWER = 22
_POWERS = np.array([float(f"1e{k}") for k in range(_MOST_POWER + 1)])
_LARGEST_EXACT = 1 << 53
_MOST_MANTISSA = 10**17  # a mantissa below this has room for another digit in int64
_MOST_EXPONENT = 10_000
# Upper bound on the relative error of three roundings and of dropping the digits after the 18th.
_RELATIVE_ERROR = 2.0**-49
_LARGEST_FLOAT32 = 3.4028234e38  # just below the largest float32


@compiled()
def _is_blank(byte):
    return byte == _SPACE or _TAB <= byte <= _CARRIAGE_RETURN


@compiled()
def _ends_token(byte):
    return _is_blank(byte) or byte == _HASH


@compiled()
def _token_end(buf, p):
    """Find the end of the token at p."""
    while not _ends_token(buf[p]):
        p += 1
    return p


@compiled()
def _skip_blanks(buf, p):
    """Skip the blanks at p, at most up to the newline; return the position after them."""
    while buf[p] != _NEWLINE and _is_blank(buf[p]):
        p += 1
    return p


@compiled()
def _is_missing(buf, p, end):
    """Whether the token from p to `end` is NULL or nan, in capital or small letters."""
    if end - p != 3 and end - p != 4:
        return False
    first = buf[p] | _TO_SMALL
    second = buf[p + 1] | _TO_SMALL
    third = buf[p + 2] | _TO_SMALL
    if end - p == 3:
        return (first, second, third) == _NAN
    return (first, second, third, buf[p + 3] | _TO_SMALL) == _NULL


@compiled()
def _parse_exponent(buf, p):
    """Parse the signed exponent at p; return its value and the start and end of its digits.

    After an exponent of 10,000 or more, further digits are skipped: the number is then too large or
    too small for a float64 anyway.
    """
    negative = buf[p] == _MINUS
    if negative or buf[p] == _PLUS:
        p += 1
    start = p
    power = np.int64(0)
    while _ZERO <= buf[p] <= _NINE:
        if power < _MOST_EXPONENT:
            power = power * 10 + (np.int64(buf[p]) - _ZERO)
        p += 1
    return (-power if negative else power), start, p


@compiled()
def _parse_number(buf, p):
    """Parse the number at p, up to the end of its token.

    Returns:
        The value, its end, and whether the value is sure. A value is sure if it is certain that its
        float32 equals the float32 of the correctly rounded float64. A text that is not read as a
        decimal number gives 0, which is not sure, so that Python reads it.
    """
    negative = buf[p] == _MINUS
    if negative or buf[p] == _PLUS:
        p += 1
    mantissa, exponent, dropped, n_digits, p = _parse_digits(buf, p)
    if n_digits == 0:  # no decimal number
        return 0.0, p, False
    if buf[p - 1] == _POINT:  # Python has to read it: "4." is refused, "4.e2" is not
        return 0.0, p, False
    if buf[p] == _SMALL_E or buf[p] == _CAPITAL_E:
        power, start, p = _parse_exponent(buf, p + 1)
        if p == start:  # no digit after the e
            return 0.0, p, False
        exponent += power
    if not _ends_token(buf[p]):  # something else follows the number
        return 0.0, p, False
    value, sure = _value_of(mantissa, exponent, dropped)
    return (-value if negative else value), p, sure


@compiled()
def _parse_digits(buf, p):
    """Parse the digits at p, which may have a decimal point, as mantissa * 10^exponent.

    Returns:
        The mantissa, the exponent, whether digits were dropped because the mantissa has no room
        for them, the number of all digits, and the position after the digits.
    """
    mantissa = np.int64(0)
    exponent = np.int64(0)
    n_digits = 0
    after_point = False
    dropped = False
    while True:
        byte = np.int64(buf[p])
        if _ZERO <= byte <= _NINE:
            n_digits += 1
            # A digit after the point lowers the exponent. A dropped digit before the point raises
            # the exponent. A bool counts as 0 or 1.
            if mantissa < _MOST_MANTISSA:
                mantissa = mantissa * 10 + (byte - _ZERO)
                exponent -= after_point
            else:
                dropped = True
                exponent += not after_point
        elif byte == _POINT and not after_point:
            after_point = True
        else:
            return mantissa, exponent, dropped, n_digits, p
        p += 1


@compiled()
def _value_of(mantissa, exponent, dropped):
    """Compute mantissa * 10^exponent, and whether its float32 is certainly the correct one.

    `dropped` tells whether the number has further digits, which are not in the mantissa.
    """
    if mantissa == 0:
        return 0.0, True
    if abs(exponent) > _MOST_POWER:
        return 0.0, False
    power_of_ten = _POWERS[abs(exponent)]
    value = mantissa / power_of_ten if exponent < 0 else mantissa * power_of_ten
    sure = value < _LARGEST_FLOAT32
    if dropped or mantissa >= _LARGEST_EXACT or abs(exponent) > _MOST_EXACT_POWER:
        # The float64 may be off by a few units in the last place. The float32 is right unless the
        # exact value is close to the middle between two float32 numbers.
        low = np.float32(value * (1 - _RELATIVE_ERROR))
        high = np.float32(value * (1 + _RELATIVE_ERROR))
        sure = sure and low == high
    return value, sure


@compiled()
def _parse_index(buf, p):
    """Parse the feature index at p, which must end with a colon.

    Returns:
        The index, -1 if there is none; and the position of the colon.
    """
    start = p
    index = np.int64(0)
    while _ZERO <= buf[p] <= _NINE:
        if index < 1 << 40:  # more digits would overflow; the index is refused anyway
            index = index * 10 + (np.int64(buf[p]) - _ZERO)
        p += 1
    return (index if p > start and buf[p] == _COLON else -1), p


@compiled()
def _parse_grade(buf, p):
    """Parse the grade at p.

    Returns:
        The grade, the end of its token, and whether the grade is sure; if not, Python has to read
        the token.
    """
    value, end, sure = _parse_number(buf, p)
    sure = sure and value >= 0 and value == np.floor(value) and value < 2**31
    if not sure:
        end = _token_end(buf, p)
    return value, end, sure


@compiled()
def _find_qid(buf, p):
    """Find the name of the query in the token at p, after `qid:`.

    Returns:
        The start of the name, -1 if there is no name, and the end of the token.
    """
    end = p if buf[p] == _NEWLINE else _token_end(buf, p)
    start = p + len(_QID_PREFIX)
    if end <= start or (buf[p], buf[p + 1], buf[p + 2], buf[p + 3]) != _QID_PREFIX:
        return -1, end
    return start, end


@compiled()
def _same_qid(buf, fields, line):
    """Whether a line has the same qid as the line before."""
    previous_qid = fields[line - 1, QID]
    qid = fields[line, QID]
    length = fields[line, QID_END] - qid
    if fields[line - 1, QID_END] - previous_qid != length:
        return False
    for k in range(length):  # noqa: SIM110 - numba compiles no generator here
        if buf[previous_qid + k] != buf[qid + k]:
            return False
    return True


@compiled()
def _index_fault(index, limit, last_line, line):
    """Return the code of the fault of a feature index; 0 for a valid index.

    `limit` is the largest index allowed. `last_line` has the number, plus 1, of the last line with
    each index.
    """
    if index < 0:
        return NOT_A_PAIR
    if index == 0:
        return INDEX_ZERO
    if index > limit:
        return INDEX_BEYOND
    return INDEX_TWICE if last_line[index] == line + 1 else 0


@compiled()
def _find_docid(buf, p):
    """Find the document id in the comment at p: the token after `docid =`.

    Returns:
        Start and end of the document id; (0, 0) if there is none.
    """
    while buf[p] != _NEWLINE:
        if (
            buf[p] == _DOCID[0]
            and buf[p + 1] == _DOCID[1]
            and buf[p + 2] == _DOCID[2]
            and buf[p + 3] == _DOCID[3]
            and buf[p + 4] == _DOCID[4]
        ):
            after_name = _skip_blanks(buf, p + 5)
            if buf[after_name] == _EQUALS:
                start = _skip_blanks(buf, after_name + 1)
                end = start
                while not _is_blank(buf[end]):
                    end += 1
                return (start, end) if end > start else (0, 0)
        p += 1
    return 0, 0


@compiled()
def _find_word(buf, p):
    """Find the first word of the comment at p; return its start and end, (0, 0) without a word."""
    while buf[p] == _HASH or (buf[p] != _NEWLINE and _is_blank(buf[p])):
        p += 1
    end = p
    while not _is_blank(buf[end]):
        end += 1
    return (p, end) if end > p else (0, 0)


@compiled()
def _add_odd(odd, n_odd, line, column, start, end):
    """Record the row, the column, the start and the end of an odd value for Python to read.

    Returns the new number of odd values.
    """
    odd[n_odd, 0] = line
    odd[n_odd, 1] = column
    odd[n_odd, 2] = start
    odd[n_odd, 3] = end
    return n_odd + 1


@compiled()
def data_lines(buf: U8, newlines: I64, starts: I64) -> int:
    """Write the start of each data line into `starts`; return the number of data lines.

    A data line is neither blank nor a comment. `newlines` has the positions of all newlines.
    """
    n_lines = 0
    p = 0
    for newline in newlines:
        p = _skip_blanks(buf, p)
        if buf[p] != _NEWLINE and buf[p] != _HASH:
            starts[n_lines] = p
            n_lines += 1
        p = newline + 1
    return n_lines


@compiled()
def _parse_features(buf, p, line, limit, first_index, table, last_line, odd, n_odd):
    """Parse the features of a line, from p on, into the line's row of the table.

    A feature that the line does not have is 0. A value that cannot be converted with certainty is
    NaN in the table, and is listed in `odd` unless it is NULL or nan. `last_line` has the last
    line, plus 1, with each feature index. The other arguments are those of `parse_lines`.

    Indexes are counted from 1, also if the text counts them from 0.

    Returns:
        The number of features, the new number of odd values, the largest index, the code of the
        fault or 0, and the end of the features or the position of the fault.
    """
    width = table.shape[1]
    for column in range(width):  # quicker to compile than a slice
        table[line, column] = 0.0
    n_features = 0
    largest = 0
    while buf[p] != _NEWLINE and buf[p] != _HASH:
        index, colon = _parse_index(buf, p)
        if index >= 0:
            index += 1 - first_index
        fault = _index_fault(index, limit, last_line, line)
        if fault:
            return n_features, n_odd, largest, fault, p
        last_line[index] = line + 1
        largest = max(largest, index)
        start = colon + 1
        value, p, sure = _parse_number(buf, start)
        if not sure:
            p = _token_end(buf, start)
            value = np.nan
            if not _is_missing(buf, start, p):
                n_odd = _add_odd(odd, n_odd, line, index - 1, start, p)
        if index <= width:
            table[line, index - 1] = value
        n_features += 1
        p = _skip_blanks(buf, p)
    return n_features, n_odd, largest, 0, p


@compiled()
def parse_lines(
    buf: U8,
    starts: I64,
    line: int,
    stop: int,
    limit: int,
    first_index: int,
    table: F32,
    grades: I32,
    fields: I32,
    odd: I64,
) -> tuple[int, int, int, int, int, int]:
    """Parse the data lines from `line` to `stop`; row k of the output arrays gets data line k.

    The output arrays are `table`, `grades`, `fields` and `odd`. A value is odd if this function
    cannot convert it with certainty, so that Python has to read it. Parsing ends at a fault, and at
    the end of a line when 16,384 odd values (`ODD_ENOUGH`) are collected.

    Args:
        buf: (n_bytes,) the text, which ends with a newline.
        starts: (n_lines,) the position at which each data line begins.
        line: number of the first line to parse.
        stop: number of the line after the last line to parse.
        limit: the largest feature index allowed, counted from 1.
        first_index: the number from which the text counts the features, 0 or 1.
        table: (n_lines, width) values of the features. Features beyond its width are checked, but
            not stored.
        grades: (n_lines,) the grades.
        fields: (n_lines, N_FIELDS) where the qid, the document id and the first word of the
            comment are, whether the line has another qid than the line before, and the number of
            features.
        odd: (ODD_ENOUGH + limit + 1, 4) line, column, start and end of each odd value. The column
            of a grade is -1.

    Returns:
        The next line, the number of odd values, the largest index, the code of the fault or 0, and
        start and end of the text with the fault.
    """
    first = line
    n_odd = 0
    widest = 0
    # The last line, plus 1, that has each feature index; an index must not be in a line twice.
    last_line = np.zeros(limit + 1, np.int32)
    while line < stop and n_odd < ODD_ENOUGH:
        begin = starts[line]
        grade, p, sure = _parse_grade(buf, begin)
        if sure:
            grades[line] = np.int32(grade)
        else:
            n_odd = _add_odd(odd, n_odd, line, -1, begin, p)

        qid, end = _find_qid(buf, _skip_blanks(buf, p))
        if qid < 0:
            return line, n_odd, widest, NO_QID, begin, end
        fields[line, QID] = qid
        fields[line, QID_END] = end
        # The line before the first line may not be parsed yet, because threads share the lines.
        fields[line, NEW_QID] = line == first or not _same_qid(buf, fields, line)

        n_features, n_odd, largest, fault, p = _parse_features(
            buf, _skip_blanks(buf, end), line, limit, first_index, table, last_line, odd, n_odd
        )
        widest = max(widest, largest)
        if fault:
            return line, n_odd, widest, fault, p, _token_end(buf, p)
        fields[line, FEATURES] = n_features

        fields[line, DOCID], fields[line, DOCID_END] = _find_docid(buf, p)
        fields[line, WORD], fields[line, WORD_END] = _find_word(buf, p)
        line += 1
    return line, n_odd, widest, 0, 0, 0


@compiled()
def copy_spans(buf: U8, spans: I32, texts: U8) -> bool:
    """Copy the name of each line into a row of `texts`; return whether all names are ASCII.

    Args:
        buf: (n_bytes,) the text.
        spans: (n_lines, 2) the start and the end of each name.
        texts: (n_lines, length of the longest name) zeros, which the names replace.
    """
    ascii_only = True
    for line in range(len(spans)):
        start = spans[line, 0]
        for k in range(spans[line, 1] - start):
            texts[line, k] = buf[start + k]
            ascii_only &= buf[start + k] < 128
    return ascii_only
