"""A value other than the default of any setting, so that tests need not list them."""

from __future__ import annotations

from typing import Any

from sortnet.config import Config, Setting, settings_of

LACKING = {"trees": ("hidden", "units", "tau", "dropout"), "directranker": ("trees", "depth")}
FIXED = {"trees": ("loss", "optimizer", "precision"), "directranker": ()}  # have their defaults


def others(comparator: str) -> dict[str, Any]:
    """Return every setting of a comparator, with a value other than its default."""
    found = {
        name: _other(setting)
        for name, setting in settings_of(Config).items()
        if name not in LACKING[comparator] + FIXED[comparator]
    }
    return found | {"comparator": comparator}


def whole(comparator: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values with those of the settings that a comparator lacks or cannot change."""
    defaults = {name: settings_of(Config)[name].default for name in FIXED[comparator]}
    return values | dict.fromkeys(LACKING[comparator]) | defaults


def _other(setting: Setting) -> Any:
    if setting.name == "device":
        return "cpu"
    if setting.name == "quality":
        return "ndcg@5"
    if setting.choices:
        return next(choice for choice in setting.choices if choice != setting.default)
    if setting.values is bool:
        return not setting.default
    if setting.values is float:
        return (setting.default or 0) / 2 + 0.25
    return (setting.default or 0) + 2 if setting.values is int else (7, 3)
