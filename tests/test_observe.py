"""What is observed of a sort, against counting in plain Python."""

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sortnet.comparators import CmpNN
from sortnet.core import Queries, Sorting
from sortnet.learning.judges import judge_by_grades
from sortnet.sorting import sort
from sortnet.sorting.diagnostics import MARGIN_EDGES, RANK_BINS, Tally


class StoneScissorsPaper:
    def prepare(self, X):
        return X[:, 0]

    def prefer(self, x, i, j):
        return np.sin((x[j] - x[i]) * 2 * np.pi / 3).astype(np.float32)


def observe(queries: Queries, sorting: Sorting, answers, comparator=None) -> dict:
    tally = Tally(queries)
    tally.see(slice(0, queries.n_docs), sorting.order, sorting.compared.judged(answers))
    return tally.facts(comparator or StoneScissorsPaper())


def made(seed: int, sizes: list[int]) -> tuple[Queries, Sorting]:
    rng = np.random.default_rng(seed)
    X = rng.normal(0, 3, (sum(sizes), 3)).astype(np.float32)
    queries = Queries.from_arrays(X, rng.integers(0, 3, len(X)), group=sizes)
    return queries, sort(CmpNN(3, hidden=4, seed=seed), queries)


def bin_of_rank(rank: int) -> int:
    ranks = [name.rstrip("+").split("-") for name in RANK_BINS]
    return max(k for k, ends in enumerate(ranks) if int(ends[0]) <= rank)


def counted(queries: Queries, sorting: Sorting, wrong: set[frozenset[int]]):
    """margins[wrong?][bin], ranks[wrong?][upper][lower]."""
    margins = np.zeros((2, len(MARGIN_EDGES) + 1), int)
    ranks = np.zeros((2, len(RANK_BINS), len(RANK_BINS)), int)
    rank = {}
    for first, end in zip(queries.offsets, queries.offsets[1:], strict=False):
        rank |= {int(doc): k for k, doc in enumerate(sorting.order[first:end], start=1)}
    made = sorting.compared
    for i, j, margin in zip(made.i.tolist(), made.j.tolist(), made.margin, strict=True):
        missed = frozenset((i, j)) in wrong
        if missed or queries.grades[i] != queries.grades[j]:
            margins[int(missed)][sum(abs(float(margin)) >= edge for edge in MARGIN_EDGES)] += 1
            upper, lower = sorted((rank[i], rank[j]))
            ranks[int(missed)][bin_of_rank(upper)][bin_of_rank(lower)] += 1
    return margins, ranks


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 99), sizes=st.lists(st.integers(0, 70), min_size=1, max_size=4))
def test_margins_and_ranks_are_those_of_counting_one_by_one(seed, sizes):
    queries, sorting = made(seed, sizes)
    answers = judge_by_grades(queries, sorting.compared.i, sorting.compared.j)
    judged = sorting.compared.judged(answers)
    wrong = judged.where(judged.wrong)
    found = observe(queries, sorting, answers)
    as_sets = {frozenset(p) for p in zip(wrong.i.tolist(), wrong.j.tolist(), strict=True)}
    margins, ranks = counted(queries, sorting, as_sets)
    assert [found["margins"]["right"], found["margins"]["wrong"]] == margins.tolist()
    assert found["ranks"]["compared"] == ranks.sum(axis=0).tolist()
    assert found["ranks"]["wrong"] == ranks[1].tolist()
    assert sum(found["margins"]["wrong"]) == len(wrong)


def test_circles_are_sampled_with_the_comparator():
    queries = Queries.from_arrays([[0.0], [1.0], [2.0]], [0, 1, 2])
    comparator = StoneScissorsPaper()
    sorting = sort(comparator, queries)
    answers = judge_by_grades(queries, sorting.compared.i, sorting.compared.j)
    found = observe(queries, sorting, answers, comparator)
    assert found["cycles"] == {"share": 1.0, "sampled": 1}
    assert json.loads(json.dumps(found)) == found


def test_no_documents_are_nothing_to_observe():
    queries = Queries.from_arrays(np.zeros((0, 2)))
    comparator = CmpNN(2, hidden=2, seed=0)
    sorting = sort(comparator, queries)
    answers = judge_by_grades(queries, sorting.compared.i, sorting.compared.j)
    found = observe(queries, sorting, answers, comparator)
    assert found["cycles"] == {"share": 0.0, "sampled": 0}
    assert sum(found["margins"]["right"]) == 0
