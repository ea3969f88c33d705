"""Partial dependence: where a document would be if one of its columns had another value."""

from __future__ import annotations

import numpy as np
from linear_ranker import SETTINGS, Linear

from sortnet import Queries
from sortnet.data.scaling import unscaled
from sortnet.explanation.columns import Column, partial_dependence

RED, BLUE = [1.0, 0.0], [0.0, 1.0]


def ranker(*weights: float) -> Linear:
    return Linear(SETTINGS(), unscaled(len(weights), None), w=np.array(weights))


def test_a_changed_document_is_above_the_share_of_its_query_that_has_lower_scores():
    values = np.arange(8.0)[:, None]
    queries = Queries.from_arrays(values, values[:, 0] % 4, group=[4, 4])
    dependence = partial_dependence(ranker(1.0), queries, Column("age", (0,)))
    assert len(dependence.values) == len(dependence.above)
    assert list(dependence.values) == sorted(dependence.values)
    low, high = dependence.above[[0, -1]]
    assert low < 0.2 and high > 0.8
    again = partial_dependence(ranker(1.0), queries, Column("age", (0,)))
    assert again.above.tolist() == dependence.above.tolist()
    turned = partial_dependence(ranker(-1.0), queries, Column("age", (0,)))
    assert np.allclose(turned.above, 1 - dependence.above)


def test_levels_are_set_together_and_dates_are_days():
    X = np.array([[*RED, 19000.0], [*BLUE, 19001.0], [*RED, 19002.0], [*BLUE, 19003.0]])
    queries = Queries.from_arrays(X, [0, 1, 0, 1])
    colour = Column("colour", (0, 1), ("red", "blue"))
    dependence = partial_dependence(ranker(0.0, 1.0, 0.0), queries, colour)
    above = dict(zip(dependence.values, dependence.above, strict=True))
    assert above["red"] < 0.5 < above["blue"]
    day = partial_dependence(ranker(0.0, 0.0, 1.0), queries, Column("day", (2,), is_date=True))
    assert 19000 <= day.values[0] < day.values[-1] <= 19003


def test_there_is_no_curve_of_a_text_of_a_constant_and_without_a_pair():
    queries = Queries.from_arrays([[1.0, 2.0], [1.0, 3.0]], [0, 1])
    model = ranker(1.0, 1.0)
    words = Column("text", (0, 1), parts=(Column("tea", (0,)),))
    assert partial_dependence(model, queries, words) is None
    assert partial_dependence(model, queries, Column("a", (0,))) is None
    single_documents = Queries.from_arrays([[1.0, 2.0], [1.0, 3.0]], [0, 1], group=[1, 1])
    assert partial_dependence(model, single_documents, Column("b", (1,))) is None
