"""Upgrade the content of a model folder that version 0.1.0 wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

VERSION_OF_0_1 = 1  # `format_version` in model.json
WEIGHTS_OF_0_1 = "weights.safetensors"


def upgraded_folder(
    document: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Convert the model.json and the arrays of version 0.1.0 to the present format.

    Version 0.1.0 knew one kind of ranker, and scalings of one part; it did not store which features
    varied in training. Its settings are converted where they are read, in `sortnet.history`.
    """
    upgraded_tensors = dict(tensors)
    table = upgraded_tensors.pop("scaler", None)
    if table is not None:
        upgraded_tensors[f"scaler.{document['config'].get('scaling')}"] = table
        varying = np.ones((2, *table.shape[1:]), np.bool_)
        upgraded_tensors["scaler.varying"] = varying
    return {**document, "kind": "sortnet"}, upgraded_tensors
