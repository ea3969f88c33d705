"""The scaling `piecewise`, of models of versions before: it is applied, and no longer fitted."""

from __future__ import annotations

import numpy as np

from sortnet.core import Queries
from sortnet.data.scaling import Scaler, fit_scaler


def of_before(queries: Queries, *parts: str) -> Scaler:
    """These parts and then `piecewise`, as version 0.3 fitted them."""
    fitted = fit_scaler("+".join(("none", *parts)), queries)
    edges = np.zeros((17, queries.n_features))
    for k, column in enumerate(queries.features.T.astype(np.float64)):
        if len(there := column[~np.isnan(column)]):
            edges[:, k] = np.float32(np.quantile(there, np.linspace(0, 1, 17)))
    tables = {part: fitted.tables[part] for part in parts}
    return Scaler(tables | {"piecewise": edges}, fitted.varying)
