"""Items: the things of a pile, as people see them and as the comparator does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sortnet.types import F32


@dataclass(frozen=True, eq=False)
class Items:
    """Things to be sorted, numbered from 0.

    Attributes:
        ids: (n,) their names, each once.
        texts: (n,) what is read, where there is any.
        images: (n,) image files, relative to `root`.
        audio: (n,) sound files, relative to `root`.
        features: (n, d) float32, d may be 0; NaN where a value is missing.
        feature_names: (d,) names.
        root: the folder that images and sounds lie in; nothing outside it is ever shown.
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
