"""The range of the questions that are left."""

from __future__ import annotations

from math import ceil

from hypothesis import example, given
from hypothesis import strategies as st

from sortnet.preference.stopping import range_of


@example(questions=1.75, n_free=2)
@given(st.floats(0, 10_000), st.integers(1, 10_000))
def test_the_range_is_around_the_number_and_at_most_three_times_as_wide(questions, n_free):
    low, high = range_of(questions, n_free)
    assert 0 <= low <= high <= min(3 * max(low, 1), n_free)
    # Questions are whole: 1.75 of them lie in the range 2 to 3.
    assert low <= ceil(questions) and (high >= int(questions) or high == n_free)
