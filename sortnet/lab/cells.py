"""A cell of an experiment: one ranker on one division of the data, tuned, fitted and tested.

Any process on any machine can compute a cell, because a cell describes where its data are. The
result is the ranking of the test documents. All measures under all conventions can be computed from
the ranking without training again.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from sortnet import __version__
from sortnet.config import choose_quality
from sortnet.core import I64
from sortnet.data.read import Fold
from sortnet.files import fingerprint
from sortnet.lab.entries import Entry
from sortnet.lab.splits import Split, with_binary_grades
from sortnet.learning.iterations import Iteration
from sortnet.rankers.base import Ranker
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.rankers.tuning import tune

# Computes further values, as JSON, from a fitted ranker, its data and its training iterations. The
# list of iterations is empty for all kinds of rankers but `sortnet`.
Observer: TypeAlias = Callable[[Ranker, Fold, list[Iteration]], Any]


@dataclass(frozen=True)
class Cell:
    """One ranker to be tuned, fitted and tested on one division of the data.

    Attributes:
        ranker: the ranker, its settings, and the settings to be searched.
        split: the data and their division into parts.
        seed: seed of the ranker.
        quality: RankQuality that chooses settings and models. If None, the grades decide, see
            `choose_quality`.
        relevant_from: the lowest relevant grade.
        binarise: whether training and validation grades become 1 (relevant) and 0.
        inner: number of parts of an inner cross-validation that chooses the settings. With 0 the
            validation part chooses the settings.
        search: the method of the search, see `tune`.
        trials: largest number of settings that the search tries; None for no limit.
        seconds: seconds after which the search tries no other settings; None for no limit.
        observe: a function of `sortnet.lab.study_points` that computes further values; or None.
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
        """Describe the cell as JSON; a store identifies the cell by this description."""
        return {
            **vars(self),
            "ranker": self.ranker.to_json(),
            "split": self.split.to_json(),
            "observe": None if self.observe is None else self.observe.__name__,
        }


@dataclass(frozen=True, eq=False)
class Result:
    """The result of a cell: the ranking of the test documents, and facts about the fit.

    Attributes:
        order: (n_docs,) numbers of the test documents, query by query, the best first.
        about: facts about the result: the chosen `settings`, the `trials` of the search, the
            RankQuality on the validation part as `quality`, the CPU `seconds` of reading, tuning,
            fitting and ranking, and, if the cell has an observer, its values as `observed`.
    """

    order: I64
    about: dict[str, Any] = field(default_factory=dict)


def work_out(cell: Cell) -> Result:
    """Compute a cell: read the data, tune and fit the ranker, and rank the test part.

    Raises:
        SortNetError: if the data or the settings cannot be used.

    Cost: tuning and one more fit.
    """
    seconds: dict[str, float] = {}
    with _timed(seconds, "read"):
        fold = learnable(cell)
    assert fold.test is not None
    relevant_from = 1 if cell.binarise else cell.relevant_from
    settings = cell.ranker.settings(
        seed=cell.seed, quality=cell.quality, relevant_from=relevant_from
    )
    settings = choose_quality(fold.train, fold.vali, settings)
    with _timed(seconds, "tune"):
        tuned = tune(
            fold.train, fold.vali, settings, grid=cell.ranker.grids, inner=cell.inner,
            search=cell.search, trials=cell.trials, seconds=cell.seconds,
        )  # fmt: skip
    history: list[Iteration] = []  # stays empty for other kinds of rankers
    options: dict[str, Any] = {}
    if settings.kind == "sortnet":
        options["callbacks"] = [lambda record, state: history.append(record)]
    with _timed(seconds, "fit"):
        ranker = fit_ranker(fold.train, fold.vali, tuned.config, **options)
    with _timed(seconds, "rank"):
        order = ranker.order(fold.test)
    description = {
        "settings": ranker.config.to_json(),
        "quality": ranker.info["quality"],
        "trials": tuned.trials,
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
    }
    if cell.observe is not None:
        description["observed"] = cell.observe(ranker, fold, history)
    return Result(order, description)


def learnable(cell: Cell) -> Fold:
    """Read the data of a cell; make training and validation grades binary if the cell says so.

    The test part keeps its grades, because each convention of evaluation uses them in its own way.
    """
    fold = cell.split.load()
    if not cell.binarise:
        return fold
    train = with_binary_grades(fold.train, cell.relevant_from)
    vali = with_binary_grades(fold.vali, cell.relevant_from)
    return replace(fold, train=train, vali=vali)


def keys_of(cells: Sequence[Cell]) -> list[str]:
    """Compute a key for each cell, under which its result is stored.

    The key is the SHA-256, in hexadecimal digits, of the cell's description and of its data.

    Cost: each file is read once.
    """
    files = {file for cell in cells for file in cell.split.files}
    fingerprints = {str(file): fingerprint(file) for file in sorted(files)}

    def key(cell: Cell) -> str:
        """Hash the cell's description and the fingerprints of its files."""
        values = cell.to_json()
        # The path is left out, so that the result is found again if the files have been moved.
        values["split"].pop("data", None)
        values["files"] = [fingerprints[str(file)] for file in cell.split.files]
        values["sortnet"] = __version__  # another version may compute another ranking
        text = json.dumps(values, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    return [key(cell) for cell in cells]


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    """Measure the CPU seconds of the `with` block, and store them as `seconds[name]`.

    CPU time, unlike wall time, hardly depends on other cells that are computed at the same time.
    """
    began = time.process_time()
    yield
    seconds[name] = time.process_time() - began
