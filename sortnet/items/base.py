"""Items of a collection: what annotators see, and the features."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sortnet.types import F32


@dataclass(frozen=True, eq=False)
class Items:
    """Items to be sorted, numbered from 0.

    Attributes:
        ids: (n,) their names, unique.
        texts: (n,) texts, or None.
        images: (n,) image files relative to `root`, or None.
        audio: (n,) sound files relative to `root`, or None.
        features: (n, d) float32, d may be 0; NaN where a value is missing.
        feature_names: (d,) names.
        root: the folder of images and sounds; nothing outside it is ever shown.
        source: where the items came from, for messages.
    """

    ids: tuple[str, ...]
    texts: tuple[str | None, ...]
    images: tuple[str | None, ...]
    audio: tuple[str | None, ...]
    features: F32
    feature_names: tuple[str, ...]
    root: Path | None = None
    source: str = "items"

    def __len__(self) -> int:
        return len(self.ids)
