"""Fields that describe a judge: checks of their values, and the TOML files that have them."""

from __future__ import annotations

import inspect
import math
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from sortnet.errors import SortNetError
from sortnet.files import Record, refuse_irregular, shown

MOST_WORKERS = 64  # most workers of a judge
SMALLEST_SIDE = 16  # pixels: nothing can be seen in a smaller image
_LARGEST_FILE = 1 << 20  # bytes
_LEFT_OUT = "null"  # stands for None, which TOML lacks: the parameter of a request is left out
# {field of a judge: its smallest and largest number}
_WHOLE_NUMBERS: dict[str, dict[str, int]] = {
    "batch": {},
    "image_size": {"least": SMALLEST_SIDE},
    "max_calls": {},
    "workers": {"most": MOST_WORKERS},
}
# (fields of judges, their type, what another value is)
_TYPES: tuple[tuple[tuple[str, ...], type, str], ...] = (
    (("command", "model", "prompt", "server"), str, "no text"),
    (("both_orders", "logprobs", "structured"), bool, "neither true nor false"),
)
_ABOVE_0 = ("max_cost", "timeout")
_AMOUNTS = (*_ABOVE_0, "patience", "price_in", "price_out")

J = TypeVar("J")  # class of a judge


def check_whole_number(name: str, value: Any, *, least: int = 1, most: int | None = None) -> None:
    """Raise SortNetError unless a value is None or a whole number from `least` to `most`.

    Args:
        name: name of the argument, with which the message begins.
        value: value of the argument.
        least: smallest number that is allowed.
        most: largest number that is allowed; None: there is no largest number.

    Raises:
        SortNetError: if the value is something else.

    >>> check_whole_number("workers", 8, most=64)
    """
    is_whole = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if value is None or (is_whole and (most is None or value <= most)):
        return
    end = "" if most is None else f" to {most}"
    raise SortNetError(f"{name}: {shown(value)} is no whole number from {least}{end}")


def check_fields(judge: object) -> None:
    """Raise SortNetError if a field of a judge has a value that is not allowed; None is allowed.

    The message names the field.
    """
    for name, value in vars(judge).items():
        if name in _WHOLE_NUMBERS:
            check_whole_number(name, value, **_WHOLE_NUMBERS[name])
        for names, kind, words in _TYPES:
            if name in names and not isinstance(value, kind | None):
                raise SortNetError(f"{name}: {shown(value)} is {words}")
        if name in _AMOUNTS and value is not None:
            _check_amount(name, value)


def _check_amount(name: str, value: Any) -> None:
    """Raise SortNetError unless a value is a finite number from 0, above 0 where it must be."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    may_be_0 = name not in _ABOVE_0
    if not is_number or not math.isfinite(value) or value < 0 or not (value or may_be_0):
        least = "from 0" if may_be_0 else "above 0"
        raise SortNetError(f"{name}: {shown(value)} is no number {least}")


def read_table(file: str | Path) -> Record:
    """Read the keys and values of a TOML file.

    Raises:
        SortNetError: if the file cannot be read or is no TOML.
    """
    path = Path(file)
    try:
        refuse_irregular(path, most=_LARGEST_FILE, error=SortNetError)
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SortNetError(f"judge {file}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise SortNetError(f"judge {file}: is no TOML: {error}") from None


def judge_in_file(kind: type[J], file: str | Path) -> J:
    """Make a judge of the values in a file; `LanguageModel.from_file` describes the file.

    Args:
        kind: class of the judge, a dataclass whose fields are the keys of the file.
        file: path of the file.

    Raises:
        SortNetError: if the file has no such judge; the message names the file and the key.
    """
    table = read_table(file)
    parameters = inspect.signature(kind).parameters
    for key in table:
        if key not in parameters:
            names = ", ".join(parameters)
            raise SortNetError(f"judge {file}: unknown key {shown(key)}; known are {names}")
    for key, parameter in parameters.items():
        if parameter.default is parameter.empty and not table.get(key):
            raise SortNetError(f"judge {file}: {key} is missing")
    if isinstance(table.get("prompt"), str):
        table["prompt"] = str(Path(file).parent / table["prompt"])
    if isinstance(table.get("request"), dict):
        table["request"] = {
            name: None if value == _LEFT_OUT else value for name, value in table["request"].items()
        }
    try:
        return kind(**table)
    except SortNetError as error:
        raise SortNetError(f"judge {file}: {error}") from None
