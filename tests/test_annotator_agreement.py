"""Agreement: Krippendorff's alpha against its definition, whatever the items are called."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortnet.preference import Judgement
from sortnet.preference.annotator_agreement import agreement, krippendorff_alpha


def by_definition(units):
    """1 - observed / expected disagreement, over the ordered pairs of answers in each unit."""
    values = [value for unit in units for value in unit]
    observed = sum(disagreements(unit) / (len(unit) - 1) for unit in units)
    return 1 - observed / (disagreements(values) / (len(values) - 1))


def disagreements(values):
    return sum(a != b for a, b in permutations(values, 2))


@given(st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=5)))
def test_alpha_is_that_of_its_definition(units):
    counts = [[unit.count(value) for value in (0.0, 0.5, 1.0)] for unit in units]
    shared = [unit for unit in units if len(unit) > 1]
    if len({value for unit in shared for value in unit}) > 1:
        expected = pytest.approx(by_definition(shared))
    else:
        expected = None
    assert krippendorff_alpha([*counts, [0, 0, 0]]) == expected


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), max_size=30))
def test_agreement_depends_neither_on_the_numbers_of_items_nor_on_their_places(answers):
    judgements, mirrored = [], []
    for k, (a, b, is_left) in enumerate(answers):
        if a != b:
            name, word = f"annotator {k % 3}", "left" if is_left else "right"
            judgements.append(Judgement.of(name, (a, b), word))
            renamed = Judgement.of(name, (3 - a, 3 - b), word)
            turned = Judgement.of(name, (3 - b, 3 - a), "right" if is_left else "left")
            mirrored.append(turned if k % 2 else renamed)
    ours, theirs = agreement(judgements), agreement(mirrored)
    assert ours.krippendorff_alpha == pytest.approx(theirs.krippendorff_alpha)
    assert ours.shared_pairs == theirs.shared_pairs
