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

    Version 0.1.0 had a single kind of ranker and scalings of a single part. It did not store which
    features varied in training, so all features are marked as varying. The settings in model.json
    are converted when they are read, by `sortnet.history`.
    """
    upgraded_tensors = dict(tensors)
    table = upgraded_tensors.pop("scaler", None)
    if table is not None:
        scaling = document["config"].get("scaling")
        upgraded_tensors[f"scaler.{scaling}"] = table
        # Row 0 marks features that vary within a query, row 1 features that vary at all.
        varying = np.ones((2, *table.shape[1:]), np.bool_)
        upgraded_tensors["scaler.varying"] = varying
    return {**document, "kind": "sortnet"}, upgraded_tensors
