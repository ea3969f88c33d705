"""Files that describe a judge: TOML, with the arguments of a language model or of a program."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from sortnet.errors import SortNetError
from sortnet.files import refuse_irregular, shown

J = TypeVar("J")

_LARGEST_FILE = 1 << 20  # bytes
_LEFT_OUT = "null"  # stands for None, which TOML lacks: the parameter of a request is left out


def read_table(file: str | Path) -> dict[str, Any]:
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
    _check_keys(kind, table, file)
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


def _check_keys(kind: type[Any], table: Mapping[str, Any], file: str | Path) -> None:
    """Raise SortNetError if a file has an unknown key, or lacks a key without a default."""
    parameters = inspect.signature(kind).parameters
    for key in table:
        if key not in parameters:
            names = ", ".join(parameters)
            raise SortNetError(f"judge {file}: unknown key {shown(key)}; known are {names}")
    for key, parameter in parameters.items():
        if parameter.default is parameter.empty and not table.get(key):
            raise SortNetError(f"judge {file}: {key} is missing")
