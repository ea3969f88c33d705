"""Load a ranker of any kind from its folder."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from sortnet.config import Config
from sortnet.core import NamedColumns
from sortnet.errors import ModelError
from sortnet.items.saved import load_describer
from sortnet.rankers.base import ITEMS_PREFIX, Ranker
from sortnet.rankers.model_folder import Saved, read_folder
from sortnet.rankers.registry import kind_settings
from sortnet.rankers.saved_scaler import take_scaler

_MODEL = "sortnet.rankers.model"  # module that reads the comparator of a ranker of kind sortnet


def load_ranker(folder: str | Path, **model_arguments: Any) -> Ranker:
    """Read the folder of a ranker of any kind.

    Args:
        folder: a folder that `Ranker.save` has written.
        model_arguments: arguments that only `sortnet.rankers.model.read_comparator` has.

    Raises:
        ModelError: if a file is missing, damaged, foreign, of an unknown kind or another version.
    """
    return read_folder(folder, partial(_make_ranker, model_arguments=model_arguments))


def _make_ranker(saved: Saved, model_arguments: dict[str, Any]) -> Ranker:
    """Make the ranker from the content of its folder, with its column names and its describer."""
    try:
        settings_class = kind_settings(saved.kind)
        # A describer makes features from texts and images. Its arrays are taken out first, because
        # a kind of ranker refuses arrays that are not its own.
        names = [name for name in saved.tensors if name.startswith(ITEMS_PREFIX)]
        describer = None
        if saved.about.get("items") is not None:
            arrays = {name.removeprefix(ITEMS_PREFIX): saved.tensors.pop(name) for name in names}
            describer = load_describer(saved.about["items"], arrays)
    except ModelError as error:
        raise ModelError(f"{saved.path}: {error}") from None
    config = saved.settings(settings_class)
    scaler = take_scaler(saved, config.flat().get("scaling"))
    if settings_class is Config:
        model = import_module(_MODEL)
        ranker_class = model.Model
        learned = model.read_comparator(saved, config, scaler.n_columns, **model_arguments)
    else:
        ranker_class = config.ranker
        learned = config.read(saved, scaler.n_columns)
    columns = NamedColumns.from_json(saved.about.get("columns", {}), saved.path)
    try:
        ranker: Ranker = ranker_class(
            config,
            scaler,
            learned,
            feature_names=saved.feature_names,
            info=saved.info,
            describer=describer,
            columns=columns,
        )
    except ModelError as error:
        raise ModelError(f"{saved.path}: {error}") from None
    return ranker
