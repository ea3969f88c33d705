"""History of the settings: what earlier versions had, and how their settings are read today."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SCALINGS_BEFORE = ("piecewise",)  # in model folders of earlier versions
# Settings of the training that had other defaults in versions 0.1 and 0.2.
TRAINING_BEFORE: dict[str, Any] = {
    "pair_weight": "none", "loss": "squared", "query_pairs": None, "keep": "loss",
    "schedule": "steps",
}  # fmt: skip
# Settings of earlier versions, and what to use instead.
GONE = {
    "tune_budget": "give scaling, which is all that is tried (on the command line: --no-tune)",
    "blocks": "leave it out, any number of processes share the queries",
}


def upgraded_settings(
    values: Mapping[str, Any], missing_settings: Mapping[str, tuple[str, ...]]
) -> dict[str, Any]:
    """Convert the JSON values of settings, written by any version, to those of this version.

    Args:
        values: the settings as written.
        missing_settings: {comparator: settings that it does not have}.
    """
    values = dict(values)
    if "warm_start" in values:
        values["start"] = "warm" if values.pop("warm_start") else "fresh"
        values = {"pairs": "wrong", **values}
        training = values.get("training")
        if isinstance(training, dict):
            values["training"] = TRAINING_BEFORE | training
    if values.get("start") == "add":  # a committee that grew by a comparator an iteration
        values |= {"start": "fresh", "committee": 1}
    if "trees" not in values:  # such versions kept settings that the comparator does not have
        missing = missing_settings.get(str(values.get("comparator")), ())
        for name in ("tune_budget", *missing):
            values.pop(name, None)
    return values
