"""Helpers for tests of collections: items, questions, answers, a clock that is set by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sortnet.core import F32
from sortnet.items import Items
from sortnet.preference import Judgement, Question
from sortnet.preference.base import Word
from sortnet.preference.study import Decision
from store import Collection, Lease, Store
from store.service.labelling import LabellingService

# A test of a rule that no SQL decides needs no second database.
ON_SQLITE = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


class Clock:
    """A clock that stands still until a test moves it, in seconds since 1970."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def made_items(n: int, *, d: int = 2, first: int = 0, **changes: Any) -> Items:
    """Make n items with random features, named i<first> and so on."""
    numbers = range(first, first + n)
    features: F32 = np.random.default_rng(first).normal(size=(n, d)).astype(np.float32)
    facts: dict[str, Any] = {
        "ids": tuple(f"i{k}" for k in numbers),
        "texts": tuple(f"text {k}" for k in numbers),
        "images": (None,) * n,
        "audio": (None,) * n,
        "features": features,
        "feature_names": tuple(f"f{k}" for k in range(d)),
        "root": None,
        "source": "made.csv",
    }
    return Items(**{**facts, **changes})


def question(left: int, right: int, **changes: Any) -> Question:
    facts = {"strategy": "informative", "probability": 0.25, "model": 7, **changes}
    return Question((left, right), **facts)


def answer_lease(
    to: Collection | LabellingService,
    lease: Lease | str,
    who: str,
    answer: Word = "left",
    milliseconds: int | None = None,
) -> Judgement:
    """Answer the question under a lease, and return the stored judgement."""
    collection = to.collection if isinstance(to, LabellingService) else to
    id = lease if isinstance(lease, str) else lease.id
    asked = collection.question(id) if isinstance(lease, str) else lease.question
    return to.answer(id, asked.answered(who, answer, milliseconds=milliseconds)).judgement


def set_question(*items: int, **changes: Any) -> Question:
    """A question about more than two items."""
    return replace(question(0, 1, **changes), items=tuple(items))


def sets_of(store: Store, items: Items, size: int = 4) -> Collection:
    """Add a collection that asks about sets of one size, without hold-out and repeats."""
    collection = store.add_items("sets", items, settings={"holdout": 0, "repeats": 0})
    collection.decide(Decision("set-size", amount=size))
    return collection


def choices_of(collection: Collection) -> list[tuple[object, ...]]:
    """Return answer, place of the best and of the worst item (from 1) of each judgement."""
    return [
        (one.word, *(None if k is None else one.items.index(k) + 1 for k in (one.best, one.worst)))
        for one in collection.judgements()
    ]


def sqlite_url(folder: Path) -> str:
    return f"sqlite:///{folder}/store.db"
