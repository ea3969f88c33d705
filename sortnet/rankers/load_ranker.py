"""Load a ranker of any kind from its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from sortnet.config import Config
from sortnet.core import NamedColumns
from sortnet.errors import ModelError
from sortnet.items.saved import load_describer
from sortnet.rankers.base import ITEMS_PREFIX, Ranker
from sortnet.rankers.model_folder import Array, Saved, read_folder
from sortnet.rankers.registry import kind_settings
from sortnet.rankers.saved_scaler import take_scaler

_MODEL = "sortnet.rankers.model"  # module whose `load` reads a ranker of kind sortnet


def load_ranker(folder: str | Path, **model_arguments: Any) -> Ranker:
    """Read the folder of a ranker of any kind.

    Args:
        folder: a folder that `Ranker.save` has written.
        model_arguments: arguments that only `sortnet.rankers.model.load` has.

    Raises:
        ModelError: if a file is missing, damaged, foreign, of an unknown kind or another version.
    """
    return read_folder(folder, lambda saved: _make_ranker(saved, model_arguments))


def _make_ranker(saved: Saved, model_arguments: Mapping[str, Any]) -> Ranker:
    """Make the ranker from the content of its folder, with its column names and its describer."""
    try:
        settings = kind_settings(saved.kind)
    except ModelError as error:
        raise ModelError(f"{saved.path}: {error}") from None
    # A describer makes features from texts and images. Its arrays are taken out first, because a
    # kind of ranker refuses arrays that are not its own.
    describer_document = saved.about.get("items")
    describer_arrays = {}
    if describer_document is not None:
        describer_arrays = _take_describer_arrays(saved)
    ranker: Ranker
    if settings is Config:
        ranker = import_module(_MODEL).load(saved, **model_arguments)
    else:
        ranker = _make_other_kind(saved)
    columns = NamedColumns.from_json(saved.about.get("columns", {}), saved.path)
    ranker = replace(ranker, columns=columns)
    if describer_document is None:
        return ranker
    try:
        return replace(ranker, describer=load_describer(describer_document, describer_arrays))
    except ModelError as error:
        raise ModelError(f"{saved.path}: {error}") from None


def _take_describer_arrays(saved: Saved) -> dict[str, Array]:
    """Take the arrays of a describer out of the content of a folder, by name without the prefix."""
    names = [name for name in saved.tensors if name.startswith(ITEMS_PREFIX)]
    return {name.removeprefix(ITEMS_PREFIX): saved.tensors.pop(name) for name in names}


def _make_other_kind(saved: Saved) -> Ranker:
    """Make a ranker of any kind other than `sortnet` from the content of its folder."""
    config: Any = saved.settings(kind_settings(saved.kind))
    scaler = take_scaler(saved, config.flat().get("scaling"))
    learned = config.read(saved, scaler.n_columns)
    ranker: Ranker = config.ranker(
        config, scaler, learned, feature_names=saved.feature_names, info=saved.info
    )
    return ranker
