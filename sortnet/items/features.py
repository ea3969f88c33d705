"""Features for items that come without any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sortnet.items.base import Items
from sortnet.items.images import IMAGE_FEATURES, image_features
from sortnet.items.texts import SURFACE, surface_features, topic_features
from sortnet.types import F32, Progress

Block = tuple[F32, tuple[str, ...]]
_SAME = 1e-5  # relative; smaller differences are rounding
MADE = ("text: ", "image: ")  # prefixes of the names of made features


def describe(
    items: Items, *, embed: bool = False, seed: int = 0, progress: Progress = lambda text: None
) -> Items:
    """Add features of the items' texts and images to those they have.

    Texts get `surface_features` and `topic_features`, and sentence embeddings where `embed`
    asks for them; images get `image_features`. Sounds get none: their scores are learned item by
    item. Columns that are constant are left out.

    Raises:
        DataError: on an image that is broken; if `embed` is asked for and not installed.

    Called again, it recomputes the made features (named `text: ...` and `image: ...`): the topics
    of a text depend on the other texts.

    Cost: 1.5 s for 1,000 short texts, 10 s for 1,000 photos.

    >>> import numpy as np
    >>> texts = ("a cat", "a dog and a cat", "Why?")
    >>> none = np.empty((3, 0), np.float32)
    >>> items = Items(("x", "y", "z"), texts, (None,) * 3, (None,) * 3, none, ())
    >>> describe(items).feature_names[:2]
    ('text: log characters', 'text: log words')
    """
    items = given_only(items)
    blocks = [(items.features, items.feature_names)]
    blocks += (_varied(*block) for block in _blocks(items, embed, seed, progress))
    names = tuple(name for _, names in blocks for name in names)
    features = np.concatenate([matrix for matrix, _ in blocks], axis=1)
    return replace(items, features=features, feature_names=names)


def given_only(items: Items) -> Items:
    """The items without the features that `describe` made."""
    kept = [k for k, name in enumerate(items.feature_names) if not name.startswith(MADE)]
    names = tuple(items.feature_names[k] for k in kept)
    return replace(items, features=items.features[:, kept], feature_names=names)


def _blocks(items: Items, embed: bool, seed: int, progress: Progress) -> Iterator[Block]:
    if any(items.texts):
        progress("surface of the texts")
        yield _called("text", surface_features(items.texts), SURFACE)
        progress("topics of the texts")
        yield _called("text", *topic_features(items.texts, seed=seed))
        if embed:
            from sortnet.items.embed import embedding_features

            yield _called("text", *embedding_features(items.texts, progress=progress))
    if any(items.images):
        root = items.root or Path()
        found = image_features(items.images, root, source=items.source, progress=progress)
        yield _called("image", found, IMAGE_FEATURES)


def _called(kind: str, features: F32, names: Sequence[str]) -> Block:
    return features, tuple(f"{kind}: {name}" for name in names)


def _varied(features: F32, names: tuple[str, ...]) -> Block:
    """The columns that vary among the values present."""
    there = ~np.isnan(features)
    low = np.where(there, features, np.inf).min(axis=0, initial=np.inf)
    high = np.where(there, features, -np.inf).max(axis=0, initial=-np.inf)
    kept = high - low > _SAME * np.maximum(1, np.abs(high))
    return features[:, kept], tuple(np.asarray(names, object)[kept])
