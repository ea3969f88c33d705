"""Error messages for LETOR files, and values that the kernel leaves to Python."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.tables import letor_kernel as kernel
from sortnet.types import I64, grade_fault

MAX_FEATURES = 100_000
_LONGEST_SHOWN = 60

# Possessive (++): without backtracking, or a long run of digits would take an hour.
_NUMBER = re.compile(rb"[+-]?(\d++(\.\d*+)?|\.\d++)([eE][+-]?\d++)?")
_INFINITE = re.compile(rb"[+-]?inf(inity)?", re.IGNORECASE)
# The largest float64, with 14 digits or more, is what Istella's files write for "no value".
_NO_VALUE = re.compile(rb"1\.7976931348623\d*[eE]\+?308")
# Prefixes of valid tokens, at which a truncated file may end.
_CUT_NUMBER = re.compile(rb"[+-]?|[+-]?(\d++(\.\d*+)?|\.\d*+)([eE][+-]?)?|nul?|na?", re.IGNORECASE)


@dataclass(frozen=True)
class Block:
    """Whole lines of a file."""

    path: Path
    first_line: int  # its number, from 1
    buf: kernel.U8  # (bytes,) ending with a newline
    newlines: I64  # (lines,) where they are in buf
    unfinished: bool = False  # the last newline was not in the file

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
        shown = ascii(tail.decode("utf-8", "replace"))
        return self.fault(end, f"the file ends in the middle of this line: ...{shown}")


def _words(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def read_grade(block: Block, start: int, end: int) -> int:
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


def read_value(block: Block, column: int, start: int, end: int) -> float:
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


def line_fault(block: Block, fault: int, start: int, end: int, n_features: int | None) -> DataError:
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
