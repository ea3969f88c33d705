"""The page of a question about four items in a browser: keys, taps, a server that goes away."""

from __future__ import annotations

import time

import pytest
from collection_helpers import choices_of, made_items, sets_of
from selenium import webdriver
from selenium.webdriver.common.keys import Keys
from test_web_browser import (
    SCRIPT,
    SIZES,
    SOON,
    Page,
    pictures,
    seen,
    tap,
    violations,
)
from web_helpers import served

from sortnet.preference.study import Decision
from store import open_store

pytestmark = pytest.mark.browser

AGAIN = "return shown && performance.now() > Math.max(shownAt, chosenAt) + DOUBLE_PRESS"


class SetPage(Page):
    """The page of an annotator who is asked about sets."""

    @property
    def items(self) -> list[str]:
        """The texts of the cards, in the order of their places."""
        cards = self.all("#set .card:not([hidden]) .item")
        return [card.get_attribute("innerText").strip() for card in cards]

    def choose(self, *places: int) -> None:
        """Press the keys of places, from 0."""
        for place in places:
            self.until(lambda: self.driver.execute_script(AGAIN))
            webdriver.ActionChains(self.driver).send_keys(str(place + 1)).perform()

    def tap(self, selector: str) -> None:
        self.until(lambda: self.driver.execute_script(AGAIN))
        tap(self.driver, self.find(selector))

    def sent(self, n: int) -> None:
        """Wait until n answers are counted, and nothing is to be sent."""
        self.until(lambda: self.answered == n)
        self.until(self.has_sent)


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "s.db") as opened:
        yield opened


def test_four_items_are_answered_by_keys_and_an_undo_asks_them_again(driver, store):
    with served(sets_of(store, made_items(12, d=1))) as site:
        page = SetPage(driver, site)
        page.until(page.ready)
        first = page.items
        assert len(first) == 4 and page.text("#asked") == "Which is the best?"
        page.choose(1)
        assert page.text("#asked") == "2 is the best. Which is the worst?"
        page.choose(1)  # takes it back
        assert page.text("#asked") == "Which is the best?"
        page.choose(0)
        page.press("u")  # takes back the choice, as there is one
        time.sleep(SOON)
        assert choices_of(site.pages.collection) == []
        page.choose(2, 0)
        page.sent(1)
        page.until(page.ready)
        assert page.items != first
        page.press("u")
        page.sent(0)
        page.until(lambda: page.items == first)
        page.choose(3, 1)
        page.sent(1)
        for key in ("=", "s", "?", Keys.ARROW_DOWN, " "):
            before = page.items
            page.press(key)
            page.until(lambda before=before: page.items != before)
            page.until(page.has_sent)
        words = ["same", "skip", "cant-say", "same", "skip"]
        given = [("best", 3, 1), ("undo", None, None), ("best", 4, 2)]
        assert choices_of(site.pages.collection) == given + [(word, None, None) for word in words]
        page.press("5")  # there is no such place
        page.press(Keys.ARROW_LEFT)
        assert page.text("#asked") == "Which is the best?"
        site.pages.collection.decide(Decision("worst", amount=0))
        n_answers = page.answered
        page.press("=")
        page.press("=")
        page.press("=")
        page.sent(n_answers + 3)  # those that were fetched before
        page.choose(3)
        page.sent(n_answers + 4)
        assert choices_of(site.pages.collection)[-1] == ("best", 4, None)
        assert page.complaints() == []


def test_a_server_that_ends_between_best_and_worst_costs_nothing(driver, store):
    collection = sets_of(store, made_items(12, d=1))
    with served(collection) as site:
        port = site.client.port
        page = SetPage(driver, site)
        page.choose(0, 1)
        page.sent(1)
        page.until(lambda: driver.execute_script("return queue.length") == 3)
        page.choose(2)
    shown = [page.items]
    page.choose(0)
    page.until(lambda: "cannot be reached" in page.text("#notice"))
    page.until(lambda: driver.execute_script(AGAIN))
    shown.append(page.items)
    page.find("[data-act=same]").click()
    assert "2 to be sent" in page.text("#progress")
    assert len(collection.judgements()) == 1
    page.choose(3)  # chosen while it is away
    with served(store.collection("sets"), port=port) as site:
        page.until(lambda: len(collection.judgements()) == 3)
        page.until(lambda: not page.find("#notice").is_displayed())
        page.until(page.has_sent)
        page.choose(1)
        page.sent(4)
        given = [("best", 1, 2), ("best", 3, 1), ("same", None, None), ("best", 4, 2)]
        assert choices_of(site.pages.collection) == given
        texts = site.pages.items.texts
        asked = [[texts[item] for item in one.items] for one in collection.judgements()]
        assert asked[1:3] == shown


@pytest.mark.slow
@pytest.mark.parametrize("screen", SIZES)
def test_axe_finds_no_violation_on_a_set_and_markup_is_text(driver, store, tmp_path, screen):
    texts = (f"# A `plan` {SCRIPT}\n\n- one\n- [two](https://e.example)", "שלום " * 90) * 6
    more = {"groups": ("x",) * 12, "contexts": ("Of *what*?",) * 12}
    items = pictures(tmp_path, 12, texts=texts, shown=({"by": SCRIPT},) * 12, **more)
    collection = sets_of(store, items)
    collection.decide(Decision("instructions", reason="Read **all**."))
    with seen(driver, *SIZES[screen]), served(collection) as site:
        page = SetPage(driver, site)
        page.until(lambda: page.find("#manual").is_displayed())
        page.find("#manual .close").click()
        page.until(page.ready)
        found = {"set": violations(driver)}
        assert page.all("#set .item script, #set .item p img, #set .item dd img") == []
        page.choose(1)
        found["best"] = violations(driver)
        page.press("m")
        page.until(lambda: page.all("#set .item .formatted"))
        found["formatted"] = violations(driver)
        names = [button.accessible_name for button in page.all(".choices button:not([hidden])")]
        assert names[:2] == ["1 is the worst", "2 is the best: take it back"]
        page.press("f")
        page.choose(0)
        page.sent(1)
        assert choices_of(site.pages.collection) == [("best", 2, 1)]
        driver.get(site.base + site.admin)
        page.until(lambda: "the best of 4" in page.text("#comments tbody"))
        found["admin"] = violations(driver)
        assert not any(found.values()), found
