"""Helpers that make items and rankers of items."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from sortnet.config import Config, LoopTraining
from sortnet.core import Queries
from sortnet.items import Describer, Items
from sortnet.rankers.model import Model

FAST = {
    "committee": 1,
    "hidden": (3,),
    "max_iter": 2,
    "pairs": "compared",
    "training": LoopTraining(epochs=20, weight_decay=0.01, batch_size=64),
    "scaling": "standard",
}
PLAIN = "the a of bread water table house road"
GOOD = "splendid brilliant superb marvellous"


def items_of(texts=None, images=None, features=None, root=None) -> Items:
    n = len(texts or images or features)
    none = (None,) * n
    matrix = np.asarray(features if features is not None else np.empty((n, 0)), np.float32)
    names = tuple(f"f{k}" for k in range(matrix.shape[1]))
    ids = tuple(f"i{k}" for k in range(n))
    return Items(ids, tuple(texts or none), tuple(images or none), none, matrix, names, root)


def essays(n: int, seed: int = 0) -> Items:
    """Make texts of 12 words; the number of good words is their `goodness`."""
    rng = np.random.default_rng(seed)
    shares = rng.integers(0, 13, n)
    texts = [
        " ".join(
            rng.permutation([*rng.choice(GOOD.split(), k), *rng.choice(PLAIN.split(), 12 - k)])
        )
        for k in shares
    ]
    return items_of(texts)


def goodness(items: Items) -> np.ndarray:
    return np.array([sum(word in GOOD.split() for word in text.split()) for text in items.texts])


def photo(folder: Path, name: str, *, seed: int, light: float | None = None) -> str:
    """Save a picture of coloured noise with the given lightness, and return its name."""
    rng = np.random.default_rng(seed)
    pixels = rng.random((24, 32, 3)) * 80 + 170 * (rng.random() if light is None else light)
    Image.fromarray(pixels.astype(np.uint8)).save(folder / name)
    return name


def ranker_of(items: Items, grades=None, made: bool | None = None, **columns: str) -> Model:
    """Fit a model of the items that keeps their describer, as `sortnet train` does."""
    from sortnet.rankers.sortnet import fit  # needs torch, which few importers of this module do

    describer, described = Describer.fit_apply(items, made=made, columns=columns)
    y = goodness(items) if grades is None else grades
    queries = Queries.from_arrays(
        described.features, y, docids=items.ids, feature_names=described.feature_names
    )
    return replace(fit(queries, queries, Config(**FAST)), describer=describer)


class LanguageModel:
    """Embeds a text as its length, its number of a's and 1."""

    calls = 0

    def encode(self, texts: list[str], show_progress_bar: bool) -> np.ndarray:
        self.calls += 1
        return np.array([[len(text) / 100, text.count("a") / 100, 1] for text in texts], "f4")
