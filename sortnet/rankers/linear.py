"""Rankers by scores that are linear in the scaled features: RankSVM, ERR, ES-Rank and AdaRank.

`ranksvm` minimises ½|w|² + C Σ max(0, 1 - w·(x_i - x_j))² over the pairs of grade i > grade j by
truncated Newton (Chapelle and Keerthi 2010, Efficient Algorithms for Ranking with SVMs). `err` is
expected rank regression (Kamishima, Kazawa and Akaho 2005). `es-rank`, `iesr-rank` and
`iesvm-rank` are an evolution strategy on RankQuality from w = 0, from linear regression and from
RankSVM (Ibrahim and Landa-Silva 2017 and 2018); `cmaes-rank` is an evolution strategy that also
learns the covariance of its steps (Hansen and Ostermeier 2001), by the library cma.

AdaRank (Xu and Li 2007) boosts a weighted sum of features to maximise MAP or NDCG. A weak ranker
sorts by a single feature. Its measure on each query is computed once, before the first round
(Köppel et al. 2025, RankNet revisited, algorithm 1).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.stats import rankdata

from sortnet.config import TRAINING, Settings, setting
from sortnet.core import F32, F64, Array, Margin, Progress, Queries
from sortnet.core.pairs import packed
from sortnet.learning.pairs_to_ask import pairs_of_grades
from sortnet.metrics import Metric, check_can_choose, per_query
from sortnet.rankers.base import Ranker, Solved, order_by, scaling_setting
from sortnet.rankers.model_folder import Saved
from sortnet.rankers.registry import library_of

_GRADIENT_LEFT = 1e-8  # RankSVM ends at a gradient this small, relative to the gradient at w = 0
_STEP_GROWTH = 1.5  # factor of the step of the evolution strategy after a success
_GENERATIONS = {"es": 1000, "cma": 60}  # default number of generations by algorithm
_SCALINGS = ["query+rank", "query", "normal"]
_TINY = 1e-12  # lower limit of a divisor
_TOLERANCE = 0.002  # boosting ends when the mean measure falls by this much in a round
_IN_VAIN = 5  # a weak ranker is left out after this many rounds in a row that change no measure


@dataclass(frozen=True, eq=False)
class LinearRanker(Ranker):
    """Ranker by the score w · x, with learned weights w and scaled features x."""

    w: F64  # (n_columns,) a weight for each column of the scaled features

    def scores(self, queries: Queries) -> F32:
        scores: F32 = (self.scaled(queries).features @ self.w).astype(np.float32)
        return scores

    def differentiable(self) -> Margin:
        """Return the margin w · (x - y) of two scaled documents x and y, with its gradients."""

        def margin(x: F64, y: F64) -> tuple[F64, F64, F64]:
            """Compute the margins, and the gradients w in x and -w in y."""
            gradient = np.broadcast_to(self.w, x.shape)
            return (x - y) @ self.w, gradient, -gradient

        return margin

    def learned(self) -> dict[str, Array]:
        return {"w": self.w}


@dataclass(frozen=True)
class LinearSettings(Settings):
    """Settings that all linear rankers have; `solve` of a subclass finds the weights w."""

    ranker: ClassVar[type[LinearRanker]] = LinearRanker
    grids = ({"scaling": _SCALINGS},)
    scaling: str | None = scaling_setting("query+rank")

    def read(self, saved: Saved, n_columns: int) -> F64:
        """Read the weights w from a model folder."""
        return saved.tensors.take("w", np.float64, n_columns)


def ranksvm(part: Queries, C: float, progress: Progress = lambda text: None) -> F64:
    """Find the weights w (d,) that minimise ½|w|² + C Σ max(0, 1 - w·(x_i - x_j))².

    The sum is over the pairs of a better document i and a worse document j with features x_i and
    x_j, which are rows of the matrix X (n_docs, d). A pair is inside the margin, and adds to the
    sum, if w·(x_i - x_j) < 1. The sparse matrix A has a row for each pair, with 1 at i and -1 at j,
    so that A X w has w·(x_i - x_j) for all pairs. A_s has only the rows of pairs inside the margin.

    The minimum is found by Newton steps with the Hessian, I + 2C X'A_s'A_s X (d, d).

    Args:
        part: graded queries, scaled.
        C: weight of the loss of a pair.
        progress: called with a line of text at the start.

    Cost: memory of about 100 bytes a pair at the peak; differences of features are never stored. A
    step takes the sparse product A_s'A_s, and its product with X.
    """
    progress("solving")
    X = part.features.astype(np.float64)
    A = _pair_matrix(part)

    def loss_and_gradient(w: F64) -> tuple[float, F64]:
        """Compute the function to minimise and its gradient (d,) at the weights w."""
        slack = np.maximum(0, 1 - A @ (X @ w))  # how far each pair is inside the margin
        gradient = w - 2 * C * (X.T @ (A.T @ slack))
        return float(w @ w / 2 + C * slack @ slack), gradient

    def hessian(w: F64) -> F64:
        """Compute the Hessian (d, d) at the weights w."""
        A_s = A[A @ (X @ w) < 1]
        matrix: F64 = np.eye(len(w)) + 2 * C * (X.T @ ((A_s.T @ A_s) @ X))
        return matrix

    start = np.zeros(X.shape[1])
    _, gradient_at_start = loss_and_gradient(start)
    tolerance = _GRADIENT_LEFT * float(np.linalg.norm(gradient_at_start))
    minimum = minimize(
        loss_and_gradient, start, method="trust-exact", jac=True, hess=hessian,
        options={"gtol": tolerance},
    )  # fmt: skip
    w: F64 = minimum.x
    return w


def _pair_matrix(part: Queries) -> csr_array:
    """Make the matrix A (m, n_docs) of the m pairs of documents of a query with different grades.

    A row has 1 at the better document of the pair, and -1 at the worse document.
    """
    pairs = pairs_of_grades(part)
    m = len(pairs)
    index_type = np.int32 if 2 * m < 2**31 else np.int64  # int32 takes half the memory
    # A sparse matrix stores its numbers row by row: here two a row, in the columns i and j.
    columns = np.stack((pairs.i, pairs.j), axis=1, dtype=index_type, casting="same_kind").ravel()
    numbers = np.tile([1.0, -1.0], m)
    row_starts = np.arange(0, 2 * m + 1, 2, dtype=index_type)
    return csr_array((numbers, columns, row_starts), shape=(m, part.n_docs))


def expected_ranks(part: Queries) -> F64:
    """Compute the expected rank of each document in its query, divided by n + 1, (n_docs,).

    The n documents of the query are ranked by grade, from 1 for the best. Documents of the same
    grade share the mean of their ranks.

    >>> q = Queries.from_arrays([[0.0]] * 3, [1, 0, 1])
    >>> expected_ranks(q).tolist()
    [0.375, 0.75, 0.375]
    """
    # All documents are ranked together, by query, then by grade, the best first. The rank in the
    # query is this rank minus the number of documents in the queries before.
    grades_below_best = part.grades.max(initial=0) - part.grades
    rank_in_all = rankdata(packed(part.query_of_docs(), grades_below_best))
    n_docs_before = np.repeat(part.offsets[:-1], part.sizes)
    rank_in_query = rank_in_all - n_docs_before
    n_docs_of_query = np.repeat(part.sizes, part.sizes)
    ranks: F64 = rank_in_query / (n_docs_of_query + 1)
    return ranks


def regression(X: F32, y: F64, ridge: float) -> F64:
    """Find the weights w (d,) of the ridge regression of y (n_docs,) on X (n_docs, d).

    The weights minimise |y - Xw - b|² + ridge |w|²; the intercept b is not penalised.
    """
    from sklearn.linear_model import Ridge  # imported where it is used: it takes .3 s

    w: F64 = Ridge(alpha=ridge).fit(X.astype(np.float64), y).coef_
    return w


def evolution(
    w: F64, quality: Callable[[F64], float], generations: int, rng: np.random.Generator
) -> Iterator[tuple[int, F64]]:
    """Evolve the weights w; yield (number of the generation, weights) at each improvement.

    A child differs from its parent by Gaussian steps in a random half of the weights. The step size
    grows by the factor 1.5 after a success and shrinks by 1.5^¼ after a failure, so that about a
    fifth of the children succeed (Rechenberg).

    Args:
        w: (d,) initial weights.
        quality: function of weights (d,) to maximise.
        generations: number of children.
        rng: random generator.
    """
    best_quality = quality(w)
    step_size = float(np.sqrt(np.mean(w**2))) or 1.0  # weights of 0 give no size, so begin with 1
    for generation in range(1, generations + 1):
        step = step_size * rng.standard_normal(len(w))
        is_changed = rng.random(len(w)) < 0.5
        child = w + step * is_changed
        child_quality = quality(child)
        if child_quality > best_quality:
            step_size *= _STEP_GROWTH
            w = child
            best_quality = child_quality
            yield generation, w
        else:
            step_size *= _STEP_GROWTH**-0.25


def cma_evolution(
    w: F64, quality: Callable[[F64], float], generations: int, rng: np.random.Generator
) -> Iterator[tuple[int, F64]]:
    """Evolve the weights w by CMA-ES; yield (number of the generation, its best candidate).

    The evolution ends after `generations`, or when the library sees no progress. The step size is 1
    at first, because no ranking depends on the length of w. All other options of the library have
    their defaults.

    Args:
        w: (d,) initial weights.
        quality: function of weights (d,) to maximise.
        generations: largest number of generations.
        rng: random generator.
    """
    cma = library_of(EsSettings(algorithm="cma"))
    options = {
        "seed": np.nan,  # the library seeds no generator of its own
        "randn": lambda *shape: rng.standard_normal(shape),
        "verbose": -10,  # the library prints nothing
    }
    strategy = cma.CMAEvolutionStrategy(w, 1.0, options)
    for generation in range(1, generations + 1):
        if strategy.stop():
            break
        candidates = strategy.ask()
        losses = [-quality(candidate) for candidate in candidates]
        strategy.tell(candidates, losses)
        best = int(np.argmin(losses))
        yield generation, candidates[best].copy()


@dataclass(frozen=True)
class RankSvmSettings(LinearSettings):
    """Settings of RankSVM."""

    kind: ClassVar[str] = "ranksvm"
    grids = ({"scaling": _SCALINGS, "C": [0.0001, 0.001, 0.01, 0.1, 1.0]},)
    C: float = setting(
        0.01, "Weight of the loss of a pair against ½|w|².", TRAINING, within="above 0"
    )

    def solve(self, train: Queries, vali: Queries, progress: Progress) -> Solved:
        """Find the weights that minimise the loss of RankSVM on the training queries."""
        return ranksvm(train, self.C, progress), {}


@dataclass(frozen=True)
class ErrSettings(LinearSettings):
    """Settings of expected rank regression."""

    kind: ClassVar[str] = "err"
    grids = ({"scaling": _SCALINGS, "ridge": [0.01, 1.0, 100.0]},)
    ridge: float = setting(1.0, "L2 penalty of the regression.", TRAINING, within="from 0")

    def solve(self, train: Queries, vali: Queries, progress: Progress) -> Solved:
        """Find the weights of a regression of expected ranks, negated: rank 1 is the best."""
        return -regression(train.features, expected_ranks(train), self.ridge), {}


@dataclass(frozen=True)
class EsSettings(LinearSettings):
    """Settings of the evolution strategies."""

    kind: ClassVar[str] = "es-rank"
    # fmt: off
    algorithm: str = setting(
        "es", "One candidate a generation (es), or CMA-ES with 4 + 3 ln(columns) candidates.",
        TRAINING, choices=("es", "cma"))
    initial: str = setting(
        "zeros", "Initial weights: zeros, or the weights of a regression or of RankSVM.", TRAINING,
        choices=("zeros", "regression", "ranksvm"))
    generations: int | None = setting(
        None, "Number of generations; default: 1000, or 60 for CMA-ES.", TRAINING, least=1)
    # fmt: on

    @property
    def library(self) -> str | None:
        return "cma" if self.algorithm == "cma" else None

    def solve(self, train: Queries, vali: Queries, progress: Progress) -> Solved:
        """Maximise RankQuality on the training queries by an evolution strategy.

        Returns:
            The weights of the generation with the best RankQuality on the validation queries.

        Cost: the initial weights, then a ranking of `train` for each candidate.
        """

        def quality(part: Queries, w: F64) -> float:
            """Compute RankQuality of the ranking by the weights w."""
            return self.quality_of(part, order_by(part, part.features @ w))

        progress("computing the start")
        start = INITIAL[self.initial](train)
        rng = np.random.default_rng(self.seed)
        evolve = cma_evolution if self.algorithm == "cma" else evolution
        generations = self.generations or _GENERATIONS[self.algorithm]
        best_w = start
        best_quality = quality(vali, start)
        for generation, w in evolve(start, partial(quality, train), generations, rng):
            progress(f"generation {generation}/{generations}")
            quality_on_vali = quality(vali, w)
            if quality_on_vali >= best_quality:
                best_quality = quality_on_vali
                best_w = w
        return best_w, {}


# Functions that compute the initial weights (d,) of an evolution strategy from training queries.
INITIAL: dict[str, Callable[[Queries], F64]] = {
    "zeros": lambda part: np.zeros(part.n_features),
    "regression": lambda part: regression(part.features, part.grades.astype(np.float64), 1.0),
    "ranksvm": lambda part: ranksvm(part, RankSvmSettings().C),
}


@dataclass(frozen=True)
class _Sum:
    """A weighted sum f(x) = Σ w_k h_k(x) of weak rankers h_k, and the weights of the queries."""

    w: F64  # (2 d,) weights of the d feature columns, then weights of their negatives
    query_weights: F64  # (m,) weights of the m queries that have a measure, with a sum of 1
    mean_measure: float  # mean measure of the ranking by f, over the queries


class _WeakRankers:
    """The weak rankers of training queries; each sorts by a feature or by a feature's negative.

    Attributes:
        measures: (2 d, m) the measure of each weak ranker on each query that has a measure.
    """

    def __init__(self, part: Queries, metric: Metric) -> None:
        """Measure each weak ranker on every query."""
        self._part = part
        self._metric = metric
        self._columns = np.hstack((part.features, -part.features)).astype(np.float64)
        self.measures = np.array([self._measure(scores) for scores in self._columns.T])

    def add(self, total: _Sum, k: int, mean: float) -> _Sum:
        """Add weak ranker k to a sum with the weight α = ½ ln((1 + mean) / (1 - mean)).

        `mean` is the mean measure of the weak ranker by the weights of the queries. The weight of
        each query is multiplied by exp(-α E), where E is the measure of the new sum on the query.
        Then the weights are scaled to a sum of 1.
        """
        alpha = 0.5 * np.log((1 + mean) / max(1 - mean, _TINY))
        w = total.w.copy()
        w[k] += alpha
        measures = self._measure(self._columns @ w)
        query_weights = total.query_weights * np.exp(-alpha * measures)
        return _Sum(w, query_weights / query_weights.sum(), float(measures.mean()))

    def _measure(self, scores: F64) -> F64:
        """Rank each query by scores; return the measures, (m,), of the queries that have one."""
        ranked_grades = self._part.grades[order_by(self._part, scores)]
        measures = per_query(self._metric, ranked_grades, self._part.offsets)
        return measures[~np.isnan(measures)]  # the same queries for every ranking


def adarank(part: Queries, metric: Metric, rounds: int) -> Iterator[F64]:
    """Yield the feature weights w (d,) after each round of AdaRank.

    Only the m queries that have a measure count. E(h) is the measure of a ranker h on each of these
    queries, and P are the weights of the queries, 1 / m at first. A round adds the weak ranker h
    with the largest Σ P E(h) to the sum f, with the weight
    α = ½ ln(Σ P (1 + E(h)) / Σ P (1 - E(h))). Then P becomes P exp(-α E(f)), scaled to a sum of 1.

    These rounds alone would choose the best one or two weak rankers for ever. As in RankLib, a weak
    ranker that is chosen twice in a row is therefore put aside, and its round is undone. The rounds
    end when the mean of E(f) falls by 0.002; the last round is undone. Then the weak rankers that
    were put aside return, one after another and the last first, and after each return further
    rounds follow. In these rounds a weak ranker may be chosen many times in a row, but after five
    rounds in a row that change nothing it is left out for a round.

    Args:
        part: the training queries.
        metric: the measure E.
        rounds: largest number of rounds.
    """
    weak = _WeakRankers(part, metric)
    n_weak_rankers, n_queries = weak.measures.shape
    total = _Sum(np.zeros(n_weak_rankers), np.full(n_queries, 1 / n_queries), -np.inf)
    rounds_left = iter(range(rounds))
    put_aside = list[int]()
    total = yield from _boost(weak, total, put_aside, rounds_left, may_repeat=False)
    while put_aside:
        put_aside.pop()
        total = yield from _boost(weak, total, put_aside, rounds_left, may_repeat=True)


def _boost(
    weak: _WeakRankers,
    total: _Sum,
    put_aside: list[int],
    rounds_left: Iterator[int],
    *,
    may_repeat: bool,
) -> Generator[F64, None, _Sum]:
    """Run rounds of boosting; yield the feature weights after each round.

    Args:
        weak: the weak rankers.
        total: the sum to begin with.
        put_aside: numbers of the weak rankers that are not used.
        rounds_left: an item for each round that may still be run.
        may_repeat: whether a weak ranker may be added many times in a row. If so, a weak ranker
            that was repeated five times in a row, while the mean measure did not change, may not be
            chosen in the next round. If not, a weak ranker that is chosen twice in a row extends
            `put_aside`, and its round is undone.

    Returns:
        The sum before the mean measure fell, or after the last round.
    """
    previous_total = total
    previous_k = None
    n_in_vain = 0  # number of the last rounds that repeated a weak ranker without effect
    barred = put_aside  # numbers of the weak rankers that a round may not choose
    for _ in rounds_left:
        if len(set(barred)) == len(weak.measures):
            break
        means = weak.measures @ total.query_weights
        means[barred] = -np.inf
        k = int(np.argmax(means))
        is_repeat = k == previous_k
        if is_repeat and not may_repeat:
            put_aside.append(k)
            total = previous_total
            continue
        next_total = weak.add(total, k, means[k])
        weights, weights_of_negatives = np.split(next_total.w, 2)
        yield weights - weights_of_negatives
        if next_total.mean_measure + _TOLERANCE <= total.mean_measure:
            break
        is_in_vain = is_repeat and next_total.mean_measure == total.mean_measure
        n_in_vain = n_in_vain + 1 if is_in_vain else 0
        barred = put_aside
        if n_in_vain == _IN_VAIN:
            barred = [*put_aside, k]
            n_in_vain = 0
        previous_total = total
        previous_k = k
        total = next_total
    return total


@dataclass(frozen=True)
class AdaRankSettings(LinearSettings):
    """Settings of AdaRank."""

    kind: ClassVar[str] = "adarank-ndcg"
    measure: str = setting("ndcg@10", "Measure that weights the queries, such as map.", TRAINING)
    rounds: int = setting(300, "Largest number of weak rankers.", TRAINING, least=1)

    def solve(self, train: Queries, vali: Queries, progress: Progress) -> Solved:
        """Run AdaRank on the training queries; keep the round that ranks `vali` best.

        Returns:
            The weights (d,) of the round with the best RankQuality on the validation queries, and
            the number of this round.

        Raises:
            DataError: if the measure gives every ranking of `train` the same score.

        Cost: two rankings of `train` for each column, then a ranking of `train` for each round.
        """
        metric = self.metric(self.measure)
        check_can_choose(metric, train)
        progress("measuring the weak rankers")
        best_quality = -np.inf
        best_w = np.zeros(train.n_features)
        best_round = 0
        for boosting_round, w in enumerate(adarank(train, metric, self.rounds), start=1):
            progress(f"boosting, round {boosting_round}/{self.rounds}")
            quality = self.quality_of(vali, order_by(vali, vali.features @ w))
            if quality > best_quality:
                best_quality = quality
                best_w = w
                best_round = boosting_round
        return best_w, {"rounds": best_round}
