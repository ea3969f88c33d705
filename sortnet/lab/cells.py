"""A cell of an experiment: one ranker on one division of the data, tuned, fitted and tested.

Any process on any machine can work a cell out, as it reads its data itself. A result is the ranking
of the test documents: every measure under every convention follows from it without training again.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from sortnet import __version__
from sortnet.config import choose_quality
from sortnet.core import I64
from sortnet.data.read import Fold
from sortnet.files import fingerprint
from sortnet.lab.entries import Entry
from sortnet.lab.splits import Split
from sortnet.learning.iterations import Iteration
from sortnet.rankers.base import Ranker
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.rankers.tuning import tune

# Makes values of JSON from a ranker, its data and its iterations, which most kinds do not have.
Observer: TypeAlias = Callable[[Ranker, Fold, list[Iteration]], dict[str, Any]]


@dataclass(frozen=True)
class Cell:
    """What is worked out; the same for everybody who compares rankers.

    Attributes:
        ranker: what is fitted, and what of its settings is searched.
        split: where the data come from.
        seed: seed of the ranker.
        quality: RankQuality, which chooses; None: by the grades, see `choose_quality`.
        relevant_from: the lowest grade that is relevant.
        binarise: whether training and validation grades become relevant or not.
        inner: parts of an inner cross-validation; 0: the validation part chooses.
        search: how settings are searched, see `tune`.
        trials, seconds: the search's budget.
        observe: what else is looked at, a function of `sortnet.lab.observers`.
    """

    ranker: Entry
    split: Split
    seed: int = 0
    quality: str | None = None
    relevant_from: int = 1
    binarise: bool = False
    inner: int = 0
    search: str = "grid"
    trials: int | None = None
    seconds: float | None = None
    observe: Observer | None = None

    @property
    def name(self) -> str:
        return f"{self.ranker.name} on {self.split.name}"

    def to_json(self) -> dict[str, Any]:
        """The cell as a store keeps it; it is identified by these values."""
        return {
            **vars(self),
            "ranker": self.ranker.to_json(),
            "split": self.split.to_json(),
            "observe": None if self.observe is None else self.observe.__name__,
        }


@dataclass(frozen=True, eq=False)
class Result:
    """The result of a cell.

    Attributes:
        order: (n_docs,) the test documents' numbers, query by query, the best first.
        about: `settings` chosen, their `trials`, RankQuality on the validation part as `quality`,
            CPU `seconds` of reading, tuning, fitting and ranking, `observed`.
    """

    order: I64
    about: dict[str, Any] = field(default_factory=dict)


def work_out(cell: Cell, *, cache: Path | None = None) -> Result:
    """Read the data, tune, fit with the settings chosen, and rank the test part.

    Raises:
        SortNetError: if the data or the settings cannot be used.

    Cost: that of tuning and one more fit.
    """
    seconds: dict[str, float] = {}
    with _timed(seconds, "read"):
        fold = learnable(cell, cache)
    assert fold.test is not None
    level = 1 if cell.binarise else cell.relevant_from
    settings = cell.ranker.settings(seed=cell.seed, quality=cell.quality, relevant_from=level)
    settings = choose_quality(fold.train, fold.vali, settings)
    with _timed(seconds, "tune"):
        tuned = tune(
            fold.train, fold.vali, settings, grid=cell.ranker.grids, inner=cell.inner,
            search=cell.search, trials=cell.trials, seconds=cell.seconds,
        )  # fmt: skip
    history: list[Iteration] = []
    options: dict[str, Any] = {}
    if settings.kind == "sortnet":
        options["callbacks"] = [lambda record, state: history.append(record)]
    with _timed(seconds, "fit"):
        ranker = fit_ranker(fold.train, fold.vali, tuned.config, **options)
    with _timed(seconds, "rank"):
        order = ranker.order(fold.test)
    about = {
        "settings": ranker.config.to_json(),
        "quality": ranker.info["quality"],
        "trials": tuned.trials,
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
    }
    if cell.observe is not None:
        about["observed"] = cell.observe(ranker, fold, history)
    return Result(order, about)


def learnable(cell: Cell, cache: Path | None = None) -> Fold:
    """The data of a cell; training and validation grades are binary if the cell says so.

    The test part keeps its grades, as a convention decides how they are used.
    """
    fold = cell.split.load(cache)
    if not cell.binarise:
        return fold
    train, vali = (
        replace(part, grades=(part.grades >= cell.relevant_from).astype(np.int32))
        for part in (fold.train, fold.vali)
    )
    return replace(fold, train=train, vali=vali)


def keys_of(cells: Sequence[Cell]) -> list[str]:
    """A SHA-256 of each cell and the bytes of its data, in hexadecimal digits.

    Cost: each file is read once.
    """
    files = {file for cell in cells for file in cell.split.files}
    fingerprints = {str(file): fingerprint(file) for file in sorted(files)}

    def key(cell: Cell) -> str:
        values = cell.to_json()
        # A cell is found again wherever its files lie.
        for name in ("folder", "file"):
            values["split"].pop(name, None)
        values["files"] = [fingerprints[str(file)] for file in cell.split.files]
        values["sortnet"] = __version__  # another version may rank otherwise
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()

    return [key(cell) for cell in cells]


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    """CPU seconds of all threads: cells that run side by side do not slow each other in them."""
    began = time.process_time()
    yield
    seconds[name] = time.process_time() - began
