"""Splits describe data and how they are divided, so that any process can read the parts.

The data are folds, files, synthetic classes with Gaussian features, or reduced real data.
"""

from __future__ import annotations

import glob
import math
from dataclasses import KW_ONLY, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from sortnet.core import F32, I32, I64, NamedColumns, Queries
from sortnet.core.named_columns import UNNAMED
from sortnet.data.divide import drawn_parts, hold_out, joined, refuse_shared
from sortnet.data.parts import by_hash, read_divided
from sortnet.data.read import Fold, digits_fold, file_of, read_fold
from sortnet.errors import DataError
from sortnet.files import data_files, kind_of

_LIST = 100  # mean number of documents of a training query
_SEED = 11  # first part of all seeds of `MadeClasses`
_SEED_OF_SHARE = 12  # first part of all seeds of `TrainingShare`


class Split:
    """Base class of frozen dataclasses that read a training, a validation and a test part.

    Attributes:
        name: the name of the split in tables; different for each split of an experiment.
    """

    @property
    def name(self) -> str:
        raise NotImplementedError

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that `load` reads; none unless the split has the path of its `data`."""
        data = getattr(self, "data", None)
        if data is None:
            return ()
        return tuple(data_files(data)) if is_one_file(data) else _parts_of(data)

    def load(self) -> Fold:
        """Read the three parts.

        Raises:
            DataError: if the data cannot be read, or a query is in two parts.
        """
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """Describe the split as JSON by the name of its class and its fields."""
        values = {"kind": type(self).__name__, **vars(self)}
        columns = values.pop("columns", UNNAMED)
        # Older stored results have no such field. It is left out if no columns are named, so that
        # these results are still found.
        if columns != UNNAMED:
            values["columns"] = columns.to_json()
        return values


@dataclass(frozen=True)
class OfficialFold(Split):
    """A fold whose three parts are in a folder that `sortnet.data.read.read_fold` can read.

    Attributes:
        data: path of the folder.
        columns: names of the columns, if the parts are tables.
    """

    data: str
    _: KW_ONLY
    columns: NamedColumns = UNNAMED

    @property
    def name(self) -> str:
        return Path(self.data).name

    def load(self) -> Fold:
        """Read the three parts of the folder; refuse a query that is in two parts."""
        fold = read_fold(self.data, columns=self.columns)
        for a, b in combinations(_list_parts(fold), 2):
            refuse_shared(a, b)
        return fold


@dataclass(frozen=True)
class DividedFile(Split):
    """One file of queries, divided as `sortnet train` divides it.

    Attributes:
        data: path of the file, or a pattern of the paths of several files.
        seed: seed of the division.
        columns: names of the columns, if the file is a table.
    """

    data: str
    seed: int
    _: KW_ONLY
    columns: NamedColumns = UNNAMED

    @property
    def name(self) -> str:
        return Path(self.data).name

    def load(self) -> Fold:
        return read_divided(self.data, by_hash(self.seed), columns=self.columns)


@dataclass(frozen=True)
class HoldOut(Split):
    """A random division of all queries of a fold, whose parts are joined first, or of one file.

    Attributes:
        data: path of the folder of the fold, or of a file, or a pattern of the paths of files.
        number: number of the division, from 1; the division depends on it and on `seed`.
        test: share of the queries in the test part.
        vali: share of the remaining queries in the validation part.
        seed: seed of all divisions.
        columns: names of the columns, if the data are tables.
    """

    data: str
    number: int
    test: float
    vali: float
    seed: int
    _: KW_ONLY
    columns: NamedColumns = UNNAMED

    @property
    def name(self) -> str:
        return f"split {self.number}"

    def load(self) -> Fold:
        seed = (self.seed, self.number)  # so that two seeds share no division
        if is_one_file(self.data):
            return read_divided(
                self.data,
                lambda names: drawn_parts(len(names), self.test, self.vali, seed=seed),
                columns=self.columns,
            )
        fold = OfficialFold(self.data, columns=self.columns).load()
        return hold_out(joined(_list_parts(fold)), self.test, self.vali, seed=seed)


def is_one_file(data: str) -> bool:
    """Whether `data` is the path of a file or a pattern of several paths, and not a folder."""
    return Path(data).is_file() or (not Path(data).exists() and glob.has_magic(data))


def folds_of(folder: str, columns: NamedColumns = UNNAMED) -> list[OfficialFold]:
    """List the folds in a folder, or the folder itself if it has the parts of one fold.

    Args:
        folder: path of the folder.
        columns: names of the columns, if the folds are tables.

    Raises:
        DataError: if the folder has no fold, or a fold lacks a part.
    """
    path = Path(folder)
    if not path.is_dir():
        fault = f"is {kind_of(path)}, not a folder of folds" if path.exists() else "no such folder"
        raise DataError(f"{folder}: {fault}")
    if file_of(path, "train"):
        folds = [path]
    else:
        subfolders = sorted(filter(Path.is_dir, path.iterdir()))
        folds = [subfolder for subfolder in subfolders if file_of(subfolder, "train")]
    if not folds:
        raise DataError(f"{folder}: there are no folds in it: folders with train.txt, vali.txt ...")
    for fold in folds:
        _parts_of(str(fold))
    return [OfficialFold(str(fold), columns=columns) for fold in folds]


def with_binary_grades(queries: Queries, relevant_from: int) -> Queries:
    """Replace the grades of queries by 1 from the lowest relevant grade on, and by 0 below."""
    return replace(queries, grades=(queries.grades >= relevant_from).astype(np.int32))


def _parts_of(folder: str) -> tuple[Path, ...]:
    """Find the training, validation and test file of a fold; raise DataError if one is missing."""
    files = {part: file_of(Path(folder), part) for part in ("train", "vali", "test")}
    for part, file in files.items():
        if file is None:
            raise DataError(f"{folder}: there is no {part}.txt: an experiment takes all three")
    return tuple(file for file in files.values() if file is not None)


def _list_parts(fold: Fold) -> list[Queries]:
    """List the training, validation and test part of a fold."""
    assert fold.test is not None
    return [fold.train, fold.vali, fold.test]


@dataclass(frozen=True)
class MadeClasses(Split):
    """Synthetic documents whose features are normal within each class.

    The method is from Köppel et al. 2025, section 4.5. For each class and feature the mean is drawn
    from U(0, 100), and the standard deviation from U(50, 100). The training documents are divided
    into queries of about 100. The documents for validation and for testing are drawn independently
    from the same distributions; queries are random subsets of them.

    Attributes:
        classes: number of classes. The class, from 0, is the grade; all are equally frequent.
        features: number of features of a document.
        noise: standard deviation of the noise on the grades of all parts. A noisy grade is rounded,
            and clipped to the grades from 0 to `classes - 1`.
        n_train: number of training documents.
        n_test: number of documents from which the test queries are drawn, and of documents from
            which the validation queries are drawn.
        seed: seed of the draw.
        label_ratio: share of the documents in the upper half of the classes that is kept in the
            training and validation part (section 4.6).
        lists: number of validation queries, and of test queries.
        shortest: least number of documents of a validation or test query.
        longest: largest number of documents of a validation or test query.
    """

    classes: int = 5
    features: int = 70
    noise: float = 0.0
    n_train: int = 100_000
    n_test: int = 10_000
    seed: int = 0
    label_ratio: float = 1.0
    lists: int = 50
    shortest: int = 50
    longest: int = 150

    @property
    def name(self) -> str:
        values = (f"{value:g}" for name, value in vars(self).items() if name != "seed")
        return f"made {'-'.join(values)}, draw {self.seed}"

    def load(self) -> Fold:
        """Draw the three parts.

        Each step has its own random generator, numbered from 0 to 8, so that `noise`, `label_ratio`
        and `n_train` do not change the test documents. A step keeps its number, because another
        number would draw other data.
        """
        # Draw the distributions of the features.
        rng = self._rng_of_step(0)
        means = rng.uniform(0, 100, (self.classes, self.features)).astype(np.float32)
        deviations = rng.uniform(50, 100, means.shape).astype(np.float32)

        # Draw the documents of each part.
        train = self._draw_documents(means, deviations, self.n_train, self._rng_of_step(1))
        vali = self._draw_documents(means, deviations, self.n_test, self._rng_of_step(2))
        test = self._draw_documents(means, deviations, self.n_test, self._rng_of_step(3))

        # Divide the documents into queries, which are lists of document numbers.
        _, train_grades = train
        _, vali_grades = vali
        kept_docs = self._kept_docs(train_grades, self._rng_of_step(5))
        train_docs = self._rng_of_step(4).permutation(kept_docs)
        n_train_queries = math.ceil(len(train_docs) / _LIST)
        train_lists = np.array_split(train_docs, n_train_queries)
        vali_docs = self._kept_docs(vali_grades, self._rng_of_step(6))
        vali_lists = self._random_lists(vali_docs, self._rng_of_step(7))
        test_lists = self._random_lists(np.arange(self.n_test), self._rng_of_step(8))
        return Fold(
            _queries(train, train_lists, "train"),
            _queries(vali, vali_lists, "vali"),
            _queries(test, test_lists, "test"),
        )

    def _rng_of_step(self, step: int) -> np.random.Generator:
        """Make the random generator of one step of `load`."""
        return np.random.default_rng([_SEED, self.seed, step])

    def _draw_documents(
        self, means: F32, deviations: F32, n_docs: int, rng: np.random.Generator
    ) -> tuple[F32, I32]:
        """Draw the features (n_docs, features) of documents, and their noisy grades (n_docs,).

        Args:
            means: (classes, features) mean of each feature in each class.
            deviations: (classes, features) standard deviation of each feature in each class.
            n_docs: number of documents.
            rng: the random generator.
        """
        classes = rng.integers(self.classes, size=n_docs, dtype=np.int32)
        noise = self.noise * rng.standard_normal(n_docs)
        features = rng.standard_normal((n_docs, self.features), dtype=np.float32)
        features *= deviations[classes]
        features += means[classes]
        grades = np.clip(np.rint(classes + noise), 0, self.classes - 1).astype(np.int32)
        return features, grades

    def _kept_docs(self, grades: I32, rng: np.random.Generator) -> I64:
        """Draw the documents that are kept with this `label_ratio`; return their numbers."""
        if self.label_ratio == 1:
            return np.arange(len(grades))
        return thinned(grades, self.classes // 2, self.label_ratio, rng)

    def _random_lists(self, docs: I64, rng: np.random.Generator) -> list[I64]:
        """Draw random subsets of the documents, with random sizes."""
        sizes = rng.integers(self.shortest, self.longest + 1, self.lists)
        return [rng.choice(docs, min(size, len(docs)), replace=False) for size in sizes]


def thinned(grades: I32, lowest: int, share: float, rng: np.random.Generator) -> I64:
    """Draw a share of the documents of each grade from `lowest` on, and keep all lower grades.

    Args:
        grades: (n_docs,) the grades of the documents.
        lowest: the lowest grade whose documents are reduced.
        share: share of the documents of a reduced grade that is kept, at least one document.
        rng: the random generator.

    Returns:
        The numbers of the documents that are kept, ascending.

    >>> grades = np.repeat(np.arange(4, dtype=np.int32), 10)
    >>> docs = thinned(grades, 2, 0.3, np.random.default_rng(0))
    >>> np.bincount(grades[docs]).tolist()
    [10, 10, 3, 3]
    """
    docs_by_grade = [np.flatnonzero(grades < lowest)]
    for grade in np.unique(grades[grades >= lowest]):
        docs = np.flatnonzero(grades == grade)
        n_docs = max(1, round(share * len(docs)))
        docs_by_grade.append(rng.permutation(docs)[:n_docs])
    return np.sort(np.concatenate(docs_by_grade))


def _queries(documents: tuple[F32, I32], lists: list[I64], part: str) -> Queries:
    """Make Queries of features and grades, given the document numbers of each query as a list."""
    docs = np.concatenate(lists)
    features, grades = documents
    return Queries.from_arrays(
        features[docs],
        grades[docs],
        group=[len(docs_of_query) for docs_of_query in lists],
        source=f"made/{part}",
    )


@dataclass(frozen=True)
class TrainingShare(OfficialFold):
    """A fold whose training part is reduced to a random share.

    Attributes:
        data: the folder of the fold, see `OfficialFold`.
        share: share of the training queries that is kept, drawn at random; at least one query.
        label_ratio: share of the training documents in the upper half of the grades that is kept
            (Köppel et al. 2025, section 4.6).
        seed: seed of the draw.
    """

    share: float = 1.0
    label_ratio: float = 1.0
    seed: int = 0

    @property
    def name(self) -> str:
        name = f"{self.share:g} of {super().name}"
        if self.label_ratio < 1:
            name += f", {self.label_ratio:g} of the upper grades"
        return name

    def load(self) -> Fold:
        """Read the fold, and draw the share of its training queries and training documents."""
        fold = super().load()
        rng = np.random.default_rng([_SEED_OF_SHARE, self.seed])
        n_queries = max(1, round(self.share * len(fold.train)))
        drawn_queries = rng.permutation(len(fold.train))[:n_queries]
        train = fold.train.take(np.sort(drawn_queries))
        if self.label_ratio < 1:
            upper_half_from = (int(train.grades.max()) + 1) // 2
            docs = thinned(train.grades, upper_half_from, self.label_ratio, rng)
            train = train.only(np.isin(np.arange(train.n_docs), docs))
        return replace(fold, train=train)


@dataclass(frozen=True)
class Digits(Split):
    """Queries of handwritten digits, made by `sortnet.data.read`."""

    seed: int = 0

    @property
    def name(self) -> str:
        return f"digits, draw {self.seed}"

    def load(self) -> Fold:
        return digits_fold(self.seed)
