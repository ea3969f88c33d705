"""Agreement: Krippendorff's alpha against its definition, people's own figures by arithmetic."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortnet.preference import Judgement
from sortnet.preference.annotator_agreement import agreement, krippendorff_alpha
from sortnet.preference.session import Session


def report_of(said):
    """The report of the only annotator."""
    (report,) = Session(None, 10).reports([said[0].annotator], said)
    return report


def by_definition(units):
    """alpha by the coincidence matrix, every ordered pair of values counted one by one."""
    o = {}
    for unit in units:
        for a, b in permutations(range(len(unit)), 2):
            key = unit[a], unit[b]
            o[key] = o.get(key, 0) + 1 / (len(unit) - 1)
    n_of = {}
    for (a, _), count in o.items():
        n_of[a] = n_of.get(a, 0) + count
    n = sum(n_of.values())
    expected = sum(x * y for a, x in n_of.items() for b, y in n_of.items() if a != b) / (n - 1)
    return 1 - sum(count for (a, b), count in o.items() if a != b) / expected


@given(
    st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=5), min_size=1).filter(
        lambda units: len({value for unit in units for value in unit}) > 1
    )
)
def test_alpha_is_that_of_its_definition(units):
    counts = [[unit.count(value) for value in (0.0, 0.5, 1.0)] for unit in units]
    assert krippendorff_alpha(counts) == pytest.approx(by_definition(units))


def test_alpha_ignores_single_answers_and_is_none_if_all_are_the_same():
    assert krippendorff_alpha([[1, 0], [0, 1]]) is None
    assert krippendorff_alpha([[2, 0], [2, 0]]) is None


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), max_size=30))
def test_no_alpha_depends_on_how_the_items_are_numbered(answers):
    said = [
        Judgement.of(f"who {k % 3}", (a, b), "left" if first else "right")
        for k, (a, b, first) in enumerate(answers)
        if a != b
    ]
    back = [Judgement.of(j.annotator, (3 - j.left, 3 - j.right), j.word) for j in said]
    ours, theirs = (agreement(each).krippendorff_alpha for each in (said, back))
    assert ours == pytest.approx(theirs)


def test_sides_do_not_matter_to_agreement():
    said = [
        Judgement.of("ana", (0, 1), "left", number=1),
        Judgement.of("ben", (1, 0), "right", number=2),
        Judgement.of("ana", (2, 3), "right", number=3),
        Judgement.of("ben", (2, 3), "right", number=4),
    ]
    assert agreement(said).krippendorff_alpha == 1
    assert agreement(said).shared_pairs == 2


def test_an_annotator_has_one_vote_per_pair():
    said = [
        Judgement.of("ana", (0, 1), a, number=k) for k, a in enumerate(("left", "right"), start=1)
    ]
    assert agreement(said).shared_pairs == 0
    assert agreement(said).krippendorff_alpha is None
    said.append(Judgement.of("ben", (0, 1), "left", number=3))
    assert agreement(said).shared_pairs == 1


def test_who_answers_faster_than_one_can_read_is_marked():
    def of(milliseconds):
        said = [
            Judgement.of("ana", (0, k), "left", milliseconds=milliseconds, number=k)
            for k in range(1, 9)
        ]
        return report_of(said)

    assert of(200).too_fast
    assert not of(2_000).too_fast
    assert of(200).median_seconds == 0.2
