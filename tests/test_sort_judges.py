"""sortnet.sort with language models on a real HTTP server, and with programs."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from language_model_server import Model, serving

import sortnet
from sortnet.errors import SortNetError
from store.asking.machine import EndReason

TEXTS = [f"{'good ' * k}and {'bad ' * (9 - k)}words" for k in range(10)]


@pytest.fixture(autouse=True)
def _folder(here, monkeypatch) -> None:
    monkeypatch.delenv("SORTNET_KEY", raising=False)


def model(**named) -> Model:
    return Model(lambda text: 2.0 * text.count("good"), **named)


@pytest.mark.parametrize("both_orders", [False, True])
def test_no_more_calls_are_made_than_max_calls_over_all_calls_of_sort(both_orders):
    judged = model()
    with serving(judged) as url:
        judge = sortnet.LanguageModel("judge", server=url, both_orders=both_orders, workers=2)
        for most in (7, 7, 12):
            found = sortnet.sort(TEXTS, judge=judge, max_calls=most, store="s.db", progress=False)
            assert found.reason == EndReason.BUDGET
            assert str(found.reason) == "the budget of calls or cost is spent"
            assert len(judged.prompts) == most


def test_an_estimate_sends_nothing_and_shows_what_would_be_sent():
    judged = model()
    with serving(judged) as url:
        judge = sortnet.LanguageModel("judge", server=url, price_in=1e6, both_orders=True)
        expected = sortnet.estimate(TEXTS, judge=judge, question="Which is nicer?", max_calls=4)
    assert not judged.prompts and not list(Path().iterdir())
    assert expected.prompt.startswith("Which is nicer?") and TEXTS[0] in expected.prompt
    (calls,) = expected.calls.values()
    assert calls.pairs == expected.questions == 4 and calls.cost > 0


def test_without_the_extra_one_line_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    judge = sortnet.LanguageModel("judge", server="http://localhost:1")
    with pytest.raises(SortNetError, match=r"pip install 'sortnet\[llm\]'$") as raised:
        sortnet.sort(TEXTS, judge=judge, progress=False)
    assert "\n" not in str(raised.value)


def test_a_model_is_asked_inside_a_running_event_loop():
    judged = model()

    async def main():
        judge = sortnet.LanguageModel("judge", server=url, workers=2)
        return sortnet.sort(TEXTS, judge=judge, max_calls=5, progress=False)

    with serving(judged) as url:
        assert asyncio.run(main()).answered == 5


def test_no_server_is_one_error_and_the_next_call_goes_on():
    judged = model()
    with serving(judged) as url:
        judge = sortnet.LanguageModel("judge", server=url)
        sortnet.sort(TEXTS, judge=judge, max_calls=4, store="s.db", name="c", progress=False)
    with pytest.raises(
        SortNetError, match=r"failed 3 times.*Connection refused.*; 4 answers are kept"
    ):
        sortnet.sort(TEXTS, judge=judge, max_calls=9, store="s.db", name="c", progress=False)
    with serving(judged) as url:
        judge = sortnet.LanguageModel("judge", server=url)
        found = sortnet.sort(
            TEXTS, judge=judge, max_calls=9, store="s.db", name="c", progress=False
        )
    assert (found.answered, found.answered_in_all) == (5, 9)
    assert max(judged.pairs.values()) == 1
