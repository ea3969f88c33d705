"""Answers about the order, as arrays; and what would be believed without them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sortnet.core import F64, I64, Bool
from sortnet.preference.base import TARGETS, Judgement, Pair
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.set_answers import (
    SetColumns,
    SetRows,
    rows_by_layout,
    rows_of_alike,
    rows_of_choices,
)

_BLOCK = 128  # answers left out together, at most
# Who answers: a person, a model, whose errors others share, or nobody: a known answer.
PERSON, MODEL, GOLD = range(3)


@dataclass(frozen=True, eq=False)
class Votes:
    """Answers about the order, as arrays: a row of an answer about a pair, several about a set.

    Attributes:
        left, right: (m,) items.
        target: (m,) 1 for left, 0 for right, ½ for a tie.
        annotator: (m,) their numbers.
        weight: (m,) how many answers each counts for; None: 1.
        kind: (m,) `PERSON`, `MODEL` or `GOLD`, the annotator of which does not matter; None: all
            are of people.
        answer: (m,) the number of the answer about a set that a row is of, whose rows follow each
            other as in `Layout`; -1 for an answer about a pair; None: all are about pairs.
        layout: (m,) the number of that answer's layout, see `LAYOUTS`; -1 and None as above.
        bias: (m,) how much of an annotator's side bias is for the left item; None: all of it.
        probit: (m,) of the probability that the left item is better, where an answer is a
            measurement, see `measured`; elsewhere NaN. None: no answer is.
    """

    left: I64
    right: I64
    target: F64
    annotator: I64
    weight: F64 | None = None
    kind: I64 | None = None
    probit: F64 | None = None
    answer: I64 | None = None
    layout: I64 | None = None
    bias: F64 | None = None

    def __len__(self) -> int:
        return len(self.left)

    def marked(self, models: Collection[int]) -> Votes:
        """The same votes, those of these annotators as of models."""
        by_model = np.isin(self.annotator, [*models])
        return replace(self, kind=np.where(by_model, MODEL, PERSON)) if by_model.any() else self

    def with_known(self, models: Collection[int], gold: Iterable[Pair]) -> Votes:
        """The same votes, those of models marked, and after them the known answers to gold pairs.

        Without gold pairs a model is not marked that answers alone: what it sees and its errors
        cannot be separated. Nothing is added to no votes. Models are numbers of annotators; of a
        gold pair the better item is the first.
        """
        known = np.array([*gold], np.int64).reshape(-1, 2)
        if not len(known):
            return self.marked(models) if len(np.unique(self.annotator)) > 1 else self
        if not len(self):
            return self
        zeros = np.zeros(len(known), np.int64)
        of_known = {
            **{"left": known[:, 0], "right": known[:, 1], "target": zeros + 1.0},
            **{"annotator": zeros, "weight": zeros + 1.0, "kind": zeros + GOLD},
            **{"probit": np.full(len(known), np.nan), "answer": zeros - 1},
            **{"layout": zeros - 1, "bias": zeros + 1.0},
        }
        votes = replace(self, kind=np.where(np.isin(self.annotator, [*models]), MODEL, PERSON))
        columns = {name: np.append(has, of_known[name]) for name, has in votes._columns()}
        return Votes(**columns)

    def _columns(self) -> Iterator[tuple[str, NDArray[Any]]]:
        return ((name, column) for name, column in vars(self).items() if column is not None)

    @property
    def only_of_models(self) -> bool:
        """Whether there are no answers of people, and no known ones."""
        return bool(self.of_kind(MODEL).all())

    def others_beside_one(self) -> Votes:
        """Votes of models, the one with the most answers taken for a person beside the others."""
        most = np.bincount(self.annotator).argmax()
        return replace(self, kind=np.where(self.annotator == most, PERSON, MODEL))

    @property
    def is_measured(self) -> Bool:
        """(m,) whether the answers are measurements."""
        if self.probit is None:
            return np.zeros(len(self), np.bool_)
        return ~np.isnan(self.probit)

    def in_words(self, annotators: Collection[int] | None = None) -> Votes:
        """The same votes, without the measurements of these annotators; None: of all."""
        if self.probit is None or annotators is None:
            return replace(self, probit=None)
        probit = np.where(np.isin(self.annotator, [*annotators]), np.nan, self.probit)
        return replace(self, probit=None if np.isnan(probit).all() else probit)

    def of_kind(self, *kinds: int) -> Bool:
        """(m,) whether the answers are of one of these kinds."""
        kind = np.full(len(self), PERSON) if self.kind is None else self.kind
        return np.isin(kind, kinds)

    @classmethod
    def of_one(cls, left: I64, right: I64, target: F64) -> Votes:
        """The votes of one annotator, or of several treated as one."""
        return cls(left, right, target, np.zeros(len(left), np.int64))

    @classmethod
    def of_judgements(cls, judgements: Sequence[Judgement]) -> Votes:
        """The answers about the order, as if of one annotator."""
        target = np.array([TARGETS[j.answer] for j in judgements])
        left, right = np.array([(j.left, j.right) for j in judgements], np.int64).T
        return cls.of_one(left, right, target)

    def rows(self) -> Iterator[tuple[int, int, float, int]]:
        """The votes one by one."""
        columns = (self.left, self.right, self.target, self.annotator)
        return zip(*(column.tolist() for column in columns), strict=True)

    def with_sets(self, judgements: Judgements, rows: I64) -> Votes:
        """These answers about pairs, and after them the answers about sets of these rows."""
        best = rows[judgements.best[rows] >= 0]
        alike = rows[judgements.best[rows] < 0]
        chosen = np.column_stack((judgements.best[best], judgements.worst[best])).astype(np.int64)
        choices = rows_of_choices(judgements.items(best), chosen, best)
        alike_rows = rows_of_alike(judgements.items(alike), alike)
        parts = [self._with_columns_of_sets()]
        parts += [_of_rows(judgements, rows) for rows in (*choices, *alike_rows)]
        names = [name for name, _ in parts[0]._columns()]
        joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        return Votes(**joined)

    def _with_columns_of_sets(self) -> Votes:
        nothing = np.full(len(self), -1)
        return replace(self, answer=nothing, layout=nothing, bias=np.ones(len(self)))

    def probits(self) -> list[float]:
        """The measurements of the votes one by one; NaN for a word."""
        return [float("nan")] * len(self) if self.probit is None else self.probit.tolist()

    def renumbered(self, items: I64) -> Votes:
        """The same votes, its items given by their places among these, which ascend."""
        left, right = (np.searchsorted(items, side) for side in (self.left, self.right))
        return replace(self, left=left, right=right)

    def where(self, mask: Bool | I64) -> Votes:
        """The votes selected by a mask, or by their places.

        Of answers about sets a mask selects those all of whose rows it selects.
        """
        if self.answer is not None and mask.dtype == np.bool_:
            dropped = np.unique(self.answer[~mask])
            mask = mask & ~((self.answer >= 0) & np.isin(self.answer, dropped))
        return replace(self, **{name: has[mask] for name, has in self._columns()})

    @property
    def sets(self) -> list[SetRows]:
        """The rows of answers about sets."""
        if self.answer is None or self.layout is None:
            return []
        return rows_by_layout(self.answer, self.layout)

    @property
    def of_pairs(self) -> Bool:
        """(m,) whether a row is an answer about a pair, and not one of several about a set."""
        return np.ones(len(self), np.bool_) if self.answer is None else self.answer < 0

    @property
    def n_answers(self) -> int:
        """The number of answers: one about a set is one."""
        n_sets = sum(len(some.rows) for some in self.sets)
        return int(np.count_nonzero(self.of_pairs)) + n_sets

    @property
    def first(self) -> Bool:
        """(m,) whether a row stands for its answer: each about a pair, one of those about a set."""
        first = self.of_pairs.copy()
        for some in self.sets:
            first[some.first] = True
        return first

    def drawn(self, share: float, rng: np.random.Generator) -> Bool:
        """(m,) whether each answer is one of so large a random share of them."""
        drawn = rng.random(len(self)) < share
        for some in self.sets:
            drawn[some.rows] = drawn[some.first, None]
        return drawn

    def comparisons(self) -> Votes:
        """What follows of pairs from each answer, as answers about pairs.

        Of a set the item with the lower number is on the left: were it the better one, a side bias
        would explain all answers.

        Those of an answer about a set weigh less than 1, see `Layout.weight`.
        """
        if self.answer is None:
            return self
        says_order = self.of_pairs.copy()
        weight = np.ones(len(self)) if self.weight is None else self.weight.copy()
        for some in self.sets:
            rows = some.rows[:, some.layout.comparisons]
            says_order[rows] = True
            weight[rows] *= some.layout.weight
        turned = ~self.of_pairs & (self.left > self.right)
        pairs = replace(
            self,
            left=np.where(turned, self.right, self.left),
            right=np.where(turned, self.left, self.right),
            target=np.where(turned, 1 - self.target, self.target),
            answer=None,
            layout=None,
            bias=None,
            weight=weight,
        )
        return pairs.where(says_order)


def _of_rows(judgements: Judgements, rows: SetColumns) -> Votes:
    """Rows of answers about sets as votes."""
    every = np.ones(len(rows.event))
    return Votes(
        rows.left,
        rows.right,
        rows.target * every,
        judgements.annotator[rows.event],
        probit=np.full(len(rows.event), np.nan),
        answer=rows.event,
        layout=np.full(len(rows.event), rows.layout),
        bias=rows.bias,
    )


def unseen(mean: F64, variance: F64, slope: F64, weight: F64) -> tuple[F64, F64]:
    """Means and variances of z as they would be without each answer, given those with it.

    Laplace's approximation of leaving one out (Vehtari and others, 2016, eq. 29), by the slope and
    weight of each answer's log-likelihood, see `Likelihood`; (m,) each.
    """
    without = variance / np.maximum(1 - weight * variance, 0.1)
    return mean - without * slope, without


def unseen_in_blocks(
    mean: F64,
    C: F64,
    votes: Votes,
    likelihood: tuple[F64, F64],
    reliability: F64,
    side: F64,
    n_items: int,
) -> tuple[F64, F64]:
    """Means and variances of gaps s_left - s_right without all answers of the same annotator.

    Answers of an annotator who gave many are left out in blocks. Given the covariance K of z of a
    block, and the covariance k of its gaps with z, the answers are taken out by
    k' = k (I - W K)⁻¹, the variances are those of the gaps plus diag(k' W kᵀ), and the means are
    less k' times the slopes.

    Args:
        mean: (m,) of the gaps, with all answers.
        C: (n + a, n + a) covariance of the scores and the side biases.
        votes: the answers.
        likelihood: (m,), (m,) slope and weight of each answer's log-likelihood in z, which is
            reliability (s_left - s_right) + side b; W has the weights.
        reliability, side: (m,) of each answer.
        n_items: n.
    """
    slope, weight = likelihood
    mean, variance = mean.copy(), np.empty_like(mean)
    by_annotator = np.argsort(votes.annotator, kind="stable")
    ends = np.searchsorted(votes.annotator[by_annotator], np.arange(votes.annotator.max() + 1))
    for own in np.split(by_annotator, ends[1:]):
        for block in np.array_split(own, -(-len(own) // _BLOCK) or 1):
            i, j, c = votes.left[block], votes.right[block], reliability[block]
            bias, own_side = n_items + votes.annotator[block], side[block]
            gaps = C[np.ix_(i, i)] - C[np.ix_(i, j)] - C[np.ix_(j, i)] + C[np.ix_(j, j)]
            with_bias = own_side * (C[np.ix_(i, bias)] - C[np.ix_(j, bias)])
            of_bias = np.outer(own_side, own_side) * C[np.ix_(bias, bias)]
            gaps_with_z = c * gaps + with_bias
            of_z = c[:, None] * gaps_with_z + c * with_bias.T + of_bias
            A = np.eye(len(block)) - weight[block][:, None] * of_z
            without = np.linalg.solve(A.T, gaps_with_z.T).T
            variance[block] = np.diag(gaps) + np.sum(without * weight[block] * gaps_with_z, axis=1)
            mean[block] -= without @ slope[block]
    return mean, np.maximum(variance, 1e-12)
