"""Load a ranker of any kind from its folder."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from sortnet.config import Config, scaling_parts
from sortnet.core import NamedColumns
from sortnet.data.scaling import Scaler, table_rows, unscaled
from sortnet.errors import ModelError, SortNetError
from sortnet.items.features import load_describer
from sortnet.rankers.base import ITEMS_PREFIX, Ranker
from sortnet.rankers.model_folder import Saved, read_folder
from sortnet.rankers.registry import kind_settings

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
    about = saved.about
    tensors = saved.tensors.arrays
    try:
        settings_class = kind_settings(about["kind"])
        config = settings_class.from_json(about["config"])
        # A describer makes features from texts and images. Its arrays are taken out first, because
        # a kind of ranker refuses arrays that are not its own.
        describer = None
        if about.get("items") is not None:
            names = [name for name in tensors if name.startswith(ITEMS_PREFIX)]
            arrays = {name.removeprefix(ITEMS_PREFIX): tensors.pop(name) for name in names}
            describer = load_describer(about["items"], arrays)
    except SortNetError as error:
        raise ModelError(f"{saved.path}: {error}") from None
    scaler = _take_scaler(saved, config.flat().get("scaling"))
    if settings_class is Config:
        model = import_module(_MODEL)
        ranker_class = model.Model
        learned = model.read_comparator(saved, config, scaler.n_columns, **model_arguments)
    else:
        ranker_class = config.ranker
        learned = config.read(saved, scaler.n_columns)
    feature_names = about["feature_names"]
    columns = NamedColumns.from_json(about.get("columns", {}), saved.path)
    try:
        ranker: Ranker = ranker_class(
            config,
            scaler,
            learned,
            feature_names=None if feature_names is None else tuple(feature_names),
            info=about["info"],
            describer=describer,
            columns=columns,
        )
    except ModelError as error:
        raise ModelError(f"{saved.path}: {error}") from None
    return ranker


def _take_scaler(saved: Saved, spec: str | None) -> Scaler:
    """Restore a feature scaling from the arrays that `Ranker.tensors` lists.

    Args:
        saved: the content of a model folder.
        spec: name of the scaling, such as `query+rank`; None: the features are not scaled.

    Raises:
        ModelError: if an array is missing, or has a wrong type or shape.
    """
    tensors = saved.tensors
    n_features = saved.about["n_features"]
    origins = None
    if "scaler.origins" in tensors.arrays:
        origins = tensors.take("scaler.origins", np.float64, n_features)
    if spec is None:
        return unscaled(n_features, origins)
    tables = {}
    for part in scaling_parts(spec):
        name = f"scaler.{part}"
        tables[part] = tensors.take(name, np.float64, None, n_features)
        n_rows = len(tables[part])
        fewest, most = table_rows(part)
        if not fewest <= n_rows <= most:
            raise ModelError(f"{tensors.path}: {name} has {n_rows} rows, not of this scaling")
    varying = tensors.take("scaler.varying", np.bool_, 2, n_features)
    return Scaler(tables, varying, origins)
