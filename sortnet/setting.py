"""Describe the settings of a run, check their values, and parse values that users type."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from sortnet.errors import ComparatorError, DataError, SortNetError
from sortnet.files import shown
from sortnet.messages import known_names

# Names of scalings. A setting joins several names by +, such as query+rank.
SCALINGS = (
    "query", "zscore", "rank", "log", "quantile", "normal", "standard", "none", "missing",
)  # fmt: skip
_MOST = 2**31 - 1  # largest whole number, unless a setting has another limit
_MOST_CHARACTERS = 60  # most characters of a typed text that a message shows
RANGES: dict[str, Callable[[float], bool]] = {
    "above 0": lambda x: 0 < x < math.inf,
    "from 0": lambda x: 0 <= x < math.inf,
    "above 0 and at most 1": lambda x: 0 < x <= 1,
    "from 0 to below 1": lambda x: 0 <= x < 1,
}

MEASURES, COMPARATOR, RUN, TRAINING, MACHINE = SECTIONS = (
    "Judge and measures",
    "The comparator",
    "Pairs and budget",
    "Training on pairs",
    "This machine",
)


@dataclass(frozen=True)
class Setting:
    """Description of a setting, for all places where the setting can be given.

    Attributes:
        name: name of the field, and of the estimator's parameter.
        values: type of the setting's values, without None.
        default: default value, as in `Config()`.
        help: description in a few sentences, of which the first one is the help of an option.
        section: heading over the setting in a list of settings, one of `SECTIONS`.
        choices: all values, if they are a few words; else empty.
        joined: whether several choices may be joined by `+`.
        least, most: range of a whole number. If `least` is None, the value is not checked as a
            whole number.
        within: range of a number, a key of `RANGES`; empty: any number.
        optional: whether the value may be None.
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

    @property
    def allowed(self) -> str:
        """The values that users may type, in words.

        >>> Setting("lr", float, 0.03, "Learning rate.", TRAINING, within="above 0").allowed
        'a number above 0'
        """
        if self.choices:
            words = ", ".join(self.choices)
            return f"{words}; several joined by +" if self.joined else words
        if get_origin(self.values) is tuple:
            return "whole numbers from 1, such as 20 or 32,20,5"
        if self.least is not None:
            end = f" to {self.most}" if self.most < _MOST else ""
            return f"a whole number from {self.least}{end}"
        if self.values is float:
            return f"a number {self.within}".rstrip()
        return "the name of a measure"  # measures are the only settings with any text

    def parsed(self, text: str) -> Any:
        """Parse and check a value as users type it: a number, a word, or layer sizes, `20-20`.

        Raises:
            SortNetError: if the setting cannot have the value.

        >>> Setting("trees", int, None, "Number of trees.", COMPARATOR, least=1).parsed("8")
        8
        """
        value: Any = text
        if get_origin(self.values) is tuple:
            value = parse_sizes(text)
        elif self.values in (int, float):
            with suppress(ValueError):  # a text that is no number is refused below
                value = self.values(text)
        return self.checked(value, DataError)

    def checked(self, value: Any, fault: type[SortNetError]) -> Any:
        """Check a value of this setting, and convert NumPy's numbers to Python's.

        Args:
            value: a value from the user; layer sizes may be a number, numbers may be NumPy's.
            fault: class of the error for a value with a wrong type or out of the range.
        """
        if isinstance(value, np.generic):
            value = value.item()
        if value is None and self.optional:
            return None
        if get_origin(self.values) is tuple:
            return hidden_sizes(value)
        if self.joined:
            return "+".join(scaling_parts(value))
        if self._allows(value):
            return value
        if self.choices:
            raise fault(f"unknown {self.name} {shown(value)}; known are {', '.join(self.choices)}")
        raise fault(f"{self.name} must be {self.allowed}, got {shown(value)}")

    def _allows(self, value: Any) -> bool:
        """Whether the setting can have a value that is neither layer sizes nor a scaling."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if self.choices:
            return isinstance(value, str) and value in self.choices
        if self.least is not None:
            return is_number and isinstance(value, int) and self.least <= value <= self.most
        if self.values is float:
            return is_number and (not self.within or RANGES[self.within](value))
        return self.values is not str or isinstance(value, str)


def setting(default: Any, text: str, section: str, **more: Any) -> Any:
    """Define a field of a settings class.

    Args:
        default: default value of the setting.
        text: help text of the setting.
        section: heading over the setting, one of `SECTIONS`.
        more: further attributes of the field's `Setting`, by name.
    """
    return field(default=default, metadata={"help": text, "section": section, **more})


def own_settings(settings_class: Any) -> tuple[Setting, ...]:
    """List the settings that are fields of a settings class, without nested settings."""
    hints = get_type_hints(settings_class)
    settings = []
    for f in fields(settings_class):
        if not f.metadata:  # the field was not defined by `setting`
            continue
        hint = hints[f.name]
        types = get_args(hint)
        is_optional = NoneType in types
        if is_optional:  # the hint without None, such as int for `int | None`
            hint = next(value_type for value_type in types if value_type is not NoneType)
        settings.append(Setting(f.name, hint, f.default, optional=is_optional, **f.metadata))
    return tuple(settings)


@cache
def settings_of(settings_class: Any) -> dict[str, Setting]:
    """List all settings of a settings class by name, in the order of their sections.

    The settings of nested classes, such as `Training`, are included.
    """
    settings: list[Setting] = []
    for hint in get_type_hints(settings_class).values():
        if is_dataclass(hint):
            settings += own_settings(hint)
    settings += own_settings(settings_class)
    settings.sort(key=lambda setting: SECTIONS.index(setting.section))
    return {setting.name: setting for setting in settings}


def check_settings(settings: Any, fault: type[SortNetError]) -> None:
    """Check and convert all values of a new settings object, in place.

    Args:
        settings: an object of a settings class.
        fault: class of the error for a faulty value.
    """
    for setting in own_settings(type(settings)):
        value = setting.checked(getattr(settings, setting.name), fault)
        object.__setattr__(settings, setting.name, value)


def scaling_parts(spec: str) -> tuple[str, ...]:
    """Split the name of a scaling, such as `query+rank`, into its parts.

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
    """Convert the sizes of hidden layers, such as 20 or (32, 20, 5), to a tuple, and check them.

    Raises:
        ComparatorError: if there is no size, or a size is no whole number from 1.
    """
    layers = hidden if isinstance(hidden, Iterable) else (hidden,)
    sizes = tuple(size.item() if isinstance(size, np.generic) else size for size in layers)
    are_valid = all(type(size) is int and size >= 1 for size in sizes)
    if not sizes or not are_valid:
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
        raise ComparatorError(f"hidden: {text[:_MOST_CHARACTERS]!r} is not a number") from None
    return hidden_sizes(sizes)


def parse_settings(
    kind: str, settings: Mapping[str, Setting], typed: Mapping[str, str]
) -> dict[str, Any]:
    """Parse settings of a ranker as users type them.

    Args:
        kind: kind of the ranker, for messages.
        settings: {name: setting} that the ranker has.
        typed: {name: typed value}.

    Raises:
        SortNetError: if a setting does not exist, or cannot have the value.

    >>> lr = Setting("lr", float, 0.03, "Learning rate.", TRAINING, within="above 0")
    >>> parse_settings("ranknet", {"lr": lr}, {"lr": "0.1"})
    {'lr': 0.1}
    """
    for name in typed:
        if name not in settings:
            raise DataError(no_setting(kind, name, settings))
    return {name: settings[name].parsed(text) for name, text in typed.items()}


def no_setting(kind: str, name: str, names: Iterable[str]) -> str:
    """Write that a kind of ranker has no setting `name`, and which similar settings it has."""
    known = known_names(names, name)
    return f"a ranker of kind {kind} has no setting {shown(name)}; there is {known}"
