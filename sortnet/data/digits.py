"""Handwritten digits as queries: real data that needs no download."""

from __future__ import annotations

import numpy as np

from sortnet.core import Queries
from sortnet.data.read import Fold

SIDE = 8  # width and height of an image in pixels
SHARES = {"train": 0.6, "vali": 0.2, "test": 0.2}  # shares of the images
_DARKEST = 16  # largest value of a pixel


def digits_fold(seed: int = 0, *, size: int = 36, times: int = 2) -> Fold:
    """Make queries from scikit-learn's images of handwritten digits; the grade is the digit.

    scikit-learn has 1,797 images of 8 x 8 pixels: the test part of UCI's Optical Recognition of
    Handwritten Digits. No image is in two parts.

    Args:
        seed: seed of the split and of the queries.
        size: number of images per query.
        times: number of queries in which each image of a part is used. The few images that are
            left after the last full query are not used.

    Returns:
        Three parts with 64 pixels from 0 (paper) to 1 (ink) as features. `docids` are the numbers
        of the images in `sklearn.datasets.load_digits`.

    >>> fold = digits_fold()
    >>> fold.train, fold.test
    (Queries('digits/train': 58 queries, 2088 documents, 64 features), \
Queries('digits/test': 20 queries, 720 documents, 64 features))
    """
    from sklearn.datasets import load_digits

    pixels, digits = load_digits(return_X_y=True)
    ink = pixels / _DARKEST
    generator = np.random.default_rng(seed)
    part_ends = np.cumsum([round(share * len(pixels)) for share in SHARES.values()])
    names = [f"pixel_{row}_{column}" for row in range(SIDE) for column in range(SIDE)]
    images_of_parts = np.split(generator.permutation(len(pixels)), part_ends[:-1])
    queries_of_parts = {}
    for part, images in zip(SHARES, images_of_parts, strict=True):
        # Only full queries are used, so that no query has an image twice.
        n_used = len(images) // size * size
        docs = np.concatenate([generator.permutation(images)[:n_used] for _ in range(times)])
        queries_of_parts[part] = Queries.from_arrays(
            ink[docs],
            digits[docs],
            group=np.full(len(docs) // size, size),
            docids=docs.astype(np.str_).tolist(),
            feature_names=names,
            source=f"digits/{part}",
        )
    return Fold(**queries_of_parts)
