"""Made data of the studies: Gaussian features by class, and real data of which a part is left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sortnet.core import F32, I32, I64, Queries
from sortnet.data.digits import digits_fold
from sortnet.data.read import Fold
from sortnet.lab.splits import OfficialFold, Split

_LIST = 100  # documents of a training query, in the mean


@dataclass(frozen=True)
class MadeClasses(Split):
    """Documents of classes that are Gaussian in every feature (Köppel et al. 2025, section 4.5).

    The mean of each class and feature is drawn from U(0, 100), the standard deviation from
    U(50, 100). The training documents are divided into queries of about 100; validation and test
    part are each drawn alike and independently, and `lists` random subsets of them are the queries.

    Attributes:
        classes: grades from 0, drawn alike.
        features: number of features of a document.
        noise: standard deviation of the noise on the grades of all parts; a noisy grade is rounded
            and cut to the grades there are.
        n_train: training documents.
        n_test: documents that the test lists are drawn from, and as many for validation.
        seed: seed of the draw.
        label_ratio: the share of the documents of the upper half of the classes that is left in
            the training and validation part (section 4.6).
        lists: validation and test queries.
        shortest, longest: documents of a validation or test query.
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

    def load(self, cache: Path | None = None) -> Fold:
        """Draw the parts: `noise`, `label_ratio` and `n_train` do not change the test documents."""
        rng = self._rng(0)
        mean = rng.uniform(0, 100, (self.classes, self.features)).astype(np.float32)
        spread = rng.uniform(50, 100, mean.shape).astype(np.float32)
        train, vali, test = (
            self._drawn(mean, spread, n, self._rng(k))
            for k, n in ((1, self.n_train), (2, self.n_test), (3, self.n_test))
        )
        train_docs = self._rng(4).permutation(self._thinned(train[1], self._rng(5)))
        n_queries = -(-len(train_docs) // _LIST)  # rounded up
        vali_docs = self._thinned(vali[1], self._rng(6))
        return Fold(
            _queries(train, np.array_split(train_docs, n_queries), "train"),
            _queries(vali, self._lists(vali_docs, self._rng(7)), "vali"),
            _queries(test, self._lists(np.arange(self.n_test), self._rng(8)), "test"),
        )

    def _rng(self, number: int) -> np.random.Generator:
        """One of the generators of this draw, each for another step."""
        return np.random.default_rng([11, self.seed, number])

    def _drawn(self, mean: F32, spread: F32, n: int, rng: np.random.Generator) -> tuple[F32, I32]:
        """(n, features) documents and their (n,) grades with noise."""
        classes = rng.integers(self.classes, size=n, dtype=np.int32)
        noise = self.noise * rng.standard_normal(n)
        X = rng.standard_normal((n, self.features), dtype=np.float32)
        X *= spread[classes]
        X += mean[classes]
        return X, np.clip(np.rint(classes + noise), 0, self.classes - 1).astype(np.int32)

    def _thinned(self, grades: I32, rng: np.random.Generator) -> I64:
        """Numbers of the documents that `label_ratio` leaves."""
        if self.label_ratio == 1:
            return np.arange(len(grades))
        return thinned(grades, self.classes // 2, self.label_ratio, rng)

    def _lists(self, docs: I64, rng: np.random.Generator) -> list[I64]:
        """Random subsets of the documents, of random sizes."""
        sizes = rng.integers(self.shortest, self.longest + 1, self.lists)
        return [rng.choice(docs, min(size, len(docs)), replace=False) for size in sizes]


def thinned(grades: I32, lowest: int, share: float, rng: np.random.Generator) -> I64:
    """Numbers of documents: all below the lowest grade to thin, and a share of each from it on.

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


def _queries(part: tuple[F32, I32], lists: list[I64], name: str) -> Queries:
    """Queries of a part's documents and grades, each of the documents in one list."""
    X, grades = part
    docs = np.concatenate(lists)
    group = [len(docs_of_query) for docs_of_query in lists]
    return Queries.from_arrays(X[docs], grades[docs], group=group, source=f"made/{name}")


@dataclass(frozen=True)
class TrainingShare(OfficialFold):
    """A fold of a folder whose training part is reduced to a random share.

    Attributes:
        folder: as of `OfficialFold`.
        share: share of the training queries that is kept, drawn at random; one query at least.
        label_ratio: the share of the training documents of the upper half of the grades that is
            kept (Köppel et al. 2025, section 4.6).
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

    def load(self, cache: Path | None = None) -> Fold:
        fold = super().load(cache)
        rng = np.random.default_rng([12, self.seed])
        n_queries = max(1, round(self.share * len(fold.train)))
        train = fold.train.take(np.sort(rng.permutation(len(fold.train))[:n_queries]))
        if self.label_ratio < 1:
            upper_half_from = (int(train.grades.max()) + 1) // 2
            docs = thinned(train.grades, upper_half_from, self.label_ratio, rng)
            train = train.only(np.isin(np.arange(train.n_docs), docs))
        return replace(fold, train=train)


@dataclass(frozen=True)
class Digits(Split):
    """The handwritten digits, see `sortnet.data.digits`."""

    seed: int = 0

    @property
    def name(self) -> str:
        return f"digits, draw {self.seed}"

    def load(self, cache: Path | None = None) -> Fold:
        return digits_fold(self.seed)
