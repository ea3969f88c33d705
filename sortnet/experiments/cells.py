"""A cell of an experiment: one ranker on one division of the data, tuned, fitted and tested.

A cell and its result are values of JSON and one array, so that any process on any machine can work
a cell out, and a store can keep what came of it. A result is the ranking of the test documents:
every measure under every convention follows from it without training again.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from sortnet import __version__
from sortnet.config import choose_quality
from sortnet.data.read import Fold
from sortnet.experiments import splits
from sortnet.experiments.entries import entry_of, grid_of
from sortnet.experiments.splits import Split, binarised
from sortnet.experiments.tuning import Budget, tune
from sortnet.files import fingerprint
from sortnet.learning.loop import Iteration
from sortnet.rankers.base import Ranker, fit_ranker
from sortnet.types import I64


@dataclass(frozen=True)
class Cell:
    """What is worked out; the same for everybody who compares rankers.

    Attributes:
        ranker: an entry's name, see `sortnet.experiments.entries`.
        split: where the data come from.
        seed: of the ranker.
        quality: RankQuality, which chooses; None: by the grades, see `choose_quality`.
        relevant_from: the lowest grade that is relevant.
        binarise: whether training and validation grades become relevant or not.
        inner: parts of an inner cross-validation; 0: the validation part chooses.
        grid: what is searched, see `grid_of`; none: the grid of the ranker's kind.
        search: how settings are searched, see `tune`.
        trials, seconds: the search's budget.
        observe: what else is looked at, a function of `sortnet.experiments.observers`.
    """

    ranker: str
    split: Split
    seed: int = 0
    quality: str | None = None
    relevant_from: int = 1
    binarise: bool = False
    inner: int = 0
    grid: tuple[str, ...] = ()
    search: str = "grid"
    trials: int | None = None
    seconds: float | None = None
    observe: str | None = None

    @property
    def name(self) -> str:
        return f"{self.ranker} on {self.split.name}"

    def to_json(self) -> dict[str, Any]:
        own = {name: value for name, value in vars(self).items() if name != "split"}
        return {**own, "split": splits.to_json(self.split)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Cell:
        typed = {"split": splits.from_json(values["split"]), "grid": tuple(values["grid"])}
        return cls(**{**values, **typed})


@dataclass(frozen=True, eq=False)
class Result:
    """What came of a cell.

    Attributes:
        order: (n_docs,) the test documents' numbers, query by query, the best first.
        about: `settings` chosen, their `trials`, RankQuality on the validation part as `quality`,
            CPU `seconds` of reading, tuning, fitting and ranking, `observed`.
    """

    order: I64
    about: dict[str, Any] = field(default_factory=dict)


# Of the ranker, its data and the iterations that made it, none of most kinds; to JSON.
Observer = Callable[[Ranker, Fold, list[Iteration]], dict[str, Any]]
_OBSERVERS = "sortnet.experiments.observers"


def work_out(cell: Cell, *, cache: Path | None = None) -> Result:
    """Read the data, tune, fit with the settings chosen, and rank the test part.

    Raises:
        SortNetError: if the data or the settings cannot be used.

    Cost: that of tuning and one more fit.
    """
    entry, seconds = entry_of(cell.ranker), dict[str, float]()
    with _timed(seconds, "read"):
        fold = learnable(cell, cache)
    assert fold.test is not None
    level = 1 if cell.binarise else cell.relevant_from
    settings = entry.settings(seed=cell.seed, quality=cell.quality, relevant_from=level)
    settings = choose_quality(fold.train, fold.vali, settings)
    grid: Any = grid_of(entry.kind, cell.grid) or (None if entry.tuned else [])
    with _timed(seconds, "tune"):
        tuned = tune(
            fold.train, fold.vali, settings, grid=grid, inner=cell.inner, search=cell.search,
            budget=Budget(cell.trials, cell.seconds),
        )  # fmt: skip
    history: list[Iteration] = []
    own: dict[str, Any] = {}
    if entry.kind == "sortnet":
        own["callbacks"] = [lambda record, state: history.append(record)]
    with _timed(seconds, "fit"):
        ranker = fit_ranker(fold.train, fold.vali, tuned.config, **own)
    with _timed(seconds, "rank"):
        order = ranker.order(fold.test)
    about = {
        "settings": ranker.config.to_json(),
        "quality": ranker.info["quality"],
        "trials": tuned.trials,
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
    }
    if cell.observe is not None:
        about["observed"] = _observer(cell.observe)(ranker, fold, history)
    return Result(order, about)


def learnable(cell: Cell, cache: Path | None = None) -> Fold:
    """The data of a cell; the grades to learn from and to choose by are made binary if it says so.

    The test part keeps its grades: a convention decides what becomes of them.
    """
    fold = cell.split.load(cache)
    if not cell.binarise:
        return fold
    return replace(
        fold,
        train=binarised(fold.train, cell.relevant_from),
        vali=binarised(fold.vali, cell.relevant_from),
    )


def keys_of(cells: Sequence[Cell]) -> list[str]:
    """What identifies each cell and its data's bytes: SHA-256, in hexadecimal digits.

    Cost: each file is read once.
    """
    files = {file for cell in cells for file in cell.split.files}
    known = {str(file): fingerprint(file) for file in sorted(files)}

    def key(cell: Cell) -> str:
        # Found again wherever the files lie; a new version may rank otherwise.
        read = [known[str(file)] for file in cell.split.files]
        settings = entry_of(cell.ranker).settings().to_json()
        said = {**cell.to_json(), "files": read, "sortnet": __version__, "settings": settings}
        said["split"] = {name: v for name, v in said["split"].items() if name != "folder"}
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    return [key(cell) for cell in cells]


def _observer(name: str) -> Observer:
    found: Observer = getattr(import_module(_OBSERVERS), name)
    return found


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    """CPU seconds of all threads: cells that run side by side do not slow each other in them."""
    began = time.process_time()
    yield
    seconds[name] = time.process_time() - began
