"""Description of one setting, with the check and the parsing of its values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from sortnet.errors import ComparatorError, DataError, SortNetError
from sortnet.files import shown

SCALINGS = (  # parts of a scaling, which + joins
    "query", "zscore", "rank", "log", "quantile", "normal", "standard", "none", "missing",
)  # fmt: skip
_MOST = 2**31 - 1
RANGES: dict[str, Callable[[float], bool]] = {
    "above 0": lambda x: 0 < x < math.inf,
    "0 or more": lambda x: 0 <= x < math.inf,
    "above 0 and at most 1": lambda x: 0 < x <= 1,
    "0 or more and below 1": lambda x: 0 <= x < 1,
}

MEASURES, COMPARATOR, RUN, TRAINING = SECTIONS = (
    "Judge and measures",
    "The comparator",
    "Pairs and budget",
    "Training on pairs",
)


@dataclass(frozen=True)
class Setting:
    """Description of a setting, for all places where the setting can be given.

    Attributes:
        name: name of the field, and of the estimator's parameter.
        values: type of the values, without None.
        default: default value, as in `Config()`.
        help: one or two sentences.
        section: heading of its options, one of `SECTIONS`.
        choices: all values, where they are a few words.
        joined: whether several choices may be joined by `+`.
        least, most: range of a whole number; None: checked elsewhere.
        within: range of a number, one of `RANGES`.
        optional: whether it may be None.
    """

    name: str
    values: Any
    default: Any
    help: str
    section: str
    choices: tuple[str, ...] = ()
    joined: bool = False
    least: int | None = None
    most: int = _MOST
    within: str = ""
    optional: bool = False

    def checked(self, value: Any, fault: type[SortNetError]) -> Any:
        """Check the type, choice or range of a value, and convert a NumPy value to Python's."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None and self.optional:
            return None
        if get_origin(self.values) is tuple:
            return hidden_sizes(value)
        if self.joined:
            return "+".join(scaling_parts(value))
        problem = self._problem_with(value)
        if problem:
            raise fault(problem)
        return value

    def _problem_with(self, value: Any) -> str:
        """Reason to refuse a value, in one line; empty for a valid value."""
        if self.choices:
            if isinstance(value, str) and value in self.choices:
                return ""
            return f"unknown {self.name} {shown(value)}; known are {', '.join(self.choices)}"
        if self.least is not None:
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            if is_whole and self.least <= value <= self.most:
                return ""
            return (
                f"{self.name} must be a whole number from {self.least} to {self.most}, "
                f"got {shown(value)}"
            )
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if self.values is float and not is_number:
            return f"{self.name} must be a number, got {shown(value)}"
        if self.within and not RANGES[self.within](value):
            return f"{self.name} must be {self.within}, got {value}"
        if self.values is str and not isinstance(value, str):
            return f"{self.name} must be a word, got {shown(value)}"
        return ""


def setting(default: Any, text: str, section: str, **more: Any) -> Any:
    """Define a field of a settings class; `more` are further attributes of its `Setting`."""
    return field(default=default, metadata={"help": text, "section": section, **more})


def own_settings(kind: Any) -> tuple[Setting, ...]:
    """Settings that a class of settings defines itself, without nested settings."""
    hints = get_type_hints(kind)
    return tuple(
        Setting(
            f.name,
            _type_without_none(hints[f.name]),
            f.default,
            optional=NoneType in get_args(hints[f.name]),
            **f.metadata,
        )
        for f in fields(kind)
        if f.metadata
    )


@cache
def settings_of(kind: Any) -> dict[str, Setting]:
    """All settings of a class by name, in the order of sections, including nested settings."""
    nested = [hint for hint in get_type_hints(kind).values() if is_dataclass(hint)]
    settings = [setting for part in (*nested, kind) for setting in own_settings(part)]
    settings.sort(key=lambda setting: SECTIONS.index(setting.section))
    return {setting.name: setting for setting in settings}


def _type_without_none(hint: Any) -> Any:
    """Type hint without None, such as int for `int | None`."""
    args = get_args(hint)
    if NoneType not in args:
        return hint
    return next(arg for arg in args if arg is not NoneType)


def check_settings(settings: Any, fault: type[SortNetError]) -> None:
    """Check and convert all values of a new settings object, in place."""
    for setting in own_settings(type(settings)):
        value = setting.checked(getattr(settings, setting.name), fault)
        object.__setattr__(settings, setting.name, value)


def scaling_parts(spec: str) -> tuple[str, ...]:
    """Split a scaling into its parts.

    Raises:
        DataError: if a part is unknown or named twice.

    >>> scaling_parts("quantile+missing")
    ('quantile', 'missing')
    """
    parts = tuple(spec.split("+")) if isinstance(spec, str) else (spec,)
    for part in parts:
        if not isinstance(part, str) or part not in SCALINGS:
            raise DataError(
                f"unknown scaling {shown(part)}; known are {', '.join(SCALINGS)}, "
                "which + joins, such as query+rank"
            )
    if len(set(parts)) < len(parts):
        raise DataError(f"scaling {shown(spec)} names a part twice: name each once")
    return parts


def hidden_sizes(hidden: int | Sequence[int]) -> tuple[int, ...]:
    """Check the sizes of hidden layers, given as 20 or (32, 20, 5)."""
    layers = hidden if isinstance(hidden, Iterable) else (hidden,)
    sizes = tuple(size.item() if isinstance(size, np.generic) else size for size in layers)
    if not sizes or any(type(size) is not int or size < 1 for size in sizes):
        raise ComparatorError(f"hidden must be whole numbers from 1, got {shown(hidden)}")
    return sizes


def parse_sizes(text: str) -> tuple[int, ...]:
    """Parse sizes of hidden layers as users type them: `32,20,5`, or `32-20-5` within a list.

    Raises:
        ComparatorError: if a size is no whole number from 1.

    >>> parse_sizes("20"), parse_sizes("32,20,5"), parse_sizes("32-20-5")
    ((20,), (32, 20, 5), (32, 20, 5))
    """
    try:
        sizes = tuple(int(size) for size in re.split("[-,]", text))
    except ValueError:
        raise ComparatorError(f"hidden: {text[:60]!r} is not a number") from None
    return hidden_sizes(sizes)


def parse_setting(name: str, kind: Any, text: str) -> Any:
    """Parse the value of a setting as users type it: a number, a word, or layer sizes, `20-20`.

    Args:
        name: name of the setting.
        kind: type of its values, or the words that it takes.

    Raises:
        SortNetError: if the text is no such number.

    >>> parse_setting("hidden", None, "20-10"), parse_setting("seed", int, "3")
    ((20, 10), 3)
    """
    try:
        if isinstance(kind, type):
            return kind(text)
        if name == "hidden":
            return parse_sizes(text)
    except ValueError:
        raise SortNetError(f"{name}: {text[:60]!r} is not a number") from None
    return text
