"""Settings and commands that were removed, and the conversion of settings of version 0.1.0.

The upgrade of model folders is in `sortnet.rankers.folder_history`, the upgrade of stores in
`store.database.upgrade`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Settings that were removed, and what to use instead. They were options of a command and parameters
# of SortNetRanker.
GONE_SETTINGS = {
    "tune_budget": "give scaling, which is all that is tried (on the command line: --no-tune)",
    "blocks": "leave it out, any number of processes share the queries",
}
# Commands that were removed, and what to type instead.
GONE_COMMANDS = {
    "agreement": "sortnet annotators agreement NAME",
    "compare": "sortnet explain MODEL DATA A B",
    "context": "sortnet experiment context PROBLEM",
    "simulate": "sortnet experiment simulate",
    "watch": "sortnet show RUN --follow",
    "completion": 'eval "$(_SORTNET_COMPLETE=bash_source sortnet)"; zsh_source, fish_source',
    "annotators include": "sortnet annotators exclude NAME ANNOTATOR --undo",
    "annotators resume": "sortnet annotators pause NAME --undo",
    "annotators renew": "sortnet annotators revoke NAME ANNOTATOR --undo",
    "annotators quota": "sortnet ask NAME --quota ANNOTATOR NUMBER",
    "annotators overlap": "sortnet ask NAME --overlap NUMBER",
}
# Values that describe how version 0.1.0 trained, for settings that later versions added.
_TRAINING_OF_0_1: dict[str, Any] = {
    "pair_weight": "none",
    "loss": "squared",
    "query_pairs": None,
    "keep": "loss",
    "schedule": "steps",
}


def upgraded_settings(
    values: Mapping[str, Any], missing_settings: Mapping[str, tuple[str, ...]]
) -> dict[str, Any]:
    """Convert the JSON values of settings of version 0.1.0 to settings of this version.

    Settings of later versions stay as they are.

    Args:
        values: the JSON values of the settings in a file.
        missing_settings: {comparator: settings that the comparator does not have}. Version 0.1.0
            wrote these settings nevertheless; they are removed.
    """
    upgraded = dict(values)
    if "warm_start" not in upgraded:
        return upgraded
    upgraded["start"] = "warm" if upgraded.pop("warm_start") else "fresh"
    upgraded["pairs"] = "wrong"
    training = upgraded.get("training")
    if isinstance(training, dict):
        upgraded["training"] = {**_TRAINING_OF_0_1, **training}
    for name in missing_settings.get(str(upgraded.get("comparator")), ()):
        upgraded.pop(name, None)
    return upgraded
