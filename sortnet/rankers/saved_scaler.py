"""Convert a feature scaling to the arrays that a ranker's folder stores, and back."""

from __future__ import annotations

import numpy as np

from sortnet.config import scaling_parts
from sortnet.data.scaling import Scaler, table_rows, unscaled
from sortnet.errors import ModelError
from sortnet.rankers.model_folder import Array, Saved, described

_SCALER = "scaler"
_VARYING = "scaler.varying"
_ORIGINS = "scaler.origins"


def scaler_arrays(scaler: Scaler) -> dict[str, Array]:
    """Convert a scaling to arrays by name, from which `take_scaler` restores the scaling."""
    arrays: dict[str, Array] = {f"{_SCALER}.{part}": table for part, table in scaler.tables.items()}
    if scaler.tables:
        arrays[_VARYING] = scaler.varying
    if scaler.origins is not None:
        arrays[_ORIGINS] = scaler.origins
    return arrays


def take_scaler(saved: Saved, spec: str | None) -> Scaler:
    """Restore a feature scaling from the saved arrays.

    Args:
        saved: the content of a model folder.
        spec: name of the scaling, such as `query+rank`; None: the features are not scaled.

    Raises:
        ModelError: if an array is missing, or has a wrong type or shape.
    """
    origins = None
    if _ORIGINS in saved.tensors:
        origins = saved.take(_ORIGINS, np.float64, saved.n_features)
    if spec is None:
        return unscaled(saved.n_features, origins)
    tables = {}
    for part in scaling_parts(spec):
        name = f"{_SCALER}.{part}"
        table = saved.take(name, np.float64, None, saved.n_features)
        fewest, most = table_rows(part)
        if not fewest <= len(table) <= most:
            raise ModelError(f"{saved.weights}: {name} is {described(table)}, not of this scaling")
        tables[part] = table
    varying = saved.take(_VARYING, np.bool_, 2, saved.n_features)
    return Scaler(tables, varying, origins)
