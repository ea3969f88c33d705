"""Read JSON that SortNet wrote, and check it before use."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from sortnet.errors import ModelError

_LARGEST = 2**63  # whole numbers that fit numpy, torch and the store


def parse_document(
    raw: bytes, path: Path, kind: str, versions: Sequence[int], fields: Mapping[str, Any]
) -> dict[str, Any]:
    """Parse a document that names its kind and version.

    Args:
        raw: its text.
        path: the file it comes from, for messages.
        kind: its `format`, such as `sortnet-model`.
        versions: the format versions that can be read.
        fields: the required fields, {name: type}, see `check_fields`.

    Raises:
        ModelError: if it is damaged, foreign, or of another version.
    """
    about = parse_json(raw, path)
    if not isinstance(about, dict) or about.get("format") != kind:
        raise ModelError(f"{path}: not a SortNet {kind.removeprefix('sortnet-')}")
    if about.get("format_version") not in versions:
        raise ModelError(
            f"{path}: format version {shown(about.get('format_version'))}, this SortNet reads "
            f"{' and '.join(map(str, versions))}: upgrade SortNet or train again"
        )
    check_fields(about, fields, path)
    return about


def parse_json(raw: str | bytes, path: Path) -> Any:
    """Parse a JSON text.

    Raises:
        ModelError: if it is not JSON, or nested too deeply.
    """
    try:
        return json.loads(raw)
    except RecursionError:
        raise ModelError(f"{path}: not JSON that SortNet wrote: nested too deeply") from None
    except ValueError as error:
        raise ModelError(f"{path}: not JSON: {error}") from None


def check_fields(values: Mapping[str, Any], fields: Mapping[str, Any], path: object) -> None:
    """Refuse JSON values with a missing field or one of the wrong type.

    An integer may be given for a float, 3.0 for an integer, 0 and 1 for a boolean; numbers must
    be finite.

    Raises:
        ModelError: naming `path`, the first such field and its value.

    >>> check_fields({"lr": 1, "hidden": [3]}, {"lr": float, "hidden": tuple[int, ...]}, "x")
    """
    for name, kind in fields.items():
        if name not in values:
            raise ModelError(f"{path}: no {name!r}")
        if not _is(values[name], kind):
            raise ModelError(f"{path}: {name} cannot be {shown(values[name])}")


def shown(value: object) -> str:
    """A value as a message shows it, however large or deep it is."""
    return reprlib.repr(value)[:60]


def _is(value: Any, kind: Any) -> bool:
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(_is(value, one) for one in args)
    if origin is Literal:
        return value in args
    if origin in (tuple, list):
        return isinstance(value, list | tuple) and all(_is(item, args[0]) for item in value)
    if kind is bool:
        return isinstance(value, bool) or (isinstance(value, int) and value in (0, 1))
    if kind is float:
        return isinstance(value, int | float) and abs(value) < 1e300  # NaN is not
    if kind is int:
        return isinstance(value, int | float) and value % 1 == 0 and abs(value) < _LARGEST
    return isinstance(value, kind)
