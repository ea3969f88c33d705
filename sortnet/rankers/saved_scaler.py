"""A scaling as arrays in the folder of a ranker."""

from __future__ import annotations

import numpy as np

from sortnet.config import scaling_parts
from sortnet.data.scaling import Scaler, table_rows, unscaled
from sortnet.rankers.model_folder import Array, Saved

_SCALER = "scaler"
_VARYING = "scaler.varying"


def scaler_arrays(scaler: Scaler) -> dict[str, Array]:
    """The table of each part of the scaling, as `take_scaler` finds it."""
    if not scaler.tables:
        return {}
    tables: dict[str, Array] = {f"{_SCALER}.{part}": table for part, table in scaler.tables.items()}
    return tables | {_VARYING: scaler.varying}


def take_scaler(saved: Saved, spec: str | None) -> Scaler:
    """The scaling of those parts, taken out of the arrays; None: features as they are."""
    if spec is None:
        return unscaled(saved.n_features)
    parts = scaling_parts(spec)
    if _SCALER in saved.tensors:  # version 0.2 had scalings of one part
        saved.tensors[f"{_SCALER}.{parts[0]}"] = saved.tensors.pop(_SCALER)
    tables, shape = {}, (2, saved.n_features)
    for part in parts:
        low, high = table_rows(part)
        table = saved.tensors.get(f"{_SCALER}.{part}")
        rows = len(table) if table is not None and table.ndim else 0
        rows = rows if low <= rows <= high else int(low)
        name = f"{_SCALER}.{part}"
        tables[part] = saved.take(name, np.float64, rows, saved.n_features)
    if saved.about["format_version"] < 3:  # which did not know
        return Scaler(tables, np.ones(shape, np.bool_))
    return Scaler(tables, saved.take(_VARYING, np.bool_, *shape))
