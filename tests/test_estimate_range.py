"""The range of the questions that are left, and of the calls that an estimate says."""

from __future__ import annotations

from collection_helpers import made_items
from hypothesis import given
from hypothesis import strategies as st

from sortnet import LanguageModel, Limits
from sortnet.judges.asked_question import asked_question
from sortnet.judges.estimate import estimate_calls
from sortnet.preference.stopping import range_of

PAIR = asked_question(made_items(2), 0, 1, id="x", question="Which is better?", instructions=None)


@given(st.floats(0, 10_000), st.integers(1, 10_000))
def test_the_range_is_around_the_number_and_at_most_three_times_as_wide(questions, n_free):
    low, high = range_of(questions, n_free)
    assert 0 <= low <= high <= min(3 * max(low, 1), n_free)
    assert low <= max(questions, 1) and (high >= int(questions) or high == n_free)


@given(st.integers(1, 500), st.booleans(), st.one_of(st.none(), st.integers(1, 300)))
def test_an_estimate_says_the_range_in_calls(n_pairs, both_orders, max_calls):
    url = "http://localhost:1"
    model = LanguageModel("judge", url, both_orders=both_orders, limits=Limits(max_calls))
    guess = range_of(n_pairs, 10_000)
    estimate = estimate_calls(model, n_pairs, [PAIR], guess)
    assert estimate.fewest_calls <= estimate.calls <= estimate.most_calls
    assert f"({estimate.fewest_calls:,} to {estimate.most_calls:,})" in str(estimate)
    assert max_calls is None or estimate.most_calls <= max_calls
    known = estimate_calls(model, n_pairs, [PAIR])
    assert (known.fewest_calls, known.calls) == (None, estimate.calls)
